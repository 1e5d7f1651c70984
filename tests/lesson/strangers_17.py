"""Solutions of lesson 17 by somebody who read the lesson alone."""

# ruff: noqa: B006, B023, B905, C901, E501

import graphlib
from itertools import accumulate

from pllab import schedule as schedules
from pllab.schedule import Schedule, needs


# ---------------------------------------------------------------- 17.1
def price_plain(schedule):
    peaks = []
    for row in schedule.rows:
        held = most = 0
        for action in row:
            held += {"F": 1, "B": -1, "I": -0.5, "W": -0.5}[action.kind]
            most = max(most, held)
        peaks.append(most)
    present, messages = set(schedule.actions()), 0
    for action in schedule.actions():
        for need in needs(action, schedule.num_stages, present):
            messages += schedule.rank_of_stage[need.stage] != schedule.rank_of_stage[action.stage]
    return peaks, messages


def price_accumulate(schedule):
    change = dict(F=2, B=-2, I=-1, W=-1)
    peaks = [max(accumulate((change[str(a.kind)] for a in row), initial=0)) / 2 for row in schedule.rows]
    home = schedule.rank_of_stage
    cuts = [home[s] != home[s + 1] for s in range(schedule.num_stages - 1)]
    microbatches = {a.microbatch for a in schedule.actions()}
    return peaks, 2 * sum(cuts) * len(microbatches)


def price_where(schedule):
    where = {action: number for number, row in enumerate(schedule.rows) for action in row}
    messages = sum(
        where[need] != number for action, number in where.items() for need in needs(action, schedule.num_stages, where)
    )
    peaks = []
    for row in schedule.rows:
        counts, best = {"F": 0, "B": 0, "I": 0, "W": 0}, 0.0
        for _, kind, _ in row:
            counts[kind] += 1
            best = max(best, counts["F"] - counts["B"] - (counts["I"] + counts["W"]) / 2)
        peaks.append(best)
    return (peaks, messages)


def _peaks(schedule, change):
    result = []
    for row in schedule.rows:
        held = most = 0
        for action in row:
            held += change[action.kind]
            most = max(most, held)
        result.append(most)
    return result


_GOOD = {"F": 1, "B": -1, "I": -0.5, "W": -0.5}


def _messages(schedule):
    home, present = schedule.rank_of_stage, set(schedule.actions())
    return sum(
        home[a.stage] != home[n.stage] for a in schedule.actions() for n in needs(a, schedule.num_stages, present)
    )


def price_i_frees_all(schedule):
    return _peaks(schedule, {"F": 1, "B": -1, "I": -1, "W": 0}), _messages(schedule)


def price_w_frees_all(schedule):
    return _peaks(schedule, {"F": 1, "B": -1, "I": 0, "W": -1}), _messages(schedule)


def price_i_half_then_all(schedule):
    return _peaks(schedule, {"F": 1, "B": -1, "I": -0.5, "W": -1}), _messages(schedule)


def price_stage_boundary(schedule):
    present = set(schedule.actions())
    n = sum(a.stage != need.stage for a in schedule.actions() for need in needs(a, schedule.num_stages, present))
    return _peaks(schedule, _GOOD), n


def price_modulo(schedule):
    present, p = set(schedule.actions()), len(schedule.rows)
    n = sum(
        a.stage % p != need.stage % p for a in schedule.actions() for need in needs(a, schedule.num_stages, present)
    )
    return _peaks(schedule, _GOOD), n


def price_forward_only(schedule):
    present, home = set(schedule.actions()), schedule.rank_of_stage
    n = sum(
        home[a.stage] != home[need.stage]
        for a in schedule.actions()
        for need in needs(a, schedule.num_stages, present)
        if need.stage < a.stage
    )
    return _peaks(schedule, _GOOD), n


