"""Wrong solutions of lesson 12, each with the hint that must refuse it."""

import torch
import torch.distributed as dist
from torch.nn import functional

from pllab.comm import MAX, all_reduce, barrier, rank, receive, world_size
from pllab.parallel.tensor import reduce_out
from tests.lesson.judge import with_switches
from tests.lesson.variants_12 import sliced, three_messages, three_ranges, two_functions

# 12.1 split_mlp(x, up, up_bias, down, down_bias, rank, world_size, enter, leave)


@with_switches
def mlp_that(mistakes, x, up, up_bias, down, down_bias, rank, world_size, enter, leave):  # noqa: C901
    """A split MLP with one thing done wrong."""
    each = len(up_bias) // world_size
    mine = slice(rank * each, (rank + 1) * each)
    if "detaches" in mistakes:
        x = x.detach()
    if "weights_without_history" in mistakes:
        up, up_bias, down = up.detach(), up_bias.detach(), down.detach()
    entered = x if "without_enter" in mistakes else enter(enter(x) if "enters_twice" in mistakes else x)
    term = functional.gelu(entered @ up[:, mine] + up_bias[mine]) @ down[mine]
    if "bias_before" in mistakes:
        return leave(term + down_bias)
    if "bias_divided" in mistakes:
        return leave(term + down_bias / world_size)
    if "without_bias" in mistakes:
        return leave(term)
    if "bias_entered" in mistakes:
        return leave(term) + enter(down_bias)
    return (term if "without_leave" in mistakes else leave(term)) + down_bias


