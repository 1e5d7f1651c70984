"""Wrong solutions of lesson 13, each with the hint that must refuse it."""

import torch

from pllab.comm import all_gather_async, all_reduce, rank, receive, reduce_scatter_async, send, world_size
from tests.lesson.judge import with_switches

# 13.1 sharded_adam(flat, gradient, state, lr)


_ELSEWHERE = {}


@with_switches
def adam_that(mistakes, flat, gradient, state, lr):  # noqa: C901 - one switch per mistake
    """Moments of the own part in `state`, with one thing wrong."""
    size, me = world_size(), rank()
    c = len(flat) // size if "rounds_down" in mistakes else -(-len(flat) // size)
    mine = slice(0, None) if "whole_state" in mistakes else slice(me * c, (me + 1) * c)
    g = gradient[mine]
    kept = _ELSEWHERE.setdefault((len(flat), size), {}) if "elsewhere" in mistakes else state
    if not kept or "forgets" in mistakes:
        kept.update(step=0, m=torch.zeros_like(g), v=torch.zeros_like(g))
    kept["step"] += 1
    t = kept["step"]
    kept["m"] = 0.9 * kept["m"] + 0.1 * g
    kept["v"] = 0.999 * kept["v"] + 0.001 * g * g
    m, v = kept["m"] / (1 - 0.9**t), kept["v"] / (1 - 0.999**t)
    if "no_correction" in mistakes:
        m, v = kept["m"], kept["v"]
    new = flat[mine] - lr * m / (v.sqrt() + (0.0 if "no_epsilon" in mistakes else 1e-8))
    if "keeps_gradients" in mistakes:
        kept["old"] = [*kept.get("old", []), gradient.repeat(3)]
    if "whole_state" in mistakes:
        new = new[me * c : (me + 1) * c]
    if "not_gathered" in mistakes:
        flat[mine] = new
        return None
    if "sums" in mistakes:
        whole = torch.zeros_like(flat)
        whole[me * c : me * c + len(new)] = new
        all_reduce(whole)
        flat.copy_(whole)
        return None
    if "unpadded" in mistakes:
        all_gather_async(flat, new).wait()
        return None
    if "skips_empty" in mistakes and not len(new):
        return None
    part = torch.zeros(c)
    part[: len(new)] = new
    whole = torch.empty(c * size)
    all_gather_async(whole, part).wait()
    if "returns_new" in mistakes:
        return whole[: len(flat)]
    if "new_memory" in mistakes:
        flat.data = whole[: len(flat)]
        return None
    end = min(len(whole), len(flat))
    flat[:end] = whole[:end]
    return None


# 13.2 shard_of_gradients(model)


