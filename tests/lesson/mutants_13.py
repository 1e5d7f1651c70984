"""Wrong solutions of lesson 13, each with the hint that must refuse it."""

import torch

from pllab.comm import all_gather_async, all_reduce, broadcast, rank, receive, reduce_scatter_async, send, world_size


def _named(name, make, **how):
    made = make(**how)

    def solution(*arguments):
        return made(*arguments)

    solution.__name__ = name
    return solution


# 13.1 sharded_adam(flat, gradient, state, lr)


def adam_that(**how):  # noqa: C901 - one switch per mistake
    """Moments of the own part in `state`, with one thing wrong."""
    elsewhere = {}

    def apply(flat, gradient, state, lr):  # noqa: C901
        size, me = world_size(), rank()
        c = len(flat) // size if how.get("rounds_down") else -(-len(flat) // size)
        mine = slice(0, None) if how.get("whole_state") else slice(me * c, (me + 1) * c)
        g = gradient[mine]
        if how.get("same_part"):
            g = gradient[:c]
        kept = elsewhere.setdefault((len(flat), size), {}) if how.get("elsewhere") else state
        if not kept or how.get("forgets"):
            kept.update(step=0, m=torch.zeros_like(g), v=torch.zeros_like(g))
        kept["step"] = 1 if how.get("counts_to_one") else kept["step"] + 1
        t = kept["step"]
        kept["m"] = 0.9 * kept["m"] + 0.1 * g
        kept["v"] = 0.999 * kept["v"] + 0.001 * (g if how.get("no_square") else g * g)
        m, v = kept["m"] / (1 - 0.9**t), kept["v"] / (1 - 0.999**t)
        if how.get("no_correction"):
            m, v = kept["m"], kept["v"]
        new = flat[mine] - lr * m / (v.sqrt() + (0.0 if how.get("no_epsilon") else 1e-8))
        if how.get("keeps_gradients"):
            kept["old"] = [*kept.get("old", []), gradient.repeat(3)]
        if how.get("whole_state"):
            new = new[me * c : (me + 1) * c]
        if how.get("not_gathered"):
            flat[mine] = new
            return None
        if how.get("sums"):
            whole = torch.zeros_like(flat)
            whole[me * c : me * c + len(new)] = new
            all_reduce(whole)
            flat.copy_(whole)
            return None
        if how.get("skips_empty") and not len(new):
            return None
        part = torch.zeros(c)
        part[: len(new)] = new
        whole = torch.empty(c * size)
        all_gather_async(whole, part).wait()
        if how.get("gathers_moments"):
            for _ in range(2):
                all_gather_async(torch.empty(c * size), torch.zeros(c)).wait()
        if how.get("returns_new"):
            return whole[: len(flat)]
        if how.get("new_memory"):
            flat.data = whole[: len(flat)]
            return None
        end = min(len(whole), len(flat))
        flat[:end] = whole[:end]
        return None

    return apply


# 13.2 shard_of_gradients(model)


