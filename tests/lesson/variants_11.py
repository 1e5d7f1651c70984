"""Right solutions of lesson 11 that look different."""

import heapq
from fractions import Fraction
from functools import partial
from itertools import chain, zip_longest

import torch

from pllab.schedule import Action, Kind, Schedule, needs, optimal, zb_h1, zero_bubble
from pllab.schedule import interleaved as package_interleaved
from pllab.simulate import Costs

# 11.1


def texts_by_rank(num_ranks, num_microbatches, stages_per_rank):
    rows = []
    for rank in range(num_ranks):
        stages = [rank + num_ranks * chunk for chunk in range(stages_per_rank)]
        groups = range(0, num_microbatches, num_ranks)
        forwards = [f"{s}F{g + i}" for g in groups for s in stages for i in range(num_ranks)]
        backwards = [f"{s}B{g + i}" for g in groups for s in stages[::-1] for i in range(num_ranks)]
        warm_up = min(len(forwards), 2 * (num_ranks - rank - 1) + (stages_per_rank - 1) * num_ranks)
        row, forwards = forwards[:warm_up], forwards[warm_up:]
        while backwards:
            row += forwards[:1] + backwards[:1]
            forwards, backwards = forwards[1:], backwards[1:]
        rows.append(row)
    return rows


def counts_virtual_micro_batches(num_ranks, num_microbatches, stages_per_rank):
    """Megatron's way: the k-th forward of a rank, its chunk and its micro-batch by arithmetic."""
    total = num_microbatches * stages_per_rank

    def action(rank, kind, k):
        group, inside = divmod(k, num_ranks * stages_per_rank)
        chunk = inside // num_ranks if kind == "F" else stages_per_rank - 1 - inside // num_ranks
        return chunk * num_ranks + rank, kind, group * num_ranks + inside % num_ranks

    for rank in range(num_ranks):
        warm_up = min(total, (num_ranks - rank - 1) * 2 + (stages_per_rank - 1) * num_ranks)
        first = [action(rank, "F", k) for k in range(warm_up)]
        steady = chain.from_iterable(
            (action(rank, "F", k + warm_up), action(rank, "B", k)) for k in range(total - warm_up)
        )
        yield first + list(steady) + [action(rank, "B", k) for k in range(total - warm_up, total)]


def as_csv(num_ranks, num_microbatches, stages_per_rank):
    return package_interleaved(num_ranks, num_microbatches, stages_per_rank).to_csv()


def as_a_schedule(num_ranks, num_microbatches, stages_per_rank):
    rows = {}
    for rank in range(num_ranks):
        stages = range(rank, num_ranks * stages_per_rank, num_ranks)
        order = {}
        for kind, ordered in ((Kind.F, stages), (Kind.B, stages[::-1])):
            order[kind] = [
                Action(stage, kind, i)
                for start in range(0, num_microbatches, num_ranks)
                for stage in ordered
                for i in range(start, start + num_ranks)
            ]
        ahead = min(len(order[Kind.F]), 2 * (num_ranks - rank - 1) + (stages_per_rank - 1) * num_ranks)
        late = [None] * ahead + order[Kind.B]
        pairs = zip_longest(order[Kind.F], late)
        rows[rank] = tuple(action for pair in pairs for action in pair if action is not None)
    return Schedule(tuple(rows[rank] for rank in sorted(rows)))


def shortest_warm_up(num_ranks, num_microbatches, stages_per_rank):
    """p - r - 1 forwards before the turns and not twice as many: no longer, and a rank holds fewer."""
    rows = []
    for rank in range(num_ranks):
        stages = range(rank, num_ranks * stages_per_rank, num_ranks)
        groups = range(0, num_microbatches, num_ranks)
        forwards = [f"{s}F{g + i}" for g in groups for s in stages for i in range(num_ranks)]
        backwards = [f"{s}B{g + i}" for g in groups for s in stages[::-1] for i in range(num_ranks)]
        ahead = min(len(forwards), num_ranks - rank - 1 + (stages_per_rank - 1) * num_ranks)
        pairs = zip(forwards[ahead:], backwards, strict=False)
        rows.append(forwards[:ahead] + list(chain.from_iterable(pairs)) + backwards[len(forwards) - ahead :])
    return rows


def in_halves(num_ranks, num_microbatches, stages_per_rank):
    """Every backward as I and W, one behind the other."""
    rows = texts_by_rank(num_ranks, num_microbatches, stages_per_rank)
    return [
        " ".join(text.replace("B", "I") + " " * ("B" in text) + text.replace("B", "W") * ("B" in text) for text in row)
        for row in rows
    ]


# 11.2


def formulas(num_ranks, num_microbatches, stages_per_rank):
    overhead = (num_ranks - 1) / (stages_per_rank * num_microbatches)
    return overhead, 2 * num_microbatches * (stages_per_rank * num_ranks - 1) * (num_ranks > 1)