@with_switches
def scatter_that(mistakes, model):  # noqa: C901 - one switch per mistake
    """One flat gradient, padded and scattered, with one thing wrong."""
    size, me = world_size(), rank()
    parameters = [p for p in model.parameters() if p.requires_grad or "frozen_too" in mistakes]
    if "skips_none" in mistakes:
        parameters = [p for p in parameters if p.grad is not None]
    pieces = [torch.zeros(p.numel()) if p.grad is None else p.grad.flatten() for p in parameters]
    flat = torch.cat(pieces)
    n, c = len(flat), -(-len(flat) // size)
    flat = torch.cat([flat, torch.zeros(c * size - n)])
    if "keeps_gradients" not in mistakes:
        for p in parameters:
            p.grad = None
    if "all_reduces" in mistakes:
        all_reduce(flat)
        return flat[me * c : (me + 1) * c] / size
    part = torch.empty(c)
    reduce_scatter_async(part, flat).wait()
    if "sum" in mistakes:
        return part
    if "view_of_flat" in mistakes:
        flat[:c] = part / size
        return flat[:c]
    if "without_padding" in mistakes:
        part = part[: max(0, min(c, n - me * c))]
    return None if "nothing" in mistakes else part / size


# 13.3 train_units(units, shards, sizes, x)


@with_switches
def units_that(mistakes, units, shards, sizes, x):  # noqa: C901 - one switch per mistake
    """Computes each unit again in backward, with one thing wrong."""
    size, n = world_size(), len(units)

    def whole(u):
        flat = torch.empty(len(shards[u]) * size)
        all_gather_async(flat, shards[u]).wait()
        return flat if "padding_too" in mistakes else flat[: sizes[u]]

    def reduced(u, gradient):
        padded = torch.zeros(len(shards[u]) * size)
        padded[: sizes[u]] = gradient
        part = shards[u] if "into_shards" in mistakes else torch.empty_like(shards[u])
        if "all_reduces" in mistakes or "view" in mistakes:
            all_reduce(padded)
            part = padded[rank() * len(part) :][: len(part)]
            return part.div_(size) if "view" in mistakes else part / size
        if "own_alone" in mistakes:
            return padded[rank() * len(part) :][: len(part)].clone()
        reduce_scatter_async(part, padded).wait()
        return part if "sum" in mistakes else part / size

    inputs, parts, kept = [], [None] * n, []
    first = [whole(u) for u in range(n)] if "gathers_first" in mistakes else []
    with torch.no_grad():
        for u, unit in enumerate(units):
            inputs.append(x)
            flat = first[u] if first else whole(u)
            x = unit(flat, x)
            if "keeps_wholes" in mistakes:
                kept.append(flat)
    gradient, late = torch.ones_like(x), {}
    if "loss_over_ranks" in mistakes:
        all_reduce(x)
        x /= size
    for u in reversed(range(n)):
        flat = (kept[u] if "keeps_wholes" in mistakes else whole(u)).detach().requires_grad_()
        given = inputs[u].detach().requires_grad_()
        output = units[u](flat, given)
        of_flat, gradient = torch.autograd.grad(output, (flat, given), gradient)
        if "late" in mistakes:
            late[u] = of_flat
        else:
            parts[u] = reduced(u, of_flat)
        del output
    for u, of_flat in late.items():
        parts[u] = reduced(u, of_flat)
    return parts if "no_loss" in mistakes else (x, parts)


# 13.4 gather_state(model, part)


@with_switches
def state_that(mistakes, model, part):  # noqa: C901 - one switch per mistake
    """Parts to rank 0, cut there, with one thing wrong."""
    size, me, c = world_size(), rank(), len(part)
    flat = torch.empty(c * size)
    if "all_gather" in mistakes:
        all_gather_async(flat, part).wait()
    elif me == 0:
        parts = [part]
        for source in range(1, size):
            parts.append(torch.empty(c * (2 if "sends_twice" in mistakes else 1)))
            receive(parts[-1], source)
        flat = torch.cat([each[:c] for each in parts])
    elif "nobody_sends" not in mistakes:
        send(part.repeat(2) if "sends_twice" in mistakes else part, 0)
    if me and "everywhere" not in mistakes:
        return None
    state, start, seen = {}, 0, {}
    for name, p in model.named_parameters(remove_duplicate="both_names" not in mistakes):
        if "trained_only" in mistakes and not p.requires_grad:
            continue
        if id(p) in seen:
            state[name] = state[seen[id(p)]]
            continue
        seen[id(p)] = name
        state[name] = flat[start : start + p.numel()].view(p.shape).clone()
        start += p.numel()
    if "buffers_too" in mistakes:
        state |= {name: buffer.clone() for name, buffer in model.named_buffers()}
    return None if "nothing" in mistakes else state


def the_models_own(model, part):
    """Fills the model and hands its tensors out."""
    state = state_that()(model, part)
    for name, p in model.named_parameters() if state else ():
        p.data.copy_(state[name])
    return {name: p.data for name, p in model.named_parameters()} if state else None


WRONG = [
    ("13.1", "not_in_place", adam_that("returns_new")),
    ("13.1", "not_gathered", adam_that("not_gathered")),
    ("13.1", "not_gathered", adam_that("rounds_down")),
    ("13.1", "whole_state", adam_that("whole_state")),
    ("13.1", "state_elsewhere", adam_that("elsewhere")),
    ("13.1", "state_forgotten", adam_that("forgets")),
    ("13.1", "wrong", adam_that("no_correction")),
    ("13.1", "sends_too_much", adam_that("sums")),
    ("13.1", "not_all_ranks", adam_that("skips_empty")),
    ("13.1", "raised", adam_that("unpadded")),
    ("13.2", "wrong", scatter_that("nothing")),
    ("13.2", "sum_for_mean", scatter_that("sum")),
    ("13.2", "wrong", scatter_that("without_padding")),
    ("13.2", "wrong", scatter_that("frozen_too")),
    ("13.2", "none_left_out", scatter_that("skips_none")),
    ("13.2", "gradients_left", scatter_that("keeps_gradients")),
    ("13.2", "whole_kept", scatter_that("view_of_flat")),
    ("13.2", "sends_too_much", scatter_that("all_reduces")),
    ("13.3", "no_pair", units_that("no_loss")),
    ("13.3", "wrong", units_that("loss_over_ranks")),
    ("13.3", "sum_for_mean", units_that("sum")),
    ("13.3", "wrong", units_that("own_alone")),
    ("13.3", "raised", units_that("padding_too")),
    ("13.3", "gathered_ahead", units_that("gathers_first")),
    ("13.3", "kept_whole", units_that("keeps_wholes")),
    ("13.3", "late_reduction", units_that("late")),
    ("13.3", "whole_gradient_kept", units_that("view")),
    ("13.3", "sends_too_much", units_that("all_reduces")),
    ("13.4", "wrong", state_that("nothing")),
    ("13.4", "wrong", state_that("trained_only")),
    ("13.4", "tied_twice", state_that("both_names")),
    ("13.4", "not_only_0", state_that("all_gather", "everywhere")),
    ("13.4", "everybody_gets_it", state_that("all_gather")),
    ("13.4", "sends_too_much", state_that("sends_twice")),
    ("13.4", "shares_memory", the_models_own),
    ("13.4", "deadlock", state_that("nobody_sends")),
]

# Accepted once.
LET_THROUGH = [
    ("13.1", "whole_state", adam_that("keeps_gradients")),
    ("13.1", "wrong", adam_that("no_epsilon")),
    ("13.1", "not_in_place", adam_that("new_memory")),
    ("13.3", "wrong", units_that("into_shards")),
    ("13.4", "wrong", state_that("buffers_too")),
]
