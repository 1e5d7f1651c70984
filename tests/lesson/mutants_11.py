"""Wrong solutions of lesson 11, each with the hint that must refuse it."""

import torch

from pllab.schedule import Action, Kind, breadth_first, one_f_one_b, zb_h2

# 11.1 halves(inputs, weights, grad)


def _walk(weights, grad):
    arrived = [grad]
    for weight in reversed(weights[1:]):
        arrived.insert(0, arrived[0] @ weight)
    return arrived


def returns_nothing(inputs, weights, grad):
    _walk(weights, grad)


def weights_behind_a_function(inputs, weights, grad):
    arrived = _walk(weights, grad)
    made = [g.T @ x for g, x in zip(arrived, inputs, strict=True)]
    return arrived[0] @ weights[0], lambda: made


def looks_up_too_late(inputs, weights, grad):
    later = []
    for x, weight in zip(reversed(inputs), reversed(weights), strict=True):
        later.insert(0, lambda x=x: grad.T @ x)  # noqa: B023 - the bug
        grad = grad @ weight
    return grad, lambda: [half() for half in later]


def stops_at_the_output_of_the_first(inputs, weights, grad):
    arrived = _walk(weights, grad)
    return arrived[0], lambda: [g.T @ x for g, x in zip(arrived, inputs, strict=True)]


def forward_again(inputs, weights, grad):
    arrived = _walk(weights, grad)
    y = inputs[0]
    for weight in weights[:-1]:
        y = y @ weight.T
    return arrived[0] @ weights[0], lambda: [g.T @ x for g, x in zip(arrived, inputs, strict=True)]


def overwrites(inputs, weights, grad):
    arrived = [g.clone() for g in _walk(weights, grad)]
    grad.zero_()
    return arrived[0] @ weights[0], lambda: [g.T @ x for g, x in zip(arrived, inputs, strict=True)]


def sets_and_returns_nothing(inputs, weights, grad):
    arrived = _walk(weights, grad)

    def weight_half():
        for g, x, weight in zip(arrived, inputs, weights, strict=True):
            weight.grad = g.T @ x

    return arrived[0] @ weights[0], weight_half


def last_first(inputs, weights, grad):
    arrived = _walk(weights, grad)
    return arrived[0] @ weights[0], lambda: [g.T @ x for g, x in zip(arrived, inputs, strict=True)][::-1]


def transposed(inputs, weights, grad):
    arrived = _walk(weights, grad)
    return arrived[0] @ weights[0], lambda: [x.T @ g for g, x in zip(arrived, inputs, strict=True)]


_KEPT = {}


def in_a_global(inputs, weights, grad):
    _KEPT["arrived"], _KEPT["inputs"] = _walk(weights, grad), inputs
    dx = _KEPT["arrived"][0] @ weights[0]
    return dx, lambda: [g.T @ x for g, x in zip(_KEPT["arrived"], _KEPT["inputs"], strict=True)]


def into_grad(inputs, weights, grad):
    arrived = _walk(weights, grad)

    def weight_half():
        for g, x, weight in zip(arrived, inputs, weights, strict=True):
            weight.grad = g.T @ x + (0 if weight.grad is None else weight.grad)
        return [weight.grad for weight in weights]

    return arrived[0] @ weights[0], weight_half


def into_one_buffer(inputs, weights, grad):
    arrived = _walk(weights, grad)

    def weight_half():
        for g, x, weight in zip(arrived, inputs, weights, strict=True):
            weight.buffer = getattr(weight, "buffer", torch.empty_like(weight))
            torch.mm(g.T, x, out=weight.buffer)
        return [weight.buffer for weight in weights]

    return arrived[0] @ weights[0], weight_half


def binds_nothing(inputs, weights, grad):
    later = []
    for x, weight in zip(reversed(inputs), reversed(weights), strict=True):
        arrived = grad
        later.insert(0, lambda: arrived.T @ x)  # noqa: B023 - the bug
        grad = grad @ weight
    return grad, lambda: [half() for half in later]


def takes_the_list_apart(inputs, weights, grad):
    arrived = []
    while weights:
        arrived.insert(0, grad)
        grad = grad @ weights.pop()
    return grad, lambda: [g.T @ x for g, x in zip(arrived, inputs, strict=True)]


def takes_the_list_apart_later(inputs, weights, grad):
    arrived = _walk(weights, grad)
    return arrived[0] @ weights[0], lambda: [g.T @ inputs.pop(0) for g in arrived]


def uses_up_what_it_returned(inputs, weights, grad):
    arrived = _walk(weights, grad)
    dx = arrived[0] @ weights[0]

    def weight_half():
        dx.zero_()
        return [g.T @ x for g, x in zip(arrived, inputs, strict=True)]

    return dx, weight_half


# 11.2 interleaved(num_ranks, num_microbatches, stages_per_rank)


def _passes(kind, stages, m, group):
    return [
        Action(stage, kind, i)
        for start in range(0, m, group)
        for stage in stages
        for i in range(start, min(start + group, m))
    ]


def _row(forwards, backwards, warm_up):
    warm_up = min(warm_up, len(forwards))
    pairs = zip(forwards[warm_up:], backwards, strict=False)
    return [*forwards[:warm_up], *(a for pair in pairs for a in pair), *backwards[len(forwards) - warm_up :]]


def _rows(p, m, v, warm_up=None, group=None, ordered=reversed):
    """The right rows, with `warm_up(rank)` forwards before the first backward."""
    rows = []
    for r in range(p):
        stages = list(range(r, p * v, p))
        forwards = _passes(Kind.F, stages, m, group or p)
        backwards = _passes(Kind.B, list(ordered(stages)), m, group or p)
        rows.append(_row(forwards, backwards, warm_up(r) if warm_up else 2 * (p - r - 1) + (v - 1) * p))
    return rows


