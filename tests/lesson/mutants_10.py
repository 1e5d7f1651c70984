"""Wrong solutions of lesson 10, each with the hint that must refuse it."""

import itertools

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from pllab.schedule import eager_one_f_one_b, gpipe, one_f_one_b
from tests.lesson import strangers_10 as strangers
from tests.lesson.variants_10 import dictionary, warm_up_turns_drain

# 10.1 one_f_one_b(num_stages, num_microbatches)


def forgets_to_return(p, m):
    rows = warm_up_turns_drain(p, m)
    rows.reverse()


def a_number(p, m):
    return p * m


def numbers_for_actions(p, m):
    return [[i for i in range(m)] for _ in range(p)]


def swapped_sizes(m, p):
    return warm_up_turns_drain(p, m)


def one_row_missing(p, m):
    return warm_up_turns_drain(p, m)[:-1]


def no_drain(p, m):
    return [row[: 2 * m - (p - s - 1)] for s, row in enumerate(warm_up_turns_drain(p, m))]


def no_last_forward(p, m):
    return [[action for action in row if action != f"F{m - 1}"] for row in warm_up_turns_drain(p, m)]


def drains_twice(p, m):
    return [[*row, f"B{m - 1}"] for row in warm_up_turns_drain(p, m)]


def counts_from_one(p, m):
    return [[f"{text[0]}{int(text[1:]) + 1}" for text in row] for row in warm_up_turns_drain(p, m)]


def backward_then_forward(p, m):
    def row(s):
        warm_up = min(m, p - s - 1)
        yield from (f"F{i}" for i in range(warm_up))
        for k in range(m - warm_up):
            yield from (f"B{k}", f"F{warm_up + k}")
        yield from (f"B{i}" for i in range(m - warm_up, m))

    return [row(s) for s in range(p)]


def longest_warm_up_at_the_end(p, m):
    return list(reversed(warm_up_turns_drain(p, m)))


def all_forwards_first(p, m):
    return gpipe(p, m)


def warm_up_one_too_long(p, m):
    rows = []
    for s in range(p):
        warm_up = min(m, p - s)
        row = [f"F{i}" for i in range(warm_up)]
        for k in range(m - warm_up):
            row += [f"F{warm_up + k}", f"B{k}"]
        rows.append(row + [f"B{i}" for i in range(m - warm_up, m)])
    return rows


def every_stage_like_the_first(p, m):
    rows = one_f_one_b(p, m).rows
    return [[f"{action.kind}{action.microbatch}" for action in rows[0]] for _ in range(p)]


def twice_the_warm_up(p, m):
    return eager_one_f_one_b(p, m)


def back_at_once_to_shrink_the_bubble(p, m):
    """The misconception: idle time at the start is the bubble, so a stage goes back as soon as it has been forward."""
    return [[f"{kind}{i}" for i in range(m) for kind in "FB"] for _ in range(p)]


