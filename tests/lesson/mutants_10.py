"""Wrong solutions of lesson 10, each with the hint that must refuse it."""

import torch

from pllab.schedule import eager_one_f_one_b, gpipe, one_f_one_b
from tests.lesson.judge import with_switches
from tests.lesson.variants_10 import warm_up_turns_drain

# 10.1 one_f_one_b(num_stages, num_microbatches)


def forgets_to_return(p, m):
    rows = warm_up_turns_drain(p, m)
    rows.reverse()


def counts_in_halves(p, m):
    return [[(action.kind, action.microbatch + 0.5) for action in row] for row in one_f_one_b(p, m).rows]


def swapped_sizes(m, p):
    return warm_up_turns_drain(p, m)


def backward_then_forward(p, m):
    def row(s):
        warm_up = min(m, p - s - 1)
        yield from (f"F{i}" for i in range(warm_up))
        for k in range(m - warm_up):
            yield from (f"B{k}", f"F{warm_up + k}")
        yield from (f"B{i}" for i in range(m - warm_up, m))

    return [row(s) for s in range(p)]


def all_forwards_first(p, m):
    return gpipe(p, m)


def every_stage_like_the_first(p, m):
    rows = one_f_one_b(p, m).rows
    return [[f"{action.kind}{action.microbatch}" for action in rows[0]] for _ in range(p)]


def twice_the_warm_up(p, m):
    return eager_one_f_one_b(p, m)


def back_at_once_to_shrink_the_bubble(p, m):
    """The misconception: idle time at the start is the bubble, so a stage goes back as soon as it has been forward."""
    return [[f"{kind}{i}" for i in range(m) for kind in "FB"] for _ in range(p)]


def _rows(p, m, warm_up_of):
    """Rows with that many forwards before turns, even if there are fewer micro-batches."""
    rows = []
    for s in range(p):
        warm_up = warm_up_of(s)
        row = [f"F{i}" for i in range(warm_up)]
        for k in range(m - warm_up):
            row += [f"F{warm_up + k}", f"B{k}"]
        rows.append(row + [f"B{i}" for i in range(m - warm_up, m)])
    return rows


def warm_up_one_too_long(p, m):
    return _rows(p, m, lambda s: min(m, p - s))


def warm_up_longer_than_the_batch(p, m):
    return _rows(p, m, lambda s: p - s - 1)


def forwards_that_do_not_exist(p, m):
    """Where there are few micro-batches."""
    return [[text for text in row if "-" not in text] for row in warm_up_longer_than_the_batch(p, m)]


def few_as_gpipe(p, m):
    return gpipe(p, m) if m < p else warm_up_turns_drain(p, m)


def raises_for_few(p, m):
    if m < p:
        raise ValueError("give at least as many micro-batches as stages")
    return warm_up_turns_drain(p, m)


def last_in_first_out(p, m):
    """The misconception: autograd goes back from the end, so the last micro-batch goes back first."""
    rows = []
    for s in range(p):
        waiting = list(range(min(m, p - s - 1)))
        row = [f"F{i}" for i in waiting]
        for i in range(len(waiting), m):
            waiting.append(i)
            row += [f"F{i}", f"B{waiting.pop()}"]
        rows.append(row + [f"B{i}" for i in reversed(waiting)])
    return rows


def one_stage_as_gpipe(p, m):
    return gpipe(p, m) if p == 1 else warm_up_turns_drain(p, m)


# 10.2 run_row(row, stage, loss, inputs, targets)


def returns_nothing(row, stage, loss, inputs, targets):
    for _, kind, i in row:
        if kind == "B":
            (loss(stage(inputs[i]), targets[i]) / len(inputs)).backward()


@with_switches
def row_that(mistakes, row, stage, loss, inputs, targets):
    """A row with one thing done wrong."""
    live, total = {}, 0.0
    for _, kind, i in row:
        if kind == "F":
            live[i] = loss(stage(inputs[i]), targets[i]) / (1 if "sums_the_losses" in mistakes else len(inputs))
            total = live[i].item() + (0 if "last_loss" in mistakes else total)
        elif "retains_the_graph" in mistakes:
            live[i].backward(retain_graph=True)
        else:
            live.pop(max(live) if "last_loss_back_first" in mistakes else i).backward()
    return total


def keeps_the_outputs(row, stage, loss, inputs, targets):
    outputs, total = {}, 0.0
    for _, kind, i in row:
        if kind == "F":
            outputs[i] = stage(inputs[i])
            total += loss(outputs[i].detach(), targets[i]).item() / len(inputs)
        else:
            (loss(outputs[i], targets[i]) / len(inputs)).backward()
    return total


