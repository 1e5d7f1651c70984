"""Wrong solutions of lesson 17, each with the hint that must refuse it."""

from itertools import accumulate

from pllab.lesson.exercises.lesson_17_golf import COSTS
from pllab.schedule import Action, Kind, Schedule, gpipe, needs, one_f_one_b, problems, zb_h1, zb_h2

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


def memory_alone(schedule):
    return _right_held(schedule)


def one_number(schedule):
    return max(_right_held(schedule)), _sent(schedule)


def for_each_stage(schedule):
    return [2.0] * schedule.num_stages, _sent(schedule)


def counts_forwards(schedule):
    return _held(schedule, F=1, B=0, I=0, W=0), _sent(schedule)


def what_is_left(schedule):
    return [sum({"F": 1, "B": -1, "I": -0.5, "W": -0.5}[a.kind] for a in row) for row in schedule.rows], _sent(schedule)


def input_frees_all(schedule):
    return _held(schedule, F=1, B=-1, I=-1, W=0), _sent(schedule)


def weight_frees_all(schedule):
    return _held(schedule, F=1, B=-1, I=0, W=-1), _sent(schedule)


def halves_only(schedule):
    return _held(schedule, F=1, B=0, I=-0.5, W=-0.5), _sent(schedule)


def every_backward_is_a_half(schedule):
    return _held(schedule, F=1, B=-0.5, I=-0.5, W=-0.5), _sent(schedule)


def of_the_fullest_stage(schedule):
    rows = [[[a for a in row if a.stage == s] for s in {a.stage for a in row}] for row in schedule.rows]
    return [max(max(_right_held(Schedule.of([part]))) for part in row) for row in rows], _sent(schedule)


def share_of_the_model(schedule):
    stages = [len(schedule.stages_of_rank(rank)) for rank in range(schedule.num_ranks)]
    return [held / count for held, count in zip(_right_held(schedule), stages, strict=True)], _sent(schedule)


def by_first_stage(schedule):
    """Sorted by stage, as rows mostly are."""
    rows = sorted(zip(schedule.rows, _right_held(schedule), strict=True), key=lambda one: min(a.stage for a in one[0]))
    return [held for _, held in rows], _sent(schedule)


def counts_one_too_many(schedule):
    return [held + 1 for held in _right_held(schedule)], _sent(schedule)


def activations_only(schedule):
    return _right_held(schedule), _sent(schedule) // 2


def all_boundaries(schedule):
    return _right_held(schedule), 2 * schedule.num_microbatches * (schedule.num_stages - 1)


def dealt_in_turn(schedule):
    p, n = schedule.num_ranks, schedule.num_stages
    return _right_held(schedule), 2 * schedule.num_microbatches * sum(s % p != (s + 1) % p for s in range(n - 1))


def of_one_micro_batch(schedule):
    return _right_held(schedule), _sent(schedule) / schedule.num_microbatches


def sender_and_receiver(schedule):
    return _right_held(schedule), 2 * _sent(schedule)


def needs_at_home(schedule):
    present = set(schedule.actions())
    return _right_held(schedule), sum(len([*needs(a, schedule.num_stages, present)]) for a in present)


def one_for_each_action(schedule):
    return _right_held(schedule), len(list(schedule.actions()))


# 17.2 find_circle(schedule)


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


def takes_the_stage_for_the_row(schedule):
    """Right while rank r has stage r."""
    present, rows = set(schedule.actions()), [list(row) for row in schedule.rows]
    done, visited = set(), []

    def missing(action):
        return [need for need in needs(action, schedule.num_stages, present) if need not in done]

    while able := [row for row in rows if row and not missing(row[0])]:
        done.add(able[0].pop(0))
    stuck = next((row[0] for row in rows if row), None)
    while stuck is not None and stuck not in visited and len(visited) < 100:
        visited.append(stuck)
        row = rows[stuck.stage % schedule.num_ranks]
        stuck = row[0] if row and row[0] != stuck else (missing(stuck) or [stuck])[0]
    return visited[visited.index(stuck) :] if visited else []


# 17.3 golf(memory_limit)


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


WRONG = [
    ("17.1", "nothing", says_no_price),
    ("17.1", "no_pair", memory_alone),
    ("17.1", "no_pair", one_number),
    ("17.1", "number_per_rank", for_each_stage),
    ("17.1", "never_lets_go", counts_forwards),
    ("17.1", "at_the_end", what_is_left),
    ("17.1", "input_lets_all_go", input_frees_all),
    ("17.1", "only_weight_lets_go", weight_frees_all),
    ("17.1", "whole_backward_forgotten", halves_only),
    ("17.1", "half_of_a_whole", every_backward_is_a_half),
    ("17.1", "by_stage", of_the_fullest_stage),
    ("17.1", "divided_by_stages", share_of_the_model),
    ("17.1", "ranks_mixed_up", by_first_stage),
    ("17.1", "wrong_memory", counts_one_too_many),
    ("17.1", "forward_only", activations_only),
    ("17.1", "every_boundary", all_boundaries),
    ("17.1", "row_for_rank", dealt_in_turn),
    ("17.1", "per_micro_batch", of_one_micro_batch),
    ("17.1", "both_ends", sender_and_receiver),
    ("17.1", "wrong_messages", needs_at_home),
    ("17.1", "wrong_messages", one_for_each_action),
    ("17.2", "nothing", says_nothing),
    ("17.2", "no_list", yes_or_no),
    ("17.2", "no_list", as_a_sentence),
    ("17.2", "no_order", as_a_set),
    ("17.2", "no_wait", what_each_rank_stands_at),
    ("17.2", "not_there", knows_no_halves),
    ("17.2", "found_none", two_ranks_only),
    ("17.2", "no_action", ranks_of_it),
    ("17.2", "found_none", never_finds),
    ("17.2", "found_none", only_of_two_ranks),
    ("17.2", "not_closed", with_the_way_in),
    ("17.2", "end_repeated", first_and_last),
    ("17.2", "backwards", turned_round),
    ("17.2", "no_wait", all_the_stuck),
    ("17.2", "blames_the_legal", something_always),
    ("17.2", "walks_twice", one_too_many),
    ("17.2", "not_there", another_stage),
    ("17.2", "no_wait", takes_the_stage_for_the_row),
    ("17.3", "nothing", no_schedule),
    ("17.3", "no_rows", the_makespan),
    ("17.3", "wrong_course", another_course),
    ("17.3", "wrong_course", more_micro_batches),
    ("17.3", "weight_missing", after_the_step),
    ("17.3", "action_missing", forgets_a_forward),
    ("17.3", "twice", weighs_twice),
    ("17.3", "half_a_backward", half_of_a_whole),
    ("17.3", "no_such_action", with_the_optimizer),
    ("17.3", "wrong_course", stages_from_one),
    ("17.3", "over_limit", every_weight_at_the_end),
    ("17.3", "memory_unused", only_the_first_rank_waits),
    ("17.3", "weight_before_input", weight_before_input),
    ("17.3", "deadlock", two_wait_for_each_other),
    ("17.3", "over_limit", always_twice_the_memory),
    ("17.3", "whole_backwards", whole_backwards),
    ("17.3", "whole_backwards", all_forwards),
    ("17.3", "memory_unused", always_zb_h1),
    ("17.3", "wait_with_a_weight_left", zb_h2_with_room),
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


HANGING = [("17.2", "endless", follows_for_ever)]
