"""Wrong solutions of lesson 02, each with the hint that must refuse it."""

from datetime import timedelta

import torch
import torch.distributed as dist

from tests.lesson import strangers_02 as strangers

# 02.1 ring_pass(x)


def all_send_first(x):
    received = torch.empty_like(x)
    dist.send(x, (dist.get_rank() + 1) % dist.get_world_size())
    dist.recv(received, (dist.get_rank() - 1) % dist.get_world_size())
    return received


def all_receive_first(x):
    received = torch.empty_like(x)
    dist.recv(received, (dist.get_rank() - 1) % dist.get_world_size())
    dist.send(x, (dist.get_rank() + 1) % dist.get_world_size())
    return received


def waits_for_the_send_first(x):
    received = torch.empty_like(x)
    dist.isend(x, (dist.get_rank() + 1) % dist.get_world_size()).wait()
    dist.recv(received, (dist.get_rank() - 1) % dist.get_world_size())
    return received


def _exchange(x, received, to, source):
    sending = dist.isend(x, to)
    dist.recv(received, source)
    sending.wait()


def the_other_way_round(x):
    rank, size, received = dist.get_rank(), dist.get_world_size(), torch.empty_like(x)
    if size == 1:
        return x.clone()
    _exchange(x, received, (rank - 1) % size, (rank + 1) % size)
    return received


def returns_its_own(x):
    rank, size, received = dist.get_rank(), dist.get_world_size(), torch.empty_like(x)
    if size > 1:
        _exchange(x, received, (rank + 1) % size, (rank - 1) % size)
    return x


def forgets_to_return_what_it_received(x):
    rank, size, received = dist.get_rank(), dist.get_world_size(), torch.empty_like(x)
    _exchange(x, received, (rank + 1) % size, (rank - 1) % size)


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
    rank, received = dist.get_rank(), torch.empty_like(x)
    _exchange(x, received, rank ^ 1, rank ^ 1)
    return received


def the_ring_is_a_line(x):
    rank, received = dist.get_rank(), torch.empty_like(x)
    _exchange(x, received, rank + 1, rank - 1)
    return received


def sends_to_itself_when_alone(x):
    rank, size, received = dist.get_rank(), dist.get_world_size(), torch.empty_like(x)
    _exchange(x, received, (rank + 1) % size, (rank - 1) % size)
    return received


def waits_for_anybody_when_alone(x):
    rank, size, received = dist.get_rank(), dist.get_world_size(), torch.empty_like(x)
    if size == 1:
        dist.recv(received)
    else:
        _exchange(x, received, (rank + 1) % size, (rank - 1) % size)
    return received


def does_not_wait(x):
    rank, size, received = dist.get_rank(), dist.get_world_size(), torch.zeros_like(x)
    sending = dist.isend(x, (rank + 1) % size)
    receiving = dist.irecv(received, (rank - 1) % size)
    early = received.clone()
    sending.wait()
    receiving.wait()
    return early


def never_waits_for_the_receive(x):
    rank, size, received = dist.get_rank(), dist.get_world_size(), torch.empty_like(x)
    if size == 1:
        return x.clone()
    sending = dist.isend(x, (rank + 1) % size)
    dist.irecv(received, (rank - 1) % size)
    sending.wait()
    return received


def never_waits_for_the_send(x):
    rank, size, received = dist.get_rank(), dist.get_world_size(), torch.empty_like(x)
    if size == 1:
        return x.clone()
    dist.isend(x, (rank + 1) % size)
    dist.recv(received, (rank - 1) % size)
    return received


def receives_floats(x):
    rank, size, received = dist.get_rank(), dist.get_world_size(), torch.empty(x.shape)
    if size == 1:
        return x.clone()
    _exchange(x, received, (rank + 1) % size, (rank - 1) % size)
    return received


def rank_0_never_sends(x):
    rank, size, received = dist.get_rank(), dist.get_world_size(), torch.empty_like(x)
    if size == 1:
        return x.clone()
    sending = dist.isend(x, rank + 1) if 0 < rank < size - 1 else None
    dist.recv(received, (rank - 1) % size)
    if sending is not None:
        sending.wait()
    return received


# 02.2 enter(rank, world_size, init_file, deadline_s)


def fixed_port(rank, world_size, init_file, deadline_s):
    timeout = timedelta(seconds=deadline_s)
    dist.init_process_group("gloo", "tcp://127.0.0.1:29471", timeout, world_size, rank)


def store_on_a_fixed_port(rank, world_size, init_file, deadline_s):
    timeout = timedelta(seconds=deadline_s)
    store = dist.TCPStore("127.0.0.1", 29473, world_size, is_master=rank == 0, timeout=timeout)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size, timeout=timeout)


def without_a_deadline(rank, world_size, init_file, deadline_s):
    dist.init_process_group("gloo", f"file://{init_file}", rank=rank, world_size=world_size)


def deadline_in_minutes(rank, world_size, init_file, deadline_s):
    timeout = timedelta(minutes=deadline_s)
    dist.init_process_group("gloo", f"file://{init_file}", timeout, world_size, rank)


def deadline_of_half_a_second(rank, world_size, init_file, deadline_s):
    dist.init_process_group("gloo", f"file://{init_file}", timedelta(seconds=deadline_s / 6), world_size, rank)


def deadline_as_a_number(rank, world_size, init_file, deadline_s):
    dist.init_process_group("gloo", f"file://{init_file}", deadline_s, world_size, rank)


