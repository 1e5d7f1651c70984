"""Solutions of lesson 11 by somebody who read the lesson alone."""

# ruff: noqa: B006, B023, B905, C901, E501

import functools
from itertools import zip_longest

import torch
from torch.nn import functional


# ---------------------------------------------------------------- 11.1
def halves_list(inputs, weights, grad):
    arrived = []
    for weight in reversed(weights):
        arrived.append(grad)
        grad = grad @ weight
    arrived.reverse()

    def later():
        return [g.T @ x for g, x in zip(arrived, inputs)]

    return grad, later


class _Rest:
    def __init__(self):
        self.arrived = {}

    def __call__(self):
        return tuple(torch.mm(self.arrived[k].t(), x) for k, x in sorted(self.arrived_inputs.items()))


def halves_class(inputs, weights, grad):
    rest = _Rest()
    rest.arrived_inputs = dict(enumerate(inputs))
    for k in range(len(weights) - 1, -1, -1):
        rest.arrived[k] = grad
        grad = functional.linear(grad, weights[k].t())
    return grad, rest


def halves_recursive(inputs, weights, grad):
    if not weights:
        return grad, lambda: []
    below, rest = halves_recursive(inputs[:-1], weights[:-1], torch.matmul(grad, weights[-1]))
    return below, lambda: rest() + [torch.matmul(grad.mT, inputs[-1])]


def halves_einsum(inputs, weights, grad):
    todo = []
    for x, weight in zip(reversed(inputs), reversed(weights)):
        todo.insert(0, functools.partial(torch.einsum, "bo,bi->oi", grad, x))
        grad = torch.einsum("bo,oi->bi", grad, weight)
    return grad, lambda: [make() for make in todo]


def halves_eager(inputs, weights, grad):
    dws = []
    for x, weight in zip(reversed(inputs), reversed(weights)):
        dws.insert(0, grad.T @ x)
        grad = grad @ weight
    return grad, lambda: dws


def halves_eager_last(inputs, weights, grad):
    last = grad.T @ inputs[-1]
    arrived = []
    for weight in reversed(weights):
        arrived.insert(0, grad)
        grad = grad @ weight
    return grad, lambda: [g.T @ x for g, x in zip(arrived[:-1], inputs)] + [last]


def halves_backward_order(inputs, weights, grad):
    arrived = []
    for weight in reversed(weights):
        arrived.append(grad)
        grad = grad @ weight
    return grad, lambda: [g.T @ x for g, x in zip(arrived, reversed(inputs))]


def halves_walk_again(inputs, weights, grad):
    dx = grad
    for weight in reversed(weights):
        dx = dx @ weight

    def later():
        g, dws = grad, []
        for x, weight in zip(reversed(inputs), reversed(weights)):
            dws.insert(0, g.T @ x)
            g = g @ weight
        return dws

    return dx, later


def halves_late_binding(inputs, weights, grad):
    todo = []
    for x, weight in zip(reversed(inputs), reversed(weights)):
        arrived = grad
        todo.insert(0, lambda: arrived.T @ x)
        grad = grad @ weight
    return grad, lambda: [make() for make in todo]


def halves_mutable_default(inputs, weights, grad, arrived=[]):
    arrived.clear()
    for weight in reversed(weights):
        arrived.insert(0, grad)
        grad = grad @ weight
    return grad, lambda: [g.T @ x for g, x in zip(arrived, inputs)]


def halves_wrong_transpose(inputs, weights, grad):
    arrived = []
    for weight in reversed(weights):
        arrived.insert(0, grad)
        grad = grad @ weight
    return grad, lambda: [x.T @ g for g, x in zip(arrived, inputs)]


def halves_stops_early(inputs, weights, grad):
    arrived = [grad]
    for weight in weights[:0:-1]:
        arrived.insert(0, arrived[0] @ weight)
    return arrived[0], lambda: [g.T @ x for g, x in zip(arrived, inputs)]


def halves_autograd(inputs, weights, grad):
    x = inputs[0].detach().requires_grad_()
    own = [w.detach().requires_grad_() for w in weights]
    y = x
    for w in own:
        y = y @ w.T
    (dx,) = torch.autograd.grad(y, x, grad, retain_graph=True)
    return dx, lambda: list(torch.autograd.grad(y, own, grad))


