"""Wrong solutions of lesson 02, each with the hint that must refuse it."""

from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from tests.lesson.variants_02 import all_then_mine

# 02.1 ring_pass(x)


def all_send_first(x):
    received = torch.empty_like(x)
    dist.send(x, (dist.get_rank() + 1) % dist.get_world_size())
    dist.recv(received, (dist.get_rank() - 1) % dist.get_world_size())
    return received


def _exchange(x, to, source, received=None):
    """What comes from the source, received into a tensor like the one sent."""
    received = torch.empty_like(x) if received is None else received
    sending = dist.isend(x, to)
    dist.recv(received, source)
    sending.wait()
    return received


def _neighbours():
    rank, size = dist.get_rank(), dist.get_world_size()
    return (rank - 1) % size, (rank + 1) % size


def the_other_way_round(x):
    before, after = _neighbours()
    return x.clone() if dist.get_world_size() == 1 else _exchange(x, before, after)


def returns_its_own(x):
    if dist.get_world_size() > 1:
        before, after = _neighbours()
        _exchange(x, after, before)
    return x


def forgets_to_return_what_it_received(x):
    before, after = _neighbours()
    _exchange(x, after, before)


def receives_into_the_sent_tensor(x):
    rank, size = dist.get_rank(), dist.get_world_size()
    if size == 1:
        return x
    if rank % 2:
        before = x.clone()
        dist.recv(x, (rank - 1) % size)
        dist.send(before, (rank + 1) % size)
    else:
        dist.send(x, (rank + 1) % size)
        dist.recv(x, (rank - 1) % size)
    return x


def only_in_pairs(x):
    """Even and odd ranks exchange: right in every even world of two."""
    return _exchange(x, dist.get_rank() ^ 1, dist.get_rank() ^ 1)


def the_ring_is_a_line(x):
    return _exchange(x, dist.get_rank() + 1, dist.get_rank() - 1)


def sends_to_itself_when_alone(x):
    before, after = _neighbours()
    return _exchange(x, after, before)


def never_waits_for_the_receive(x):
    if dist.get_world_size() == 1:
        return x.clone()
    received, (before, after) = torch.empty_like(x), _neighbours()
    sending = dist.isend(x, after)
    dist.irecv(received, before)
    sending.wait()
    return received


def receives_floats(x):
    before, after = _neighbours()
    return x.clone() if dist.get_world_size() == 1 else _exchange(x, after, before, torch.empty(x.shape))


def receives_a_matrix(x):
    before, after = _neighbours()
    rows = x.new_empty(x.size(0), x[0].numel())
    return x.clone() if dist.get_world_size() == 1 else _exchange(x, after, before, rows)


def written_for_two_ranks(x):
    rank, received = dist.get_rank(), torch.empty_like(x)
    if dist.get_world_size() == 1:
        return x.clone()
    if rank == 0:
        dist.send(x, 1)
        dist.recv(received, 1)
    else:
        dist.recv(received, rank - 1)
        dist.send(x, (rank + 1) % 2)
    return received


def only_rank_0_waits_for_its_send(x):
    if dist.get_world_size() == 1:
        return x.clone()
    received, (before, after) = torch.empty_like(x), _neighbours()
    sending = dist.isend(x, after)
    dist.recv(received, before)
    while not sending.is_completed() and dist.get_rank() == 0:
        pass
    return received


# 02.2 enter(rank, world_size, init_file, deadline_s)


def fixed_port(rank, world_size, init_file, deadline_s):
    timeout = timedelta(seconds=deadline_s)
    dist.init_process_group("gloo", "tcp://127.0.0.1:29471", timeout, world_size, rank)


def without_a_deadline(rank, world_size, init_file, deadline_s):
    dist.init_process_group("gloo", f"file://{init_file}", rank=rank, world_size=world_size)


def half_the_deadline(rank, world_size, init_file, deadline_s):
    dist.init_process_group("gloo", f"file://{init_file}", timedelta(seconds=deadline_s / 2), world_size, rank)