def forgets_to_return(p, m, v):
    print(_rows(p, m, v))  # noqa: T201 - the bug


def row_per_stage(p, m, v):
    return one_f_one_b(p * v, m)


def same_order_back(p, m, v):
    return _rows(p, m, v, ordered=list)


def warm_up_of_1f1b(p, m, v):
    return _rows(p, m, v, lambda r: 2 * (p - r - 1))


def one_at_a_time_round(p, m, v):
    """All stages of one micro-batch, then the next; runs, and waits for every round."""
    stages = range(p * v)
    rows = [[] for _ in range(p)]
    for i in range(m):
        for stage in stages:
            rows[stage % p].append(Action(stage, Kind.F, i))
    for i in range(m):
        for stage in reversed(stages):
            rows[stage % p].append(Action(stage, Kind.B, i))
    return rows


def groups_of_v(p, m, v):
    return _rows(p, m, v, group=v)


def one_forward_too_many(p, m, v):
    return _rows(p, m, v, lambda r: 2 * (p - r - 1) + (v - 1) * p + 1)


def same_warm_up_everywhere(p, m, v):
    return _rows(p, m, v, lambda _: 2 * (p - 1) + (v - 1) * p)


def all_forwards_first(p, m, v):
    return breadth_first([*range(p)] * v, m)


def half_the_warm_up(p, m, v):
    """As short as it can be where messages are free."""
    return _rows(p, m, v, lambda r: p - r - 1 + (v - 1) * p)


def more_warm_up_than_forwards(p, m, v):
    if 2 * (p - 1) + (v - 1) * p > m * v:
        raise IndexError("no such forward")
    return _rows(p, m, v)


# 11.3 fill(num_ranks, num_microbatches)


def _late_row(rank, m, warm_up, delay):
    warm_up = min(warm_up, m)
    row = [Action(rank, Kind.F, i) for i in range(warm_up)]
    for i in range(m):
        if i + warm_up < m:
            row.append(Action(rank, Kind.F, i + warm_up))
        row.append(Action(rank, Kind.I, i))
        if i >= delay:
            row.append(Action(rank, Kind.W, i - delay))
    return [*row, *(Action(rank, Kind.W, i) for i in range(max(0, m - delay), m))]


def writes_no_rows(p, m):
    print(p, m)  # noqa: T201 - the bug


def whole_1f1b(p, m):
    return one_f_one_b(p, m)


def weight_then_input(p, m):
    rows = []
    for r in range(p):
        row = _late_row(r, m, p - r - 1, 0)
        rows.append(
            [row[k + 1] if a.kind is Kind.I else row[k - 1] if a.kind is Kind.W else a for k, a in enumerate(row)]
        )
    return rows


def split_and_nothing_else(p, m):
    return [_late_row(r, m, p - r - 1, 0) for r in range(p)]


def all_at_the_end(p, m):
    return [sorted(_late_row(r, m, p - r - 1, r), key=lambda action: action.kind is Kind.W) for r in range(p)]


def first_rank_waits_longest(p, m):
    return [_late_row(r, m, p - r - 1, p - r - 1) for r in range(p)]


def one_too_few(p, m):
    return [_late_row(r, m, p - r - 1, max(0, r - 1)) for r in range(p)]


def of_zb_h2(p, m):
    return zb_h2(p, m)


WRONG = [
    ("11.1", "no_pair", returns_nothing),
    ("11.1", "weights_too_early", weights_behind_a_function),
    ("11.1", "wrong_weight_gradient", looks_up_too_late),
    ("11.1", "wrong_input_gradient", stops_at_the_output_of_the_first),
    ("11.1", "twice", forward_again),
    ("11.1", "overwritten", overwrites),
    ("11.1", "no_pair", sets_and_returns_nothing),
    ("11.1", "reversed", last_first),
    ("11.1", "transposed", transposed),
    ("11.1", "mixed_up", in_a_global),
    ("11.1", "adds_up", into_grad),
    ("11.1", "overwritten", into_one_buffer),
    ("11.1", "late_binding", binds_nothing),
    ("11.2", "no_action", forgets_to_return),
    ("11.2", "wrong_actions", row_per_stage),
    ("11.2", "chunk_order", same_order_back),
    ("11.2", "deadlock", warm_up_of_1f1b),
    ("11.2", "wrong_group", one_at_a_time_round),
    ("11.2", "wrong_group", groups_of_v),
    ("11.2", "holds_too_many", one_forward_too_many),
    ("11.2", "long_bubble", same_warm_up_everywhere),
    ("11.2", "wrong_group", all_forwards_first),
    ("11.2", "short_warm_up", half_the_warm_up),
    ("11.2", "raised", more_warm_up_than_forwards),
    ("11.3", "no_action", writes_no_rows),
    ("11.3", "wrong_actions", whole_1f1b),
    ("11.3", "deadlock", weight_then_input),
    ("11.3", "weights_at_once", split_and_nothing_else),
    ("11.3", "weights_too_late", all_at_the_end),
    ("11.3", "wrong_end", first_rank_waits_longest),
    ("11.3", "too_long", one_too_few),
    ("11.3", "warm_up_too_long", of_zb_h2),
]

# Accepted once.
LET_THROUGH = [
    ("11.1", "overwritten", takes_the_list_apart),
    ("11.1", "overwritten", takes_the_list_apart_later),
    ("11.1", "overwritten", uses_up_what_it_returned),
]
