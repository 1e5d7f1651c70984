"""Wrong solutions of lesson 03, each with the hint that must refuse it."""

import statistics

import numpy as np
import torch
import torch.distributed as dist

from tests.lesson.judge import with_switches

# 03.1 tree_broadcast(tensor, root=0)


def star(tensor, root=0):
    if dist.get_rank() == root:
        for other in range(dist.get_world_size()):
            if other != root:
                dist.send(tensor, other)
    else:
        dist.recv(tensor, root)


def chain(tensor, root=0):
    size = dist.get_world_size()
    me = (dist.get_rank() - root) % size
    if me > 0:
        dist.recv(tensor, (me - 1 + root) % size)
    if me < size - 1:
        dist.send(tensor, (me + 1 + root) % size)


@with_switches
def tree_that(mistakes, tensor, root=0):  # noqa: C901 - one switch per mistake
    """A tree in which those who have the numbers double, with one thing done wrong."""
    size = dist.get_world_size()
    if "receives_only_when_even" in mistakes and size % 2 and size > 1:
        return None
    start = 0 if "always_from_rank_0" in mistakes else root
    sent = tensor.clone() if "into_a_new_tensor" in mistakes else tensor
    me, have = (dist.get_rank() - start) % size, 1
    while have < size:
        to, source = me + have + start, me - have + start
        if "no_modulo" not in mistakes:
            to, source = to % size, source % size
        if me < have and (me + have < size or "powers_of_two_only" in mistakes):
            (dist.isend if "never_waits" in mistakes else dist.send)(sent, to)
        elif have <= me < 2 * have:
            dist.recv(sent, source)
        have *= 2
    return sent


def by_the_collective(tensor, root=0):
    dist.broadcast(tensor, root)


def everybody_to_everybody(tensor, root=0):
    """Every rank hears it from the root, and then once more from its neighbour."""
    star(tensor, root)
    chain(tensor, root)


# 03.2 ring_all_reduce(tensor)


@with_switches
def ring_that(mistakes, tensor):  # noqa: C901 - one switch per mistake
    """A ring on the flat numbers, with one thing done wrong."""
    rank, size = dist.get_rank(), dist.get_world_size()
    flat = tensor.contiguous().view(-1)
    if "returns_a_new_tensor" in mistakes:
        flat = flat.clone()
    if "sends_to_itself" in mistakes and size == 1:
        dist.isend(flat, rank).wait()
    chunks = list(torch.tensor_split(flat, size))
    if "drops_the_remainder" in mistakes:
        each = len(flat) // size
        chunks = [flat[number * each :][:each] for number in range(size)]
    if "cuts_with_torchs_chunk" in mistakes:
        chunks = list(torch.chunk(flat, size))
    for step in range(size - 1 if "only_reduces_and_scatters" in mistakes else 2 * size - 2):
        first = "starts_with_the_next_chunk" in mistakes and step < size - 1
        out, own = chunks[(rank - step + first) % size], chunks[(rank - step - 1) % size]
        new = torch.empty_like(own)
        if "sends_before_it_receives" in mistakes:
            dist.send(out, (rank + 1) % size)
            dist.recv(new, (rank - 1) % size)
        else:
            sending = dist.isend(out, (rank + 1) % size)
            dist.recv(new, (rank - 1) % size)
            if "does_not_wait_for_the_sends" not in mistakes:
                sending.wait()
        own.copy_(own + new if step < size - 1 else new)
    if "returns_a_new_tensor" in mistakes:
        return flat
    if "forgets_the_gaps" not in mistakes:
        tensor.copy_(flat.view(tensor.shape))
    return None


