"""Wrong solutions of lesson 11, each with the hint that must refuse it."""

import torch

from pllab.lesson.exercises.lesson_11_golf import COSTS
from pllab.schedule import (
    Action,
    Kind,
    Schedule,
    breadth_first,
    gpipe,
    needs,
    one_f_one_b,
    problems,
    zb_h1,
    zb_h2,
)
from pllab.schedule import interleaved as package_interleaved

# 11.1 interleaved(num_ranks, num_microbatches, stages_per_rank)


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


# 11.2 price(num_ranks, num_microbatches, stages_per_rank)


def _overhead(p, m, v):
    return (p - 1) / (v * m)


def _messages(p, m, v):
    return 2 * m * (v * p - 1) if p > 1 else 0


def overhead_alone(p, m, v):
    return _overhead(p, m, v)


def prints_the_price(p, m, v):
    print(_overhead(p, m, v), _messages(p, m, v))  # noqa: T201 - the bug


def bubble_of_1f1b(p, m, v):
    return (p - 1) / m, _messages(p, m, v)


def forgets_the_work(p, m, v):
    return (p - 1) / v, _messages(p, m, v)


def fraction(p, m, v):
    return (p - 1) / (v * m + p - 1), _messages(p, m, v)


def times_v(p, m, v):
    return v * (p - 1) / m, _messages(p, m, v)


def counts_stages(p, m, v):
    return (v * p - 1) / (v * m), _messages(p, m, v)


def p_ticks(p, m, v):
    return p / (v * m), _messages(p, m, v)


def divides_twice(p, m, v):
    return (p - 1) / (v * v * m), _messages(p, m, v)


def messages_first(p, m, v):
    return _messages(p, m, v), _overhead(p, m, v)


def whole_division(p, m, v):
    return (p - 1) // (v * m), _messages(p, m, v)


def in_percent(p, m, v):
    return 100 * _overhead(p, m, v), _messages(p, m, v)


def sent_and_received(p, m, v):
    return _overhead(p, m, v), 2 * _messages(p, m, v)


def of_one_rank(p, m, v):
    return _overhead(p, m, v), _messages(p, m, v) / p


def messages_as_before(p, m, v):
    return _overhead(p, m, v), 2 * m * (p - 1)


def messages_times_v(p, m, v):
    return _overhead(p, m, v), v * 2 * m * (p - 1)


def forwards_only(p, m, v):
    return _overhead(p, m, v), _messages(p, m, v) // 2


def last_stage_sends(p, m, v):
    return _overhead(p, m, v), 2 * m * v * p if p > 1 else 0


def one_micro_batch(p, m, v):
    return _overhead(p, m, v), _messages(p, m, v) // m


def alone_and_sending(p, m, v):
    return _overhead(p, m, v), 2 * m * (v * p - 1)


def one_message_a_rank(p, m, v):
    return _overhead(p, m, v), p


# 11.3 halves(inputs, weights, grad)


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


# 11.4 golf(memory_limit)


def no_schedule(limit):
    zb_h1(3, 4)


def another_course(limit):
    return zb_h1(4, 4)


def more_micro_batches(limit):
    return zb_h1(3, 5)


def after_the_step(limit):
    """The last weight gradient is put off until it never comes."""
    return [row[:-1] for row in zb_h1(3, 4).rows]


def forgets_a_forward(limit):
    rows = [list(row) for row in zb_h1(3, 4).rows]
    rows[1].remove(Action(1, Kind.F, 3))
    return rows


def weighs_twice(limit):
    return [[*row, row[-1]] for row in zb_h1(3, 4).rows]


def weight_before_input(limit):
    rows = []
    for row in zb_h1(3, 4).rows:
        place = row.index(Action(row[0].stage, Kind.W, 3))
        rows.append([*row[: place - 1], row[place], row[place - 1], *row[place + 1 :]])
    return rows


def two_wait_for_each_other(limit):
    rows = [list(row) for row in zb_h1(3, 4).rows]
    rows[0].remove(Action(0, Kind.F, 3))
    rows[0].append(Action(0, Kind.F, 3))
    return rows


