"""Wrong solutions of lesson 11, each with the hint that must refuse it."""

from itertools import count

import torch

from pllab.schedule import Action, Kind, breadth_first, gpipe, one_f_one_b, split_backwards, zb_h2
from pllab.schedule import interleaved as package_interleaved

# 11.1 halves(inputs, weights, grad)


def _walk(weights, grad):
    arrived = [grad]
    for weight in reversed(weights[1:]):
        arrived.insert(0, arrived[0] @ weight)
    return arrived


def returns_nothing(inputs, weights, grad):
    _walk(weights, grad)


def input_alone(inputs, weights, grad):
    return _walk(weights, grad)[0] @ weights[0]


def weights_at_once(inputs, weights, grad):
    arrived = _walk(weights, grad)
    return arrived[0] @ weights[0], [g.T @ x for g, x in zip(arrived, inputs, strict=True)]


def weights_behind_a_function(inputs, weights, grad):
    arrived = _walk(weights, grad)
    made = [g.T @ x for g, x in zip(arrived, inputs, strict=True)]
    return arrived[0] @ weights[0], lambda: made


def weights_without_a_matrix_product(inputs, weights, grad):
    """The sum over rows of outer products is the same gradient, and no product is counted."""
    arrived = _walk(weights, grad)
    made = [(g.unsqueeze(2) * x.unsqueeze(1)).sum(0) for g, x in zip(arrived, inputs, strict=True)]
    return arrived[0] @ weights[0], lambda: made


def last_weight_at_once(inputs, weights, grad):
    arrived, last = _walk(weights, grad), grad.T @ inputs[-1]
    return arrived[0] @ weights[0], lambda: [
        *(g.T @ x for g, x in zip(arrived[:-1], inputs[:-1], strict=True)),
        last,
    ]


def looks_up_too_late(inputs, weights, grad):
    later = []
    for x, weight in zip(reversed(inputs), reversed(weights), strict=True):
        later.insert(0, lambda x=x: grad.T @ x)  # noqa: B023 - the bug
        grad = grad @ weight
    return grad, lambda: [half() for half in later]


def stops_at_the_output_of_the_first(inputs, weights, grad):
    arrived = _walk(weights, grad)
    return arrived[0], lambda: [g.T @ x for g, x in zip(arrived, inputs, strict=True)]


def zeros(inputs, weights, grad):
    return _walk(weights, grad)[0] @ weights[0], lambda: [torch.zeros_like(weight) for weight in weights]


def whole_autograd(inputs, weights, grad):
    x = inputs[0].clone().requires_grad_()
    leaves = [weight.clone().requires_grad_() for weight in weights]
    y = x
    for leaf in leaves:
        y = y @ leaf.T
    dx, *dw = torch.autograd.grad(y, [x, *leaves], grad)
    return dx, lambda: dw


def forward_again(inputs, weights, grad):
    arrived = _walk(weights, grad)
    y = inputs[0]
    for weight in weights[:-1]:
        y = y @ weight.T
    return arrived[0] @ weights[0], lambda: [g.T @ x for g, x in zip(arrived, inputs, strict=True)]


def last_layer_only(inputs, weights, grad):
    arrived = _walk(weights, grad)
    return grad @ weights[-1], lambda: [g.T @ x for g, x in zip(arrived, inputs, strict=True)]


def of_the_columns(inputs, weights, grad):
    arrived = _walk(weights, grad)
    return (arrived[0] @ weights[0]).T, lambda: [g.T @ x for g, x in zip(arrived, inputs, strict=True)]


def not_transposed_back(inputs, weights, grad):
    arrived = _walk(weights, grad)
    last = arrived[0]
    return (last @ weights[0].T if last.shape[1] == weights[0].shape[1] else last @ weights[0]), lambda: [
        g.T @ x for g, x in zip(arrived, inputs, strict=True)
    ]


def overwrites(inputs, weights, grad):
    arrived = [g.clone() for g in _walk(weights, grad)]
    grad.zero_()
    return arrived[0] @ weights[0], lambda: [g.T @ x for g, x in zip(arrived, inputs, strict=True)]


def walks_again(inputs, weights, grad):
    dx = _walk(weights, grad)[0] @ weights[0]
    return dx, lambda: [g.T @ x for g, x in zip(_walk(weights, grad), inputs, strict=True)]


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