def price_distinct(schedule):
    # a micro-batch on two stages of a rank counts once
    result = []
    for row in schedule.rows:
        weight, most = {}, 0
        for stage, kind, i in row:
            weight[stage, i] = weight.get((stage, i), 0) + _GOOD[kind]
            by_microbatch = {}
            for (_, j), held in weight.items():
                by_microbatch[j] = max(by_microbatch.get(j, 0), held)
            most = max(most, sum(by_microbatch.values()))
        result.append(most)
    return result, _messages(schedule)


def price_per_rank(schedule):
    # divided by the stages of a rank
    v = schedule.num_stages / len(schedule.rows)
    return [peak / v for peak in _peaks(schedule, _GOOD)], _messages(schedule)


def price_by_stage_order(schedule):
    # ranks ordered by their lowest stage instead of by row
    peaks = _peaks(schedule, _GOOD)
    order = sorted(range(len(peaks)), key=lambda r: min(a.stage for a in schedule.rows[r]))
    return [peaks[r] for r in order], _messages(schedule)


def price_floor(schedule):
    return [int(peak) for peak in _peaks(schedule, _GOOD)], _messages(schedule)


def price_set_of_messages(schedule):
    # one message for a micro-batch, a direction and a pair of ranks
    home, present = schedule.rank_of_stage, set(schedule.actions())
    sent = {
        (home[n.stage], home[a.stage], n.kind, n.microbatch)
        for a in schedule.actions()
        for n in needs(a, schedule.num_stages, present)
        if home[n.stage] != home[a.stage]
    }
    return _peaks(schedule, _GOOD), len(sent)


def price_row_number(schedule):
    # row r is taken for the rank of stage r (mod p)
    present, n = set(schedule.actions()), 0
    for number, row in enumerate(schedule.rows):
        for a in row:
            n += sum(need.stage % len(schedule.rows) != number for need in needs(a, schedule.num_stages, present))
    return _peaks(schedule, _GOOD), n


def price_most_of_a_stage(schedule):
    result = []
    for row in schedule.rows:
        held, most = {}, 0
        for a in row:
            held[a.stage] = held.get(a.stage, 0) + _GOOD[a.kind]
            most = max(most, held[a.stage])
        result.append(most)
    return result, _messages(schedule)


def price_sum_of_stage_peaks(schedule):
    result = []
    for row in schedule.rows:
        held, most = {}, {}
        for a in row:
            held[a.stage] = held.get(a.stage, 0) + _GOOD[a.kind]
            most[a.stage] = max(most.get(a.stage, 0), held[a.stage])
        result.append(sum(most.values()))
    return result, _messages(schedule)


def price_peak_before_first_backward(schedule):
    # the warm-up is taken for the peak
    result = []
    for row in schedule.rows:
        warm = 0
        for a in row:
            if a.kind != "F":
                break
            warm += 1
        result.append(warm)
    return result, _messages(schedule)


# ---------------------------------------------------------------- 17.2
def circle_walk(schedule):
    present, n = set(schedule.actions()), schedule.num_stages
    rows, at, done = schedule.rows, [0] * len(schedule.rows), set()
    moved = True
    while moved:
        moved = False
        for r, row in enumerate(rows):
            while at[r] < len(row) and all(need in done for need in needs(row[at[r]], n, present)):
                done.add(row[at[r]])
                at[r] += 1
                moved = True
    heads = [rows[r][at[r]] for r in range(len(rows)) if at[r] < len(rows[r])]
    if not heads:
        return []
    walk, here = [], heads[0]
    while here not in walk:
        walk.append(here)
        if here in heads:
            here = next(need for need in needs(here, n, present) if need not in done)
        else:
            row = next(r for r, each in enumerate(rows) if here in each)
            here = rows[row][at[row]]
    return walk[walk.index(here) :]


def circle_graphlib(schedule):
    present = set(schedule.actions())
    graph = {}
    for row in schedule.rows:
        for k, action in enumerate(row):
            graph[action] = list(needs(action, schedule.num_stages, present)) + list(row[max(0, k - 1) : k])
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return [str(action) for action in error.args[1][:0:-1]]
    return []