def half_the_warm_up(p, m):
    rows = []
    for s in range(p):
        warm_up = min(m, (p - s - 1) // 2)
        row = [f"F{i}" for i in range(warm_up)]
        for k in range(m - warm_up):
            row += [f"F{warm_up + k}", f"B{k}"]
        rows.append(row + [f"B{i}" for i in range(m - warm_up, m)])
    return rows


def warm_up_longer_than_the_batch(p, m):
    rows = []
    for s in range(p):
        warm_up = p - s - 1
        row = [f"F{i}" for i in range(warm_up)]
        for k in range(m - warm_up):
            row += [f"F{warm_up + k}", f"B{k}"]
        rows.append(row + [f"B{i}" for i in range(m - warm_up, m)])
    return rows


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


def drains_from_the_end(p, m):
    rows = warm_up_turns_drain(p, m)
    return [row[: len(row) - (p - s - 1)] + row[: len(row) - (p - s) : -1] for s, row in enumerate(rows)]


def two_forwards_two_backwards(p, m):
    rows = []
    for s in range(p):
        warm_up = min(m, p - s - 1)
        row = [f"F{i}" for i in range(warm_up)]
        for k in range(0, m - warm_up, 2):
            pair = range(k, min(k + 2, m - warm_up))
            row += [*(f"F{warm_up + i}" for i in pair), *(f"B{i}" for i in pair)]
        rows.append(row + [f"B{i}" for i in range(m - warm_up, m)])
    return rows


def last_stage_warms_up_too(p, m):
    rows = warm_up_turns_drain(p, m)
    turns = [text for k in range(m - 1) for text in (f"F{k + 1}", f"B{k}")]
    return [*rows[:-1], ["F0", *turns, f"B{m - 1}"]]


def a_row_for_each_micro_batch(p, m):
    return [[f"{s}{kind}{i}" for kind in "FB" for s in range(p)] for i in range(m)]


def dots_for_the_bubble(p, m):
    return [["."] * s + row for s, row in enumerate(warm_up_turns_drain(p, m))]


def one_stage_as_gpipe(p, m):
    return gpipe(p, m) if p == 1 else warm_up_turns_drain(p, m)


def never_ends(p, m):
    return [(f"F{i}" for i in itertools.count()) for _ in range(p)]


# 10.2 run_row(row, stage, loss, inputs, targets)


def returns_nothing(row, stage, loss, inputs, targets):
    for _, kind, i in row:
        if kind == "B":
            (loss(stage(inputs[i]), targets[i]) / len(inputs)).backward()


def list_of_losses(row, stage, loss, inputs, targets):
    live, numbers = {}, []
    for _, kind, i in row:
        if kind == "F":
            live[i] = loss(stage(inputs[i]), targets[i]) / len(inputs)
            numbers.append(live[i].item())
        else:
            live.pop(i).backward()
    return numbers


def sums_the_losses(row, stage, loss, inputs, targets):
    live, total = {}, 0.0
    for _, kind, i in row:
        if kind == "F":
            live[i] = loss(stage(inputs[i]), targets[i])
            total += live[i].item()
        else:
            live.pop(i).backward()
    return total


def does_not_divide_the_gradients(row, stage, loss, inputs, targets):
    return sums_the_losses(row, stage, loss, inputs, targets) / len(inputs)


def last_loss(row, stage, loss, inputs, targets):
    live = {}
    for _, kind, i in row:
        if kind == "F":
            live[i] = loss(stage(inputs[i]), targets[i]) / len(inputs)
            number = live[i].item()
        else:
            live.pop(i).backward()
    return number


def never_goes_back(row, stage, loss, inputs, targets):
    return sum(loss(stage(inputs[i]), targets[i]).item() for _, kind, i in row if kind == "F") / len(inputs)


def zeroes_the_gradients(row, stage, loss, inputs, targets):
    live, total = {}, 0.0
    for _, kind, i in row:
        if kind == "F":
            live[i] = loss(stage(inputs[i]), targets[i]) / len(inputs)
            total += live[i].item()
        else:
            stage.zero_grad()
            live.pop(i).backward()
    return total


def puts_the_gradient(row, stage, loss, inputs, targets):
    live, total, weights = {}, 0.0, list(stage.parameters())
    for _, kind, i in row:
        if kind == "F":
            live[i] = loss(stage(inputs[i]), targets[i]) / len(inputs)
            total += live[i].item()
        else:
            for weight, grad in zip(weights, torch.autograd.grad(live.pop(i), weights), strict=True):
                weight.grad = grad
    return total


def divides_by_the_length_of_the_row(row, stage, loss, inputs, targets):
    live, total = {}, 0.0
    for _, kind, i in row:
        if kind == "F":
            live[i] = loss(stage(inputs[i]), targets[i])
            total += live[i].item() / len(inputs)
        else:
            (live.pop(i) / len(row)).backward()
    return total


def divides_the_number_again(row, stage, loss, inputs, targets):
    return dictionary(row, stage, loss, inputs, targets) / len(inputs)


def divides_the_gradients_again(row, stage, loss, inputs, targets):
    total = dictionary(row, stage, loss, inputs, targets)
    for weight in stage.parameters():
        weight.grad /= len(inputs)
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


def last_loss_back_first(row, stage, loss, inputs, targets):
    live, total = [], 0.0
    for _, kind, i in row:
        if kind == "F":
            live.append(loss(stage(inputs[i]), targets[i]) / len(inputs))
            total += live[-1].item()
        else:
            live.pop().backward()
    return total


def oldest_back_first(row, stage, loss, inputs, targets):
    """The misconception: a row is a queue. That is so under 1F1B and GPipe, and not in every row."""
    waiting, total = [], 0.0
    for _, kind, i in row:
        if kind == "F":
            waiting.append(loss(stage(inputs[i]), targets[i]) / len(inputs))
            total += waiting[-1].item()
        else:
            waiting.pop(0).backward()
    return total


def six_micro_batches(row, stage, loss, inputs, targets):
    return dictionary(row, stage, loss, inputs, targets) * len(inputs) / 6


def whole_batch_at_once(row, stage, loss, inputs, targets):
    value = loss(stage(torch.cat(inputs)), torch.cat(targets))
    value.backward()
    return value.item()


def one_backward_at_the_end(row, stage, loss, inputs, targets):
    total = sum(loss(stage(inputs[i]), targets[i]) for _, kind, i in row if kind == "F") / len(inputs)
    total.backward()
    return total.item()


def all_backwards_later(row, stage, loss, inputs, targets):
    losses = [loss(stage(inputs[i]), targets[i]) / len(inputs) for _, kind, i in row if kind == "F"]
    total = sum(value.item() for value in losses)
    while losses:
        losses.pop(0).backward()
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


def backward_right_after_forward(row, stage, loss, inputs, targets):
    total = 0.0
    for _, kind, i in row:
        if kind == "F":
            value = loss(stage(inputs[i]), targets[i]) / len(inputs)
            value.backward()
            total += value.item()
    return total


def retains_the_graph(row, stage, loss, inputs, targets):
    live, total = {}, 0.0
    for _, kind, i in row:
        if kind == "F":
            live[i] = loss(stage(inputs[i]), targets[i]) / len(inputs)
            total += live[i].item()
        else:
            live[i].backward(retain_graph=True)
    return total


def keeps_the_losses_for_the_log(row, stage, loss, inputs, targets):
    live, log = {}, []
    for _, kind, i in row:
        if kind == "F":
            live[i] = loss(stage(inputs[i]), targets[i]) / len(inputs)
            log.append(live[i])
        else:
            live.pop(i).backward()
    return sum(log).item()


def never_takes_them_out(row, stage, loss, inputs, targets):
    live, total = {}, 0.0
    for _, kind, i in row:
        if kind == "F":
            live[i] = loss(stage(inputs[i]), targets[i]) / len(inputs)
            total += live[i].item()
        else:
            live[i].backward()
    return total


def adds_tensors(row, stage, loss, inputs, targets):
    live, total = {}, 0.0
    for _, kind, i in row:
        if kind == "F":
            live[i] = loss(stage(inputs[i]), targets[i]) / len(inputs)
            total = total + live[i]
        else:
            live.pop(i).backward()
    return total.item()


def returns_the_tensor(row, stage, loss, inputs, targets):
    live, total = {}, 0.0
    for _, kind, i in row:
        if kind == "F":
            live[i] = loss(stage(inputs[i]), targets[i]) / len(inputs)
            total += live[i].item()
        else:
            last = live.pop(i)
            last.backward()
    return last + (total - last.item())


_LAST = {}


def leaves_the_last_in_a_global(row, stage, loss, inputs, targets):
    live, total = {}, 0.0
    for _, kind, i in row:
        if kind == "F":
            live[i] = loss(stage(inputs[i]), targets[i]) / len(inputs)
            total += live[i].item()
        else:
            _LAST["loss"] = live.pop(i)
            _LAST["loss"].backward()
    return total


# 10.3 checkpointed(stage, x)


def checkpoint_that(**how):  # noqa: C901 - one switch per mistake
    """A checkpointed stage with one thing done wrong."""

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, stage, x, *parameters):
            ctx.stage, ctx.count, ctx.state = stage, len(parameters), torch.get_rng_state()
            how.setdefault("states", {})["last"] = ctx.state
            how.setdefault("stacked", []).append(ctx.state)
            ctx.save_for_backward(x, *([x * 2] if how.get("saves_more") else []))
            if how.get("keeps_a_layer"):
                ctx.hidden = stage[0](x)
            output = stage(x)
            if how.get("keeps_the_output"):
                ctx.output = output.detach().clone()
            if how.get("state_of_the_end"):
                ctx.state = torch.get_rng_state()
            if how.get("forward_leaves_no_trace"):
                torch.set_rng_state(ctx.state)
            if how.get("runs_again"):
                torch.set_rng_state(ctx.state)
                output = stage(x)
            return output

        @staticmethod
        def backward(ctx, gradient):
            x = ctx.saved_tensors[0]
            leaf = x if how.get("attached") else x.detach().requires_grad_(x.requires_grad)
            before = torch.get_rng_state()
            if how.get("restores", True):
                state = how["states"]["last"] if how.get("one_state") else ctx.state
                torch.set_rng_state(how["stacked"].pop() if how.get("stack") else state)
            with torch.set_grad_enabled(not how.get("without_grad")):
                output = ctx.stage(leaf)
            if not how.get("leaves_generator"):
                torch.set_rng_state(before)
            own = [None] * ctx.count
            if how.get("twice"):
                own = list(torch.autograd.grad(output, list(ctx.stage.parameters()), gradient, retain_graph=True))
            torch.autograd.backward(output, gradient)
            if how.get("forgets_parameters"):
                ctx.stage.zero_grad()
            given = leaf.grad if leaf.is_leaf and not how.get("no_input_gradient") else None
            return None, gradient if how.get("passes_it_on") else given, *own

    def apply(stage, x):
        return Function.apply(stage, x, *([] if how.get("only_the_input") else stage.parameters()))

    return apply