def scatter_that(**how):  # noqa: C901 - one switch per mistake
    """One flat gradient, padded and scattered, with one thing wrong."""

    def apply(model):  # noqa: C901
        size, me = world_size(), rank()
        parameters = [p for p in model.parameters() if p.requires_grad or how.get("frozen_too")]
        if how.get("skips_none"):
            parameters = [p for p in parameters if p.grad is not None]
        if how.get("reverse"):
            parameters = parameters[::-1]
        pieces = [torch.zeros(p.numel()) if p.grad is None else p.grad.flatten() for p in parameters]
        if how.get("pads_each"):
            pieces = [torch.cat([each, torch.zeros(-len(each) % size)]) for each in pieces]
        flat = torch.cat(pieces)
        n, c = len(flat), -(-len(flat) // size)
        if how.get("rounds_down"):
            c = n // size
            flat = flat[: c * size]
        zeros = torch.zeros(c * size - len(flat))
        flat = torch.cat([zeros, flat] if how.get("pads_in_front") else [flat, zeros])
        if not how.get("keeps_gradients"):
            for p in parameters:
                p.grad = None
        if how.get("all_reduces"):
            all_reduce(flat)
            part = flat[me * c : (me + 1) * c]
            return part.div_(size) if how.get("view") else part / size
        if how.get("own_alone"):
            return flat[me * c : (me + 1) * c].clone()
        part = torch.empty(c)
        reduce_scatter_async(part, flat).wait()
        if how.get("sum"):
            return part
        if how.get("other_part"):
            whole = torch.empty(c * size)
            all_gather_async(whole, part).wait()
            return whole[:c] / size
        if how.get("literal"):
            return part / 2
        if how.get("view_of_flat"):
            flat[:c] = part / size
            return flat[:c]
        if how.get("without_padding"):
            part = part[: max(0, min(c, n - me * c))]
        return None if how.get("nothing") else part / size / (size if how.get("twice") else 1)

    return apply


# 13.3 train_units(units, shards, sizes, x)


def units_that(**how):  # noqa: C901 - one switch per mistake
    """Computes each unit again in backward, with one thing wrong."""

    def apply(units, shards, sizes, x):  # noqa: C901
        size, n = world_size(), len(units)

        def whole(u):
            flat = torch.empty(len(shards[u]) * size)
            all_gather_async(flat, shards[u]).wait()
            return flat if how.get("padding_too") else flat[: sizes[u]]

        def reduced(u, gradient):
            padded = torch.zeros(len(shards[u]) * size)
            padded[: sizes[u]] = gradient
            part = shards[u] if how.get("into_shards") else torch.empty_like(shards[u])
            if how.get("all_reduces") or how.get("view"):
                all_reduce(padded)
                part = padded[rank() * len(part) :][: len(part)]
                return part.div_(size) if how.get("view") else part / size
            if how.get("whole_gradient"):
                all_reduce(padded)
                return padded / size
            if how.get("own_alone"):
                return padded[rank() * len(part) :][: len(part)].clone()
            reduce_scatter_async(part, padded).wait()
            return part if how.get("sum") else part / size

        inputs, parts, kept = [], [None] * n, []
        first = [whole(u) for u in range(n)] if how.get("gathers_first") else []
        with torch.no_grad():
            for u, unit in enumerate(units):
                inputs.append(x)
                flat = first[u] if first else whole(u)
                x = unit(flat, x)
                if how.get("keeps_wholes"):
                    kept.append(flat)
        gradient, late = torch.ones_like(x), {}
        if how.get("loss_over_ranks"):
            all_reduce(x)
            x /= size
        for u in range(n) if how.get("forwards_again") else reversed(range(n)):
            flat = kept[u] if how.get("keeps_wholes") else whole(u)
            if how.get("gathers_thrice"):
                flat = whole(u)
            flat = flat.detach().requires_grad_()
            given = inputs[-1 if how.get("last_input") and u else u].detach().requires_grad_()
            if given.shape != inputs[u].shape:
                given = inputs[u].detach().requires_grad_()
            output = units[u](flat, given)
            if gradient.shape != output.shape:
                gradient = torch.ones_like(output)
            of_flat, of_x = torch.autograd.grad(output, (flat, given), gradient)
            if not how.get("ones_for_gradient"):
                gradient = of_x
            if how.get("late"):
                late[u] = of_flat
            else:
                parts[u] = reduced(u, of_flat)
            del output
        for u, of_flat in late.items():
            parts[u] = reduced(u, of_flat)
        return parts if how.get("no_loss") else (x, parts[::-1] if how.get("backwards") else parts)

    return apply


# 13.4 gather_state(model, part)


def state_that(**how):  # noqa: C901 - one switch per mistake
    """Parts to rank 0, cut there, with one thing wrong."""

    def apply(model, part):  # noqa: C901
        size, me, c = world_size(), rank(), len(part)
        if how.get("all_gather"):
            flat = torch.empty(c * size)
            all_gather_async(flat, part).wait()
        elif how.get("own_alone"):
            flat = torch.cat([part] * size)
        elif how.get("sums"):
            flat = torch.zeros(c * size)
            flat[me * c : (me + 1) * c] = part
            all_reduce(flat)
        else:
            if me and not how.get("nobody_sends"):
                send(part.repeat(2) if how.get("sends_twice") else part, 0)
            parts = [part] if me == 0 else []
            for source in range(1, size) if me == 0 else ():
                parts.append(torch.empty(c * (2 if how.get("sends_twice") else 1)))
                receive(parts[-1], source)
            parts = [each[:c] for each in parts]
            flat = torch.cat(parts[::-1] if how.get("other_order") else parts) if me == 0 else torch.zeros(c * size)
            if how.get("shares") and size == 1:
                flat = part
        if how.get("tells_all"):
            broadcast(flat, 0)
        if me and not how.get("everywhere"):
            return None
        named = dict(model.named_parameters(remove_duplicate=not how.get("tied")))
        if how.get("trained_only"):
            named = {name: p for name, p in named.items() if p.requires_grad}
        state, start, seen = {}, 0, {}
        for name, p in named.items():
            if id(p) in seen and how.get("tied") != "shifted":
                state[name] = state[seen[id(p)]]
                continue
            seen[id(p)] = name
            piece = flat[start : start + p.numel()]
            piece = piece if how.get("flat") else piece.view(p.shape)
            state[f"module.{name}" if how.get("prefix") else name] = piece if how.get("shares") else piece.clone()
            start += p.numel() - (1 if how.get("loses_one") and start else 0)
        if how.get("buffers_too"):
            state |= {name: buffer.clone() for name, buffer in model.named_buffers()}
        if how.get("list"):
            return list(state.values())
        return None if how.get("nothing") else state

    return apply


def the_models_own(model, part):
    """Fills the model and hands its tensors out."""
    state = state_that()(model, part)
    for name, p in model.named_parameters() if state else ():
        p.data.copy_(state[name])
    return {name: p.data for name, p in model.named_parameters()} if state else None


WRONG = [
    ("13.1", "not_in_place", _named("returns_new", adam_that, returns_new=True)),
    ("13.1", "not_gathered", _named("never_gathers", adam_that, not_gathered=True)),
    ("13.1", "not_gathered", _named("rounds_down", adam_that, rounds_down=True)),
    ("13.1", "whole_state", _named("whole_state", adam_that, whole_state=True)),
    ("13.1", "state_elsewhere", _named("state_in_a_closure", adam_that, elsewhere=True)),
    ("13.1", "state_forgotten", _named("forgets", adam_that, forgets=True)),
    ("13.1", "wrong", _named("no_correction", adam_that, no_correction=True)),
    ("13.1", "sends_too_much", _named("sums_for_gather", adam_that, sums=True)),
    ("13.1", "not_all_ranks", _named("skips_an_empty_part", adam_that, skips_empty=True)),
    ("13.2", "wrong", _named("no_part", scatter_that, nothing=True)),
    ("13.2", "sum_for_mean", _named("sum_for_mean", scatter_that, sum=True)),
    ("13.2", "wrong", _named("padding_cut_off", scatter_that, without_padding=True)),
    ("13.2", "wrong", _named("frozen_too", scatter_that, frozen_too=True)),
    ("13.2", "none_left_out", _named("skips_none", scatter_that, skips_none=True)),
    ("13.2", "gradients_left", _named("keeps_gradients", scatter_that, keeps_gradients=True)),
    ("13.2", "whole_kept", _named("view_of_the_flat", scatter_that, view_of_flat=True)),
    ("13.2", "sends_too_much", _named("all_reduce_and_a_copy", scatter_that, all_reduces=True)),
    ("13.3", "no_pair", _named("no_loss", units_that, no_loss=True)),
    ("13.3", "wrong", _named("loss_over_ranks", units_that, loss_over_ranks=True)),
    ("13.3", "sum_for_mean", _named("sum_of_gradients", units_that, sum=True)),
    ("13.3", "wrong", _named("own_gradient_alone", units_that, own_alone=True)),
    ("13.3", "raised", _named("padding_too", units_that, padding_too=True)),
    ("13.3", "gathered_ahead", _named("gathers_all_first", units_that, gathers_first=True)),
    ("13.3", "kept_whole", _named("keeps_wholes", units_that, keeps_wholes=True)),
    ("13.3", "late_reduction", _named("reduces_at_the_end", units_that, late=True)),
    ("13.3", "whole_gradient_kept", _named("view_of_the_sum", units_that, view=True)),
    ("13.3", "sends_too_much", _named("all_reduces_gradients", units_that, all_reduces=True)),
    ("13.4", "wrong", _named("nothing", state_that, nothing=True)),
    ("13.4", "wrong", _named("without_the_frozen", state_that, trained_only=True)),
    ("13.4", "tied_twice", _named("both_names", state_that, tied="both")),
    ("13.4", "not_only_0", _named("everywhere", state_that, all_gather=True, everywhere=True)),
    ("13.4", "everybody_gets_it", _named("by_all_gather", state_that, all_gather=True)),
    ("13.4", "sends_too_much", _named("sends_twice", state_that, sends_twice=True)),
    ("13.4", "shares_memory", the_models_own),
    ("13.4", "deadlock", _named("nobody_sends", state_that, nobody_sends=True)),
]

# Accepted once.
LET_THROUGH = [
    ("13.1", "whole_state", _named("keeps_gradients", adam_that, keeps_gradients=True)),
    ("13.1", "wrong", _named("no_epsilon", adam_that, no_epsilon=True)),
    ("13.1", "not_in_place", _named("new_memory", adam_that, new_memory=True)),
    ("13.3", "wrong", _named("sums_into_the_shards", units_that, into_shards=True)),
    ("13.4", "wrong", _named("buffers_too", state_that, buffers_too=True)),
]