def circle_depth_first(schedule):
    present = set(schedule.actions())
    waits = {}
    for row in schedule.rows:
        before = None
        for action in row:
            waits[action] = [*needs(action, schedule.num_stages, present), *([before] if before else [])]
            before = action
    finished, path = set(), []

    def visit(action):
        if action in finished:
            return []
        if action in path:
            return path[path.index(action) :]
        path.append(action)
        for other in waits[action]:
            if found := visit(other):
                return found
        finished.add(path.pop())
        return []

    for action in waits:
        if found := visit(action):
            return found
    return []


def circle_peel(schedule):
    """Take away what can run until nothing moves; then follow any wait that is left, all of the row before counts."""
    present = set(schedule.actions())
    waits = {}
    for row in schedule.rows:
        for k, action in enumerate(row):
            waits[action] = set(needs(action, schedule.num_stages, present)) | set(row[:k])
    left = set(waits)
    while free := {a for a in left if not waits[a] & left}:
        left -= free
    if not left:
        return []
    order, here = {}, min(left)
    while here not in order:
        order[here] = len(order)
        here = min(waits[here] & left)
    return [str(a) for a in order if order[a] >= order[here]]


def _stuck(schedule):
    present, n = set(schedule.actions()), schedule.num_stages
    at, done, moved = [0] * len(schedule.rows), set(), True
    while moved:
        moved = False
        for r, row in enumerate(schedule.rows):
            while at[r] < len(row) and all(need in done for need in needs(row[at[r]], n, present)):
                done.add(row[at[r]])
                at[r] += 1
                moved = True
    heads = {r: row[at[r]] for r, row in enumerate(schedule.rows) if at[r] < len(row)}
    return present, n, done, heads


def circle_with_way_in(schedule):
    present, n, done, heads = _stuck(schedule)
    if not heads:
        return []
    walk, here = [], next(iter(heads.values()))
    where = {a: r for r, row in enumerate(schedule.rows) for a in row}
    while here not in walk:
        walk.append(here)
        if here in heads.values():
            here = next(need for need in needs(here, n, present) if need not in done)
        else:
            here = heads[where[here]]
    return walk


def circle_turned(schedule):
    return circle_walk(schedule)[::-1]


def circle_closed(schedule):
    found = circle_walk(schedule)
    return [*found, found[0]] if found else []


def circle_heads_only(schedule):
    present, n, done, heads = _stuck(schedule)
    if not heads:
        return []
    where = {a: r for r, row in enumerate(schedule.rows) for a in row}
    walk, here = [], next(iter(heads.values()))
    while here not in walk:
        walk.append(here)
        here = heads[where[next(need for need in needs(here, n, present) if need not in done)]]
    return walk[walk.index(here) :]


def circle_all_heads(schedule):
    return list(_stuck(schedule)[3].values())


def circle_stage_is_row(schedule):
    present, n, done, heads = _stuck(schedule)
    if not heads:
        return []
    walk, here = [], next(iter(heads.values()))
    while here not in walk:
        walk.append(here)
        if here in heads.values():
            here = next(need for need in needs(here, n, present) if need not in done)
        else:
            here = heads[here.stage % len(schedule.rows)]
    return walk[walk.index(here) :]


def circle_twice_the_head(schedule):
    present, n, done, heads = _stuck(schedule)
    if not heads:
        return []
    where = {a: r for r, row in enumerate(schedule.rows) for a in row}
    walk, seen, here = [], [], next(iter(heads.values()))
    while here not in seen:
        seen.append(here)
        need = next(need for need in needs(here, n, present) if need not in done)
        walk.append((here, need))
        here = heads[where[need]]
    return [each for pair in walk[seen.index(here) :] for each in pair]