def counts_boundaries(num_ranks, num_microbatches, stages_per_rank):
    ranks = [stage % num_ranks for stage in range(num_ranks * stages_per_rank)]
    crossed = sum(a != b for a, b in zip(ranks, ranks[1:], strict=False))
    return [(num_ranks - 1) / stages_per_rank / num_microbatches, 2 * crossed * num_microbatches]


def asks_the_schedule(num_ranks, num_microbatches, stages_per_rank):
    from pllab.simulate import simulate

    schedule = package_interleaved(num_ranks, num_microbatches, stages_per_rank)
    home, messages = schedule.rank_of_stage, 0
    for action in schedule.actions():
        messages += sum(home[need.stage] != home[action.stage] for need in needs(action, schedule.num_stages, ()))
    return simulate(schedule).bubble_overhead, messages


def exact_fraction(num_ranks, num_microbatches, stages_per_rank):
    sent = 0 if num_ranks == 1 else 2 * num_microbatches * (stages_per_rank * num_ranks - 1)
    return Fraction(num_ranks - 1, stages_per_rank * num_microbatches), sent


# 11.3


def keeps_a_list(inputs, weights, grad):
    arrived = []
    for weight in reversed(weights):
        arrived.append(grad)
        grad = grad @ weight
    return grad, lambda: [g.T @ x for g, x in zip(reversed(arrived), inputs, strict=True)]


def with_einsum(inputs, weights, grad):
    arrived = {}
    for number in range(len(weights) - 1, -1, -1):
        arrived[number] = grad
        grad = torch.einsum("bo,oi->bi", grad, weights[number])

    def weight_half():
        return tuple(torch.einsum("bo,bi->oi", arrived[k], inputs[k]) for k in range(len(inputs)))

    return [grad, weight_half]


def recursive(inputs, weights, grad):
    if not weights:
        return grad, lambda: []
    dx, before = recursive(inputs[:-1], weights[:-1], torch.mm(grad, weights[-1]))
    return dx, lambda: [*before(), torch.mm(grad.t(), inputs[-1])]


class _Weights:
    def __init__(self, pairs):
        self.pairs = pairs

    def __call__(self):
        return [torch.nn.functional.linear(g.T, x.T) for g, x in self.pairs]


def an_object_to_call(inputs, weights, grad):
    pairs = []
    for x, weight in zip(reversed(inputs), reversed(weights), strict=True):
        pairs.insert(0, (grad, x))
        grad = torch.matmul(weight.T, grad.T).T
    return grad, _Weights(pairs)


def outer_products(inputs, weights, grad):
    """No matrix product at all: sums of products, row by row."""
    arrived = [grad]
    for weight in reversed(weights[1:]):
        arrived.insert(0, (arrived[0].unsqueeze(2) * weight).sum(1))
    halves = [
        partial(lambda g, x: (g.unsqueeze(2) * x.unsqueeze(1)).sum(0), g, x)
        for g, x in zip(arrived, inputs, strict=True)
    ]
    return (arrived[0].unsqueeze(2) * weights[0]).sum(1), lambda: (half() for half in halves)


# 11.4


_COSTS = Costs(3.0, 3.0, 2.0)


def searches(memory_limit):
    return zero_bubble(3, 4, _COSTS, memory_limit, makespan_first=True)


def asks_the_solver(memory_limit):
    return optimal(3, 4, _COSTS, memory_limit).schedule.to_csv()


def greedy(memory_limit):
    """Every rank: I when it can, then F when it fits, then W; a W first where it ends before the next I arrives."""
    p, m = 3, 4
    if memory_limit < 2 * p:
        return zb_h1(p, m)
    rows = [[] for _ in range(p)]
    done, clock, events = {}, [0.0] * p, [(0.0, rank) for rank in range(p)]
    seconds = {"F": 3.0, "I": 3.0, "W": 2.0}
    while events:
        now, rank = heapq.heappop(events)
        if now < clock[rank]:
            continue
        arrived = {(k, s, i) for (k, s, i), end in done.items() if end <= now}
        count = {kind: sum(k == kind for _, k, _ in rows[rank]) for kind in "FIW"}
        can_f = count["F"] < m and (rank == 0 or ("F", rank - 1, count["F"]) in arrived)
        above = rank == p - 1 or ("I", rank + 1, count["I"]) in arrived
        can_i = count["I"] < count["F"] and above
        kind = "I" if can_i else "F" if can_f else "W" if count["W"] < count["I"] else None
        if rank == p - 1 and can_f and count["F"] == count["I"]:
            kind = "F"
        if kind is None:
            later = [end for end in done.values() if end > now]
            if later:
                heapq.heappush(events, (min(later), rank))
            elif count["W"] < m:
                heapq.heappush(events, (now + 1.0, rank))
            continue
        rows[rank].append((rank, kind, count[kind]))
        clock[rank] = done[kind, rank, count[kind]] = now + seconds[kind]
        heapq.heappush(events, (clock[rank], rank))
    return rows


