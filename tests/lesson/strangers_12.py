"""Solutions of lesson 12 by somebody who read the lesson alone."""

# ruff: noqa

from itertools import chain

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.functional import gelu

from pllab.comm import MAX, all_reduce
from pllab.parallel.tensor import reduce_out


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


def share(t, dim, rank, world_size):
    return t.tensor_split(world_size, dim=dim)[rank]


def w1_bias_every_rank(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    h = gelu(enter(x) @ share(up, 1, rank, world_size) + share(up_bias, 0, rank, world_size))
    return leave(h @ share(down, 0, rank, world_size) + down_bias)


def w1_bias_divided(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    h = gelu(enter(x) @ share(up, 1, rank, world_size) + share(up_bias, 0, rank, world_size))
    return leave(h @ share(down, 0, rank, world_size) + down_bias / world_size)


def w1_bias_rank_0(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    h = gelu(enter(x) @ share(up, 1, rank, world_size) + share(up_bias, 0, rank, world_size))
    y = h @ share(down, 0, rank, world_size)
    if rank == 0:
        y = y + down_bias
    return leave(y)


def w1_no_enter(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    h = gelu(x @ share(up, 1, rank, world_size) + share(up_bias, 0, rank, world_size))
    return leave(h @ share(down, 0, rank, world_size)) + down_bias


def w1_no_leave(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    h = gelu(enter(x) @ share(up, 1, rank, world_size) + share(up_bias, 0, rank, world_size))
    return h @ share(down, 0, rank, world_size) + down_bias


def w1_plain_sum(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    """The sum is sent without the given step."""
    h = gelu(enter(x) @ share(up, 1, rank, world_size) + share(up_bias, 0, rank, world_size))
    y = (h @ share(down, 0, rank, world_size)).detach().clone()
    all_reduce(y)
    return y + down_bias


def w1_swapped(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    h = gelu(leave(x) @ share(up, 1, rank, world_size) + share(up_bias, 0, rank, world_size))
    return enter(h @ share(down, 0, rank, world_size)) + down_bias


def w1_rows_first(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    """A by rows: gelu of terms."""
    x = enter(x)
    h = gelu(share(x, -1, rank, world_size) @ share(up, 0, rank, world_size) + up_bias)
    return leave(h @ down) + down_bias


def w1_all_work_then_slice(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    """All features, of which my share is used: not a share of the work."""
    h = gelu(enter(x) @ up + up_bias)
    return leave(share(h, -1, rank, world_size) @ share(down, 0, rank, world_size)) + down_bias


def w1_masked(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    each = up.size(1) // world_size
    mask = torch.zeros(up.size(1), dtype=x.dtype)
    mask[rank * each : (rank + 1) * each] = 1
    return leave((gelu(enter(x) @ up + up_bias) * mask) @ down) + down_bias


def w1_whole_divided(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    return leave((gelu(enter(x) @ up + up_bias) @ down) / world_size) + down_bias


def w1_first_share(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    """Everybody takes the part of a of rank 0."""
    each = up.size(1) // world_size
    h = gelu(enter(x) @ up[:, rank * each : (rank + 1) * each] + up_bias[:each])
    return leave(h @ down[rank * each : (rank + 1) * each]) + down_bias


def w1_other_rows(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    """Columns side by side, rows strided: they do not meet."""
    h = gelu(enter(x) @ share(up, 1, rank, world_size) + share(up_bias, 0, rank, world_size))
    return leave(h @ down[rank::world_size]) + down_bias


def w1_data(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    """Shares without history: A, a and B learn nothing."""
    a, c, b = (share(t.detach(), d, rank, world_size) for t, d in ((up, 1), (up_bias, 0), (down, 0)))
    return leave(gelu(enter(x) @ a + c) @ b) + down_bias


def w1_bias_entered(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    """The bias is sent through enter as well: w times its gradient."""
    h = gelu(enter(x) @ share(up, 1, rank, world_size) + share(up_bias, 0, rank, world_size))
    return leave(h @ share(down, 0, rank, world_size)) + enter(down_bias)


def w1_leave_between(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    """A sum after each product."""
    x = enter(x)
    h = leave(share(x, -1, rank, world_size) @ share(up, 0, rank, world_size)) + up_bias
    return leave(share(gelu(h), -1, rank, world_size) @ share(down, 0, rank, world_size)) + down_bias


def w1_tanh(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    h = F.gelu(enter(x) @ share(up, 1, rank, world_size) + share(up_bias, 0, rank, world_size), approximate="tanh")
    return leave(h @ share(down, 0, rank, world_size)) + down_bias


def w1_tokens(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    """Some of the tokens with all of the weights."""
    x = enter(x)
    mask = torch.zeros(x.size(1), 1)
    mask[rank::world_size] = 1
    return leave((gelu(x @ up + up_bias) @ down) * mask) + down_bias


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


def pair(f_forward, f_backward, g_forward, g_backward):
    class Left(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return f_forward(x)

        @staticmethod
        def backward(ctx, grad):
            return f_backward(grad)

    class Right(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return g_forward(x)

        @staticmethod
        def backward(ctx, grad):
            return g_backward(grad)

    return Left.apply, Right.apply


def same(x):
    return x.view_as(x)


def total(x):
    x = x.clone(memory_format=torch.contiguous_format)
    all_reduce(x)
    return x


def in_place(x):
    all_reduce(x)
    return x


def maybe_copy(x):
    x = x.contiguous()
    all_reduce(x)
    return x


def mean(x):
    return total(x) / dist.get_world_size()


def w2_swapped():
    f, g = pair(same, total, total, same)
    return g, f


def w2_both_both():
    return pair(total, total, total, total)


def w2_g_both():
    return pair(same, total, total, total)


def w2_f_both():
    return pair(total, total, total, same)


def w2_nothing_back():
    return pair(same, same, total, same)


def w2_in_place():
    return pair(same, in_place, in_place, same)


def w2_in_place_forward():
    def forward(x):
        x = x.detach()
        all_reduce(x)
        return x.view_as(x)

    return pair(same, total, forward, same)


def w2_in_place_backward():
    return pair(same, in_place, total, same)


def w2_contiguous_only():
    """contiguous() is a copy of some tensors alone."""
    return pair(same, maybe_copy, maybe_copy, same)


def w2_contiguous_backward():
    return pair(same, maybe_copy, total, same)


def w2_mean():
    return pair(same, mean, mean, same)


def w2_mean_back():
    return pair(same, mean, total, same)


def w2_g_divides():
    return pair(same, total, total, lambda g: g / dist.get_world_size())


def w2_detached():
    """g gives numbers without a history."""
    f, _ = pair(same, total, total, same)
    return f, lambda x: total(x.detach())


def w2_hook_on_x():
    """The hook sums whatever comes to x, also by other ways."""

    def f(x):
        if x.requires_grad:
            x.register_hook(total)
        return x

    return f, pair(same, total, total, same)[1]


def w2_classes():
    class CopyIn(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return total(g)

    class ReduceOut(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return total(x)

        @staticmethod
        def backward(ctx, g):
            return g

    return CopyIn, ReduceOut


def w2_no_return():
    """all_reduce returns None."""
    return pair(same, lambda g: all_reduce(g.clone()), lambda x: all_reduce(x.clone()), same)


def w2_gathers():
    def gathered(x):
        parts = [torch.empty(x.shape, dtype=x.dtype) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x.contiguous())
        return sum(parts)

    return pair(same, gathered, gathered, same)


def w2_double():
    def wide(x):
        x = x.to(torch.float64, copy=True).contiguous()
        all_reduce(x)
        return x

    return pair(same, total, wide, same)


def w2_twice_sent():
    """f sends in the forward too, and throws it away."""

    def forward(x):
        total(x)
        return x.view_as(x)

    return pair(forward, total, total, same)


def w2_highest():
    def most(x):
        x = x.clone(memory_format=torch.contiguous_format)
        all_reduce(x, operation=MAX)
        return x

    return pair(same, most, most, same)


def w2_flat():
    def flat(x):
        x = x.clone(memory_format=torch.contiguous_format).flatten()
        all_reduce(x)
        return x

    return pair(same, total, flat, lambda g: g)


def w2_changes_gradient():
    """Adds the others' gradients onto the tensor that arrived."""

    def back(g):
        t = total(g)
        g.copy_(t) if g.is_contiguous() else None
        return t

    return pair(same, back, total, same)


# ---------------------------------------------------------------- 12.3
def r3_list(rank, world_size, num_heads, head_dim):
    if num_heads % world_size != 0:
        raise ValueError(f"{num_heads} heads cannot be shared by {world_size} ranks")
    width = num_heads * head_dim
    mine = width // world_size
    return [part * width + rank * mine + i for part in range(3) for i in range(mine)]


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


def refuse(world_size, num_heads):
    if num_heads % world_size:
        raise ValueError(f"{num_heads} heads, {world_size} ranks")


def w3_block(rank, world_size, num_heads, head_dim):
    """A third of everything in a row."""
    refuse(world_size, num_heads)
    mine = 3 * num_heads * head_dim // world_size
    return list(range(rank * mine, (rank + 1) * mine))


def w3_round_robin(rank, world_size, num_heads, head_dim):
    refuse(world_size, num_heads)
    width = num_heads * head_dim
    return [
        p * width + h * head_dim + i
        for p in range(3)
        for h in range(rank, num_heads, world_size)
        for i in range(head_dim)
    ]


def w3_by_head(rank, world_size, num_heads, head_dim):
    """q, k, v of one head, then of the next."""
    refuse(world_size, num_heads)
    width, each = num_heads * head_dim, num_heads // world_size
    return [
        p * width + h * head_dim + i
        for h in range(rank * each, (rank + 1) * each)
        for p in range(3)
        for i in range(head_dim)
    ]


def w3_head_layout(rank, world_size, num_heads, head_dim):
    """As if the weight were [q0 k0 v0 | q1 k1 v1 ...]."""
    refuse(world_size, num_heads)
    each = num_heads // world_size
    return [
        h * 3 * head_dim + p * head_dim + i
        for p in range(3)
        for h in range(rank * each, (rank + 1) * each)
        for i in range(head_dim)
    ]


def w3_no_refusal(rank, world_size, num_heads, head_dim):
    width = num_heads * head_dim
    mine = width // world_size
    return [part * width + rank * mine + i for part in range(3) for i in range(mine)]


def w3_width_refusal(rank, world_size, num_heads, head_dim):
    """Refuses only what cannot be shared column by column."""
    width = num_heads * head_dim
    if width % world_size:
        raise ValueError(f"{num_heads} heads cannot be shared by {world_size} ranks")
    mine = width // world_size
    return [part * width + rank * mine + i for part in range(3) for i in range(mine)]


def w3_assert(rank, world_size, num_heads, head_dim):
    assert num_heads % world_size == 0, f"{num_heads} heads, {world_size} ranks"
    return w3_no_refusal(rank, world_size, num_heads, head_dim)


def w3_no_numbers(rank, world_size, num_heads, head_dim):
    if num_heads % world_size:
        raise ValueError("the heads cannot be shared by the ranks")
    return w3_no_refusal(rank, world_size, num_heads, head_dim)


def w3_one_number(rank, world_size, num_heads, head_dim):
    if num_heads % world_size:
        raise ValueError(f"{num_heads} heads cannot be shared by the ranks")
    return w3_no_refusal(rank, world_size, num_heads, head_dim)


def w3_wrong_number(rank, world_size, num_heads, head_dim):
    """Names the columns instead of the heads."""
    if num_heads % world_size:
        raise ValueError(f"{3 * num_heads * head_dim} columns cannot be shared by {world_size} ranks")
    return w3_no_refusal(rank, world_size, num_heads, head_dim)


def w3_last_rank_refuses(rank, world_size, num_heads, head_dim):
    each = -(-num_heads // world_size)
    if (rank + 1) * each > num_heads:
        raise ValueError(f"{num_heads} heads, {world_size} ranks")
    width = num_heads * head_dim
    return [
        p * width + h * head_dim + i
        for p in range(3)
        for h in range(rank * each, (rank + 1) * each)
        for i in range(head_dim)
    ]


def w3_rank_0_refuses(rank, world_size, num_heads, head_dim):
    if rank == 0:
        refuse(world_size, num_heads)
    return w3_no_refusal(rank, world_size, num_heads, head_dim)


def w3_upside_down(rank, world_size, num_heads, head_dim):
    if world_size % num_heads:
        raise ValueError(f"{num_heads} heads, {world_size} ranks")
    return w3_no_refusal(rank, world_size, num_heads, head_dim)


def w3_few_only(rank, world_size, num_heads, head_dim):
    """Refuses only fewer heads than ranks."""
    if num_heads < world_size:
        raise ValueError(f"{num_heads} heads, {world_size} ranks")
    return w3_no_refusal(rank, world_size, num_heads, head_dim)


def w3_leftover(rank, world_size, num_heads, head_dim):
    """The last rank takes the heads that are left."""
    each = num_heads // world_size
    stop = num_heads if rank == world_size - 1 else (rank + 1) * each
    width = num_heads * head_dim
    return [p * width + c for p in range(3) for c in range(rank * each * head_dim, stop * head_dim)]


def w3_queries(rank, world_size, num_heads, head_dim):
    refuse(world_size, num_heads)
    mine = num_heads * head_dim // world_size
    return list(range(rank * mine, (rank + 1) * mine))


def w3_heads_not_columns(rank, world_size, num_heads, head_dim):
    """Numbers of heads instead of columns."""
    refuse(world_size, num_heads)
    each = num_heads // world_size
    return [p * num_heads + rank * each + i for p in range(3) for i in range(each)]


def w3_nested(rank, world_size, num_heads, head_dim):
    refuse(world_size, num_heads)
    width, mine = num_heads * head_dim, num_heads * head_dim // world_size
    return [list(range(p * width + rank * mine, p * width + (rank + 1) * mine)) for p in range(3)]


def w3_one_too_many(rank, world_size, num_heads, head_dim):
    """Both ends inclusive."""
    refuse(world_size, num_heads)
    width, mine = num_heads * head_dim, num_heads * head_dim // world_size
    return [c for p in range(3) for c in range(p * width + rank * mine, p * width + (rank + 1) * mine + 1)]


def w3_returns_error(rank, world_size, num_heads, head_dim):
    if num_heads % world_size:
        return ValueError(f"{num_heads} heads, {world_size} ranks")
    return w3_no_refusal(rank, world_size, num_heads, head_dim)


# ---------------------------------------------------------------- 12.4
def ours(logits, targets, first):
    index = targets - first
    return index, (index >= 0) & (index < logits.size(-1))


def r4_reduce_out(logits, targets, first):
    top = logits.detach().max(dim=-1).values
    all_reduce(top, operation=MAX)
    logits = logits - top.unsqueeze(-1)
    index, mine = ours(logits, targets, first)
    target = logits.gather(-1, torch.where(mine, index, 0).unsqueeze(-1)).squeeze(-1)
    target = torch.where(mine, target, torch.zeros_like(target))
    return torch.log(reduce_out(logits.exp().sum(-1))) - reduce_out(target)


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
    return r4_reduce_out(logits, targets, first)


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


def w4_own_top(logits, targets, first):
    """Each rank takes off its own highest."""
    logits = logits - logits.detach().amax(-1, keepdim=True)
    index, mine = ours(logits, targets, first)
    target = logits.gather(-1, (index * mine)[..., None])[..., 0] * mine
    return reduce_out(logits.exp().sum(-1)).log() - reduce_out(target)


def w4_no_top(logits, targets, first):
    index, mine = ours(logits, targets, first)
    target = logits.gather(-1, (index * mine)[..., None])[..., 0] * mine
    return reduce_out(logits.exp().sum(-1)).log() - reduce_out(target)


def lowered(logits):
    top = logits.detach().amax(-1)
    all_reduce(top, operation=MAX)
    return logits - top[..., None]


def w4_not_masked(logits, targets, first):
    """The others add some other logit."""
    logits = lowered(logits)
    index = (targets - first).clamp(0, logits.size(-1) - 1)
    target = logits.gather(-1, index[..., None])[..., 0]
    return reduce_out(logits.exp().sum(-1)).log() - reduce_out(target)


def w4_half_mask(logits, targets, first):
    """Only the lower end of my words is asked for."""
    logits = lowered(logits)
    index = targets - first
    mine = index >= 0
    target = logits.gather(-1, index.clamp(0, logits.size(-1) - 1)[..., None])[..., 0] * mine
    return reduce_out(logits.exp().sum(-1)).log() - reduce_out(target)


def w4_negative_index(logits, targets, first):
    """A negative index takes a word from the end."""
    logits = lowered(logits)
    index = targets - first
    mine = index < logits.size(-1)
    target = logits.gather(-1, (index * mine % logits.size(-1))[..., None])[..., 0] * mine
    return reduce_out(logits.exp().sum(-1)).log() - reduce_out(target)


def w4_modulo(logits, targets, first):
    """Forgets first."""
    logits = lowered(logits)
    target = logits.gather(-1, (targets % logits.size(-1))[..., None])[..., 0]
    return reduce_out(logits.exp().sum(-1)).log() - reduce_out(target)


def w4_rank_times_length(logits, targets, first):
    """first is taken to be rank times length."""
    return r4_reduce_out(logits, targets, dist.get_rank() * logits.size(-1))


def w4_top_has_gradient(logits, targets, first):
    top = logits.amax(-1, keepdim=True)
    most = top.detach().clone()
    all_reduce(most, operation=MAX)
    logits = logits - torch.where(most == top, top, most)
    index, mine = ours(logits, targets, first)
    target = logits.gather(-1, (index * mine)[..., None])[..., 0] * mine
    return reduce_out(logits.exp().sum(-1)).log() - reduce_out(target)


def w4_top_summed(logits, targets, first):
    """The sum of the highest instead of the highest."""
    top = logits.detach().amax(-1)
    all_reduce(top)
    logits = logits - top[..., None]
    index, mine = ours(logits, targets, first)
    target = logits.gather(-1, (index * mine)[..., None])[..., 0] * mine
    return reduce_out(logits.exp().sum(-1)).log() - reduce_out(target)


def w4_in_logits(logits, targets, first):
    """The highest is taken off in place."""
    top = logits.detach().amax(-1)
    all_reduce(top, operation=MAX)
    logits.data.sub_(top[..., None])
    index, mine = ours(logits, targets, first)
    target = logits.gather(-1, (index * mine)[..., None])[..., 0] * mine
    return reduce_out(logits.exp().sum(-1)).log() - reduce_out(target)


def w4_mean(logits, targets, first):
    return r4_reduce_out(logits, targets, first).mean()


def w4_flat(logits, targets, first):
    return r4_reduce_out(logits, targets, first).flatten()


def w4_keeps_axis(logits, targets, first):
    return r4_reduce_out(logits, targets, first).unsqueeze(-1)


def w4_no_gradient(logits, targets, first):
    """Sums of detached numbers."""
    logits = lowered(logits).detach()
    index, mine = ours(logits, targets, first)
    target = logits.gather(-1, (index * mine)[..., None])[..., 0] * mine
    return reduce_out(logits.exp().sum(-1)).log() - reduce_out(target)


def w4_target_detached(logits, targets, first):
    """The target's sum carries no gradient."""
    logits = lowered(logits)
    index, mine = ours(logits, targets, first)
    target = (logits.gather(-1, (index * mine)[..., None])[..., 0] * mine).detach().clone()
    all_reduce(target)
    return reduce_out(logits.exp().sum(-1)).log() - target


def w4_sum_both_ways(logits, targets, first):
    """A sum that sums on the way back, too."""
    _, g = w2_g_both()
    logits = lowered(logits)
    index, mine = ours(logits, targets, first)
    target = logits.gather(-1, (index * mine)[..., None])[..., 0] * mine
    return g(logits.exp().sum(-1)).log() - g(target)


def w4_exp_not_summed(logits, targets, first):
    """The sum of exponentials of my words alone."""
    logits = lowered(logits)
    index, mine = ours(logits, targets, first)
    target = logits.gather(-1, (index * mine)[..., None])[..., 0] * mine
    return logits.exp().sum(-1).log() - reduce_out(target)


def w4_target_not_summed(logits, targets, first):
    """The target's logit on one rank alone."""
    logits = lowered(logits)
    index, mine = ours(logits, targets, first)
    target = logits.gather(-1, (index * mine)[..., None])[..., 0] * mine
    return reduce_out(logits.exp().sum(-1)).log() - target


def w4_logs_summed(logits, targets, first):
    """The sum of logarithms is not the logarithm of the sum."""
    logits = lowered(logits)
    index, mine = ours(logits, targets, first)
    target = logits.gather(-1, (index * mine)[..., None])[..., 0] * mine
    return reduce_out(torch.logsumexp(logits, -1)) - reduce_out(target)


def w4_slots(logits, targets, first):
    """A gather of sums by an all-reduce: w numbers a token."""
    mine = torch.logsumexp(logits, -1)
    slot = F.one_hot(torch.tensor(dist.get_rank()), dist.get_world_size())
    every = reduce_out(mine[..., None] * slot)
    index, here = ours(logits, targets, first)
    picked = logits.gather(-1, (index * here)[..., None])[..., 0] * here
    return torch.logsumexp(every, -1) - reduce_out(picked)


def w4_whole_by_all_reduce(logits, targets, first):
    """The whole logits, zeros and a sum."""
    end = torch.tensor([first + logits.size(-1)])
    all_reduce(end, operation=MAX)
    whole = reduce_out(F.pad(logits, (first, int(end) - first - logits.size(-1))))
    return F.cross_entropy(whole.flatten(0, 1), targets.flatten(), reduction="none").view(targets.shape)


def w4_gathers(logits, targets, first):
    """Highest logits by all-gather."""
    top = logits.detach().amax(-1)
    tops = [torch.empty_like(top) for _ in range(dist.get_world_size())]
    dist.all_gather(tops, top)
    logits = logits - torch.stack(tops).amax(0)[..., None]
    index, mine = ours(logits, targets, first)
    target = logits.gather(-1, (index * mine)[..., None])[..., 0] * mine
    return reduce_out(logits.exp().sum(-1)).log() - reduce_out(target)


def w4_clamped(logits, targets, first):
    """Finite, but other numbers."""
    logits = logits.clamp(-80, 80)
    index, mine = ours(logits, targets, first)
    target = logits.gather(-1, (index * mine)[..., None])[..., 0] * mine
    return reduce_out(logits.exp().sum(-1)).log() - reduce_out(target)


def w4_one_top(logits, targets, first):
    """One highest for all tokens: a token of -1000 beside one of 1000 has a sum of 0."""
    top = logits.detach().max()
    all_reduce(top, operation=MAX)
    logits = logits - top
    index, mine = ours(logits, targets, first)
    target = logits.gather(-1, (index * mine)[..., None])[..., 0] * mine
    return reduce_out(logits.exp().sum(-1)).log() - reduce_out(target)


def w4_top_not_put_off_target(logits, targets, first):
    """The highest is taken off the exponentials, and not off the target."""
    index, mine = ours(logits, targets, first)
    target = logits.gather(-1, (index * mine)[..., None])[..., 0] * mine
    return reduce_out(lowered(logits).exp().sum(-1)).log() - reduce_out(target)


def w4_upside_down(logits, targets, first):
    return -r4_reduce_out(logits, targets, first)


def w4_probability(logits, targets, first):
    """log of the target's exponential over the sum: 0 underflows."""
    e = lowered(logits).exp()
    index, mine = ours(logits, targets, first)
    target = e.gather(-1, (index * mine)[..., None])[..., 0] * mine
    return -(reduce_out(target) / reduce_out(e.sum(-1))).log()


RIGHT = [
    ("12.1", r1_chunks),
    ("12.1", r1_strided),
    ("12.1", r1_flat_reversed),
    ("12.1", r1_shuffled),
    ("12.2", r2_functions),
    ("12.2", r2_hooks),
    ("12.2", r2_one_function),
    ("12.2", r2_same_objects),
    ("12.2", r2_alone),
    ("12.2", r2_silent_alone),
    ("12.3", r3_list),
    ("12.3", r3_tensor),
    ("12.3", r3_heads),
    ("12.3", r3_alone_range),
    ("12.4", r4_reduce_out),
    ("12.4", r4_function),
    ("12.4", r4_logsumexp),
    ("12.4", r4_surrogate),
    ("12.4", r4_own_g),
    ("12.4", r4_silent_alone),
    ("12.4", r4_in_place),
]

WRONG = [
    ("12.1", w1_bias_every_rank),
    ("12.1", w1_bias_divided),
    ("12.1", w1_bias_rank_0),
    ("12.1", w1_no_enter),
    ("12.1", w1_no_leave),
    ("12.1", w1_plain_sum),
    ("12.1", w1_swapped),
    ("12.1", w1_rows_first),
    ("12.1", w1_all_work_then_slice),
    ("12.1", w1_masked),
    ("12.1", w1_whole_divided),
    ("12.1", w1_first_share),
    ("12.1", w1_other_rows),
    ("12.1", w1_data),
    ("12.1", w1_bias_entered),
    ("12.1", w1_leave_between),
    ("12.1", w1_tanh),
    ("12.1", w1_tokens),
    ("12.2", w2_swapped),
    ("12.2", w2_both_both),
    ("12.2", w2_g_both),
    ("12.2", w2_f_both),
    ("12.2", w2_nothing_back),
    ("12.2", w2_in_place),
    ("12.2", w2_in_place_forward),
    ("12.2", w2_in_place_backward),
    ("12.2", w2_contiguous_only),
    ("12.2", w2_contiguous_backward),
    ("12.2", w2_mean),
    ("12.2", w2_mean_back),
    ("12.2", w2_g_divides),
    ("12.2", w2_detached),
    ("12.2", w2_hook_on_x),
    ("12.2", w2_classes),
    ("12.2", w2_no_return),
    ("12.2", w2_gathers),
    ("12.2", w2_double),
    ("12.2", w2_twice_sent),
    ("12.2", w2_highest),
    ("12.2", w2_flat),
    ("12.2", w2_changes_gradient),
    ("12.3", w3_block),
    ("12.3", w3_round_robin),
    ("12.3", w3_by_head),
    ("12.3", w3_head_layout),
    ("12.3", w3_no_refusal),
    ("12.3", w3_width_refusal),
    ("12.3", w3_assert),
    ("12.3", w3_no_numbers),
    ("12.3", w3_one_number),
    ("12.3", w3_wrong_number),
    ("12.3", w3_last_rank_refuses),
    ("12.3", w3_rank_0_refuses),
    ("12.3", w3_upside_down),
    ("12.3", w3_few_only),
    ("12.3", w3_leftover),
    ("12.3", w3_queries),
    ("12.3", w3_heads_not_columns),
    ("12.3", w3_nested),
    ("12.3", w3_one_too_many),
    ("12.3", w3_returns_error),
    ("12.4", w4_own_top),
    ("12.4", w4_no_top),
    ("12.4", w4_not_masked),
    ("12.4", w4_half_mask),
    ("12.4", w4_negative_index),
    ("12.4", w4_modulo),
    ("12.4", w4_rank_times_length),
    ("12.4", w4_top_has_gradient),
    ("12.4", w4_top_summed),
    ("12.4", w4_in_logits),
    ("12.4", w4_mean),
    ("12.4", w4_flat),
    ("12.4", w4_keeps_axis),
    ("12.4", w4_no_gradient),
    ("12.4", w4_target_detached),
    ("12.4", w4_sum_both_ways),
    ("12.4", w4_exp_not_summed),
    ("12.4", w4_target_not_summed),
    ("12.4", w4_logs_summed),
    ("12.4", w4_slots),
    ("12.4", w4_whole_by_all_reduce),
    ("12.4", w4_gathers),
    ("12.4", w4_clamped),
    ("12.4", w4_one_top),
    ("12.4", w4_top_not_put_off_target),
    ("12.4", w4_upside_down),
    ("12.4", w4_probability),
]