def circle_first_need(schedule):
    # takes the first need of a head, also if it has run
    present, n, done, heads = _stuck(schedule)
    if not heads:
        return []
    where = {a: r for r, row in enumerate(schedule.rows) for a in row}
    walk, here = [], next(iter(heads.values()))
    while here not in walk:
        walk.append(here)
        if here in heads.values():
            here = next(iter(needs(here, n, present)))
        else:
            here = heads.get(where[here], here)
    return walk[walk.index(here) :]


def circle_last_need(schedule):
    # the last need of a head: the gradient; it cannot have run where the forward has not
    present, n, done, heads = _stuck(schedule)
    if not heads:
        return []
    where = {a: r for r, row in enumerate(schedule.rows) for a in row}
    walk, here = [], next(iter(heads.values()))
    while here not in walk:
        walk.append(here)
        if here in heads.values():
            here = list(needs(here, n, present))[-1]
        else:
            here = heads.get(where[here], here)
    return walk[walk.index(here) :]


def circle_no_own_row(schedule):
    # needs of the own stage are left out: a backward before its forward is not seen
    present = set(schedule.actions())
    graph = {}
    for row in schedule.rows:
        for k, action in enumerate(row):
            far = [need for need in needs(action, schedule.num_stages, present) if need.stage != action.stage]
            graph[action] = far + list(row[max(0, k - 1) : k])
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1][:0:-1]
    return []


def circle_graphlib_unturned(schedule):
    present = set(schedule.actions())
    graph = {}
    for row in schedule.rows:
        for k, action in enumerate(row):
            graph[action] = list(needs(action, schedule.num_stages, present)) + list(row[max(0, k - 1) : k])
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1][1:]
    return []


def circle_whole_backwards(schedule):
    # present is left empty, so a need of a split stage is a B which does not exist
    graph = {}
    for row in schedule.rows:
        for k, action in enumerate(row):
            graph[action] = list(needs(action, schedule.num_stages, ())) + list(row[max(0, k - 1) : k])
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1][:0:-1]
    return []


def circle_visited_twice(schedule):
    # an action met twice is taken for a circle
    present = set(schedule.actions())
    waits = {}
    for row in schedule.rows:
        for k, action in enumerate(row):
            waits[action] = list(needs(action, schedule.num_stages, present)) + list(row[max(0, k - 1) : k])
    seen, path = set(), []

    def visit(action):
        if action in path:
            return path[path.index(action) :]
        if action in seen:
            return [action]
        seen.add(action)
        path.append(action)
        for other in waits[action]:
            if found := visit(other):
                return found
        path.pop()
        return []

    for row in schedule.rows:
        seen.clear()
        if row and (found := visit(row[-1])):
            return found
    return []


def circle_from_first_row(schedule):
    # only circles that the first action of all leads into: walks from row 0 if it is stuck
    present, n, done, heads = _stuck(schedule)
    if 0 not in heads:
        return []
    return circle_walk(schedule)


def circle_two_ranks(schedule):
    # looks for two heads that wait for each other's row
    present, n, done, heads = _stuck(schedule)
    where = {a: r for r, row in enumerate(schedule.rows) for a in row}
    blocks = {r: [need for need in needs(a, n, present) if need not in done] for r, a in heads.items()}
    for r, one in blocks.items():
        for need in one:
            q = where[need]
            for back in blocks[q]:
                if where[back] == r:
                    out = [heads[r], need, heads[q], back]
                    return list(dict.fromkeys(out))
    return []


# ---------------------------------------------------------------- 17.3
_ZB_H1 = """
0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3
1F0 1F1 1I0 1F2 1I1 1W0 1F3 1I2 1W1 1I3 1W2 1W3
2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2W2 2W3
"""
_WIDE = """
0F0 0F1 0F2 0F3 0I0 0W0 0I1 0W1 0I2 0W2 0I3 0W3
1F0 1F1 1F2 1I0 1F3 1I1 1W0 1I2 1W1 1I3 1W2 1W3
2F0 2I0 2F1 2I1 2F2 2I2 2F3 2I3 2W0 2W1 2W2 2W3
"""


def _rows(text):
    return [line.split() for line in text.split("\n") if line]