def over_the_rows(inputs, weights, grad):
    arrived = _walk(weights, grad)
    return arrived[0] @ weights[0], lambda: [g.T @ x / len(x) for g, x in zip(arrived, inputs, strict=True)]


def without_the_last(inputs, weights, grad):
    arrived = _walk(weights, grad)
    return arrived[0] @ weights[0], lambda: [g.T @ x for g, x in zip(arrived[:-1], inputs, strict=False)]


def twice_the_gradient(inputs, weights, grad):
    arrived = _walk(weights, grad)
    return arrived[0] @ weights[0], lambda: [2 * g.T @ x for g, x in zip(arrived, inputs, strict=True)]


_KEPT = {}


def in_a_global(inputs, weights, grad):
    _KEPT["arrived"], _KEPT["inputs"] = _walk(weights, grad), inputs
    dx = _KEPT["arrived"][0] @ weights[0]
    return dx, lambda: [g.T @ x for g, x in zip(_KEPT["arrived"], _KEPT["inputs"], strict=True)]


def on_the_weight(inputs, weights, grad):
    for weight in reversed(weights):
        weight.arrived, grad = grad, grad @ weight
    return grad, lambda: [weight.arrived.T @ x for weight, x in zip(weights, inputs, strict=True)]


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


def forward_again_by_autograd(inputs, weights, grad):
    x, leaves = inputs[0].clone().requires_grad_(), [weight.clone().requires_grad_() for weight in weights]
    y = x
    for leaf in leaves:
        y = y @ leaf.T
    (dx,) = torch.autograd.grad(y, x, grad, retain_graph=True)
    return dx, lambda: torch.autograd.grad(y, leaves, grad)


def binds_nothing(inputs, weights, grad):
    later = []
    for x, weight in zip(reversed(inputs), reversed(weights), strict=True):
        arrived = grad
        later.insert(0, lambda: arrived.T @ x)  # noqa: B023 - the bug
        grad = grad @ weight
    return grad, lambda: [half() for half in later]


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


def _rows(p, m, v, group=None, more=0, ordered=reversed):
    rows = []
    for r in range(p):
        stages = list(range(r, p * v, p))
        forwards = _passes(Kind.F, stages, m, group or p)
        backwards = _passes(Kind.B, list(ordered(stages)), m, group or p)
        rows.append(_row(forwards, backwards, max(0, 2 * (p - r - 1) + (v - 1) * p + more)))
    return rows


def forgets_to_return(p, m, v):
    print(_rows(p, m, v))  # noqa: T201 - the bug


def counts_rows(p, m, v):
    return p


def flat(p, m, v):
    return [action for row in _rows(p, m, v) for action in row]


def microbatch_first(p, m, v):
    return [[f"{kind}{stage}.{i}" for stage, kind, i in row] for row in _rows(p, m, v)]


def row_per_stage(p, m, v):
    return one_f_one_b(p * v, m)


def ignores_the_chunks(p, m, v):
    return one_f_one_b(p, m)