def always_three_seconds(rank, world_size, init_file, deadline_s):
    dist.init_process_group("gloo", f"file://{init_file}", timedelta(seconds=3), world_size, rank)


def deadline_as_a_number(rank, world_size, init_file, deadline_s):
    dist.init_process_group("gloo", f"file://{init_file}", deadline_s, world_size, rank)


def counts_from_the_end(rank, world_size, init_file, deadline_s):
    timeout = timedelta(seconds=deadline_s)
    dist.init_process_group("gloo", f"file://{init_file}", timeout, world_size, world_size - 1 - rank)


def everybody_is_rank_0(rank, world_size, init_file, deadline_s):
    dist.init_process_group("gloo", f"file://{init_file}", timedelta(seconds=deadline_s), world_size, 0)


def always_two_ranks(rank, world_size, init_file, deadline_s):
    dist.init_process_group("gloo", f"file://{init_file}", timedelta(seconds=deadline_s), 2, rank)


def one_file_for_all_groups(rank, world_size, init_file, deadline_s):
    file = f"file://{Path(init_file).parent}/rendezvous"
    dist.init_process_group("gloo", file, timedelta(seconds=deadline_s), world_size, rank)


# 02.3 my_groups(members)


def only_members_call(members):
    return [dist.new_group(ranks) for ranks in members if dist.get_rank() in ranks]


def my_own_first(members):
    rank = dist.get_rank()
    order = sorted(range(len(members)), key=lambda index: rank not in members[index])
    made = {index: dist.new_group(members[index]) for index in order}
    return [made[index] for index in sorted(made) if rank in members[index]]


def all_groups_to_everybody(members):
    return [dist.new_group(ranks) for ranks in members]


def large_groups_first(members):
    return all_then_mine(sorted(members, key=len, reverse=True))


def nobody_in_two_groups(members):
    seen, disjoint = set(), []
    for ranks in members:
        disjoint.append([rank for rank in ranks if rank not in seen])
        seen.update(ranks)
    return all_then_mine(disjoint)


def one_group_for_equal_lists(members):
    made = {ranks: dist.new_group(ranks) for ranks in dict.fromkeys(map(tuple, members))}
    return [made[tuple(ranks)] for ranks in members if dist.get_rank() in ranks]


def by_a_collective(x):
    everything = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(everything, x)
    return everything[dist.get_rank() - 1]


WRONG = [
    ("02.1", "collective", by_a_collective),
    ("02.1", "deadlock", all_send_first),
    ("02.1", "wrong_neighbour", the_other_way_round),
    ("02.1", "own_tensor", returns_its_own),
    ("02.1", "wrong", forgets_to_return_what_it_received),
    ("02.1", "sent_changed", receives_into_the_sent_tensor),
    ("02.1", "no_such_rank", only_in_pairs),
    ("02.1", "no_such_rank", the_ring_is_a_line),
    ("02.1", "alone", sends_to_itself_when_alone),
    ("02.1", "not_waited", never_waits_for_the_receive),
    ("02.1", "sizes_differ", receives_floats),
    ("02.1", "hang", only_rank_0_waits_for_its_send),
    ("02.1", "deadlock", written_for_two_ranks),
    ("02.1", "raised", receives_a_matrix),
    ("02.2", "fixed_port", fixed_port),
    ("02.2", "no_deadline", without_a_deadline),
    ("02.2", "too_early", half_the_deadline),
    ("02.2", "own_deadline", always_three_seconds),
    ("02.2", "raised", deadline_as_a_number),
    ("02.2", "wrong", counts_from_the_end),
    ("02.2", "never_met", everybody_is_rank_0),
    ("02.2", "wrong_file", one_file_for_all_groups),
    ("02.2", "never_met", always_two_ranks),
    ("02.3", "members_only", only_members_call),
    ("02.3", "order_differs", my_own_first),
    ("02.3", "wrong", all_groups_to_everybody),
    ("02.3", "wrong_order", large_groups_first),
    ("02.3", "raised", nobody_in_two_groups),
]

LET_THROUGH = [("02.3", "wrong", one_group_for_equal_lists)]