def counts_from_the_end(rank, world_size, init_file, deadline_s):
    timeout = timedelta(seconds=deadline_s)
    dist.init_process_group("gloo", f"file://{init_file}", timeout, world_size, world_size - 1 - rank)


def a_group_for_each(rank, world_size, init_file, deadline_s):
    timeout = timedelta(seconds=deadline_s)
    dist.init_process_group("gloo", f"file://{init_file}-{rank}", timeout, 1, 0)


def everybody_is_rank_0(rank, world_size, init_file, deadline_s):
    dist.init_process_group("gloo", f"file://{init_file}", timedelta(seconds=deadline_s), world_size, 0)


def a_file_for_each(rank, world_size, init_file, deadline_s):
    dist.init_process_group("gloo", f"file://{init_file}-{rank}", timedelta(seconds=deadline_s), world_size, rank)


def leaves_again(rank, world_size, init_file, deadline_s):
    dist.init_process_group("gloo", f"file://{init_file}", timedelta(seconds=deadline_s), world_size, rank)
    dist.barrier()
    dist.destroy_process_group()


# 02.3 my_groups(members)


def only_members_call(members):
    return [dist.new_group(ranks) for ranks in members if dist.get_rank() in ranks]


def my_own_first(members):
    rank = dist.get_rank()
    order = sorted(range(len(members)), key=lambda index: rank not in members[index])
    made = {index: dist.new_group(members[index]) for index in order}
    return [made[index] for index in sorted(made) if rank in members[index]]


def backwards_on_odd_ranks(members):
    rank = dist.get_rank()
    order = reversed(range(len(members))) if rank % 2 else range(len(members))
    made = {index: dist.new_group(members[index]) for index in order}
    return [made[index] for index in sorted(made) if rank in members[index]]


def all_groups_to_everybody(members):
    return [dist.new_group(ranks) for ranks in members]


def only_the_first_of_mine(members):
    groups = [dist.new_group(ranks) for ranks in members]
    return [group for ranks, group in zip(members, groups, strict=True) if dist.get_rank() in ranks][:1]


def the_world_for_every_group(members):
    groups = [dist.new_group() for _ in members]
    return [group for ranks, group in zip(members, groups, strict=True) if dist.get_rank() in ranks]


def large_groups_first(members):
    members = sorted(members, key=len, reverse=True)
    groups = [dist.new_group(ranks) for ranks in members]
    return [group for ranks, group in zip(members, groups, strict=True) if dist.get_rank() in ranks]


def one_group_alone(members):
    groups = [dist.new_group(ranks) for ranks in members]
    return next(group for ranks, group in zip(members, groups, strict=True) if dist.get_rank() in ranks)


WRONG = [
    ("02.1", "deadlock", all_send_first),
    ("02.1", "deadlock", all_receive_first),
    ("02.1", "deadlock", waits_for_the_send_first),
    ("02.1", "wrong_neighbour", the_other_way_round),
    ("02.1", "own_tensor", returns_its_own),
    ("02.1", "no_tensor", forgets_to_return_what_it_received),
    ("02.1", "sent_changed", receives_into_the_sent_tensor),
    ("02.1", "no_such_rank", only_in_pairs),
    ("02.1", "no_such_rank", the_ring_is_a_line),
    ("02.1", "alone", sends_to_itself_when_alone),
    ("02.1", "alone", waits_for_anybody_when_alone),
    ("02.1", "not_received", does_not_wait),
    ("02.1", "not_waited", never_waits_for_the_receive),
    ("02.1", "not_waited", never_waits_for_the_send),
    ("02.1", "sizes_differ", receives_floats),
    ("02.1", "deadlock", rank_0_never_sends),
    ("02.2", "fixed_port", fixed_port),
    ("02.2", "fixed_port", store_on_a_fixed_port),
    ("02.2", "no_deadline", without_a_deadline),
    ("02.2", "no_deadline", deadline_in_minutes),
    ("02.2", "too_early", deadline_of_half_a_second),
    ("02.2", "raised", deadline_as_a_number),
    ("02.2", "wrong_rank", counts_from_the_end),
    ("02.2", "wrong_rank", a_group_for_each),
    ("02.2", "never_met", everybody_is_rank_0),
    ("02.2", "never_met", a_file_for_each),
    ("02.2", "no_group", leaves_again),
    ("02.3", "members_only", only_members_call),
    ("02.3", "order_differs", my_own_first),
    ("02.3", "order_differs", backwards_on_odd_ranks),
    ("02.3", "wrong_number", all_groups_to_everybody),
    ("02.3", "wrong_number", only_the_first_of_mine),
    ("02.3", "wrong_members", the_world_for_every_group),
    ("02.3", "wrong_order", large_groups_first),
    ("02.3", "no_list", one_group_alone),
    ("02.1", "rounded", strangers.w1_via_float),
    ("02.1", "wrong_type", strangers.w1_flat),
    ("02.1", "alone", strangers.w1_alone_zeros),
    ("02.2", "too_early", strangers.w2_millis),
    ("02.2", "too_early", strangers.w2_relays_three_seconds),
    ("02.2", "no_deadline", strangers.w2_only_rank_zero_deadline),
    ("02.2", "wrong_file", strangers.w2_one_file),
    ("02.2", "no_backend", strangers.w2_no_backend),
    ("02.3", "merged", strangers.w3_merged),
    ("02.3", "no_group", strangers.w3_rank_lists),
    ("02.3", "world_group", strangers.w3_world_for_all),
]