def whole_on_every_rank(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    return functional.gelu(x @ up + up_bias) @ down + down_bias


def unequal_shares(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    """The last rank takes what is left over."""
    start = 2 * rank
    mine = slice(start, start + 2 if rank < world_size - 1 else None)
    return leave(functional.gelu(enter(x) @ up[:, mine] + up_bias[mine]) @ down[mine]) + down_bias


def waits_at_a_barrier(*given):
    barrier()
    return sliced(*given)


def raises_on_one_rank(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    if rank == world_size - 1:
        raise KeyError("no columns left")
    return sliced(x, up, up_bias, down, down_bias, rank, world_size, enter, leave)


def slices_what_all_features_made(x, up, up_bias, down, down_bias, rank, world_size, enter, leave):
    mine = slice(rank * len(up_bias) // world_size, (rank + 1) * len(up_bias) // world_size)
    hidden = functional.gelu(enter(x) @ up + up_bias)[..., mine]
    return leave(hidden @ down[mine]) + down_bias


# 12.2 conjugate_pair()


@with_switches
def pair_that(mistakes):  # noqa: C901 - one switch per mistake
    """f and g with one thing done wrong."""

    def summed(x):
        total = x if "in_place" in mistakes else x.clone()
        all_reduce(total, operation=MAX if "highest" in mistakes else dist.ReduceOp.SUM)
        return total / world_size() if "mean" in mistakes else total

    class F(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return summed(x) if "f_sums" in mistakes else x.view_as(x)

        @staticmethod
        def backward(ctx, gradient):
            if "no_gradient" in mistakes:
                return None
            if "sums_twice" in mistakes:
                return summed(summed(gradient) / world_size())
            return gradient if "f_passes_on" in mistakes else summed(gradient)

    class G(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x) if "g_sums_nothing" in mistakes else summed(x)

        @staticmethod
        def backward(ctx, gradient):
            if "g_divides_back" in mistakes:
                return gradient / world_size()
            return summed(gradient) if "g_sums_back" in mistakes else gradient

    return G.apply if "one_only" in mistakes else (F.apply, G.apply)


def without_a_graph():
    f, g = two_functions()
    return f, lambda x: g(x.detach())


def hook_on_x_itself():
    _, g = two_functions()

    def f(x):
        if x.requires_grad:
            x.register_hook(_summed)
        return x

    return f, g


def _summed(tensor):
    total = tensor.clone(memory_format=torch.contiguous_format)
    all_reduce(total)
    return total


def always_double():
    f, g = two_functions()
    return f, lambda x: g(x.double())


# 12.3 qkv_columns(rank, world_size, num_heads, head_dim)


def _checked(world_size, num_heads):
    if num_heads % world_size:
        raise ValueError(f"{world_size} ranks cannot share {num_heads} heads equally")


def one_block(rank, world_size, num_heads, head_dim):
    _checked(world_size, num_heads)
    each = 3 * num_heads * head_dim // world_size
    return list(range(rank * each, (rank + 1) * each))


def q_k_v_of_each_head(rank, world_size, num_heads, head_dim):
    _checked(world_size, num_heads)
    heads = range(rank * num_heads // world_size, (rank + 1) * num_heads // world_size)
    return [(part * num_heads + head) * head_dim + i for head in heads for part in range(3) for i in range(head_dim)]


def every_wth_head(rank, world_size, num_heads, head_dim):
    _checked(world_size, num_heads)
    return [
        (part * num_heads + head) * head_dim + i
        for part in range(3)
        for head in range(rank, num_heads, world_size)
        for i in range(head_dim)
    ]


def queries_alone(rank, world_size, num_heads, head_dim):
    return three_ranges(rank, world_size, num_heads, head_dim)[: num_heads // world_size * head_dim]


def never_refuses(rank, world_size, num_heads, head_dim):
    width, each = num_heads * head_dim, num_heads * head_dim // world_size
    return [part * width + rank * each + i for part in range(3) for i in range(each)]


def divides_upside_down(rank, world_size, num_heads, head_dim):
    if world_size % num_heads:
        raise ValueError(f"{num_heads} heads, {world_size} ranks")
    return never_refuses(rank, world_size, num_heads, head_dim)


def an_assertion(rank, world_size, num_heads, head_dim):
    assert num_heads % world_size == 0, f"{num_heads} heads, {world_size} ranks"
    return never_refuses(rank, world_size, num_heads, head_dim)


def says_nothing(rank, world_size, num_heads, head_dim):
    if num_heads % world_size:
        raise ValueError(f"{num_heads} is a bad number of heads")
    return never_refuses(rank, world_size, num_heads, head_dim)


def says_nothing_of_heads(rank, world_size, num_heads, head_dim):
    if num_heads % world_size:
        raise ValueError(f"{world_size} ranks cannot share them")
    return never_refuses(rank, world_size, num_heads, head_dim)


def a_head_instead_of_columns(rank, world_size, num_heads, head_dim):
    _checked(world_size, num_heads)
    return num_heads // world_size


# 12.4 vocab_loss(logits, targets, first)


@with_switches
def loss_that(mistakes, logits, targets, first):  # noqa: C901 - one switch per mistake
    """The split loss with one thing done wrong."""

    def summed(x):
        total = pair_that("g_sums_back")()[1](x) if "backward_sums_again" in mistakes else reduce_out(x)
        return total.detach() if "cuts_the_graph" in mistakes else total

    if "clamps_logits" in mistakes:
        logits = logits.clamp(-80, 80)
    highest = logits.amax(-1) if "highest_with_graph" in mistakes else logits.detach().amax(-1)
    if "own_highest" not in mistakes:
        all_reduce(highest, operation=MAX)
    if "no_highest" in mistakes:
        highest = torch.zeros_like(highest)
    shifted = logits - highest.unsqueeze(-1)
    own = shifted.exp().sum(-1)
    total = own if "own_words" in mistakes else summed(own)
    index = targets - first
    is_here = (index >= 0) & (index < logits.shape[-1])
    index = index.where(is_here, 0)
    if "clamps" in mistakes:
        is_here = torch.ones_like(is_here)
    chosen = shifted.gather(-1, index.unsqueeze(-1)).squeeze(-1) * is_here
    chosen = chosen if "target_not_sent" in mistakes else summed(chosen)
    return total.log() - chosen


def gathers_the_logits(logits, targets, first):
    if world_size() == 1:
        return three_messages(logits, targets, first)
    padded = functional.pad(logits.detach(), (0, 25 - logits.shape[-1]), value=-1e9).contiguous()
    sizes = [torch.empty_like(padded) for _ in range(world_size())]
    dist.all_gather(sizes, padded)
    return three_messages(logits, targets, first)


def plain_cross_entropy(logits, targets, first):
    return functional.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="none").view(targets.shape)


def exponentials_in_place(logits, targets, first):
    losses = three_messages(logits, targets, first)
    logits.data.sub_(logits.data.amax(-1, keepdim=True))
    return losses


def a_rank_receives_alone(logits, targets, first):
    if rank() == 0 and world_size() > 1:
        receive(torch.empty(1), 1)
    return three_messages(logits, targets, first)


WRONG = [
    ("12.1", "bias_times", mlp_that("bias_before")),
    ("12.1", "bias_inside", mlp_that("bias_divided")),
    ("12.1", "wrong", mlp_that("without_bias")),
    ("12.1", "partial_gradient", mlp_that("without_enter")),
    ("12.1", "wrong", mlp_that("enters_twice")),
    ("12.1", "no_gradient", mlp_that("detaches")),
    ("12.1", "term", mlp_that("without_leave")),
    ("12.1", "whole_weight", whole_on_every_rank),
    ("12.1", "wrong", unequal_shares),
    ("12.1", "more_messages", waits_at_a_barrier),
    ("12.1", "raised", raises_on_one_rank),
    ("12.1", "all_the_work", slices_what_all_features_made),
    ("12.1", "no_gradient", mlp_that("weights_without_history")),
    ("12.1", "wrong", mlp_that("bias_entered")),
    ("12.2", "f_sums", pair_that("f_sums")),
    ("12.2", "backward_missing", pair_that("f_passes_on")),
    ("12.2", "g_sums_nothing", pair_that("g_sums_nothing")),
    ("12.2", "both_ways", pair_that("g_sums_back")),
    ("12.2", "mean", pair_that("mean")),
    ("12.2", "no_gradient", pair_that("no_gradient")),
    ("12.2", "no_gradient", without_a_graph),
    ("12.2", "in_place", pair_that("in_place")),
    ("12.2", "messages", pair_that("sums_twice")),
    ("12.2", "no_pair", pair_that("one_only")),
    ("12.2", "wrong", always_double),
    ("12.2", "x_elsewhere", hook_on_x_itself),
    ("12.2", "mean", pair_that("g_divides_back")),
    ("12.2", "wrong", pair_that("highest")),
    ("12.3", "one_block", one_block),
    ("12.3", "order", q_k_v_of_each_head),
    ("12.3", "wrong", every_wth_head),
    ("12.3", "number_of_columns", queries_alone),
    ("12.3", "no_error", never_refuses),
    ("12.3", "other_error", an_assertion),
    ("12.3", "unclear", says_nothing),
    ("12.3", "no_columns", a_head_instead_of_columns),
    ("12.3", "raised", divides_upside_down),
    ("12.4", "own_words", loss_that("own_words")),
    ("12.4", "raised", plain_cross_entropy),
    ("12.4", "own_highest", loss_that("own_highest")),
    ("12.4", "overflow", loss_that("no_highest")),
    ("12.4", "target_not_sent", loss_that("target_not_sent")),
    ("12.4", "wrong", loss_that("clamps")),
    ("12.4", "no_gradient", loss_that("cuts_the_graph")),
    ("12.4", "wrong", loss_that("highest_with_graph")),
    ("12.4", "gradient_times", loss_that("backward_sums_again")),
    ("12.4", "messages", gathers_the_logits),
    ("12.4", "logits_changed", exponentials_in_place),
    ("12.4", "not_all_ranks", a_rank_receives_alone),
    ("12.4", "wrong", loss_that("clamps_logits")),
]

LET_THROUGH = [("12.3", "unclear", says_nothing_of_heads)]