def whole_tensors_around(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    out, total = tensor.contiguous(), tensor.clone()
    for _ in range(size - 1):
        into = torch.empty_like(out)
        sending = dist.isend(out, (rank + 1) % size)
        dist.recv(into, (rank - 1) % size)
        sending.wait()
        total += into
        out = into
    tensor.copy_(total)


def by_the_collective_sum(tensor):
    flat = tensor.contiguous()
    dist.all_reduce(flat)
    tensor.copy_(flat)


def straight_to_the_owner(tensor):
    """As few numbers as a ring, and every rank sends to all others."""
    flat, rank, size = tensor.contiguous(), dist.get_rank(), dist.get_world_size()
    chunks = torch.tensor_split(flat.view(-1), size)
    others = [other for other in range(size) if other != rank]
    into = [torch.empty_like(chunks[rank]) for _ in others]
    works = [dist.isend(chunks[other], other) for other in others]
    works += [dist.irecv(new, other) for new, other in zip(into, others, strict=True)]
    for work in works:
        work.wait()
    for new in into:
        chunks[rank].add_(new)
    works = [dist.isend(chunks[rank], other) for other in others]
    works += [dist.irecv(chunks[other], other) for other in others]
    for work in works:
        work.wait()
    tensor.copy_(flat)


# 03.3 fit_alpha_beta(sizes, times)


def _fit(sizes, times, weights):
    if len(set(sizes)) < 2:
        raise ValueError("one size fixes no line")
    beta, alpha = np.polyfit(sizes, times, 1, w=weights)
    return float(alpha), float(beta)


def _medians(times):
    return np.array([statistics.median(each) for each in times])


def absolute_errors(sizes, times):
    return _fit(sizes, _medians(times), None)


def square_root_of_the_weights(sizes, times):
    return _fit(sizes, _medians(times), 1 / np.sqrt(_medians(times)))


def weights_squared_before(sizes, times):
    return _fit(sizes, _medians(times), 1 / _medians(times) ** 2)


def beta_first(sizes, times):
    return _fit(sizes, _medians(times), 1 / _medians(times))[::-1]


def means(sizes, times):
    taken = np.array([statistics.fmean(each) for each in times])
    return _fit(sizes, taken, 1 / taken)


def torchs_median(sizes, times):
    taken = np.array([torch.tensor(each, dtype=torch.float64).median().item() for each in times])
    return _fit(sizes, taken, 1 / taken)


def two_ends_only(sizes, times):
    taken = _medians(times)
    if len(set(sizes)) < 2:
        raise ValueError("one size fixes no line")
    low, high = int(np.argmin(sizes)), int(np.argmax(sizes))
    beta = (taken[high] - taken[low]) / (sizes[high] - sizes[low])
    return taken[low] - beta * sizes[low], beta


def each_size_once(sizes, times):
    kept = dict(zip(sizes, _medians(times), strict=True))
    taken = np.array(list(kept.values()))
    return _fit(list(kept), taken, 1 / taken)


def rounds_of_a_size_together(sizes, times):
    """A size that comes twice counts once, with all its rounds."""
    pooled = {}
    for size, rounds in zip(sizes, times, strict=True):
        pooled.setdefault(size, []).extend(rounds)
    taken = _medians(pooled.values())
    return _fit(list(pooled), taken, 1 / taken)


def any_line_for_one_size(sizes, times):
    if len(set(sizes)) < 2:
        return statistics.median(times[0]), 0.0
    return _fit(sizes, _medians(times), 1 / _medians(times))


def sorts_the_callers_lists(sizes, times):
    for each in times:
        each.sort()
    taken = _medians(times)
    return _fit(sizes, taken, 1 / taken)


def alpha_alone(sizes, times):
    return _fit(sizes, _medians(times), 1 / _medians(times))[0]


WRONG = [
    ("03.1", "too_many_rounds", star),
    ("03.1", "wrong", tree_that("always_from_rank_0")),
    ("03.1", "deadlock", tree_that("powers_of_two_only")),
    ("03.1", "no_such_rank", tree_that("no_modulo")),
    ("03.1", "not_in_place", tree_that("into_a_new_tensor")),
    ("03.1", "collective", by_the_collective),
    ("03.1", "too_many_messages", everybody_to_everybody),
    ("03.1", "wrong", tree_that("receives_only_when_even")),
    ("03.1", "not_waited", tree_that("never_waits")),
    ("03.2", "too_many_numbers", whole_tensors_around),
    ("03.2", "collective", by_the_collective_sum),
    ("03.2", "raised", ring_that("cuts_with_torchs_chunk")),
    ("03.2", "gaps", ring_that("forgets_the_gaps")),
    ("03.2", "wrong", ring_that("only_reduces_and_scatters")),
    ("03.2", "sizes_differ", ring_that("starts_with_the_next_chunk")),
    ("03.2", "deadlock", ring_that("sends_before_it_receives")),
    ("03.2", "not_a_ring", straight_to_the_owner),
    ("03.2", "not_waited", ring_that("does_not_wait_for_the_sends")),
    ("03.2", "wrong", ring_that("drops_the_remainder")),
    ("03.2", "not_in_place", ring_that("returns_a_new_tensor")),
    ("03.2", "alone", ring_that("sends_to_itself")),
    ("03.3", "absolute", absolute_errors),
    ("03.3", "half_weight", square_root_of_the_weights),
    ("03.3", "double_weight", weights_squared_before),
    ("03.3", "swapped", beta_first),
    ("03.3", "wrong", means),
    ("03.3", "lower_median", torchs_median),
    ("03.3", "wrong", two_ends_only),
    ("03.3", "wrong", each_size_once),
    ("03.3", "no_line", any_line_for_one_size),
    ("03.3", "changed", sorts_the_callers_lists),
    ("03.3", "wrong", alpha_alone),
    ("03.3", "counts_once", rounds_of_a_size_together),
]
