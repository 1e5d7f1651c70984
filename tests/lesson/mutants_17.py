"""Wrong solutions of lesson 17, each with the hint that must refuse it."""

from itertools import accumulate

from pllab.schedule import Action, Kind, Schedule, needs, one_f_one_b, zb_h1, zb_h2
from tests.lesson import strangers_17 as strangers

# 17.1 price(schedule)


def _held(schedule, **share):
    return [max(accumulate((share[a.kind] for a in row), initial=0)) for row in schedule.rows]


def _right_held(schedule):
    return _held(schedule, F=1, B=-1, I=-0.5, W=-0.5)


def _sent(schedule):
    home, present = schedule.rank_of_stage, set(schedule.actions())
    pairs = [(a, need) for a in present for need in needs(a, schedule.num_stages, present)]
    return sum(home[a.stage] != home[need.stage] for a, need in pairs)


def says_no_price(schedule):
    _right_held(schedule), _sent(schedule)  # noqa: B018 - the bug


def counts_forwards(schedule):
    return _held(schedule, F=1, B=0, I=0, W=0), _sent(schedule)


def input_frees_all(schedule):
    return _held(schedule, F=1, B=-1, I=-1, W=0), _sent(schedule)


def weight_frees_all(schedule):
    return _held(schedule, F=1, B=-1, I=0, W=-1), _sent(schedule)


def of_the_fullest_stage(schedule):
    rows = [[[a for a in row if a.stage == s] for s in {a.stage for a in row}] for row in schedule.rows]
    return [max(max(_right_held(Schedule.of([part]))) for part in row) for row in rows], _sent(schedule)


def share_of_the_model(schedule):
    stages = [len(schedule.stages_of_rank(rank)) for rank in range(schedule.num_ranks)]
    return [held / count for held, count in zip(_right_held(schedule), stages, strict=True)], _sent(schedule)


def activations_only(schedule):
    return _right_held(schedule), _sent(schedule) // 2


def all_boundaries(schedule):
    return _right_held(schedule), 2 * schedule.num_microbatches * (schedule.num_stages - 1)


def dealt_in_turn(schedule):
    p, n = schedule.num_ranks, schedule.num_stages
    return _right_held(schedule), 2 * schedule.num_microbatches * sum(s % p != (s + 1) % p for s in range(n - 1))


def of_one_micro_batch(schedule):
    return _right_held(schedule), _sent(schedule) / schedule.num_microbatches


# 17.2 find_circle(schedule)


def _waits_of(schedule, present=None):
    present = set(schedule.actions()) if present is None else present
    waits = {}
    for row in schedule.rows:
        for place, action in enumerate(row):
            waits[action] = [*needs(action, schedule.num_stages, present), *row[max(0, place - 1) : place]]
    return waits


def _ran(waits):
    done = set()
    while ready := [a for a in waits if a not in done and done.issuperset(waits[a])]:
        done.update(ready)
    return done


def _walked(waits):
    """Every step of a walk among actions that can never run, and the one that comes again."""
    done = _ran(waits)
    walk = [a for a in waits if a not in done][:1]
    while walk and walk[-1] in waits:
        following = next(a for a in waits[walk[-1]] if a not in done)
        if following in walk:
            return walk, following
        walk.append(following)
    return walk, None


def _circle(schedule):
    walk, end = _walked(_waits_of(schedule))
    return walk[walk.index(end) :] if walk else []


def says_nothing(schedule):
    _circle(schedule)


def what_each_rank_stands_at(schedule):
    done = _ran(_waits_of(schedule))
    heads = (next((action for action in row if action not in done), None) for row in schedule.rows)
    return [head for head in heads if head]


def knows_no_halves(schedule):
    """Asks who needs what as if no backward were split."""
    walk, end = _walked(_waits_of(schedule, present=()))
    return walk if end is None else walk[walk.index(end) :]


def two_ranks_only(schedule):
    circle = _circle(schedule)
    return circle if len({schedule.rank_of_stage[action.stage] for action in circle}) == 2 else []