def halves_accumulating(inputs, weights, grad):
    arrived = []
    for weight in reversed(weights):
        arrived.insert(0, grad)
        grad = grad @ weight

    def later():
        for w, g, x in zip(weights, arrived, inputs):
            dw = g.T @ x
            w.grad = dw if w.grad is None else w.grad + dw
        return [w.grad for w in weights]

    return grad, later


def halves_on_weight(inputs, weights, grad):
    # remembers what arrived on the weight itself: the next micro-batch overwrites it
    for weight in reversed(weights):
        weight.arrived = grad
        grad = grad @ weight
    return grad, lambda: [weight.arrived.T @ x for weight, x in zip(weights, inputs)]


def halves_into_grad(inputs, weights, grad):
    # adds in place to one tensor for each weight, and hands that same tensor out
    arrived = []
    for weight in reversed(weights):
        arrived.insert(0, grad)
        grad = grad @ weight

    def later():
        for w, g, x in zip(weights, arrived, inputs):
            if w.grad is None:
                w.grad = torch.zeros_like(w)
            w.grad += g.T @ x
        return [w.grad for w in weights]

    return grad, later


# ---------------------------------------------------------------- 11.2
def _two_lists(r, p, m, v):
    f = [f"{c * p + r}F{i}" for g in range(0, m, p) for c in range(v) for i in range(g, g + p)]
    b = [f"{c * p + r}B{i}" for g in range(0, m, p) for c in reversed(range(v)) for i in range(g, g + p)]
    return f, b


def inter_lists(num_ranks, num_microbatches, stages_per_rank):
    p, m, v = num_ranks, num_microbatches, stages_per_rank
    rows = []
    for r in range(p):
        f, b = _two_lists(r, p, m, v)
        warm = min(len(f), p * (v - 1) + 2 * (p - 1 - r))
        row = f[:warm]
        for one, other in zip(f[warm:], b):
            row += [one, other]
        row += b[len(f) - warm :]
        rows.append(row)
    return rows


def inter_megatron(num_ranks, num_microbatches, stages_per_rank):
    p, m, v = num_ranks, num_microbatches, stages_per_rank
    total = m * v

    def act(r, k, kind):
        group, inside = divmod(k, p * v)
        chunk, i = divmod(inside, p)
        if kind == "B":
            chunk = v - 1 - chunk
        return f"{chunk * p + r}{kind}{group * p + i}"

    rows = []
    for r in range(p):
        warm = min((p - r - 1) * 2 + (v - 1) * p, total)
        row = [act(r, k, "F") for k in range(warm)]
        for k in range(total - warm):
            row.append(act(r, k + warm, "F"))
            row.append(act(r, k, "B"))
        row.extend(act(r, k, "B") for k in range(total - warm, total))
        rows.append(row)
    return rows