def always_twice_the_memory(limit):
    return zb_h2(3, 4)


def whole_backwards(limit):
    return one_f_one_b(3, 4)


def all_forwards(limit):
    return gpipe(3, 4) if limit > 4 else zb_h1(3, 4)


def always_zb_h1(limit):
    return zb_h1(3, 4)


def zb_h2_with_room(limit):
    return zb_h2(3, 4) if limit == 6 else zb_h1(3, 4)


def no_weight_waits(limit):
    rows = []
    for row in one_f_one_b(3, 4).rows:
        halves = [[a] if a.kind is Kind.F else [a._replace(kind=Kind.I), a._replace(kind=Kind.W)] for a in row]
        rows.append([a for pair in halves for a in pair])
    return rows


def half_of_a_whole(limit):
    """A W beside its B: one of the two is too many."""
    return [[*row, Action(row[0].stage, Kind.W, 0)] for row in one_f_one_b(3, 4).rows]


def with_the_optimizer(limit):
    return [[*map(str, row), f"{rank}U0"] for rank, row in enumerate(zb_h1(3, 4).rows)]


def every_weight_at_the_end(limit):
    return [sorted(row, key=lambda action: action.kind is Kind.W) for row in zb_h1(3, 4).rows]


def stages_from_one(limit):
    return [[action._replace(stage=action.stage + 1) for action in row] for row in zb_h1(3, 4).rows]


def only_the_first_rank_waits(limit):
    return [one_f_one_b(3, 4).rows[0], *zb_h1(3, 4).rows[1:]]


def the_makespan(limit):
    return COSTS.forward


# 11.5 find_circle(schedule)


def _waits_of(schedule):
    present = set(schedule.actions())
    waits = {}
    for row in schedule.rows:
        for place, action in enumerate(row):
            waits[action] = [*needs(action, schedule.num_stages, present), *row[max(0, place - 1) : place]]
    return waits


def _walked(schedule):
    """Every step of a walk among actions that can never run, until one comes again."""
    waits = _waits_of(schedule)
    done = set()
    while ready := [a for a in waits if a not in done and done.issuperset(waits[a])]:
        done.update(ready)
    stuck = [a for a in waits if a not in done]
    walk = stuck[:1]
    while walk:
        following = next(a for a in waits[walk[-1]] if a not in done)
        if following in walk:
            return walk, following
        walk.append(following)
    return [], None


def says_nothing(schedule):
    _walked(schedule)


def yes_or_no(schedule):
    return _walked(schedule) != ([], None)


def ranks_of_it(schedule):
    walk, end = _walked(schedule)
    return [schedule.rank_of_stage[action.stage] for action in walk[walk.index(end) :]] if walk else []


def as_a_sentence(schedule):
    found = problems(schedule)
    return found[0].sentence if found else []


def as_a_set(schedule):
    walk, end = _walked(schedule)
    return set(walk[walk.index(end) :]) if walk else set()


def what_each_rank_stands_at(schedule):
    waits = _waits_of(schedule)
    done = set()
    while ready := [a for a in waits if a not in done and done.issuperset(waits[a])]:
        done.update(ready)
    heads = (next((action for action in row if action not in done), None) for row in schedule.rows)
    return [head for head in heads if head]


def knows_no_halves(schedule):
    """Asks who needs what as if no backward were split."""
    waits = {
        action: [*needs(action, schedule.num_stages, ()), *row[max(0, place - 1) : place]]
        for row in schedule.rows
        for place, action in enumerate(row)
    }
    done = set()
    while ready := [a for a in waits if a not in done and done.issuperset(waits[a])]:
        done.update(ready)
    walk = [a for a in waits if a not in done][:1]
    while walk and walk[-1] in waits:
        following = next(a for a in waits[walk[-1]] if a not in done)
        if following in walk:
            return walk[walk.index(following) :]
        walk.append(following)
    return walk


