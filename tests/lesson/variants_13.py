"""Right solutions of lesson 13 that look different."""

import torch
import torch.distributed as dist
from torch import nn

from pllab.comm import all_gather_async, rank, receive, reduce_scatter_async, send, world_size

# 13.1 sharded_adam(flat, gradient, state, lr)


def moments_in_state(flat, gradient, state, lr):
    c = -(-len(flat) // world_size())
    mine = slice(rank() * c, (rank() + 1) * c)
    g = gradient[mine]
    if not state:
        state.update(step=0, m=torch.zeros_like(g), v=torch.zeros_like(g))
    state["step"] += 1
    state["m"] = 0.9 * state["m"] + 0.1 * g
    state["v"] = 0.999 * state["v"] + 0.001 * g * g
    m, v = state["m"] / (1 - 0.9 ** state["step"]), state["v"] / (1 - 0.999 ** state["step"])
    part = torch.zeros(c)
    part[: len(g)] = flat[mine] - lr * m / (v.sqrt() + 1e-8)
    whole = torch.empty(c * world_size())
    all_gather_async(whole, part).wait()
    flat.copy_(whole[: len(flat)])


def torchs_own_optimizer(flat, gradient, state, lr):
    """A padded copy of the own part is a parameter."""
    size, me = dist.get_world_size(), dist.get_rank()
    c = (flat.numel() + size - 1) // size
    pad = (0, c * size - flat.numel())
    if "optimizer" not in state:
        own = nn.functional.pad(flat, pad)[me * c : me * c + c].clone()
        state["part"] = nn.Parameter(own)
        state["optimizer"] = torch.optim.Adam([state["part"]], lr, foreach=False)
    state["part"].grad = nn.functional.pad(gradient, pad)[me * c : me * c + c]
    state["optimizer"].step()
    state["part"].grad = None
    parts = [torch.empty(c) for _ in range(size)]
    dist.all_gather(parts, state["part"].data)
    flat[:] = torch.cat(parts)[: flat.numel()]


def broadcasts_of_uneven_parts(flat, gradient, state, lr):
    """tensor_split cuts parts that differ by one at most; each rank broadcasts its own."""
    parts, own = flat.tensor_split(world_size()), gradient.tensor_split(world_size())[rank()]
    t, m, v = state.get("all", (0, 0.0, 0.0))
    state["all"] = t, m, v = t + 1, m * 0.9 + own * 0.1, v * 0.999 + own**2 * 0.001
    parts[rank()].sub_(lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8))
    for source, part in enumerate(parts):
        if part.numel():
            message = part.clone()
            dist.broadcast(message, source)
            part.copy_(message)


# 13.2 shard_of_gradients(model)