def short_circles_only(schedule):
    circle = _circle(schedule)
    return circle if len(circle) <= 8 else []


def only_if_the_first_row_stands(schedule):
    return _circle(schedule) if set(schedule.rows[0]) - _ran(_waits_of(schedule)) else []


def never_finds(schedule):
    return []


def with_the_way_in(schedule):
    walk, _ = _walked(_waits_of(schedule))
    return walk


def first_and_last(schedule):
    circle = _circle(schedule)
    return circle + circle[:1]


def turned_round(schedule):
    return _circle(schedule)[::-1]


def something_always(schedule):
    return _circle(schedule) or list(schedule.rows[0][:2])


# 17.3 golf(memory_limit)


def no_schedule(limit):
    zb_h1(3, 4)


def another_course(limit):
    return zb_h1(4, 4)


def after_the_step(limit):
    """The last weight gradient is put off until it never comes."""
    return [row[:-1] for row in zb_h1(3, 4).rows]


def weight_before_input(limit):
    rows = []
    for row in zb_h1(3, 4).rows:
        place = row.index(Action(row[0].stage, Kind.W, 3))
        rows.append([*row[: place - 1], row[place], row[place - 1], *row[place + 1 :]])
    return rows


def whole_backwards(limit):
    return one_f_one_b(3, 4)


def zb_h2_with_room(limit):
    return zb_h2(3, 4) if limit == 6 else zb_h1(3, 4)


def no_weight_waits(limit):
    rows = []
    for row in one_f_one_b(3, 4).rows:
        halves = [[a] if a.kind is Kind.F else [a._replace(kind=Kind.I), a._replace(kind=Kind.W)] for a in row]
        rows.append([a for pair in halves for a in pair])
    return rows


def every_weight_at_the_end(limit):
    return [sorted(row, key=lambda action: action.kind is Kind.W) for row in zb_h1(3, 4).rows]


def only_the_first_rank_waits(limit):
    return [one_f_one_b(3, 4).rows[0], *zb_h1(3, 4).rows[1:]]


WRONG = [
    ("17.1", "no_pair", says_no_price),
    ("17.1", "wrong_memory", counts_forwards),
    ("17.1", "input_lets_all_go", input_frees_all),
    ("17.1", "only_weight_lets_go", weight_frees_all),
    ("17.1", "by_stage", of_the_fullest_stage),
    ("17.1", "divided_by_stages", share_of_the_model),
    ("17.1", "forward_only", activations_only),
    ("17.1", "every_boundary", all_boundaries),
    ("17.1", "row_for_rank", dealt_in_turn),
    ("17.1", "wrong_messages", of_one_micro_batch),
    ("17.2", "no_action", says_nothing),
    ("17.2", "no_wait", what_each_rank_stands_at),
    ("17.2", "wrong", knows_no_halves),
    ("17.2", "found_none", two_ranks_only),
    ("17.2", "found_none", never_finds),
    ("17.2", "not_closed", with_the_way_in),
    ("17.2", "end_repeated", first_and_last),
    ("17.2", "backwards", turned_round),
    ("17.2", "wrong", something_always),
    ("17.2", "not_closed", strangers.circle_stage_is_row),
    ("17.2", "no_wait", strangers.circle_twice_the_head),
    ("17.2", "can_run", strangers.circle_first_need),
    ("17.2", "found_none", only_if_the_first_row_stands),
    ("17.2", "found_none", short_circles_only),
    ("17.3", "no_action", no_schedule),
    ("17.3", "wrong_course", another_course),
    ("17.3", "incomplete", after_the_step),
    ("17.3", "over_limit", every_weight_at_the_end),
    ("17.3", "memory_unused", only_the_first_rank_waits),
    ("17.3", "deadlock", weight_before_input),
    ("17.3", "whole_backwards", whole_backwards),
    ("17.3", "over_par", zb_h2_with_room),
    ("17.3", "weight_in_the_way", no_weight_waits),
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


HANGING = [
    ("17.2", "endless", follows_for_ever),
]