def forward_again_for_backward(row, stage, loss, inputs, targets):
    total = 0.0
    for _, kind, i in row:
        if kind == "F":
            with torch.no_grad():
                total += loss(stage(inputs[i]), targets[i]).item() / len(inputs)
        else:
            (loss(stage(inputs[i]), targets[i]) / len(inputs)).backward()
    return total


# 10.3 checkpointed(stage, x)


_LATEST = {}


@with_switches
def checkpoint_that(mistakes, stage, x):  # noqa: C901 - one switch per mistake
    """A checkpointed stage with one thing done wrong."""

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, stage, x, *parameters):
            ctx.stage, ctx.count = stage, len(parameters)
            ctx.state = _LATEST["state"] = torch.get_rng_state()
            ctx.save_for_backward(x)
            output = stage(x)
            if "state_of_the_end" in mistakes:
                ctx.state = torch.get_rng_state()
            if "forward_leaves_no_trace" in mistakes:
                torch.set_rng_state(ctx.state)
            if "runs_again" in mistakes:
                torch.set_rng_state(ctx.state)
                output = stage(x)
            return output

        @staticmethod
        def backward(ctx, gradient):
            x = ctx.saved_tensors[0]
            wants = x.requires_grad or "always_asks_for_a_gradient" in mistakes
            leaf = x if "attached" in mistakes else x.detach().requires_grad_(wants)
            before = torch.get_rng_state()
            torch.set_rng_state(_LATEST["state"] if "one_state" in mistakes else ctx.state)
            with torch.set_grad_enabled("without_grad" not in mistakes):
                output = ctx.stage(leaf)
            if "leaves_generator" not in mistakes:
                torch.set_rng_state(before)
            if "overwrites_gradients" in mistakes:
                wanted = [tensor for tensor in (leaf, *ctx.stage.parameters()) if tensor.requires_grad]
                for tensor, grad in zip(wanted, torch.autograd.grad(output, wanted, gradient), strict=True):
                    tensor.grad = grad
            else:
                torch.autograd.backward(output, gradient)
            return None, leaf.grad if leaf.is_leaf else None, *[None] * ctx.count

    return Function.apply(stage, x, *([] if "only_the_input" in mistakes else stage.parameters()))


def output_is_lost(stage, x):
    stage(x)


def own_seed(stage, x):
    torch.manual_seed(0)
    return stage(x)


def without_a_graph(stage, x):
    with torch.no_grad():
        return stage(x)


def plain(stage, x):
    return stage(x)


WRONG = [
    ("10.1", "no_action", forgets_to_return),
    ("10.1", "wrong_actions", swapped_sizes),
    ("10.1", "deadlock", backward_then_forward),
    ("10.1", "gpipe", all_forwards_first),
    ("10.1", "one_too_many", warm_up_one_too_long),
    ("10.1", "same_warm_up", every_stage_like_the_first),
    ("10.1", "too_many_held", twice_the_warm_up),
    ("10.1", "bubble_grows", back_at_once_to_shrink_the_bubble),
    ("10.1", "backward_order", last_in_first_out),
    ("10.1", "no_action", warm_up_longer_than_the_batch),
    ("10.1", "raised", raises_for_few),
    ("10.1", "gpipe", one_stage_as_gpipe),
    ("10.1", "wrong_actions", forwards_that_do_not_exist),
    ("10.1", "gpipe", few_as_gpipe),
    ("10.2", "no_number", returns_nothing),
    ("10.2", "sum_for_mean", row_that("sums_the_losses")),
    ("10.2", "wrong_result", row_that("last_loss")),
    ("10.2", "other_order", row_that("last_loss_back_first")),
    ("10.2", "loss_kept", keeps_the_outputs),
    ("10.2", "forward_again", forward_again_for_backward),
    ("10.2", "activations_kept", row_that("retains_the_graph")),
    ("10.3", "raised", checkpoint_that("always_asks_for_a_gradient")),
    ("10.3", "other_gradients", checkpoint_that("overwrites_gradients")),
    ("10.3", "no_output", output_is_lost),
    ("10.3", "other_output", own_seed),
    ("10.3", "no_graph", without_a_graph),
    ("10.3", "more_than_input", plain),
    ("10.3", "generator_not_restored", checkpoint_that("state_of_the_end")),
    ("10.3", "generator_put_back", checkpoint_that("forward_leaves_no_trace")),
    ("10.3", "raised", checkpoint_that("without_grad")),
    ("10.3", "not_detached", checkpoint_that("attached")),
    ("10.3", "no_graph", checkpoint_that("only_the_input")),
    ("10.3", "state_of_another", checkpoint_that("one_state")),
    ("10.3", "number_of_forwards", checkpoint_that("runs_again")),
    ("10.3", "generator_moved", checkpoint_that("leaves_generator")),
]

LET_THROUGH = [("10.1", "no_action", counts_in_halves)]