def inter_sorted(num_ranks, num_microbatches, stages_per_rank):
    p = num_ranks
    rows = []
    for r in range(p):
        pairs = [(c, i) for c in range(stages_per_rank) for i in range(num_microbatches)]
        ups = iter(sorted(pairs, key=lambda t: (t[1] // p, t[0], t[1])))
        downs = iter(sorted(pairs, key=lambda t: (t[1] // p, -t[0], t[1])))
        row, lead = [], 0
        warm = p * (stages_per_rank - 1) + 2 * (p - 1 - r) + 1
        for c, i in ups:
            row.append(f"{c * p + r}F{i}")
            lead += 1
            if lead == warm:
                c, i = next(downs)
                row.append(f"{c * p + r}B{i}")
                lead -= 1
        for c, i in downs:
            row.append(f"{c * p + r}B{i}")
        rows.append(row)
    return rows


def inter_short_warm(num_ranks, num_microbatches, stages_per_rank):
    p, m, v = num_ranks, num_microbatches, stages_per_rank
    rows = []
    for r in range(p):
        f, b = _two_lists(r, p, m, v)
        warm = min(len(f), p * (v - 1) + (p - 1 - r))
        row = f[:warm]
        for one, other in zip(f[warm:], b):
            row += [one, other]
        rows.append(row + b[len(f) - warm :])
    return rows


def inter_short_middle(num_ranks, num_microbatches, stages_per_rank):
    p, m, v = num_ranks, num_microbatches, stages_per_rank
    rows = []
    for r in range(p):
        f, b = _two_lists(r, p, m, v)
        warm = min(len(f), p * (v - 1) + (2 * (p - 1) if r == 0 else p - 1 - r))
        row = f[:warm]
        for one, other in zip(f[warm:], b):
            row += [one, other]
        rows.append(row + b[len(f) - warm :])
    return rows


def inter_long_warm(num_ranks, num_microbatches, stages_per_rank):
    p, m, v = num_ranks, num_microbatches, stages_per_rank
    rows = []
    for r in range(p):
        f, b = _two_lists(r, p, m, v)
        warm = min(len(f), p * (v - 1) + 2 * (p - 1 - r) + 1)
        row = f[:warm]
        for one, other in zip(f[warm:], b):
            row += [one, other]
        rows.append(row + b[len(f) - warm :])
    return rows


def inter_no_cap(num_ranks, num_microbatches, stages_per_rank):
    p, m, v = num_ranks, num_microbatches, stages_per_rank
    rows = []
    for r in range(p):
        f, b = _two_lists(r, p, m, v)
        warm = p * (v - 1) + 2 * (p - 1 - r)
        row = [f[k] for k in range(warm)]
        for k in range(len(f) - warm):
            row += [f[warm + k], b[k]]
        rows.append(row + b[len(f) - warm :])
    return rows


def inter_no_cap_slices(num_ranks, num_microbatches, stages_per_rank):
    # with more warm-up than forwards, len(f) - warm is negative: b[-1:] loses backwards
    p, m, v = num_ranks, num_microbatches, stages_per_rank
    rows = []
    for r in range(p):
        f, b = _two_lists(r, p, m, v)
        warm = p * (v - 1) + 2 * (p - 1 - r)
        row = f[:warm]
        for one, other in zip(f[warm:], b):
            row += [one, other]
        rows.append(row + b[len(f) - warm :])
    return rows


def inter_same_direction(num_ranks, num_microbatches, stages_per_rank):
    p, m, v = num_ranks, num_microbatches, stages_per_rank
    rows = []
    for r in range(p):
        f, _ = _two_lists(r, p, m, v)
        b = [each.replace("F", "B") for each in f]
        warm = min(len(f), p * (v - 1) + 2 * (p - 1 - r))
        row = f[:warm]
        for one, other in zip(f[warm:], b):
            row += [one, other]
        rows.append(row + b[len(f) - warm :])
    return rows


def inter_depth_first(num_ranks, num_microbatches, stages_per_rank):
    p, m, v = num_ranks, num_microbatches, stages_per_rank
    rows = []
    for r in range(p):
        f = [f"{c * p + r}F{i}" for c in range(v) for i in range(m)]
        b = [f"{c * p + r}B{i}" for c in reversed(range(v)) for i in range(m)]
        warm = min(len(f), m * (v - 1) + 2 * (p - 1 - r))
        row = f[:warm]
        for one, other in zip(f[warm:], b):
            row += [one, other]
        rows.append(row + b[len(f) - warm :])
    return rows


def inter_contiguous(num_ranks, num_microbatches, stages_per_rank):
    p, m, v = num_ranks, num_microbatches, stages_per_rank
    rows = []
    for r in range(p):
        f = [f"{r * v + c}F{i}" for g in range(0, m, p) for c in range(v) for i in range(g, g + p)]
        b = [f"{r * v + c}B{i}" for g in range(0, m, p) for c in reversed(range(v)) for i in range(g, g + p)]
        warm = min(len(f), p * (v - 1) + 2 * (p - 1 - r))
        row = f[:warm]
        for one, other in zip(f[warm:], b):
            row += [one, other]
        rows.append(row + b[len(f) - warm :])
    return rows


def inter_plain_for_one(num_ranks, num_microbatches, stages_per_rank):
    # "with one stage a rank this is 1F1B"
    p, m, v = num_ranks, num_microbatches, stages_per_rank
    rows = []
    for r in range(p):
        f, b = _two_lists(r, p, m, v)
        warm = p - 1 - r if v == 1 else min(len(f), p * (v - 1) + 2 * (p - 1 - r))
        row = f[:warm]
        for one, other in zip(f[warm:], b):
            row += [one, other]
        rows.append(row + b[len(f) - warm :])
    return rows


def inter_two_stages(num_ranks, num_microbatches, stages_per_rank):
    p, m, v = num_ranks, num_microbatches, 2
    rows = []
    for r in range(p):
        f, b = _two_lists(r, p, m, v)
        warm = min(len(f), p + 2 * (p - 1 - r))
        row = f[:warm]
        for one, other in zip(f[warm:], b):
            row += [one, other]
        rows.append(row + b[len(f) - warm :])
    return rows


def inter_groups_of_v(num_ranks, num_microbatches, stages_per_rank):
    # groups of v micro-batches in place of p: right where p == v
    p, m, v = num_ranks, num_microbatches, stages_per_rank
    rows = []
    for r in range(p):
        f = [f"{c * p + r}F{i}" for g in range(0, m, v) for c in range(v) for i in range(g, min(m, g + v))]
        b = [f"{c * p + r}B{i}" for g in range(0, m, v) for c in reversed(range(v)) for i in range(g, min(m, g + v))]
        warm = min(len(f), p * (v - 1) + 2 * (p - 1 - r))
        row = f[:warm]
        for one, other in zip(f[warm:], b):
            row += [one, other]
        rows.append(row + b[len(f) - warm :])
    return rows


def inter_backward_first(num_ranks, num_microbatches, stages_per_rank):
    # in turn, but a backward and then a forward
    p, m, v = num_ranks, num_microbatches, stages_per_rank
    rows = []
    for r in range(p):
        f, b = _two_lists(r, p, m, v)
        warm = min(len(f), max(1, p * (v - 1) + 2 * (p - 1 - r)))
        row = f[:warm]
        for one, other in zip_longest(b, f[warm:]):
            row += [one] + ([other] if other else [])
        rows.append(row)
    return rows


def inter_last_in_first_out(num_ranks, num_microbatches, stages_per_rank):
    p, m, v = num_ranks, num_microbatches, stages_per_rank
    rows = []
    for r in range(p):
        f, _ = _two_lists(r, p, m, v)
        b = [f"{c * p + r}B{i}" for g in range(0, m, p) for c in reversed(range(v)) for i in reversed(range(g, g + p))]
        warm = min(len(f), p * (v - 1) + 2 * (p - 1 - r))
        row = f[:warm]
        for one, other in zip(f[warm:], b):
            row += [one, other]
        rows.append(row + b[len(f) - warm :])
    return rows


def inter_all_forwards_if_equal(num_ranks, num_microbatches, stages_per_rank):
    # Megatron's special case: m == p, then all forwards first
    p, m, v = num_ranks, num_microbatches, stages_per_rank
    rows = []
    for r in range(p):
        f, b = _two_lists(r, p, m, v)
        warm = len(f) if m == p else min(len(f), p * (v - 1) + 2 * (p - 1 - r))
        row = f[:warm]
        for one, other in zip(f[warm:], b):
            row += [one, other]
        rows.append(row + b[len(f) - warm :])
    return rows


# ---------------------------------------------------------------- 11.3
def fill_hint(num_ranks, num_microbatches):
    p, m = num_ranks, num_microbatches
    rows = []
    for r in range(p):
        row = [f"{r}F{i}" for i in range(p - 1 - r)]
        for i in range(m):
            if i + p - 1 - r < m:
                row.append(f"{r}F{i + p - 1 - r}")
            row.append(f"{r}I{i}")
            if i >= r:
                row.append(f"{r}W{i - r}")
        row += [f"{r}W{i}" for i in range(m - r, m)]
        rows.append(row)
    return rows


def fill_queue(num_ranks, num_microbatches):
    from collections import deque

    rows = []
    for r in range(num_ranks):
        row, waiting, forward = [], deque(), 0
        warm = num_ranks - r
        for back in range(num_microbatches):
            while forward < min(back + warm, num_microbatches):
                row.append(f"{r}F{forward}")
                forward += 1
            row.append(f"{r}I{back}")
            waiting.append(back)
            if len(waiting) > r:
                row.append(f"{r}W{waiting.popleft()}")
        while waiting:
            row.append(f"{r}W{waiting.popleft()}")
        rows.append(row)
    return rows


def fill_stack(num_ranks, num_microbatches):
    """As in 1F1B, but whole turns; W's are taken newest first, r of them left over."""
    p, m = num_ranks, num_microbatches
    rows = []
    for r in range(p):
        plan = ["F"] * (p - 1 - r) + ["F", "I"] * (m - (p - 1 - r)) + ["I"] * (p - 1 - r)
        row, nxt, stack = [], {"F": 0, "I": 0}, []
        for kind in plan:
            i = nxt[kind]
            nxt[kind] += 1
            row.append(f"{r}{kind}{i}")
            if kind == "I":
                stack.append(i)
                if len(stack) > r:
                    row.append(f"{r}W{stack.pop()}")
        rows.append(row + [f"{r}W{i}" for i in reversed(stack)])
    return rows


def fill_lazy(num_ranks, num_microbatches):
    """A W only when the next F has no room, and all the rest at the end."""
    p, m = num_ranks, num_microbatches
    rows = []
    for r in range(p):
        plan = ["F"] * (p - 1 - r) + ["F", "I"] * (m - (p - 1 - r)) + ["I"] * (p - 1 - r)
        row, n, held = [], {"F": 0, "I": 0, "W": 0}, 0.0
        for kind in plan:
            while kind == "F" and held + 1 > p:
                row.append(f"{r}W{n['W']}")
                n["W"] += 1
                held -= 0.5
            row.append(f"{r}{kind}{n[kind]}")
            n[kind] += 1
            held += 1 if kind == "F" else -0.5
        rows.append(row + [f"{r}W{i}" for i in range(n["W"], m)])
    return rows


def _fill(p, m, put_off, warm=lambda p, r: p - 1 - r):
    rows = []
    for r in range(p):
        k, d = warm(p, r), put_off(p, r)
        row = [f"{r}F{i}" for i in range(min(k, m))]
        for i in range(m):
            if i + k < m:
                row.append(f"{r}F{i + k}")
            row.append(f"{r}I{i}")
            if i >= d:
                row.append(f"{r}W{i - d}")
        row += [f"{r}W{i}" for i in range(max(0, m - d), m)]
        rows.append(row)
    return rows


def fill_not_put_off(num_ranks, num_microbatches):
    return _fill(num_ranks, num_microbatches, lambda p, r: 0)


def fill_all_at_end(num_ranks, num_microbatches):
    return _fill(num_ranks, num_microbatches, lambda p, r: num_microbatches)


def fill_other_way_round(num_ranks, num_microbatches):
    return _fill(num_ranks, num_microbatches, lambda p, r: p - 1 - r)


def fill_put_off_one(num_ranks, num_microbatches):
    return _fill(num_ranks, num_microbatches, lambda p, r: min(r, 1))


def fill_put_off_too_far(num_ranks, num_microbatches):
    return _fill(num_ranks, num_microbatches, lambda p, r: 2 * r + 1 if r else 0)


def fill_one_less(num_ranks, num_microbatches):
    # right up to three ranks: the last of four puts off by two
    return _fill(num_ranks, num_microbatches, lambda p, r: min(r, 2))


def fill_long_warm(num_ranks, num_microbatches):
    return _fill(num_ranks, num_microbatches, lambda p, r: r, lambda p, r: p - r)


def fill_last_warms_up(num_ranks, num_microbatches):
    return _fill(num_ranks, num_microbatches, lambda p, r: r, lambda p, r: max(1, p - 1 - r))


def fill_forgets_rest(num_ranks, num_microbatches):
    rows = []
    for row in fill_hint(num_ranks, num_microbatches):
        while row and "W" in row[-1] and "W" in row[-2]:
            row = row[:-1]
        rows.append(row)
    return rows


def fill_w_before_i(num_ranks, num_microbatches):
    p, m = num_ranks, num_microbatches
    rows = []
    for r in range(p):
        row = [f"{r}F{i}" for i in range(p - 1 - r)]
        for i in range(m):
            if i + p - 1 - r < m:
                row.append(f"{r}F{i + p - 1 - r}")
            if i > r:
                row.append(f"{r}W{i - r - 1}")
            row.append(f"{r}I{i}")
        row += [f"{r}W{i}" for i in range(m - r - 1, m)]
        rows.append(row)
    return rows


def fill_w_when_drained(num_ranks, num_microbatches):
    # W behind the next F: holds half a micro-batch more at that moment
    p, m = num_ranks, num_microbatches
    rows = []
    for r in range(p):
        row, pending = [f"{r}F{i}" for i in range(p - 1 - r)], []
        for i in range(m):
            if i + p - 1 - r < m:
                row.append(f"{r}F{i + p - 1 - r}")
            row += pending
            row.append(f"{r}I{i}")
            pending = [f"{r}W{i - r}"] if i >= r else []
        row += pending + [f"{r}W{i}" for i in range(m - r, m)]
        rows.append(row)
    return rows


RIGHT = [
    ("11.1", halves_list),
    ("11.1", halves_class),
    ("11.1", halves_recursive),
    ("11.1", halves_einsum),
    ("11.2", inter_lists),
    ("11.2", inter_megatron),
    ("11.2", inter_sorted),
    ("11.2", inter_all_forwards_if_equal),
    ("11.3", fill_hint),
    ("11.3", fill_queue),
    ("11.3", fill_stack),
]
WRONG = [
    ("11.1", halves_eager, "weight gradients made at once"),
    ("11.1", halves_eager_last, "one weight product too early"),
    ("11.1", halves_backward_order, "weights' gradients in reverse order"),
    ("11.1", halves_walk_again, "chain computed twice"),
    ("11.1", halves_late_binding, "closures see the last layer"),
    ("11.1", halves_mutable_default, "micro-batches share one list"),
    ("11.1", halves_wrong_transpose, "weight gradient transposed"),
    ("11.1", halves_stops_early, "gradient of last layer's input... one short"),
    ("11.1", halves_autograd, "forward again, products twice"),
    ("11.1", halves_accumulating, "adds up over micro-batches"),
    ("11.1", halves_on_weight, "kept on the shared weight"),
    ("11.1", halves_into_grad, "same tensor for all micro-batches"),
    ("11.2", inter_short_warm, "warm-up covers one message"),
    ("11.2", inter_short_middle, "middle ranks warm up short"),
    ("11.2", inter_long_warm, "one forward too many held"),
    ("11.2", inter_no_cap, "IndexError where m equals p"),
    ("11.2", inter_no_cap_slices, "backwards lost where m equals p"),
    ("11.2", inter_same_direction, "backward stages not reversed"),
    ("11.2", inter_depth_first, "all micro-batches per stage"),
    ("11.2", inter_contiguous, "contiguous stages on a rank"),
    ("11.2", inter_plain_for_one, "plain 1F1B for one stage"),
    ("11.2", inter_two_stages, "two stages a rank always"),
    ("11.2", inter_groups_of_v, "groups of v, not p"),
    ("11.2", inter_backward_first, "backward before forward in turn"),
    ("11.2", inter_last_in_first_out, "backwards of a group reversed"),
    ("11.3", fill_lazy, "W only when room is needed"),
    ("11.3", fill_not_put_off, "W right behind its I"),
    ("11.3", fill_all_at_end, "all W's at the end"),
    ("11.3", fill_other_way_round, "first rank puts off most"),
    ("11.3", fill_put_off_one, "put off by one at most"),
    ("11.3", fill_one_less, "put off by two at most"),
    ("11.3", fill_put_off_too_far, "put off too far, memory"),
    ("11.3", fill_long_warm, "one forward too many"),
    ("11.3", fill_last_warms_up, "last rank warms up too"),
    ("11.3", fill_forgets_rest, "left-over W's forgotten"),
    ("11.3", fill_w_before_i, "W holds up an I"),
    ("11.3", fill_w_when_drained, "W between F and I"),
]
