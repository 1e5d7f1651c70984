"""Wrong solutions of lesson 13, each with the hint that must refuse it."""

import torch

from pllab.comm import all_gather_async, all_reduce, rank, receive, reduce_scatter_async, send, world_size


def named(solution, how):
    """The solution, called after what it does wrong."""
    solution.__name__ = "_".join(how) or solution.__name__
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
        kept = elsewhere.setdefault((len(flat), size), {}) if how.get("elsewhere") else state
        if not kept or how.get("forgets"):
            kept.update(step=0, m=torch.zeros_like(g), v=torch.zeros_like(g))
        kept["step"] += 1
        t = kept["step"]
        kept["m"] = 0.9 * kept["m"] + 0.1 * g
        kept["v"] = 0.999 * kept["v"] + 0.001 * g * g
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
        if how.get("unpadded"):
            all_gather_async(torch.empty_like(flat), new).wait()
            return None
        if how.get("skips_empty") and not len(new):
            return None
        part = torch.zeros(c)
        part[: len(new)] = new
        whole = torch.empty(c * size)
        all_gather_async(whole, part).wait()
        if how.get("returns_new"):
            return whole[: len(flat)]
        if how.get("new_memory"):
            flat.data = whole[: len(flat)]
            return None
        end = min(len(whole), len(flat))
        flat[:end] = whole[:end]
        return None

    return named(apply, how)


# 13.2 shard_of_gradients(model)