def golf_rows(memory_limit):
    return _rows(_ZB_H1 if memory_limit < 6 else _WIDE)


def golf_schedule(memory_limit):
    if memory_limit == 3:
        return Schedule.of(
            [
                "0F0 0F2 0F1 0I0 0W0 0F3 0I2 0W2 0I1 0W1 0I3 0W3".split(),
                "1F0 1F2 1F1 1I0 1I2 1W0 1F3 1I1 1W2 1I3 1W1 1W3".split(),
                "2F0 2I0 2F2 2I2 2W0 2F1 2I1 2F3 2I3 2W1 2W3 2W2".split(),
            ],
            "mine",
        )
    return Schedule.of(
        [
            "0F0 0F1 0F2 0F3 0I0 0W0 0I1 0W1 0I2 0W2 0I3 0W3".split(),
            "1F0 1F1 1F2 1F3 1I0 1I1 1W0 1I2 1W1 1I3 1W3 1W2".split(),
            "2F0 2I0 2F1 2I1 2F2 2I2 2F3 2I3 2W0 2W1 2W2 2W3".split(),
        ]
    )


def golf_csv(memory_limit):
    if memory_limit == 3:
        text = (
            "0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3|1F0 1F1 1F2 1I0 1W0 1I1 1F3 1I2 1W1 1I3 1W3 1W2|"
            "2F0 2I0 2F1 2I1 2F2 2I2 2F3 2I3 2W3 2W1 2W2 2W0"
        )
    else:
        text = (
            "0F0 0F1 0F3 0F2 0I0 0W0 0I1 0W1 0I2 0W2 0I3 0W3|1F0 1F1 1F3 1I0 1F2 1W0 1I1 1W1 1I2 1I3 1W3 1W2|"
            "2F0 2I0 2F1 2I1 2F2 2I2 2F3 2I3 2W0 2W1 2W2 2W3"
        )
    return Schedule.of([row.split() for row in text.split("|")]).to_csv()


def golf_renamed(memory_limit):
    """The micro-batches the other way round: 3 goes first."""
    return tuple(tuple(a[:2] + str(3 - int(a[2])) for a in row) for row in golf_rows(memory_limit))


def golf_mixed(memory_limit):
    """Rank 0 leaves its last backwards whole: nobody waits for its I."""
    text = _ZB_H1 if memory_limit == 3 else _WIDE
    for i in range(4):
        text = text.replace(f"0I{i} 0W{i}", f"0B{i}")
    return [row.split() for row in text.strip().splitlines()]


def golf_same_twice(memory_limit):
    return _rows(_ZB_H1)


def golf_wide_twice(memory_limit):
    return _rows(_WIDE)


def golf_swapped(memory_limit):
    return _rows(_WIDE if memory_limit == 3 else _ZB_H1)


def golf_split_only(memory_limit):
    return schedules.split_backwards(schedules.one_f_one_b(3, 4))


def golf_one_w_missing(memory_limit):
    rows = golf_rows(memory_limit)
    rows[1].remove("1W3")
    return rows


def golf_w_twice(memory_limit):
    rows = golf_rows(memory_limit)
    rows[2][-1] = "2W2"
    return rows


def golf_zb_h2(memory_limit):
    return schedules.zb_h1(3, 4) if memory_limit == 3 else schedules.zb_h2(3, 4)


def golf_w_early(memory_limit):
    rows = golf_rows(memory_limit)
    rows[2].remove("2W3")
    rows[2].insert(rows[2].index("2I3"), "2W3")
    return rows


def golf_circle(memory_limit):
    # rank 1 goes back before it sends what rank 2 needs for it
    rows = golf_rows(memory_limit)
    rows[1].remove("1I0")
    rows[1].insert(1, "1I0")
    rows[2].remove("2F1")
    rows[2].insert(1, "2F1")
    return rows


