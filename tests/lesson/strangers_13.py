"""Solutions of lesson 13 by somebody who read the lesson alone."""

# ruff: noqa

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.utils import parameters_to_vector
from torch.utils.checkpoint import checkpoint

from pllab.comm import all_gather_async, rank, receive, reduce_scatter_async, send, world_size


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


RIGHT = {
    "13.1": [r1_padded, r1_optimizer_kept, r1_optimizer_new, r1_inplace, r1_broadcasts],
    "13.2": [r2_vector, r2_offsets, r2_fill_in],
    "13.3": [r3_function, r3_checkpoint, r3_storage, r3_ahead, r3_last_once],
    "13.4": [r4_room, r4_split, r4_library, r4_views],
}