def scatter_that(**how):  # noqa: C901 - one switch per mistake
    """One flat gradient, padded and scattered, with one thing wrong."""

    def apply(model):
        size, me = world_size(), rank()
        parameters = [p for p in model.parameters() if p.requires_grad or how.get("frozen_too")]
        if how.get("skips_none"):
            parameters = [p for p in parameters if p.grad is not None]
        pieces = [torch.zeros(p.numel()) if p.grad is None else p.grad.flatten() for p in parameters]
        flat = torch.cat(pieces)
        n, c = len(flat), -(-len(flat) // size)
        flat = torch.cat([flat, torch.zeros(c * size - n)])
        if not how.get("keeps_gradients"):
            for p in parameters:
                p.grad = None
        if how.get("all_reduces"):
            all_reduce(flat)
            return flat[me * c : (me + 1) * c] / size
        part = torch.empty(c)
        reduce_scatter_async(part, flat).wait()
        if how.get("sum"):
            return part
        if how.get("view_of_flat"):
            flat[:c] = part / size
            return flat[:c]
        if how.get("without_padding"):
            part = part[: max(0, min(c, n - me * c))]
        return None if how.get("nothing") else part / size

    return named(apply, how)


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
        for u in reversed(range(n)):
            flat = (kept[u] if how.get("keeps_wholes") else whole(u)).detach().requires_grad_()
            given = inputs[u].detach().requires_grad_()
            output = units[u](flat, given)
            of_flat, gradient = torch.autograd.grad(output, (flat, given), gradient)
            if how.get("late"):
                late[u] = of_flat
            else:
                parts[u] = reduced(u, of_flat)
            del output
        for u, of_flat in late.items():
            parts[u] = reduced(u, of_flat)
        return parts if how.get("no_loss") else (x, parts)

    return named(apply, how)


# 13.4 gather_state(model, part)


def state_that(**how):  # noqa: C901 - one switch per mistake
    """Parts to rank 0, cut there, with one thing wrong."""

    def apply(model, part):  # noqa: C901
        size, me, c = world_size(), rank(), len(part)
        flat = torch.empty(c * size)
        if how.get("all_gather"):
            all_gather_async(flat, part).wait()
        elif me == 0:
            parts = [part]
            for source in range(1, size):
                parts.append(torch.empty(c * (2 if how.get("sends_twice") else 1)))
                receive(parts[-1], source)
            flat = torch.cat([each[:c] for each in parts])
        elif not how.get("nobody_sends"):
            send(part.repeat(2) if how.get("sends_twice") else part, 0)
        if me and not how.get("everywhere"):
            return None
        state, start, seen = {}, 0, {}
        for name, p in model.named_parameters(remove_duplicate=not how.get("both_names")):
            if how.get("trained_only") and not p.requires_grad:
                continue
            if id(p) in seen:
                state[name] = state[seen[id(p)]]
                continue
            seen[id(p)] = name
            state[name] = flat[start : start + p.numel()].view(p.shape).clone()
            start += p.numel()
        if how.get("buffers_too"):
            state |= {name: buffer.clone() for name, buffer in model.named_buffers()}
        return None if how.get("nothing") else state

    return named(apply, how)


def the_models_own(model, part):
    """Fills the model and hands its tensors out."""
    state = state_that()(model, part)
    for name, p in model.named_parameters() if state else ():
        p.data.copy_(state[name])
    return {name: p.data for name, p in model.named_parameters()} if state else None


WRONG = [
    ("13.1", "not_in_place", adam_that(returns_new=True)),
    ("13.1", "not_gathered", adam_that(not_gathered=True)),
    ("13.1", "not_gathered", adam_that(rounds_down=True)),
    ("13.1", "whole_state", adam_that(whole_state=True)),
    ("13.1", "state_elsewhere", adam_that(elsewhere=True)),
    ("13.1", "state_forgotten", adam_that(forgets=True)),
    ("13.1", "wrong", adam_that(no_correction=True)),
    ("13.1", "sends_too_much", adam_that(sums=True)),
    ("13.1", "not_all_ranks", adam_that(skips_empty=True)),
    ("13.2", "wrong", scatter_that(nothing=True)),
    ("13.2", "sum_for_mean", scatter_that(sum=True)),
    ("13.2", "wrong", scatter_that(without_padding=True)),
    ("13.2", "wrong", scatter_that(frozen_too=True)),
    ("13.2", "none_left_out", scatter_that(skips_none=True)),
    ("13.2", "gradients_left", scatter_that(keeps_gradients=True)),
    ("13.2", "whole_kept", scatter_that(view_of_flat=True)),
    ("13.2", "sends_too_much", scatter_that(all_reduces=True)),
    ("13.3", "no_pair", units_that(no_loss=True)),
    ("13.3", "wrong", units_that(loss_over_ranks=True)),
    ("13.3", "sum_for_mean", units_that(sum=True)),
    ("13.3", "wrong", units_that(own_alone=True)),
    ("13.3", "raised", units_that(padding_too=True)),
    ("13.3", "gathered_ahead", units_that(gathers_first=True)),
    ("13.3", "kept_whole", units_that(keeps_wholes=True)),
    ("13.3", "late_reduction", units_that(late=True)),
    ("13.3", "whole_gradient_kept", units_that(view=True)),
    ("13.3", "sends_too_much", units_that(all_reduces=True)),
    ("13.4", "wrong", state_that(nothing=True)),
    ("13.4", "wrong", state_that(trained_only=True)),
    ("13.4", "tied_twice", state_that(both_names=True)),
    ("13.4", "not_only_0", state_that(all_gather=True, everywhere=True)),
    ("13.4", "everybody_gets_it", state_that(all_gather=True)),
    ("13.4", "sends_too_much", state_that(sends_twice=True)),
    ("13.4", "shares_memory", the_models_own),
    ("13.4", "deadlock", state_that(nobody_sends=True)),
    ("13.1", "raised", adam_that(unpadded=True)),
]

# Accepted once.
LET_THROUGH = [
    ("13.1", "whole_state", adam_that(keeps_gradients=True)),
    ("13.1", "wrong", adam_that(no_epsilon=True)),
    ("13.1", "not_in_place", adam_that(new_memory=True)),
    ("13.3", "wrong", units_that(into_shards=True)),
    ("13.4", "wrong", state_that(buffers_too=True)),
]