def output_is_lost(stage, x):
    stage(x)


def a_tuple(stage, x):
    return (stage(x),)


def own_seed(stage, x):
    torch.manual_seed(0)
    return stage(x)


def without_a_graph(stage, x):
    with torch.no_grad():
        return stage(x)


def plain(stage, x):
    return stage(x)


def other_masks(stage, x):
    return checkpoint(stage, x, use_reentrant=False, preserve_rng_state=False)


def stored_as_numpy(stage, x):
    with saved_tensors_hooks(lambda kept: kept.detach().clone().numpy(), torch.from_numpy):
        return stage(x)


def _named(name, **how):
    made = checkpoint_that(**how)

    def solution(stage, x):
        return made(stage, x)

    solution.__name__ = name
    return solution


WRONG = [
    ("10.1", "nothing", forgets_to_return),
    ("10.1", "no_rows", a_number),
    ("10.1", "no_action", numbers_for_actions),
    ("10.1", "wrong_number_of_rows", swapped_sizes),
    ("10.1", "wrong_number_of_rows", one_row_missing),
    ("10.1", "never_drains", no_drain),
    ("10.1", "missing", no_last_forward),
    ("10.1", "duplicate", drains_twice),
    ("10.1", "outside", counts_from_one),
    ("10.1", "backward_first", backward_then_forward),
    ("10.1", "deadlock", longest_warm_up_at_the_end),
    ("10.1", "gpipe", all_forwards_first),
    ("10.1", "one_too_many", warm_up_one_too_long),
    ("10.1", "same_warm_up", every_stage_like_the_first),
    ("10.1", "too_many_held", twice_the_warm_up),
    ("10.1", "bubble_grows", back_at_once_to_shrink_the_bubble),
    ("10.1", "bubble_grows", half_the_warm_up),
    ("10.1", "backward_order", last_in_first_out),
    ("10.1", "backward_order", drains_from_the_end),
    ("10.1", "turns_of_two", two_forwards_two_backwards),
    ("10.1", "too_many_held", last_stage_warms_up_too),
    ("10.1", "wrong_number_of_rows", a_row_for_each_micro_batch),
    ("10.1", "no_action", dots_for_the_bubble),
    ("10.1", "few_batches", warm_up_longer_than_the_batch),
    ("10.1", "few_batches", raises_for_few),
    ("10.1", "one_stage", one_stage_as_gpipe),
    ("10.1", "endless", never_ends),
    ("10.2", "nothing", returns_nothing),
    ("10.2", "no_number", list_of_losses),
    ("10.2", "sum_for_mean", sums_the_losses),
    ("10.2", "sum_for_mean", does_not_divide_the_gradients),
    ("10.2", "wrong_loss", last_loss),
    ("10.2", "no_gradients", never_goes_back),
    ("10.2", "divided_twice", divides_the_number_again),
    ("10.2", "divided_twice", divides_the_gradients_again),
    ("10.2", "only_the_last", zeroes_the_gradients),
    ("10.2", "only_the_last", puts_the_gradient),
    ("10.2", "wrong_gradients", divides_by_the_length_of_the_row),
    ("10.2", "other_order", last_loss_back_first),
    ("10.2", "loss_kept", keeps_the_outputs),
    ("10.2", "first_in_first_out", oldest_back_first),
    ("10.2", "wrong_loss", six_micro_batches),
    ("10.2", "whole_batch", whole_batch_at_once),
    ("10.2", "late_backward", one_backward_at_the_end),
    ("10.2", "late_backward", all_backwards_later),
    ("10.2", "forward_again", forward_again_for_backward),
    ("10.2", "other_order", backward_right_after_forward),
    ("10.2", "activations_kept", retains_the_graph),
    ("10.2", "loss_kept", keeps_the_losses_for_the_log),
    ("10.2", "loss_kept", never_takes_them_out),
    ("10.2", "loss_kept", adds_tensors),
    ("10.2", "loss_with_graph", returns_the_tensor),
    ("10.2", "left_behind", leaves_the_last_in_a_global),
    ("10.2", "no_number", strangers.w2_tensor),
    ("10.3", "token_numbers", strangers.w3_always_grad),
    ("10.3", "frozen_weight", strangers.w3_frozen),
    ("10.3", "overwritten", strangers.w3_overwrites),
    ("10.3", "nothing", output_is_lost),
    ("10.3", "no_output", a_tuple),
    ("10.3", "other_output", own_seed),
    ("10.3", "no_graph", without_a_graph),
    ("10.3", "activations_kept", plain),
    ("10.3", "more_than_input", _named("saves_more", saves_more=True)),
    ("10.3", "more_than_input", _named("keeps_a_layer", keeps_a_layer=True)),
    ("10.3", "more_than_input", _named("keeps_the_output", keeps_the_output=True)),
    ("10.3", "more_than_input", stored_as_numpy),
    ("10.3", "generator_not_restored", _named("state_of_the_end", state_of_the_end=True)),
    ("10.3", "generator_not_restored", other_masks),
    ("10.3", "generator_put_back", _named("forward_leaves_no_trace", forward_leaves_no_trace=True)),
    ("10.3", "other_input_gradient", _named("passes_it_on", passes_it_on=True)),
    ("10.3", "no_graph_in_backward", _named("without_grad", without_grad=True)),
    ("10.3", "no_input_gradient", _named("no_input_gradient", no_input_gradient=True)),
    ("10.3", "no_parameter_gradient", _named("forgets_parameters", forgets_parameters=True)),
    ("10.3", "counted_twice", _named("twice", twice=True)),
    ("10.3", "not_detached", _named("attached", attached=True)),
    ("10.3", "no_graph_without_input_gradient", _named("only_the_input", only_the_input=True)),
    ("10.3", "generator_not_restored", _named("no_state", restores=False)),
    ("10.3", "state_of_another", _named("one_state", one_state=True)),
    ("10.3", "number_of_forwards", _named("runs_again", runs_again=True)),
    ("10.3", "state_of_another", _named("a_stack_of_states", stack=True)),
    ("10.3", "generator_moved", _named("leaves_generator", leaves_generator=True)),
]