def neighbours_on_a_rank(p, m, v):
    home = {stage: stage // v for stage in range(p * v)}
    rows = [[] for _ in range(p)]
    for i in range(m):
        for stage in range(p * v):
            rows[home[stage]].append(Action(stage, Kind.F, i))
    for i in range(m):
        for stage in reversed(range(p * v)):
            rows[home[stage]].append(Action(stage, Kind.B, i))
    return rows


def wound_back(p, m, v):
    """Every second round of stages goes back, as in a V."""
    schedule = package_interleaved(p, m, v)
    rows = [[] for _ in range(p)]
    for action in schedule.actions():
        turn, place = divmod(action.stage, p)
        rows[place if turn % 2 == 0 else p - 1 - place].append(action)
    return rows


def never_drains(p, m, v):
    return [row[: len(row) - (p - r - 1)] if r < p - 1 else row for r, row in enumerate(_rows(p, m, v))]


def one_micro_batch_short(p, m, v):
    return [[action for action in row if action.microbatch < m - 1] for row in _rows(p, m, v)]


def drains_twice(p, m, v):
    return [[*row, row[-1]] for row in _rows(p, m, v)]


def same_order_back(p, m, v):
    return _rows(p, m, v, ordered=list)


def warm_up_of_1f1b(p, m, v):
    return _rows(p, m, v, more=-(v - 1) * p) if v > 1 else _rows(p, m, v)


def backward_first(p, m, v):
    """One and one in the other order: each backward before the forward it should follow."""
    rows = []
    for row in _rows(p, m, v):
        swapped = list(row)
        for place in range(len(row) - 1):
            if row[place].kind is Kind.F and row[place + 1].kind is Kind.B:
                swapped[place], swapped[place + 1] = row[place + 1], row[place]
        rows.append(swapped)
    return rows


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


def groups_of_all(p, m, v):
    return _rows(p, m, v, group=m)


def groups_of_v(p, m, v):
    return _rows(p, m, v, group=v)


def one_forward_too_many(p, m, v):
    return _rows(p, m, v, more=1)


def one_forward_too_few(p, m, v):
    return _rows(p, m, v, more=-1)


def same_warm_up_everywhere(p, m, v):
    rows = []
    for r in range(p):
        stages = list(range(r, p * v, p))
        forwards, backwards = _passes(Kind.F, stages, m, p), _passes(Kind.B, stages[::-1], m, p)
        rows.append(_row(forwards, backwards, 2 * (p - 1) + (v - 1) * p))
    return rows


def waits_before_each_round(p, m, v):
    """Forward and back with p micro-batches before the next p begin."""
    rows = [[] for _ in range(p)]
    for start in range(0, m, p):
        for r in range(p):
            stages = range(r, p * v, p)
            batches = range(start, start + p)
            rows[r] += [Action(stage, Kind.F, i) for stage in stages for i in batches]
            rows[r] += [Action(stage, Kind.B, i) for stage in stages[::-1] for i in batches]
    return rows


def all_forwards_first(p, m, v):
    return breadth_first([*range(p)] * v, m)


def half_the_warm_up(p, m, v):
    """As short as it can be where messages are free."""
    return _half_way(p, m, v, 1)


def almost_the_warm_up(p, m, v):
    return _half_way(p, m, v, 1.5)


def _half_way(p, m, v, times):
    rows = []
    for r in range(p):
        stages = list(range(r, p * v, p))
        forwards, backwards = _passes(Kind.F, stages, m, p), _passes(Kind.B, stages[::-1], m, p)
        rows.append(_row(forwards, backwards, int(times * (p - r - 1)) + (v - 1) * p))
    return rows


def for_ever_round(p, m, v):
    return [(Action(r, Kind.F, i) for i in count()) for r in range(p)]


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


def counts_the_bubble(p, m):
    return p - 1


def whole_1f1b(p, m):
    return one_f_one_b(p, m)


def swapped_numbers(p, m):
    return [_late_row(r, p, m - r - 1, r) for r in range(m)]


def no_rest(p, m):
    """What is put off never comes."""
    return [[a for place, a in enumerate(_late_row(r, m, p - r - 1, r)) if place < 3 * m - r] for r in range(p)]


def rest_twice(p, m):
    return [[*_late_row(r, m, p - r - 1, r), Action(r, Kind.W, m - 1)] for r in range(p)]


def last_input_missing(p, m):
    return [[a for a in _late_row(r, m, p - r - 1, r) if a != Action(r, Kind.I, m - 1)] for r in range(p)]


def one_more_micro_batch(p, m):
    return [_late_row(r, m + 1, p - r - 1, r) for r in range(p)]


def weight_then_input(p, m):
    rows = []
    for r in range(p):
        row = _late_row(r, m, p - r - 1, 0)
        rows.append(
            [row[k + 1] if a.kind is Kind.I else row[k - 1] if a.kind is Kind.W else a for k, a in enumerate(row)]
        )
    return rows


def input_then_forward(p, m):
    """The last rank takes its next micro-batch only after a backward, and so do all others, without a warm-up."""
    return [_late_row(p - 1 - r, m, p - r - 1, r)[::1] for r in range(p)][::-1]


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


def gpipe_split(p, m):
    return split_backwards(gpipe(p, m))


def last_rank_alone(p, m):
    return [_late_row(r, m, p - r - 1, r * (r == p - 1)) for r in range(p)]


def rows_without_end(p, m):
    return [(Action(r, Kind.F, i) for i in count()) for r in range(p)]


WRONG = [
    ("11.1", "nothing", returns_nothing),
    ("11.1", "no_pair", input_alone),
    ("11.1", "weights_too_early", weights_at_once),
    ("11.1", "weights_too_early", weights_behind_a_function),
    ("11.1", "weights_too_early", whole_autograd),
    ("11.1", "weights_too_early", weights_without_a_matrix_product),
    ("11.1", "weights_too_early", last_weight_at_once),
    ("11.1", "late_binding", looks_up_too_late),
    ("11.1", "wrong_shape", stops_at_the_output_of_the_first),
    ("11.1", "wrong_weight_gradient", zeros),
    ("11.1", "input_twice", forward_again),
    ("11.1", "one_layer_only", last_layer_only),
    ("11.1", "wrong_shape", of_the_columns),
    ("11.1", "wrong_input_gradient", not_transposed_back),
    ("11.1", "overwritten", overwrites),
    ("11.1", "twice", walks_again),
    ("11.1", "no_weight_gradients", sets_and_returns_nothing),
    ("11.1", "reversed", last_first),
    ("11.1", "transposed", transposed),
    ("11.1", "mean_of_rows", over_the_rows),
    ("11.1", "too_few", without_the_last),
    ("11.1", "wrong_weight_gradient", twice_the_gradient),
    ("11.1", "mixed_up", in_a_global),
    ("11.1", "mixed_up", on_the_weight),
    ("11.1", "adds_up", into_grad),
    ("11.1", "changed_later", into_one_buffer),
    ("11.1", "input_twice", forward_again_by_autograd),
    ("11.1", "late_binding", binds_nothing),
    ("11.2", "nothing", forgets_to_return),
    ("11.2", "no_rows", counts_rows),
    ("11.2", "no_rows", flat),
    ("11.2", "no_action", microbatch_first),
    ("11.2", "row_per_rank", row_per_stage),
    ("11.2", "one_stage_only", ignores_the_chunks),
    ("11.2", "neighbours_together", neighbours_on_a_rank),
    ("11.2", "wrong_stages", wound_back),
    ("11.2", "incomplete", never_drains),
    ("11.2", "incomplete", one_micro_batch_short),
    ("11.2", "twice", drains_twice),
    ("11.2", "chunk_order", same_order_back),
    ("11.2", "deadlock", warm_up_of_1f1b),
    ("11.2", "deadlock", backward_first),
    ("11.2", "group_too_small", one_at_a_time_round),
    ("11.2", "group_too_small", groups_of_v),
    ("11.2", "group_too_large", groups_of_all),
    ("11.2", "deadlock", one_forward_too_few),
    ("11.2", "warm_up_too_long", one_forward_too_many),
    ("11.2", "long_bubble", same_warm_up_everywhere),
    ("11.2", "long_bubble", waits_before_each_round),
    ("11.2", "group_too_large", all_forwards_first),
    ("11.2", "short_warm_up", half_the_warm_up),
    ("11.2", "short_warm_up", almost_the_warm_up),
    ("11.2", "endless", for_ever_round),
    ("11.3", "nothing", writes_no_rows),
    ("11.3", "no_rows", counts_the_bubble),
    ("11.3", "whole_backwards", whole_1f1b),
    ("11.3", "wrong_stages", swapped_numbers),
    ("11.3", "weight_missing", no_rest),
    ("11.3", "twice", rest_twice),
    ("11.3", "missing", last_input_missing),
    ("11.3", "outside", one_more_micro_batch),
    ("11.3", "weight_before_input", weight_then_input),
    ("11.3", "deadlock", input_then_forward),
    ("11.3", "weights_at_once", split_and_nothing_else),
    ("11.3", "weights_too_late", all_at_the_end),
    ("11.3", "wrong_end", first_rank_waits_longest),
    ("11.3", "too_long", one_too_few),
    ("11.3", "too_long", last_rank_alone),
    ("11.3", "warm_up_too_long", of_zb_h2),
    ("11.3", "warm_up_too_long", gpipe_split),
    ("11.3", "endless", rows_without_end),
]
