"""Solutions of lesson 12 by somebody who read the lesson alone."""

# ruff: noqa

from itertools import chain

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.functional import gelu

from pllab.comm import MAX, all_reduce
from pllab.parallel.tensor import reduce_out
from tests.lesson.variants_12 import three_messages


# ---------------------------------------------------------------- 12.1
def r1_chunks(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    """My chunk of everything that has the hidden axis."""
    a = up.chunk(world_size, dim=1)[rank]
    a_bias = up_bias.chunk(world_size)[rank]
    b = down.chunk(world_size, dim=0)[rank]
    h = F.gelu(F.linear(enter(x), a.t(), a_bias))
    return leave(F.linear(h, b.t())) + down_bias


def r1_strided(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    """Every w-th feature."""
    x = enter(x)
    h = torch.einsum("rti,ih->rth", x, up[:, rank::world_size]) + up_bias[rank::world_size]
    y = torch.einsum("rth,ho->rto", gelu(h), down[rank::world_size])
    return down_bias + leave(y)


def r1_flat_reversed(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    """Rows and tokens as one axis, and the ranks' shares from the last to the first."""
    n = up.shape[1] // world_size
    start = (world_size - 1 - rank) * n
    flat = enter(x.flatten(0, 1))
    h = gelu(torch.addmm(up_bias.narrow(0, start, n), flat, up.narrow(1, start, n)))
    y = leave(h @ down.narrow(0, start, n))
    return (y + down_bias).unflatten(0, x.shape[:2])


def r1_shuffled(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    """The choice of features is mine: a shuffle that all ranks make alike."""
    order = torch.randperm(len(up_bias), generator=torch.Generator().manual_seed(3))
    mine = order.view(world_size, -1)[rank]
    h = gelu(torch.matmul(enter(x), up.index_select(1, mine)) + up_bias.index_select(0, mine))
    return leave(torch.matmul(h, down.index_select(0, mine))) + down_bias


# ---------------------------------------------------------------- 12.2
def r2_functions():
    class Enter(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            total = torch.empty(grad.shape, dtype=grad.dtype, device=grad.device)
            total.copy_(grad)
            dist.all_reduce(total)
            return total

    class Leave(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            total = torch.empty(x.shape, dtype=x.dtype, device=x.device)
            total.copy_(x)
            dist.all_reduce(total)
            return total

        @staticmethod
        def backward(ctx, grad):
            return grad.clone()

    return (lambda x: Enter.apply(x)), (lambda x: Leave.apply(x))


def r2_hooks():
    """No Function: a hook for f; for g a copy that is summed behind autograd's back."""

    def total_of(t):
        t = t.detach().clone(memory_format=torch.contiguous_format)
        all_reduce(t)
        return t

    def f(x):
        y = x.view_as(x)
        if y.requires_grad:
            y.register_hook(total_of)
        return y

    def g(x):
        y = x.clone(memory_format=torch.contiguous_format)
        all_reduce(y.detach())
        return y

    return f, g


class Once(torch.autograd.Function):
    @staticmethod
    def forward(x, in_forward):
        return Once.sum(x) if in_forward else x.view_as(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.in_backward = not inputs[1]

    @staticmethod
    def backward(ctx, grad):
        return (Once.sum(grad) if ctx.in_backward else grad), None

    @staticmethod
    def sum(t):
        copy = torch.zeros_like(t, memory_format=torch.contiguous_format) + t
        copy = copy.contiguous()
        all_reduce(copy)
        return copy


def r2_one_function():
    def f(x):
        return Once.apply(x, False)

    def g(x):
        return Once.apply(x, True)

    return f, g


def r2_same_objects():
    """forward and backward return what came, as it came."""

    def reduced(t):
        t = t.clone().contiguous()
        dist.all_reduce(t, op=dist.ReduceOp.SUM)
        return t

    class A(torch.autograd.Function):
        forward = staticmethod(lambda ctx, x: x)
        backward = staticmethod(lambda ctx, g: reduced(g))

    class B(torch.autograd.Function):
        forward = staticmethod(lambda ctx, x: reduced(x))
        backward = staticmethod(lambda ctx, g: g)

    return A.apply, B.apply


def r2_alone():
    """Copies by way of other tensors."""

    class Pair(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, first):
            ctx.first = first
            y = torch.tensor(x.tolist(), dtype=x.dtype).reshape(x.shape)
            if not first:
                all_reduce(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            if ctx.first:
                grad = torch.stack([grad])[0].clone()
                all_reduce(grad)
            return grad, None

    return lambda x: Pair.apply(x, True), lambda x: Pair.apply(x, False)


def r2_silent_alone():
    """Sends nothing in a world of 1."""
    if dist.get_world_size() == 1:
        return (lambda x: x.clone()), (lambda x: x.clone())
    return r2_functions()


# ---------------------------------------------------------------- 12.3


def r3_tensor(rank, world_size, num_heads, head_dim):
    if num_heads % world_size:
        raise ValueError("world size %d does not divide the heads, which are %d" % (world_size, num_heads))
    columns = torch.arange(3 * num_heads * head_dim).view(3, world_size, -1)
    return columns[:, rank].flatten()


def r3_heads(rank, world_size, num_heads, head_dim):
    """Head by head, as the statement has it."""
    each, left = divmod(num_heads, world_size)
    if left:
        raise ValueError(f"Cannot give {world_size} ranks an equal number of {num_heads} heads: {left} would be left.")
    heads = range(rank * each, (rank + 1) * each)
    return tuple(
        chain.from_iterable(
            range((p * num_heads + h) * head_dim, (p * num_heads + h + 1) * head_dim) for p in range(3) for h in heads
        )
    )


def r3_alone_range(rank, world_size, num_heads, head_dim):
    if num_heads % world_size:
        raise ValueError(f"num_heads={num_heads}, world_size={world_size}: not divisible")
    if world_size == 1:
        return range(3 * num_heads * head_dim)
    inner = torch.arange(num_heads).repeat_interleave(head_dim) // (num_heads // world_size) == rank
    return inner.repeat(3).nonzero().squeeze(1)


# ---------------------------------------------------------------- 12.4
def ours(logits, targets, first):
    index = targets - first
    return index, (index >= 0) & (index < logits.size(-1))


class SplitCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets, first):
        top = logits.amax(-1, keepdim=True)
        dist.all_reduce(top, op=dist.ReduceOp.MAX)
        shifted = logits - top
        words = torch.arange(first, first + logits.size(-1))
        hot = (targets[..., None] == words).to(logits.dtype)
        e = shifted.exp()
        both = torch.stack([e.sum(-1), (shifted * hot).sum(-1)], -1)
        dist.all_reduce(both)
        ctx.save_for_backward(e / both[..., :1], hot)
        return both[..., 0].log() - both[..., 1]

    @staticmethod
    def backward(ctx, gradient):
        p, hot = ctx.saved_tensors
        return (p - hot) * gradient[..., None], None, None


def r4_function(logits, targets, first):
    """One Function; its backward needs no message."""
    return SplitCrossEntropy.apply(logits, targets, first)


def r4_logsumexp(logits, targets, first):
    """A logarithm of a sum for each rank, then the same over the ranks; both sums in one message."""
    mine = torch.logsumexp(logits, dim=-1)
    top = mine.detach().clone()
    all_reduce(top, operation=MAX)
    index, here = ours(logits, targets, first)
    picked = torch.gather(logits, -1, index.clamp(0, logits.size(-1) - 1)[..., None])[..., 0] - top
    picked = picked.masked_fill(~here, 0)
    total, target = reduce_out(torch.stack([(mine - top).exp(), picked])).unbind(0)
    return total.log() - target


def r4_surrogate(logits, targets, first):
    """The number without a graph, and a sum that has the right slope."""
    z = logits.detach()
    top = z.amax(-1)
    all_reduce(top, operation=MAX)
    e = (z - top[..., None]).exp()
    s = e.sum(-1)
    all_reduce(s)
    hot = torch.zeros_like(z)
    for i in range(z.size(-1)):
        hot[..., i] = targets == first + i
    t = ((z - top[..., None]) * hot).sum(-1)
    all_reduce(t)
    loss = s.log() - t
    slope = ((e / s[..., None] - hot) * (logits - z)).sum(-1)
    return loss + slope


def r4_own_g(logits, targets, first):
    """With the g of exercise 12.2, of a clone and a hidden sum."""
    _, g = r2_hooks()
    with torch.no_grad():
        top = logits.max(-1, keepdim=True)[0].contiguous()
        all_reduce(top, operation=MAX)
    low = logits - top
    index, here = ours(low, targets, first)
    rows, tokens = here.nonzero(as_tuple=True)
    target = torch.zeros(targets.shape, dtype=logits.dtype).index_put(
        (rows, tokens), low[rows, tokens, index[rows, tokens]]
    )
    return g(low.exp().sum(-1)).log() - g(target)


def r4_silent_alone(logits, targets, first):
    """In a world of 1 it is the plain loss, and nothing is sent."""
    if dist.get_world_size() == 1:
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view_as(targets)
    return three_messages(logits, targets, first)


def r4_in_place(logits, targets, first):
    """Sums in place, which autograd does not see: so the gradient passes as it is, as with g."""
    top = logits.detach().amax(-1)
    all_reduce(top, operation=MAX)
    low = logits - top[..., None]
    index, here = ours(logits, targets, first)
    target = low.gather(-1, (index * here)[..., None])[..., 0] * here
    both = torch.stack([low.exp().sum(-1), target], -1)
    all_reduce(both.detach())
    return both[..., 0].log() - both[..., 1]


RIGHT = {
    "12.1": [r1_chunks, r1_strided, r1_flat_reversed, r1_shuffled],
    "12.2": [r2_functions, r2_hooks, r2_one_function, r2_same_objects, r2_alone, r2_silent_alone],
    "12.3": [r3_tensor, r3_heads, r3_alone_range],
    "12.4": [r4_function, r4_logsumexp, r4_surrogate, r4_own_g, r4_silent_alone, r4_in_place],
}
