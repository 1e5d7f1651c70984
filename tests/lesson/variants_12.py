"""Right solutions of lesson 12 that look different."""

import torch
import torch.distributed as dist
from torch.nn import functional

from pllab.comm import MAX, all_reduce, world_size
from pllab.parallel.tensor import reduce_out

# 12.1 split_mlp(x, up, up_bias, down, down_bias, rank, world_size, enter, leave)


def sliced(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    each = len(up_bias) // world_size
    mine = slice(rank * each, (rank + 1) * each)
    hidden = functional.gelu(enter(x) @ up[:, mine] + up_bias[mine])
    return leave(hidden @ down[mine]) + down_bias


def strided(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    """Any columns do, if the rows are the same ones."""
    mine = torch.arange(rank, up.shape[1], world_size)
    part = functional.linear(enter(x), up[:, mine].t(), up_bias[mine])
    return leave(functional.linear(functional.gelu(part), down[mine].t())).add(down_bias)


def chunked_from_the_end(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    up, up_bias = up.chunk(world_size, 1)[-1 - rank], up_bias.chunk(world_size)[-1 - rank]
    down = down.chunk(world_size)[-1 - rank]
    y = torch.addmm(up_bias, enter(x).flatten(0, -2), up)
    term = (functional.gelu(y) @ down).unflatten(0, x.shape[:-1])
    return down_bias + leave(term)


# 12.2 conjugate_pair()


def two_functions():
    def summed(x):
        total = x.clone()
        all_reduce(total)
        return total

    class CopyIn(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, gradient):
            return summed(gradient)

    class ReduceOut(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return summed(x)

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    return CopyIn.apply, ReduceOut.apply


def with_a_hook():
    """f needs no Function: a hook on a copy sums the gradient; g needs none either, with a trick."""

    def summed(x):
        total = torch.empty(x.shape, dtype=x.dtype).copy_(x)
        dist.all_reduce(total)
        return total

    def f(x):
        copy = x.clone()
        if copy.requires_grad:
            copy.register_hook(summed)
        return copy

    def g(x):
        with torch.no_grad():
            others = summed(x) - x
        return x + others

    return f, g


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, sums_forward):
        ctx.sums_backward = not sums_forward
        return _summed(x) if sums_forward else x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return (_summed(gradient) if ctx.sums_backward else gradient), None


def _summed(x):
    total = x.contiguous().clone()
    if world_size() > 1:
        dist.all_reduce(total)
    return total


def one_function_with_a_switch():
    return [lambda x: _Step.apply(x, False), lambda x: _Step.apply(x, True)]


# 12.3 qkv_columns(rank, world_size, num_heads, head_dim)


def three_ranges(rank, world_size, num_heads, head_dim):
    if num_heads % world_size:
        raise ValueError(f"{world_size} ranks cannot share {num_heads} heads equally")
    width, each = num_heads * head_dim, num_heads // world_size * head_dim
    return [part * width + rank * each + i for part in range(3) for i in range(each)]


def a_tensor_of_numbers(rank, world_size, num_heads, head_dim):
    if num_heads // world_size * world_size != num_heads:
        raise ValueError(f"num_heads is {num_heads}; give a multiple of the {world_size} ranks")
    numbers = torch.arange(3 * num_heads * head_dim).view(3, world_size, -1)
    return numbers[:, rank].flatten()


def head_by_head(rank, world_size, num_heads, head_dim):
    more = num_heads % world_size
    if more != 0:
        raise ValueError(f"{num_heads} heads over {world_size} ranks leave {more}")
    mine = range(rank * num_heads // world_size, (rank + 1) * num_heads // world_size)
    for part in range(3):
        for head in mine:
            start = (part * num_heads + head) * head_dim
            yield from range(start, start + head_dim)


def a_list_of_head_by_head(rank, world_size, num_heads, head_dim):
    return tuple(head_by_head(rank, world_size, num_heads, head_dim))


# 12.4 vocab_loss(logits, targets, first)


def three_messages(logits, targets, first):
    highest = logits.detach().amax(-1)
    all_reduce(highest, operation=MAX)
    shifted = logits - highest.unsqueeze(-1)
    total = reduce_out(shifted.exp().sum(-1))
    index = targets - first
    is_here = (index >= 0) & (index < logits.shape[-1])
    chosen = shifted.gather(-1, index.where(is_here, 0).unsqueeze(-1)).squeeze(-1)
    return total.log() - reduce_out(chosen * is_here)


def two_messages(logits, targets, first):
    """The two sums travel side by side, and the target is found by comparing."""
    highest = logits.detach().max(-1).values.contiguous()
    dist.all_reduce(highest, op=dist.ReduceOp.MAX)
    shifted = logits - highest[..., None]
    is_target = torch.arange(first, first + logits.shape[-1]) == targets[..., None]
    total, chosen = reduce_out(torch.stack([shifted.exp().sum(-1), (shifted * is_target).sum(-1)]))
    return torch.log(total) - chosen


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets, first):
        highest = logits.amax(-1)
        all_reduce(highest, operation=MAX)
        shifted = logits - highest.unsqueeze(-1)
        is_target = torch.arange(first, first + logits.shape[-1]) == targets.unsqueeze(-1)
        total, chosen = shifted.exp().sum(-1), (shifted * is_target).sum(-1)
        all_reduce(total)
        all_reduce(chosen)
        ctx.save_for_backward(shifted.exp() / total.unsqueeze(-1), is_target)
        return total.log() - chosen

    @staticmethod
    def backward(ctx, gradient):
        softmax, is_target = ctx.saved_tensors
        return (softmax - is_target.to(softmax)) * gradient.unsqueeze(-1), None, None


def a_function_of_its_own(logits, targets, first):
    return _Loss.apply(logits, targets, first)


def log_sums_of_ranks(logits, targets, first):
    """Each rank's own log-sum-exp, put together as a sum of exponentials."""
    own = logits.logsumexp(-1)
    highest = own.detach().clone()
    all_reduce(highest, operation=MAX)
    total = highest + reduce_out((own - highest).exp()).log()
    here = (targets >= first) & (targets < first + logits.shape[-1])
    chosen = torch.where(here, logits.gather(-1, (targets - first).where(here, 0)[..., None])[..., 0], 0.0)
    return total - reduce_out(chosen)


RIGHT = {
    "12.1": [sliced, strided, chunked_from_the_end],
    "12.2": [two_functions, with_a_hook, one_function_with_a_switch],
    "12.3": [three_ranges, a_tensor_of_numbers, a_list_of_head_by_head],
    "12.4": [three_messages, two_messages, a_function_of_its_own, log_sums_of_ranks],
}
