"""Solutions of lesson 13 by somebody who read the lesson alone."""

# ruff: noqa

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.utils import parameters_to_vector
from torch.utils.checkpoint import checkpoint

from pllab.comm import all_gather_async, all_reduce, rank, receive, reduce_scatter_async, send, world_size


# ---------------------------------------------------------------- 13.1
def r1_padded(flat, gradient, state, lr):
    """Everything padded first; afterwards all parts have one size."""
    w, n = world_size(), flat.numel()
    size = (n + w - 1) // w
    numbers = F.pad(flat, (0, size * w - n)).view(w, size)[rank()]
    grads = F.pad(gradient, (0, size * w - n)).view(w, size)[rank()]
    t = state["t"] = state.get("t", 0) + 1
    m = state["m"] = 0.9 * state.get("m", 0) + 0.1 * grads
    v = state["v"] = 0.999 * state.get("v", 0) + 0.001 * grads**2
    new = numbers - lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
    everything = torch.empty(w * size)
    dist.all_gather_into_tensor(everything, new.contiguous())
    flat.copy_(everything[:n])


def r1_optimizer_kept(flat, gradient, state, lr):
    """PyTorch's Adam on a copy of the part, kept in the state."""
    w, n = world_size(), flat.numel()
    size = -(-n // w)
    low, high = min(n, rank() * size), min(n, (rank() + 1) * size)
    if "adam" not in state:
        state["part"] = torch.nn.Parameter(flat[low:high].clone())
        state["adam"] = torch.optim.Adam([state["part"]], lr=lr)
    mine, adam = state["part"], state["adam"]
    mine.data.copy_(flat[low:high])
    mine.grad = gradient[low:high].clone()
    for group in adam.param_groups:
        group["lr"] = lr
    adam.step()
    mine.grad = None
    part = torch.zeros(size)
    part[: high - low] = mine.detach()
    parts = [torch.empty(size) for _ in range(w)]
    dist.all_gather(parts, part)
    flat.copy_(torch.cat(parts)[:n])


def r1_optimizer_new(flat, gradient, state, lr):
    """A new Adam in each step, on a view of flat, with the old moments."""
    w, n = world_size(), flat.numel()
    size = -(-n // w)
    view = torch.nn.Parameter(flat[rank() * size : (rank() + 1) * size])
    view.grad = gradient[rank() * size : (rank() + 1) * size]
    adam = torch.optim.Adam([view], lr=lr, foreach=False)
    if state:
        adam.state[view] = dict(state)
    adam.step()
    state.update(adam.state[view])
    part = torch.zeros(size)
    part[: view.numel()] = view.data
    out = torch.empty(size * w)
    all_gather_async(out, part).wait()
    flat.copy_(out[:n])


def r1_inplace(flat, gradient, state, lr):
    n, w = len(flat), world_size()
    size = -(-n // w)
    here = flat[rank() * size :][:size]
    g = gradient[rank() * size :][:size]
    if not state:
        state["moments"] = torch.zeros(2, len(here))
        state["t"] = 0
    state["t"] += 1
    m, v = state["moments"]
    m.mul_(0.9).add_(g, alpha=0.1)
    v.mul_(0.999).addcmul_(g, g, value=0.001)
    here.sub_(lr * (m / (1 - 0.9 ** state["t"])) / ((v / (1 - 0.999 ** state["t"])).sqrt() + 1e-8))
    together = torch.zeros(size * w)
    all_gather_async(together, torch.cat([here, torch.zeros(size - len(here))])).wait()
    flat[:] = together[:n]


def r1_broadcasts(flat, gradient, state, lr):
    """Every rank sends its part to all others, without padding."""
    n, w = len(flat), world_size()
    size = -(-n // w)
    starts = [min(n, r * size) for r in range(w + 1)]
    low, high = starts[rank()], starts[rank() + 1]
    g = gradient[low:high]
    state["t"] = state.get("t", 0) + 1
    state["m"] = 0.9 * state.get("m", torch.zeros_like(g)) + 0.1 * g
    state["v"] = 0.999 * state.get("v", torch.zeros_like(g)) + 0.001 * g * g
    m, v = state["m"] / (1 - 0.9 ** state["t"]), state["v"] / (1 - 0.999 ** state["t"])
    flat[low:high] -= lr * m / (v.sqrt() + 1e-8)
    for r in range(w):
        if starts[r] < starts[r + 1]:
            dist.broadcast(flat[starts[r] : starts[r + 1]], src=r)


def adam_part(flat, gradient, state, lr, size, t_of=lambda t: t, eps_inside=False, corrected=True):
    mine = slice(rank() * size, (rank() + 1) * size)
    g = gradient[mine]
    if not state:
        state.update(t=0, m=torch.zeros_like(g), v=torch.zeros_like(g))
    state["t"] += 1
    t = t_of(state["t"])
    state["m"] = 0.9 * state["m"] + 0.1 * g
    state["v"] = 0.999 * state["v"] + 0.001 * g * g
    m, v = (state["m"] / (1 - 0.9**t), state["v"] / (1 - 0.999**t)) if corrected else (state["m"], state["v"])
    root = (v + 1e-8).sqrt() if eps_inside else v.sqrt() + 1e-8
    part = torch.zeros(size)
    part[: len(g)] = flat[mine] - lr * m / root
    return part


def together_from(part):
    whole = torch.empty(len(part) * world_size())
    all_gather_async(whole, part).wait()
    return whole


def up(n):
    return -(-n // world_size())


def w1_floor(flat, gradient, state, lr):
    size = len(flat) // world_size()
    if size:
        part = adam_part(flat, gradient, state, lr, size)
        flat[: size * world_size()] = together_from(part)


def w1_all_moments(flat, gradient, state, lr):
    n, size = len(flat), up(len(flat))
    if not state:
        state.update(t=0, m=torch.zeros(n), v=torch.zeros(n))
    state["t"] += 1
    state["m"] = 0.9 * state["m"] + 0.1 * gradient
    state["v"] = 0.999 * state["v"] + 0.001 * gradient**2
    m, v = state["m"] / (1 - 0.9 ** state["t"]), state["v"] / (1 - 0.999 ** state["t"])
    new = F.pad(flat - lr * m / (v.sqrt() + 1e-8), (0, size * world_size() - n))
    flat.copy_(together_from(new[rank() * size : (rank() + 1) * size].clone())[:n])


def w1_all_moments_padded(flat, gradient, state, lr):
    """The moments are zero outside of the part, but they are there."""
    n, size = len(flat), up(len(flat))
    mask = torch.zeros(n)
    mask[rank() * size : (rank() + 1) * size] = 1
    w1_all_moments(flat, gradient * mask, state, lr)


def w1_all_reduce(flat, gradient, state, lr):
    size = up(len(flat))
    part = adam_part(flat, gradient, state, lr, size)
    whole = torch.zeros(size * world_size())
    whole[rank() * size : (rank() + 1) * size] = part
    all_reduce(whole)
    flat.copy_(whole[: len(flat)])


def w1_eps_inside(flat, gradient, state, lr):
    part = adam_part(flat, gradient * 1e-3, state, lr, up(len(flat)), eps_inside=True)
    flat.copy_(together_from(part)[: len(flat)])


def w1_no_correction(flat, gradient, state, lr):
    part = adam_part(flat, gradient, state, lr, up(len(flat)), corrected=False)
    flat.copy_(together_from(part)[: len(flat)])


def w1_always_first(flat, gradient, state, lr):
    part = adam_part(flat, gradient, state, lr, up(len(flat)), t_of=lambda t: 1)
    flat.copy_(together_from(part)[: len(flat)])


def w1_one_late(flat, gradient, state, lr):
    part = adam_part(flat, gradient, state, lr, up(len(flat)), t_of=lambda t: t + 1)
    flat.copy_(together_from(part)[: len(flat)])


def w1_not_in_place(flat, gradient, state, lr):
    part = adam_part(flat, gradient, state, lr, up(len(flat)))
    flat = together_from(part)[: len(flat)]
    return flat


def w1_own_part_only(flat, gradient, state, lr):
    part = adam_part(flat, gradient, state, lr, up(len(flat)))
    mine = flat[rank() * len(part) : (rank() + 1) * len(part)]
    mine.copy_(part[: len(mine)])


ADAMS = {}


def w1_moments_outside(flat, gradient, state, lr):
    key = len(flat), rank(), world_size()
    if not state:
        ADAMS[key] = {}
    state["seen"] = True
    part = adam_part(flat, gradient, ADAMS[key], lr, up(len(flat)))
    flat.copy_(together_from(part)[: len(flat)])


def w1_no_memory(flat, gradient, state, lr):
    """Moments begin at zero in every step."""
    part = adam_part(flat, gradient, {}, lr, up(len(flat)))
    flat.copy_(together_from(part)[: len(flat)])


def w1_decay(flat, gradient, state, lr):
    size = up(len(flat))
    view = torch.nn.Parameter(flat[rank() * size : (rank() + 1) * size])
    view.grad = gradient[rank() * size : (rank() + 1) * size]
    adam = torch.optim.AdamW([view], lr=lr)
    if state:
        adam.state[view] = dict(state)
    adam.step()
    state.update(adam.state[view])
    part = torch.zeros(size)
    part[: view.numel()] = view.data
    flat.copy_(together_from(part)[: len(flat)])


def w1_gathers_moments(flat, gradient, state, lr):
    """Gathers the new numbers and the two moments too."""
    part = adam_part(flat, gradient, state, lr, up(len(flat)))
    for name in ("m", "v"):
        together_from(F.pad(state[name], (0, len(part) - len(state[name]))))
    flat.copy_(together_from(part)[: len(flat)])


def w1_averages_again(flat, gradient, state, lr):
    gradient = gradient.clone()
    all_reduce(gradient)
    part = adam_part(flat, gradient / world_size(), state, lr, up(len(flat)))
    flat.copy_(together_from(part)[: len(flat)])


def w1_gathers_gradient(flat, gradient, state, lr):
    """Keeps the whole gradient in the state for the next step."""
    part = adam_part(flat, gradient, state, lr, up(len(flat)))
    state["gradient"] = gradient.clone()
    state["flat"] = flat.clone()
    flat.copy_(together_from(part)[: len(flat)])


def w1_unpadded(flat, gradient, state, lr):
    """The last part is shorter and given to the gather as it is."""
    size = up(len(flat))
    part = adam_part(flat, gradient, state, lr, size)
    low = rank() * size
    part = part[: max(0, min(size, len(flat) - low))].clone()
    whole = torch.empty(len(flat))
    all_gather_async(whole, part).wait()
    flat.copy_(whole)


def w1_early_return(flat, gradient, state, lr):
    """A rank without numbers has nothing to do."""
    size = up(len(flat))
    if rank() * size >= len(flat):
        return
    part = adam_part(flat, gradient, state, lr, size)
    flat.copy_(together_from(part)[: len(flat)])


# ---------------------------------------------------------------- 13.2
def r2_vector(model):
    trained = [p for p in model.parameters() if p.requires_grad]
    flat = parameters_to_vector([torch.zeros_like(p) if p.grad is None else p.grad for p in trained]).detach()
    flat = F.pad(flat, (0, -len(flat) % world_size()))
    part = torch.empty(len(flat) // world_size())
    dist.reduce_scatter_tensor(part, flat)
    for p in model.parameters():
        p.grad = None
    return part.div_(world_size())


def r2_offsets(model):
    w = world_size()
    n = sum(p.numel() for p in model.parameters() if p.requires_grad)
    size = (n + w - 1) // w
    flat = torch.zeros(size * w)
    start = 0
    for p in model.parameters():
        if not p.requires_grad:
            continue
        if p.grad is not None:
            flat[start : start + p.numel()] = p.grad.reshape(-1) / w
        start += p.numel()
        p.grad = None
    part = torch.zeros(size)
    reduce_scatter_async(part, flat).wait()
    return part


def r2_fill_in(model):
    trained = list(filter(lambda p: p.requires_grad, model.parameters()))
    for p in trained:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    flat = torch.cat([p.grad.view(-1) for p in trained])
    while len(flat) % world_size():
        flat = torch.cat([flat, flat.new_zeros(1)])
    model.zero_grad(set_to_none=True)
    part = flat.new_empty(len(flat) // world_size())
    pending = reduce_scatter_async(part, flat)
    pending.wait()
    part /= world_size()
    return part


def flat_of(model, trained=True, missing=True):
    pieces = []
    for p in model.parameters():
        if p.requires_grad or not trained:
            if p.grad is not None:
                pieces.append(p.grad.flatten())
            elif missing:
                pieces.append(torch.zeros(p.numel()))
    return torch.cat(pieces)


def clear(model):
    for p in model.parameters():
        p.grad = None


def padded(flat):
    return F.pad(flat, (0, -len(flat) % world_size()))


def scattered(flat):
    part = torch.empty(len(flat) // world_size())
    reduce_scatter_async(part, flat).wait()
    return part


def w2_skips_none(model):
    flat = padded(flat_of(model, missing=False))
    clear(model)
    return scattered(flat) / world_size()


def w2_missing_at_end(model):
    """Missing gradients are only made up for by padding."""
    n = sum(p.numel() for p in model.parameters() if p.requires_grad)
    flat = flat_of(model, missing=False)
    flat = padded(F.pad(flat, (0, n - len(flat))))
    clear(model)
    return scattered(flat) / world_size()


def w2_pads_each(model):
    pieces = [
        padded(torch.zeros(p.numel()) if p.grad is None else p.grad.flatten())
        for p in model.parameters()
        if p.requires_grad
    ]
    clear(model)
    return scattered(torch.cat(pieces)) / world_size()


def w2_each_alone(model):
    """One reduce-scatter per parameter: this rank gets a part of each."""
    parts = [
        scattered(padded(torch.zeros(p.numel()) if p.grad is None else p.grad.flatten()))
        for p in model.parameters()
        if p.requires_grad
    ]
    clear(model)
    return torch.cat(parts) / world_size()


def w2_sum(model):
    flat = padded(flat_of(model))
    clear(model)
    return scattered(flat)


def w2_frozen_too(model):
    flat = padded(flat_of(model, trained=False))
    clear(model)
    return scattered(flat) / world_size()


def w2_grads_stay(model):
    return scattered(padded(flat_of(model))) / world_size()


def w2_grads_zero(model):
    part = scattered(padded(flat_of(model))) / world_size()
    model.zero_grad(set_to_none=False)
    return part


def w2_all_reduce(model):
    flat = padded(flat_of(model))
    clear(model)
    all_reduce(flat)
    size = len(flat) // world_size()
    return flat[rank() * size : (rank() + 1) * size].clone() / world_size()


def w2_view(model):
    flat = padded(flat_of(model))
    clear(model)
    size = len(flat) // world_size()
    part = flat[rank() * size : (rank() + 1) * size]
    part.copy_(scattered(flat) / world_size())
    return part


def w2_pad_too_many(model):
    flat = flat_of(model)
    flat = F.pad(flat, (0, world_size() - len(flat) % world_size()))
    clear(model)
    return scattered(flat) / world_size()


def w2_pad_in_front(model):
    flat = flat_of(model)
    flat = F.pad(flat, (-len(flat) % world_size(), 0))
    clear(model)
    return scattered(flat) / world_size()


def w2_drops_rest(model):
    flat = flat_of(model)
    flat = flat[: len(flat) // world_size() * world_size()].clone()
    clear(model)
    return scattered(flat) / world_size()


def w2_unpads(model):
    """Cuts the padding from the last part."""
    flat = flat_of(model)
    n = len(flat)
    clear(model)
    part = scattered(padded(flat)) / world_size()
    return part[: max(0, n - rank() * len(part))].clone()


def w2_backwards(model):
    pieces = [
        torch.zeros(p.numel()) if p.grad is None else p.grad.flatten()
        for p in reversed(list(model.parameters()))
        if p.requires_grad
    ]
    clear(model)
    return scattered(padded(torch.cat(pieces))) / world_size()


def w2_shares_average(model):
    """Puts the mean back into the grads, too."""
    flat = padded(flat_of(model))
    part = scattered(flat) / world_size()
    start = 0
    for p in model.parameters():
        if p.requires_grad:
            p.grad = flat[start : start + p.numel()].view_as(p).clone()
            start += p.numel()
    return part


# ---------------------------------------------------------------- 13.3
def gathered(shard, size):
    whole = torch.empty(len(shard) * world_size())
    all_gather_async(whole, shard.detach()).wait()
    return whole[:size]


def reduced(gradient, shard):
    whole = torch.zeros(len(shard) * world_size())
    whole[: len(gradient)] = gradient
    part = torch.empty(len(shard))
    reduce_scatter_async(part, whole).wait()
    return part / world_size()


class UnitFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard, x, unit, size):
        ctx.save_for_backward(shard, x)
        ctx.unit, ctx.size = unit, size
        return unit(gathered(shard, size), x)

    @staticmethod
    def backward(ctx, of_output):
        shard, x = ctx.saved_tensors
        with torch.enable_grad():
            flat, x = gathered(shard, ctx.size).requires_grad_(), x.detach().requires_grad_()
            out = ctx.unit(flat, x)
        of_flat, of_x = torch.autograd.grad(out, (flat, x), of_output)
        return reduced(of_flat, shard), of_x, None, None


def r3_function(units, shards, sizes, x):
    leaves = [shard.detach().clone().requires_grad_() for shard in shards]
    for unit, leaf, size in zip(units, leaves, sizes):
        x = UnitFunction.apply(leaf, x, unit, size)
    return x.detach(), list(torch.autograd.grad(x, leaves))


class GatherFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard, size):
        ctx.like = shard.detach()
        return gathered(shard, size)

    @staticmethod
    def backward(ctx, of_flat):
        return reduced(of_flat, ctx.like), None


def r3_checkpoint(units, shards, sizes, x):
    leaves = [shard.detach().clone().requires_grad_() for shard in shards]

    def run(unit, leaf, size, x):
        return unit(GatherFunction.apply(leaf, size), x)

    for unit, leaf, size in zip(units, leaves, sizes):
        x = checkpoint(run, unit, leaf, size, x, use_reentrant=False)
    x.backward()
    return x.detach(), [leaf.grad for leaf in leaves]


def r3_storage(units, shards, sizes, x):
    """The graphs stay, the memory of the weights goes and comes back."""
    saved = []
    for unit, shard, size in zip(units, shards, sizes):
        whole = torch.empty(len(shard) * world_size())
        all_gather_async(whole, shard).wait()
        flat = whole[:size].detach().requires_grad_()
        given = x.detach().clone().requires_grad_()
        out = unit(flat, given)
        whole.untyped_storage().resize_(0)
        saved.append((whole, flat, given, out))
        x = out
    loss, g = x.detach().clone(), torch.ones_like(x)
    parts = []
    while saved:
        whole, flat, given, out = saved.pop()
        shard = shards[len(saved)]
        whole.untyped_storage().resize_(len(shard) * world_size() * 4)
        all_gather_async(whole.data, shard).wait()
        of_flat, g = torch.autograd.grad(out, (flat, given), g)
        whole.untyped_storage().resize_(0)
        parts.insert(0, reduced(of_flat, shard))
    return loss, parts


def r3_ahead(units, shards, sizes, x):
    """One unit ahead is on its way while another computes."""
    n = len(units)
    order = list(range(n)) + list(reversed(range(n)))
    ahead = []

    def start():
        if order:
            u = order.pop(0)
            whole = torch.empty(len(shards[u]) * world_size())
            ahead.append((all_gather_async(whole, shards[u]), whole, sizes[u]))

    def take():
        pending, whole, size = ahead.pop(0)
        pending.wait()
        start()
        return whole[:size]

    start()
    inputs = []
    with torch.no_grad():
        for u in range(n):
            inputs.append(x)
            x = units[u](take(), x)
    loss = float(x)
    g, parts = None, {}
    for u in range(n - 1, -1, -1):
        flat = take().requires_grad_()
        given = inputs[u].detach().clone().requires_grad_()
        out = units[u](flat, given)
        out.backward(g)
        g = given.grad
        part = reduced(flat.grad, shards[u])
        del flat, out
        parts[u] = part
    return loss, [parts[u] for u in range(n)]


def r3_last_once(units, shards, sizes, x):
    """The backward of the last unit comes right after its forward: one gather is enough, as in the lesson."""
    *others, last = range(len(units))
    inputs = {}
    with torch.no_grad():
        for u in others:
            inputs[u] = x
            x = units[u](gathered(shards[u], sizes[u]), x)
    inputs[last] = x
    parts, g, loss = [None] * len(units), None, None
    for u in [last, *reversed(others)]:
        flat = gathered(shards[u], sizes[u]).requires_grad_()
        given = inputs.pop(u).detach().requires_grad_()
        with torch.enable_grad():
            out = units[u](flat, given)
        if u == last:
            loss = out.detach()
        of_flat, g = torch.autograd.grad(out, [flat, given], g)
        parts[u] = reduced(of_flat, shards[u])
        del flat, out, of_flat
    return loss, parts


def forward_of(units, shards, sizes, x):
    inputs = []
    with torch.no_grad():
        for unit, shard, size in zip(units, shards, sizes):
            inputs.append(x)
            x = unit(gathered(shard, size), x)
    return x, inputs


def again(unit, flat, given, g):
    flat, given = flat.detach().requires_grad_(), given.detach().requires_grad_()
    return torch.autograd.grad(unit(flat, given), (flat, given), g)


def w3_all_first(units, shards, sizes, x):
    wholes = [gathered(shard, size).requires_grad_() for shard, size in zip(shards, sizes)]
    for unit, flat in zip(units, wholes):
        x = unit(flat, x)
    x.backward()
    return x.detach(), [reduced(flat.grad, shard) for flat, shard in zip(wholes, shards)]


def w3_graph_keeps(units, shards, sizes, x):
    """Gathers one after the other and drops its own name; the graph keeps them."""
    parts = [None] * len(units)

    def hook(u):
        def run(g):
            parts[u] = reduced(g, shards[u])

        return run

    for u, unit in enumerate(units):
        flat = gathered(shards[u], sizes[u]).requires_grad_()
        flat.register_hook(hook(u))
        x = unit(flat, x)
        del flat
    x.backward()
    return x.detach(), parts


def w3_keeps_wholes(units, shards, sizes, x):
    wholes, inputs = [], []
    with torch.no_grad():
        for unit, shard, size in zip(units, shards, sizes):
            inputs.append(x)
            wholes.append(gathered(shard, size))
            x = unit(wholes[-1], x)
    g, parts = torch.ones_like(x), []
    for u in reversed(range(len(units))):
        of_flat, g = again(units[u], wholes.pop(), inputs[u], g)
        parts.insert(0, reduced(of_flat, shards[u]))
    return x, parts


def w3_reduces_at_end(units, shards, sizes, x):
    x, inputs = forward_of(units, shards, sizes, x)
    g, grads = torch.ones_like(x), [None] * len(units)
    for u in reversed(range(len(units))):
        grads[u], g = again(units[u], gathered(shards[u], sizes[u]), inputs[u], g)
    return x, [reduced(grad, shard) for grad, shard in zip(grads, shards)]


def w3_sum(units, shards, sizes, x):
    x, inputs = forward_of(units, shards, sizes, x)
    g, parts = torch.ones_like(x), [None] * len(units)
    for u in reversed(range(len(units))):
        of_flat, g = again(units[u], gathered(shards[u], sizes[u]), inputs[u], g)
        parts[u] = reduced(of_flat, shards[u]) * world_size()
    return x, parts


def w3_backward_order(units, shards, sizes, x):
    x, inputs = forward_of(units, shards, sizes, x)
    g, parts = torch.ones_like(x), []
    for u in reversed(range(len(units))):
        of_flat, g = again(units[u], gathered(shards[u], sizes[u]), inputs[u], g)
        parts.append(reduced(of_flat, shards[u]))
    return x, parts


def w3_mean_loss(units, shards, sizes, x):
    x, inputs = forward_of(units, shards, sizes, x)
    g, parts = torch.ones_like(x), [None] * len(units)
    for u in reversed(range(len(units))):
        of_flat, g = again(units[u], gathered(shards[u], sizes[u]), inputs[u], g)
        parts[u] = reduced(of_flat, shards[u])
    x = x.clone()
    all_reduce(x)
    return x / world_size(), parts


def w3_all_reduce(units, shards, sizes, x):
    x, inputs = forward_of(units, shards, sizes, x)
    g, parts = torch.ones_like(x), [None] * len(units)
    for u in reversed(range(len(units))):
        of_flat, g = again(units[u], gathered(shards[u], sizes[u]), inputs[u], g)
        c = len(shards[u])
        whole = F.pad(of_flat, (0, c * world_size() - len(of_flat)))
        all_reduce(whole)
        parts[u] = whole[rank() * c : (rank() + 1) * c].clone() / world_size()
    return x, parts


def w3_own_gradient(units, shards, sizes, x):
    """This rank's part of its own gradient, never summed."""
    x, inputs = forward_of(units, shards, sizes, x)
    g, parts = torch.ones_like(x), [None] * len(units)
    for u in reversed(range(len(units))):
        of_flat, g = again(units[u], gathered(shards[u], sizes[u]), inputs[u], g)
        c = len(shards[u])
        whole = F.pad(of_flat, (0, c * world_size() - len(of_flat)))
        parts[u] = whole[rank() * c : (rank() + 1) * c].clone()
    return x, parts


def w3_view(units, shards, sizes, x):
    """The part is a slice of the whole gradient."""
    x, inputs = forward_of(units, shards, sizes, x)
    g, parts = torch.ones_like(x), [None] * len(units)
    for u in reversed(range(len(units))):
        of_flat, g = again(units[u], gathered(shards[u], sizes[u]), inputs[u], g)
        c = len(shards[u])
        whole = F.pad(of_flat, (0, c * world_size() - len(of_flat)))
        mean = reduced(of_flat, shards[u])
        parts[u] = whole[rank() * c : (rank() + 1) * c]
        parts[u].copy_(mean)
    return x, parts


def w3_ones_everywhere(units, shards, sizes, x):
    x, inputs = forward_of(units, shards, sizes, x)
    parts, outputs = [None] * len(units), [*inputs[1:], x]
    for u in reversed(range(len(units))):
        of_flat, _ = again(units[u], gathered(shards[u], sizes[u]), inputs[u], torch.ones_like(outputs[u]))
        parts[u] = reduced(of_flat, shards[u])
    return x, parts


def w3_two_ahead(units, shards, sizes, x):
    n = len(units)
    wholes = {u: gathered(shards[u], sizes[u]) for u in range(min(2, n))}
    inputs = []
    with torch.no_grad():
        for u in range(n):
            if u + 2 < n:
                wholes[u + 2] = gathered(shards[u + 2], sizes[u + 2])
            inputs.append(x)
            x = units[u](wholes[u], x)
            del wholes[u]
    g, parts = torch.ones_like(x), [None] * n
    for u in reversed(range(n)):
        of_flat, g = again(units[u], gathered(shards[u], sizes[u]), inputs[u], g)
        parts[u] = reduced(of_flat, shards[u])
    return x, parts


def w3_thrice(units, shards, sizes, x):
    """Gathers for the gradient of the input and again for that of the weights."""
    x, inputs = forward_of(units, shards, sizes, x)
    g, parts = torch.ones_like(x), [None] * len(units)
    for u in reversed(range(len(units))):
        of_flat, _ = again(units[u], gathered(shards[u], sizes[u]), inputs[u], g)
        parts[u] = reduced(of_flat, shards[u])
        _, g = again(units[u], gathered(shards[u], sizes[u]), inputs[u], g)
    return x, parts


def w3_two_late(units, shards, sizes, x):
    """Holds the gradients of three units before it reduces the oldest."""
    x, inputs = forward_of(units, shards, sizes, x)
    g, parts, waiting = torch.ones_like(x), [None] * len(units), []
    for u in reversed(range(len(units))):
        of_flat, g = again(units[u], gathered(shards[u], sizes[u]), inputs[u], g)
        waiting.append((u, of_flat))
        if len(waiting) == 4:
            late, grad = waiting.pop(0)
            parts[late] = reduced(grad, shards[late])
    for late, grad in waiting:
        parts[late] = reduced(grad, shards[late])
    return x, parts


def w3_not_refilled(units, shards, sizes, x):
    """Gives the memory back and runs backward all the same."""
    flats = []
    for unit, shard, size in zip(units, shards, sizes):
        flat = gathered(shard, size).requires_grad_()
        x = unit(flat, x)
        flat.data = torch.zeros(size)
        flats.append(flat)
    x.backward()
    return x.detach(), [reduced(flat.grad, shard) for flat, shard in zip(flats, shards)]


def w3_keeps_last(units, shards, sizes, x):
    """Keeps the gathered weights of a unit until two units later."""
    kept, inputs = [], []
    with torch.no_grad():
        for unit, shard, size in zip(units, shards, sizes):
            inputs.append(x)
            kept = [*kept[-2:], gathered(shard, size)]
            x = unit(kept[-1], x)
    kept = []
    g, parts = torch.ones_like(x), [None] * len(units)
    for u in reversed(range(len(units))):
        of_flat, g = again(units[u], gathered(shards[u], sizes[u]), inputs[u], g)
        parts[u] = reduced(of_flat, shards[u])
    return x, parts


def w3_first_rows(units, shards, sizes, x):
    """Starts backward with 1 / w and divides by w again."""
    x, inputs = forward_of(units, shards, sizes, x)
    g, parts = torch.ones_like(x) / world_size(), [None] * len(units)
    for u in reversed(range(len(units))):
        of_flat, g = again(units[u], gathered(shards[u], sizes[u]), inputs[u], g)
        parts[u] = reduced(of_flat, shards[u])
    return x, parts


# ---------------------------------------------------------------- 13.4
def r4_room(model, part):
    """Receives into one tensor for all."""
    if rank():
        send(part, 0)
        return None
    c = len(part)
    whole = torch.empty(c * world_size())
    whole[:c] = part
    for r in range(1, world_size()):
        receive(whole[r * c : (r + 1) * c], r)
    state, at = {}, 0
    for name, p in model.named_parameters():
        state[name] = whole[at : at + p.numel()].reshape(p.shape).clone()
        at += p.numel()
    return state


def r4_split(model, part):
    if rank() != 0:
        send(part, 0)
        return
    others = [torch.empty_like(part) for _ in range(world_size() - 1)]
    for number, room in enumerate(others, 1):
        receive(room, number)
    names, parameters = zip(*model.named_parameters())
    counts = [p.numel() for p in parameters]
    pieces = torch.cat([part, *others])[: sum(counts)].split(counts)
    return {name: piece.clone().view_as(p) for name, piece, p in zip(names, pieces, parameters)}


def r4_library(model, part):
    parts = [torch.empty_like(part) for _ in range(world_size())] if rank() == 0 else None
    dist.gather(part, parts, dst=0)
    if parts is None:
        return None
    numbers = iter(torch.cat(parts).tolist())
    return {
        name: torch.tensor([next(numbers) for _ in range(p.numel())]).view(p.shape)
        for name, p in model.named_parameters()
    }


def r4_views(model, part):
    """Slices of a new tensor that nobody else has: what is trained later does not touch them."""
    if rank() > 0:
        send(part, 0)
        return None
    parts = [part.clone()]
    for r in range(1, world_size()):
        parts.append(torch.empty_like(part))
        receive(parts[r], r)
    whole, state, at = torch.cat(parts), {}, 0
    for name, p in model.named_parameters():
        state[name] = whole[at : at + p.numel()].view(p.shape)
        at += p.numel()
    return state


def to_first(part):
    if rank() > 0:
        send(part, 0)
        return None
    parts = [part.clone()]
    for r in range(1, world_size()):
        parts.append(torch.empty_like(part))
        receive(parts[r], r)
    return torch.cat(parts)


def cut(named, whole):
    state, at = {}, 0
    for name, p in named:
        state[name] = whole[at : at + p.numel()].view(p.shape).clone()
        at += p.numel()
    return state


def w4_everybody(model, part):
    whole = torch.empty(len(part) * world_size())
    all_gather_async(whole, part).wait()
    return cut(model.named_parameters(), whole)


def w4_everybody_gets(model, part):
    whole = torch.empty(len(part) * world_size())
    all_gather_async(whole, part).wait()
    return cut(model.named_parameters(), whole) if rank() == 0 else None


def w4_all_reduce(model, part):
    whole = torch.zeros(len(part) * world_size())
    whole[rank() * len(part) : (rank() + 1) * len(part)] = part
    all_reduce(whole)
    return cut(model.named_parameters(), whole) if rank() == 0 else None


def w4_state_dict_names(model, part):
    whole = to_first(part)
    return None if whole is None else cut(model.state_dict().items(), whole)


def w4_tied_twice(model, part):
    whole = to_first(part)
    return None if whole is None else cut(model.named_parameters(remove_duplicate=False), whole)


def w4_no_frozen(model, part):
    whole = to_first(part)
    return None if whole is None else cut([(n, p) for n, p in model.named_parameters() if p.requires_grad], whole)


def w4_frozen_last(model, part):
    whole = to_first(part)
    named = sorted(model.named_parameters(), key=lambda pair: not pair[1].requires_grad)
    return None if whole is None else cut(named, whole)


def w4_sorted(model, part):
    whole = to_first(part)
    return None if whole is None else cut(sorted(model.named_parameters()), whole)


def w4_empty(model, part):
    whole = to_first(part)
    return {} if whole is None else cut(model.named_parameters(), whole)


def w4_flat(model, part):
    whole = to_first(part)
    if whole is not None:
        return {name: value.flatten() for name, value in cut(model.named_parameters(), whole).items()}


def w4_models_own(model, part):
    """Fills the model and hands its tensors out."""
    whole = to_first(part)
    if whole is None:
        return None
    state = cut(model.named_parameters(), whole)
    for name, p in model.named_parameters():
        p.data.copy_(state[name])
    return {name: p.data for name, p in model.named_parameters()}


def w4_not_copied(model, part):
    """With one rank the slices are those of the part itself."""
    if world_size() > 1:
        whole = to_first(part)
        return None if whole is None else cut(model.named_parameters(), whole)
    state, at = {}, 0
    for name, p in model.named_parameters():
        state[name] = part[at : at + p.numel()].view(p.shape)
        at += p.numel()
    return state


def w4_own_last(model, part):
    if rank() > 0:
        send(part, 0)
        return None
    parts = []
    for r in range(1, world_size()):
        parts.append(torch.empty_like(part))
        receive(parts[-1], r)
    return cut(model.named_parameters(), torch.cat([*parts, part]))


def w4_model_numbers(model, part):
    to_first(part)
    return {name: p.detach().clone() for name, p in model.named_parameters()} if rank() == 0 else None


def w4_chain(model, part):
    """The parts go from rank to rank, and grow."""
    mine = part
    if rank() + 1 < world_size():
        room = torch.empty(len(part) * (world_size() - rank() - 1))
        receive(room, rank() + 1)
        mine = torch.cat([part, room])
    if rank() > 0:
        send(mine, rank() - 1)
        return None
    return cut(model.named_parameters(), mine)


def w4_shape_none(model, part):
    """Something of the shape () becomes [1]."""
    whole = to_first(part)
    if whole is None:
        return None
    state = cut(model.named_parameters(), whole)
    return {name: value if value.dim() else value.view(1) for name, value in state.items()}


RIGHT = [
    ("13.1", r1_padded),
    ("13.1", r1_optimizer_kept),
    ("13.1", r1_optimizer_new),
    ("13.1", r1_inplace),
    ("13.1", r1_broadcasts),
    ("13.2", r2_vector),
    ("13.2", r2_offsets),
    ("13.2", r2_fill_in),
    ("13.3", r3_function),
    ("13.3", r3_checkpoint),
    ("13.3", r3_storage),
    ("13.3", r3_ahead),
    ("13.3", r3_last_once),
    ("13.4", r4_room),
    ("13.4", r4_split),
    ("13.4", r4_library),
    ("13.4", r4_views),
]
WRONG = [
    ("13.1", w1_floor, "parts rounded down"),
    ("13.1", w1_all_moments, "moments of all on every rank"),
    ("13.1", w1_all_moments_padded, "moments of all, zero elsewhere"),
    ("13.1", w1_all_reduce, "sent twice"),
    ("13.1", w1_eps_inside, "epsilon under the root, gradient scaled"),
    ("13.1", w1_no_correction, "no bias correction"),
    ("13.1", w1_always_first, "t is always 1"),
    ("13.1", w1_one_late, "t from 2"),
    ("13.1", w1_not_in_place, "flat is another tensor"),
    ("13.1", w1_own_part_only, "never gathered"),
    ("13.1", w1_moments_outside, "moments in a global"),
    ("13.1", w1_no_memory, "moments forgotten"),
    ("13.1", w1_decay, "AdamW decays weights"),
    ("13.1", w1_gathers_moments, "moments are sent"),
    ("13.1", w1_averages_again, "gradient is sent"),
    ("13.1", w1_gathers_gradient, "copies of all in state"),
    ("13.1", w1_unpadded, "parts of unequal size"),
    ("13.1", w1_early_return, "a rank without numbers stays away"),
    ("13.2", w2_skips_none, "missing gradients have no place"),
    ("13.2", w2_missing_at_end, "missing gradients move the others"),
    ("13.2", w2_pads_each, "each parameter is padded"),
    ("13.2", w2_each_alone, "a part of each parameter"),
    ("13.2", w2_sum, "not divided"),
    ("13.2", w2_frozen_too, "frozen ones have a place"),
    ("13.2", w2_grads_stay, "gradients stay"),
    ("13.2", w2_grads_zero, "gradients are zero, not None"),
    ("13.2", w2_all_reduce, "sends twice as much"),
    ("13.2", w2_view, "a slice keeps the whole"),
    ("13.2", w2_pad_too_many, "w zeros where w divides n"),
    ("13.2", w2_pad_in_front, "padding in front"),
    ("13.2", w2_drops_rest, "last numbers lost"),
    ("13.2", w2_unpads, "last part is shorter"),
    ("13.2", w2_backwards, "other order"),
    ("13.2", w2_shares_average, "gradients are put back"),
    ("13.3", w3_all_first, "all units whole"),
    ("13.3", w3_graph_keeps, "graph keeps all units"),
    ("13.3", w3_keeps_wholes, "not freed after forward"),
    ("13.3", w3_reduces_at_end, "gradients wait"),
    ("13.3", w3_sum, "sum for mean"),
    ("13.3", w3_backward_order, "last unit first"),
    ("13.3", w3_mean_loss, "mean of the losses"),
    ("13.3", w3_all_reduce, "sends gradients twice"),
    ("13.3", w3_own_gradient, "never reduced"),
    ("13.3", w3_view, "a slice keeps the whole gradient"),
    ("13.3", w3_ones_everywhere, "gradient of the output is not passed on"),
    ("13.3", w3_two_ahead, "gathers two ahead"),
    ("13.3", w3_thrice, "three gathers"),
    ("13.3", w3_two_late, "reduced three units later"),
    ("13.3", w3_not_refilled, "backward with other weights"),
    ("13.3", w3_keeps_last, "frees two units late"),
    ("13.3", w3_first_rows, "divided twice"),
    ("13.4", w4_everybody, "state on all ranks"),
    ("13.4", w4_everybody_gets, "all ranks are sent all"),
    ("13.4", w4_all_reduce, "all ranks are sent all, twice"),
    ("13.4", w4_state_dict_names, "tied ones and buffers"),
    ("13.4", w4_tied_twice, "tied ones twice"),
    ("13.4", w4_no_frozen, "frozen ones left out"),
    ("13.4", w4_frozen_last, "frozen ones last"),
    ("13.4", w4_sorted, "order of names"),
    ("13.4", w4_empty, "empty dictionaries"),
    ("13.4", w4_flat, "no shapes"),
    ("13.4", w4_models_own, "the model's tensors"),
    ("13.4", w4_not_copied, "slices of the part with one rank"),
    ("13.4", w4_own_last, "rank 0 at the end"),
    ("13.4", w4_model_numbers, "NaN"),
    ("13.4", w4_chain, "parts are handed on"),
    ("13.4", w4_shape_none, "shape () is [1]"),
]
