"""Right solutions of lesson 11 that look different."""

from collections import deque
from functools import partial
from itertools import chain, zip_longest

import torch

from pllab.schedule import Action, Kind, Schedule, one_f_one_b

# 11.1


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


# 11.2


def texts_by_rank(num_ranks, num_microbatches, stages_per_rank, all_first=False):
    rows = []
    for rank in range(num_ranks):
        stages = [rank + num_ranks * chunk for chunk in range(stages_per_rank)]
        groups = range(0, num_microbatches, num_ranks)
        forwards = [f"{s}F{g + i}" for g in groups for s in stages for i in range(num_ranks)]
        backwards = [f"{s}B{g + i}" for g in groups for s in stages[::-1] for i in range(num_ranks)]
        warm_up = 2 * (num_ranks - rank - 1) + (stages_per_rank - 1) * num_ranks
        warm_up = len(forwards) if all_first else min(len(forwards), warm_up)
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
    return Schedule.of(texts_by_rank(num_ranks, num_microbatches, stages_per_rank)).to_csv()


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


def in_halves(num_ranks, num_microbatches, stages_per_rank):
    """Every backward as I and W, one behind the other."""
    rows = texts_by_rank(num_ranks, num_microbatches, stages_per_rank)
    return [
        " ".join(text.replace("B", "I") + " " * ("B" in text) + text.replace("B", "W") * ("B" in text) for text in row)
        for row in rows
    ]


# 11.3


def delays_by_its_number(num_ranks, num_microbatches):
    rows = []
    for rank in range(num_ranks):
        ahead = min(num_ranks - rank - 1, num_microbatches)
        row = [f"{rank}F{i}" for i in range(ahead)]
        for i in range(num_microbatches):
            row += [f"{rank}F{i + ahead}"] * (i + ahead < num_microbatches)
            row += [f"{rank}I{i}"] + [f"{rank}W{i - rank}"] * (i >= rank)
        rows.append(row + [f"{rank}W{i}" for i in range(max(0, num_microbatches - rank), num_microbatches)])
    return rows


def by_memory(num_ranks, num_microbatches):
    """A W comes when the next forward would not fit beside what waits."""
    for rank in range(num_ranks):
        row, num_f, num_w = [], 0, 0
        for i in range(num_microbatches):
            while num_f < min(num_microbatches, i + num_ranks - rank):
                row.append((rank, "F", num_f))
                num_f += 1
            row.append((rank, "I", i))
            while num_w <= i - rank:
                row.append((rank, "W", num_w))
                num_w += 1
        yield row + [(rank, "W", k) for k in range(num_w, num_microbatches)]


def with_a_queue(num_ranks, num_microbatches):
    """Every I puts its W at the end of a queue that may be as long as the rank's number."""
    rows = {}
    for rank, plain in enumerate(one_f_one_b(num_ranks, num_microbatches).rows):
        row, late = [], deque()
        for stage, kind, i in plain:
            if kind is Kind.F:
                row.append(Action(stage, Kind.F, i))
                continue
            row.append(Action(stage, Kind.I, i))
            late.append(Action(stage, Kind.W, i))
            if len(late) > rank:
                row.append(late.popleft())
        rows[rank] = " ".join(map(str, [*row, *late]))
    return rows


def as_zero_bubble_csv(num_ranks, num_microbatches):
    return Schedule.of(delays_by_its_number(num_ranks, num_microbatches)).to_csv()


RIGHT = {
    "11.1": [keeps_a_list, with_einsum, recursive, an_object_to_call, outer_products],
    "11.2": [texts_by_rank, counts_virtual_micro_batches, as_csv, as_a_schedule, in_halves],
    "11.3": [delays_by_its_number, by_memory, with_a_queue, as_zero_bubble_csv],
}
