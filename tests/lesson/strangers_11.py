"""Solutions of lesson 11 by somebody who read the lesson alone."""

# ruff: noqa: B006, B023, B905, C901, E501

import functools

import torch
from torch.nn import functional

from tests.lesson.variants_11 import texts_by_rank

# ---------------------------------------------------------------- 11.1


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


def halves_einsum(inputs, weights, grad):
    todo = []
    for x, weight in zip(reversed(inputs), reversed(weights)):
        todo.insert(0, functools.partial(torch.einsum, "bo,bi->oi", grad, x))
        grad = torch.einsum("bo,oi->bi", grad, weight)
    return grad, lambda: [make() for make in todo]


# ---------------------------------------------------------------- 11.2


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


def inter_all_forwards_if_equal(num_ranks, num_microbatches, stages_per_rank):
    # Megatron's special case: m == p, then all forwards first
    all_first = num_microbatches == num_ranks
    return texts_by_rank(num_ranks, num_microbatches, stages_per_rank, all_first)


# ---------------------------------------------------------------- 11.3


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


RIGHT = {
    "11.1": [halves_class, halves_einsum],
    "11.2": [inter_megatron, inter_sorted, inter_all_forwards_if_equal],
    "11.3": [fill_queue, fill_stack],
}