def by_hand(memory_limit):
    if memory_limit == 3:
        return """0F0,0F1,0F2,0I0,0W0,0F3,0I1,0W1,0I2,0W2,0I3,0W3
1F0,1F1,1I0,1F2,1I1,1W0,1F3,1I2,1W1,1I3,1W2,1W3
2F0,2I0,2F1,2I1,2F2,2I2,2W0,2F3,2I3,2W1,2W2,2W3"""
    return {
        0: "0F0 0F1 0F2 0F3 0I0 0W0 0I1 0W1 0I2 0W2 0I3 0W3",
        1: "1F0 1F1 1F2 1I0 1F3 1I1 1W0 1I2 1W1 1I3 1W2 1W3",
        2: "2F0 2I0 2F1 2I1 2F2 2I2 2F3 2I3 2W0 2W1 2W2 2W3",
    }


def other_names(limit):
    """Which micro-batch comes first is free."""
    order = [2, 0, 3, 1]
    rows = searches(limit).rows
    return [[(action.stage, str(action.kind), order[action.microbatch]) for action in row] for row in rows]


def whole_where_nobody_waits(limit):
    """Nobody waits for rank 0, so its backwards need not be split."""
    if limit == 3:
        return zb_h1(3, 4).to_csv()
    rows = by_hand(limit)
    return {**rows, 0: "0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3"}


# 11.5


def depth_first(schedule):
    present = set(schedule.actions())
    before = {late: early for row in schedule.rows for early, late in zip(row, row[1:], strict=False)}
    finished, path = set(), []

    def visit(action):
        if action in path:
            return path[path.index(action) :]
        if action in finished:
            return []
        path.append(action)
        waited_for = [*needs(action, schedule.num_stages, present), *([before[action]] if action in before else [])]
        for other in waited_for:
            if circle := visit(other):
                return circle
        path.pop()
        finished.add(action)
        return []

    for action in present:
        if circle := visit(action):
            return circle
    return []


def _run_dry(heads, missing, done):
    while any(row and not missing(row[0]) for row in heads):
        for row in heads:
            while row and not missing(row[0]):
                done.add(row.pop(0))


def follows_the_heads(schedule):
    present = set(schedule.actions())
    done, heads = set(), [list(row) for row in schedule.rows]

    def missing(action):
        return [need for need in needs(action, schedule.num_stages, present) if need not in done]

    _run_dry(heads, missing, done)
    stuck = [row[0] for row in heads if row]
    if not stuck:
        return []
    walk = [stuck[0]]
    while True:
        head = walk[-1]
        need = missing(head)[0]
        steps = [need, heads[schedule.rank_of_stage[need.stage]][0]]
        for step in dict.fromkeys(steps):
            if step in walk:
                return walk[walk.index(step) :]
            walk.append(step)


def peels_and_walks(schedule):
    present = set(schedule.actions())
    waits = {}
    for row in schedule.rows:
        for place, action in enumerate(row):
            waits[action] = {*needs(action, schedule.num_stages, present), *row[:place]}
    while free := [action for action, others in waits.items() if not others & waits.keys()]:
        for action in free:
            del waits[action]
    seen, action = [], min(waits, default=None)
    while waits and action not in seen:
        seen.append(action)
        action = min(waits[action] & waits.keys())
    return [str(step) for step in seen[seen.index(action) :]] if seen else []


def with_all_before_it(schedule):
    """Waits for everything before it in its row; a generator of texts."""
    present = set(schedule.actions())
    waits = {
        action: [*row[:place], *needs(action, schedule.num_stages, present)]
        for row in schedule.rows
        for place, action in enumerate(row)
    }
    while free := {action for action, others in waits.items() if not any(other in waits for other in others)}:
        waits = {action: others for action, others in waits.items() if action not in free}
    walk, action = [], next(iter(waits), None)
    while action and action not in walk:
        walk.append(action)
        action = next(other for other in waits[action] if other in waits)
    yield from (str(step) for step in (walk[walk.index(action) :] if walk else []))


RIGHT = [
    ("11.1", texts_by_rank),
    ("11.1", counts_virtual_micro_batches),
    ("11.1", as_csv),
    ("11.1", as_a_schedule),
    ("11.1", shortest_warm_up),
    ("11.1", in_halves),
    ("11.2", formulas),
    ("11.2", counts_boundaries),
    ("11.2", asks_the_schedule),
    ("11.2", exact_fraction),
    ("11.3", keeps_a_list),
    ("11.3", with_einsum),
    ("11.3", recursive),
    ("11.3", an_object_to_call),
    ("11.3", outer_products),
    ("11.4", searches),
    ("11.4", asks_the_solver),
    ("11.4", greedy),
    ("11.4", by_hand),
    ("11.4", other_names),
    ("11.4", whole_where_nobody_waits),
    ("11.5", depth_first),
    ("11.5", follows_the_heads),
    ("11.5", peels_and_walks),
    ("11.5", with_all_before_it),
]