def golf_half_too_much(memory_limit):
    # 40 in the first round, but rank 0 holds 3.5 after 0F3
    rows = golf_rows(memory_limit)
    if memory_limit == 3:
        rows[0] = "0F0 0F1 0F2 0I0 0F3 0W0 0I1 0W1 0I2 0W2 0I3 0W3".split()
    return rows


def golf_five_microbatches(memory_limit):
    return schedules.zb_h1(3, 5) if memory_limit == 3 else schedules.zb_h2(3, 5)


def golf_one_over(memory_limit):
    # 41 and 39: one unit over par each time, found below
    rows = golf_rows(memory_limit)
    if memory_limit == 6:
        rows[2] = "2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2W2 2W3".split()
    return rows


RIGHT = [
    ("17.1", price_plain),
    ("17.1", price_accumulate),
    ("17.1", price_where),
    ("17.2", circle_walk),
    ("17.2", circle_graphlib),
    ("17.2", circle_depth_first),
    ("17.2", circle_peel),
    ("17.2", circle_last_need),
    ("17.3", golf_rows),
    ("17.3", golf_schedule),
    ("17.3", golf_csv),
    ("17.3", golf_renamed),
    ("17.3", golf_mixed),
]
WRONG = [
    ("17.1", price_i_frees_all, "I frees all, W nothing"),
    ("17.1", price_w_frees_all, "W frees all, I nothing"),
    ("17.1", price_i_half_then_all, "W frees a whole one"),
    ("17.1", price_stage_boundary, "messages between stages, not ranks"),
    ("17.1", price_modulo, "rank is stage modulo p"),
    ("17.1", price_forward_only, "messages of gradients forgotten"),
    ("17.1", price_distinct, "two stages count once"),
    ("17.1", price_per_rank, "divided by stages a rank"),
    ("17.1", price_by_stage_order, "sorted by stage, not row"),
    ("17.1", price_floor, "halves cut off"),
    ("17.1", price_set_of_messages, "messages of two stages merged"),
    ("17.1", price_row_number, "row number taken for stage"),
    ("17.1", price_most_of_a_stage, "most of one stage alone"),
    ("17.1", price_sum_of_stage_peaks, "peaks of stages added up"),
    ("17.1", price_peak_before_first_backward, "warm-up taken for the peak"),
    ("17.2", circle_with_way_in, "way in not cut off"),
    ("17.2", circle_turned, "circle the wrong way round"),
    ("17.2", circle_closed, "first action comes twice"),
    ("17.2", circle_heads_only, "only heads of the rows"),
    ("17.2", circle_all_heads, "all stuck heads"),
    ("17.2", circle_stage_is_row, "stage modulo p is row"),
    ("17.2", circle_twice_the_head, "need that is head twice"),
    ("17.2", circle_first_need, "need that has run already"),
    ("17.2", circle_no_own_row, "needs of own stage forgotten"),
    ("17.2", circle_graphlib_unturned, "graphlib's circle not turned round"),
    ("17.2", circle_whole_backwards, "split backwards not seen"),
    ("17.2", circle_visited_twice, "diamond taken for a circle"),
    ("17.2", circle_from_first_row, "nothing if row 0 ends"),
    ("17.2", circle_two_ranks, "circles of two ranks only"),
    ("17.3", golf_same_twice, "40 also with room 6"),
    ("17.3", golf_wide_twice, "needs 4 with room 3"),
    ("17.3", golf_swapped, "the two orders swapped"),
    ("17.3", golf_split_only, "1F1B with split backwards"),
    ("17.3", golf_one_w_missing, "a W left out"),
    ("17.3", golf_w_twice, "a W twice, one missing"),
    ("17.3", golf_zb_h2, "ZB-H2 for room of 6"),
    ("17.3", golf_w_early, "W before its I"),
    ("17.3", golf_circle, "ranks wait in a circle"),
    ("17.3", golf_half_too_much, "3.5 held after 0F3"),
    ("17.3", golf_five_microbatches, "five micro-batches"),
    ("17.3", golf_one_over, "W too early with room 6"),
]