def one_flat_tensor(model):
    parameters = [p for p in model.parameters() if p.requires_grad]
    pieces = [torch.zeros(p.numel()) if p.grad is None else p.grad.flatten() for p in parameters]
    n = sum(map(len, pieces))
    c = -(-n // world_size())
    flat = torch.cat([*pieces, torch.zeros(c * world_size() - n)])
    for p in parameters:
        p.grad = None
    part = torch.empty(c)
    reduce_scatter_async(part, flat).wait()
    return part / world_size()


def written_piece_by_piece(model):
    trained = [p for p in model.parameters() if p.requires_grad]
    n, size = sum(p.numel() for p in trained), dist.get_world_size()
    flat = torch.zeros((n + size - 1) // size * size)
    start = 0
    for p in trained:
        if p.grad is not None:
            flat[start : start + p.numel()] = p.grad.reshape(-1) / size
        start += p.numel()
    model.zero_grad(set_to_none=True)
    part = torch.empty(len(flat) // size)
    dist.reduce_scatter_tensor(part, flat)
    return part


def a_list_of_parts(model):
    for p in model.parameters():
        if p.requires_grad and p.grad is None:
            p.grad = torch.zeros_like(p)
    flat = torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.requires_grad])
    padding = -len(flat) % world_size()
    chunks = list(nn.functional.pad(flat, (0, padding)).chunk(world_size()))
    own = torch.zeros_like(chunks[0])
    dist.reduce_scatter(own, [chunk.clone() for chunk in chunks])
    for p in model.parameters():
        p.grad = None
    return own.div_(world_size())


# 13.3 train_units(units, shards, sizes, x)


def computes_again(units, shards, sizes, x):
    def whole(u):
        flat = torch.empty(len(shards[u]) * world_size())
        all_gather_async(flat, shards[u]).wait()
        return flat[: sizes[u]]

    inputs, parts = [], [None] * len(units)
    with torch.no_grad():
        for u, unit in enumerate(units):
            inputs.append(x)
            x = unit(whole(u), x)
    gradient = torch.ones_like(x)
    for u in reversed(range(len(units))):
        flat, given = whole(u).requires_grad_(), inputs.pop().requires_grad_()
        of_flat, gradient = torch.autograd.grad(units[u](flat, given), (flat, given), gradient)
        padded = torch.zeros(len(shards[u]) * world_size())
        padded[: sizes[u]] = of_flat
        part = torch.empty_like(shards[u])
        reduce_scatter_async(part, padded).wait()
        parts[u] = part / world_size()
    return x, parts


def gathers_one_ahead(units, shards, sizes, x):
    """The next unit is on its way while one is used; the last one stays whole for its backward."""
    n, size = len(units), dist.get_world_size()

    def start(u):
        flat = torch.empty(len(shards[u]) * size)
        return flat, all_gather_async(flat, shards[u])

    def arrived(u, pair):
        pair[1].wait()
        return pair[0][: sizes[u]]

    inputs, coming = [], start(0)
    for u in range(n - 1):
        flat, coming = arrived(u, coming), start(u + 1)
        with torch.no_grad():
            inputs.append(x)
            x = units[u](flat, x)
    del flat
    flat, grads = arrived(n - 1, coming), []
    x.requires_grad_()
    flat.requires_grad_()
    loss = units[n - 1](flat, x)
    loss.backward()
    for u in range(n - 1, -1, -1):
        whole = torch.cat([flat.grad, torch.zeros(len(shards[u]) * size - sizes[u])])
        part = torch.empty(len(shards[u]))
        dist.reduce_scatter_tensor(part, whole)
        grads.insert(0, part.div_(size))
        gradient = x.grad
        if u:
            del flat
            flat, x = arrived(u - 1, start(u - 1)).requires_grad_(), inputs[u - 1].requires_grad_()
            units[u - 1](flat, x).backward(gradient)
    return loss.item(), grads


def refills_the_storage(units, shards, sizes, x):
    """As FSDP does: one graph for all, whose weights lose their memory and get it back."""
    wholes = [torch.empty(len(shard) * world_size()) for shard in shards]
    num_bytes = [whole.untyped_storage().nbytes() for whole in wholes]
    for whole in wholes:
        whole.untyped_storage().resize_(0)

    def gather(u):
        wholes[u].untyped_storage().resize_(num_bytes[u])
        all_gather_async(wholes[u].data, shards[u]).wait()

    leaves, outputs = [], []
    for u, unit in enumerate(units):
        gather(u)
        leaves.append(wholes[u].data[: sizes[u]].requires_grad_())
        given = x.detach().requires_grad_() if u else x
        x = unit(leaves[u], given)
        outputs.append((given, x))
        wholes[u].untyped_storage().resize_(0)
    loss, gradient, parts = x.item(), None, []
    for u in reversed(range(len(units))):
        gather(u)
        given, output = outputs.pop()
        output.backward(gradient)
        gradient = given.grad
        wholes[u].untyped_storage().resize_(0)
        padded = torch.cat([leaves[u].grad, torch.zeros(len(shards[u]) * world_size() - sizes[u])])
        leaves[u].grad = None
        part = torch.empty(len(shards[u]))
        reduce_scatter_async(part, padded).wait()
        parts.append(part / world_size())
    return torch.tensor(loss), parts[::-1]


# 13.4 gather_state(model, part)


def sends_to_0(model, part):
    if rank() > 0:
        send(part, 0)
        return None
    parts = [part.clone()]
    for source in range(1, world_size()):
        parts.append(torch.empty_like(part))
        receive(parts[-1], source)
    flat, state, start = torch.cat(parts), {}, 0
    for name, parameter in model.named_parameters():
        state[name] = flat[start : start + parameter.numel()].view(parameter.shape).clone()
        start += parameter.numel()
    return state


def by_torchs_gather(model, part):
    is_first = dist.get_rank() == 0
    rows = [torch.empty_like(part) for _ in range(dist.get_world_size())] if is_first else None
    dist.gather(part, rows, dst=0)
    if not is_first:
        return None
    named = dict(model.named_parameters())
    sizes = [parameter.numel() for parameter in named.values()]
    flat = torch.cat(rows)[: sum(sizes)]
    return {name: piece.reshape(named[name].shape) for name, piece in zip(named, flat.split(sizes), strict=True)}


def started_together(model, part):
    """All receives under way at once, into the rows of one tensor, from the last rank to the first."""
    if rank():
        dist.isend(part, 0).wait()
        return None
    table = torch.empty(world_size(), len(part))
    table[0] = part
    for work in [dist.irecv(table[source], source) for source in reversed(range(1, world_size()))]:
        work.wait()
    numbers = iter(table.flatten().tolist())
    state = {}
    for name, parameter in model.named_parameters():
        state[name] = nn.Parameter(
            torch.tensor([next(numbers) for _ in range(parameter.numel())]).view(parameter.shape)
        )
    return state


RIGHT = {
    "13.1": [moments_in_state, torchs_own_optimizer, broadcasts_of_uneven_parts],
    "13.2": [one_flat_tensor, written_piece_by_piece, a_list_of_parts],
    "13.3": [computes_again, gathers_one_ahead, refills_the_storage],
    "13.4": [sends_to_0, by_torchs_gather, started_together],
}