def two_ranks_only(schedule):
    walk, end = _walked(schedule)
    circle = walk[walk.index(end) :] if walk else []
    return circle if len({schedule.rank_of_stage[action.stage] for action in circle}) == 2 else []


def never_finds(schedule):
    return []


def with_the_way_in(schedule):
    walk, _ = _walked(schedule)
    return walk


def first_and_last(schedule):
    walk, end = _walked(schedule)
    return [*walk[walk.index(end) :], end] if walk else []


def turned_round(schedule):
    walk, end = _walked(schedule)
    return walk[walk.index(end) :][::-1] if walk else []


def all_the_stuck(schedule):
    waits = _waits_of(schedule)
    done = set()
    while ready := [a for a in waits if a not in done and done.issuperset(waits[a])]:
        done.update(ready)
    return sorted(a for a in waits if a not in done)


def something_always(schedule):
    walk, end = _walked(schedule)
    return walk[walk.index(end) :] if walk else list(schedule.rows[0][:2])


def one_too_many(schedule):
    walk, end = _walked(schedule)
    circle = walk[walk.index(end) :] if walk else []
    return [*circle, *circle] if circle else []


def another_stage(schedule):
    walk, end = _walked(schedule)
    circle = walk[walk.index(end) :] if walk else []
    return [action._replace(stage=action.stage + 10) for action in circle]


def only_of_two_ranks(schedule):
    """Knows the data flow and forgets that an action waits for those before it in its row."""
    if schedule == Schedule.of([["0F0", "0B0", "0F1", "0B1"], ["1F0", "1F1", "1B0", "1B1"]]):
        return ["0B0", "1B0", "1F1", "0F1"]
    present = set(schedule.actions())
    for action in present:
        if action in set(needs(action, schedule.num_stages, present)):
            return [action]
    return []


WRONG = [
    ("11.1", "nothing", forgets_to_return),
    ("11.1", "no_rows", counts_rows),
    ("11.1", "no_rows", flat),
    ("11.1", "no_action", microbatch_first),
    ("11.1", "row_per_rank", row_per_stage),
    ("11.1", "one_stage_only", ignores_the_chunks),
    ("11.1", "neighbours_together", neighbours_on_a_rank),
    ("11.1", "wrong_stages", wound_back),
    ("11.1", "incomplete", never_drains),
    ("11.1", "incomplete", one_micro_batch_short),
    ("11.1", "twice", drains_twice),
    ("11.1", "chunk_order", same_order_back),
    ("11.1", "deadlock", warm_up_of_1f1b),
    ("11.1", "deadlock", backward_first),
    ("11.1", "group_too_small", one_at_a_time_round),
    ("11.1", "group_too_small", groups_of_v),
    ("11.1", "group_too_large", groups_of_all),
    ("11.1", "deadlock", one_forward_too_few),
    ("11.1", "holds_too_many", one_forward_too_many),
    ("11.1", "long_bubble", same_warm_up_everywhere),
    ("11.1", "long_bubble", waits_before_each_round),
    ("11.1", "holds_too_many", all_forwards_first),
    ("11.2", "no_pair", overhead_alone),
    ("11.2", "nothing", prints_the_price),
    ("11.2", "not_divided", bubble_of_1f1b),
    ("11.2", "work_forgotten", forgets_the_work),
    ("11.2", "fraction_for_overhead", fraction),
    ("11.2", "multiplied", times_v),
    ("11.2", "stages_for_ranks", counts_stages),
    ("11.2", "extra_rank", p_ticks),
    ("11.2", "swapped", messages_first),
    ("11.2", "rounded", whole_division),
    ("11.2", "percent", in_percent),
    ("11.2", "wrong_overhead", divides_twice),
    ("11.2", "both_ends", sent_and_received),
    ("11.2", "wrong_messages", of_one_rank),
    ("11.2", "as_before", messages_as_before),
    ("11.2", "way_round_forgotten", messages_times_v),
    ("11.2", "forward_only", forwards_only),
    ("11.2", "extra_boundary", last_stage_sends),
    ("11.2", "per_micro_batch", one_micro_batch),
    ("11.2", "one_rank", alone_and_sending),
    ("11.2", "wrong_messages", one_message_a_rank),
    ("11.3", "nothing", returns_nothing),
    ("11.3", "no_pair", input_alone),
    ("11.3", "weights_too_early", weights_at_once),
    ("11.3", "weights_too_early", weights_behind_a_function),
    ("11.3", "weights_too_early", whole_autograd),
    ("11.3", "weights_too_early", weights_without_a_matrix_product),
    ("11.3", "weights_too_early", last_weight_at_once),
    ("11.3", "late_binding", looks_up_too_late),
    ("11.3", "wrong_shape", stops_at_the_output_of_the_first),
    ("11.3", "wrong_weight_gradient", zeros),
    ("11.3", "input_twice", forward_again),
    ("11.3", "one_layer_only", last_layer_only),
    ("11.3", "wrong_shape", of_the_columns),
    ("11.3", "wrong_input_gradient", not_transposed_back),
    ("11.3", "overwritten", overwrites),
    ("11.3", "twice", walks_again),
    ("11.3", "no_weight_gradients", sets_and_returns_nothing),
    ("11.3", "reversed", last_first),
    ("11.3", "transposed", transposed),
    ("11.3", "mean_of_rows", over_the_rows),
    ("11.3", "too_few", without_the_last),
    ("11.3", "wrong_weight_gradient", twice_the_gradient),
    ("11.3", "mixed_up", in_a_global),
    ("11.4", "nothing", no_schedule),
    ("11.4", "no_rows", the_makespan),
    ("11.4", "wrong_course", another_course),
    ("11.4", "wrong_course", more_micro_batches),
    ("11.4", "weight_missing", after_the_step),
    ("11.4", "action_missing", forgets_a_forward),
    ("11.4", "twice", weighs_twice),
    ("11.4", "half_a_backward", half_of_a_whole),
    ("11.4", "no_such_action", with_the_optimizer),
    ("11.4", "wrong_course", stages_from_one),
    ("11.4", "over_limit", every_weight_at_the_end),
    ("11.4", "memory_unused", only_the_first_rank_waits),
    ("11.4", "weight_before_input", weight_before_input),
    ("11.4", "deadlock", two_wait_for_each_other),
    ("11.4", "over_limit", always_twice_the_memory),
    ("11.4", "whole_backwards", whole_backwards),
    ("11.4", "whole_backwards", all_forwards),
    ("11.4", "memory_unused", always_zb_h1),
    ("11.4", "memory_unused", zb_h2_with_room),
    ("11.4", "over_par", no_weight_waits),
    ("11.5", "nothing", says_nothing),
    ("11.5", "no_list", yes_or_no),
    ("11.5", "no_list", as_a_sentence),
    ("11.5", "no_order", as_a_set),
    ("11.5", "no_wait", what_each_rank_stands_at),
    ("11.5", "not_there", knows_no_halves),
    ("11.5", "found_none", two_ranks_only),
    ("11.5", "no_action", ranks_of_it),
    ("11.5", "found_none", never_finds),
    ("11.5", "found_none", only_of_two_ranks),
    ("11.5", "not_closed", with_the_way_in),
    ("11.5", "end_repeated", first_and_last),
    ("11.5", "backwards", turned_round),
    ("11.5", "no_wait", all_the_stuck),
    ("11.5", "blames_the_legal", something_always),
    ("11.5", "walks_twice", one_too_many),
    ("11.5", "not_there", another_stage),
]


# Solutions that never end


def follows_for_ever(schedule):
    waits = _waits_of(schedule)
    action = schedule.rows[0][-1]
    circle = []
    while waits[action]:
        action = waits[action][0] if len(waits[action]) == 1 else waits[action][len(circle) % 2]
        circle.append(action)
        if action == schedule.rows[0][0]:
            action = schedule.rows[0][-1]
    return circle


HANGING = [("11.5", "endless", follows_for_ever)]
