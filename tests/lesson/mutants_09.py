"""Wrong solutions of lesson 09, each with the hint that must refuse it.

Most of them were seen in public solutions of the course this lesson descends from.
"""

import functools
import threading
from concurrent.futures import ThreadPoolExecutor

import torch

from pllab.pipeline import Task, clock_cycles, create_workers

# 09.1 make_tasks(batches, schedule, partitions)


def late_binding_lambda(batches, schedule, partitions):
    return [Task(lambda: partitions[j](batches[i])) for i, j in schedule]  # noqa: B023 - the bug


def late_binding_inner_function(batches, schedule, partitions):
    tasks = []
    for i, j in schedule:

        def compute():
            return partitions[j](batches[i])  # noqa: B023 - the bug

        tasks.append(Task(compute))
    return tasks


def binds_only_the_batch(batches, schedule, partitions):
    return [lambda batch=batches[i]: partitions[j](batch) for i, j in schedule]  # noqa: B023 - the bug


def computes_at_once(batches, schedule, partitions):
    results = [partitions[j](batches[i]) for i, j in schedule]
    return [lambda result=result: result for result in results]


def returns_results(batches, schedule, partitions):
    return [partitions[j](batches[i]) for i, j in schedule]


def forgets_the_last_pair(batches, schedule, partitions):
    return [functools.partial(partitions[j], batches[i]) for i, j in schedule[:-1]]


def one_task_for_all(batches, schedule, partitions):
    return [Task(lambda: [partitions[j](batches[i]) for i, j in schedule])]


def sorts_the_pairs(batches, schedule, partitions):
    return [functools.partial(partitions[j], batches[i]) for i, j in sorted(schedule)]


def swaps_the_pair(batches, schedule, partitions):
    return [functools.partial(partitions[i], batches[j]) for i, j in schedule]


def forgets_to_return(batches, schedule, partitions):
    tasks = []
    for i, j in schedule:
        tasks.append(functools.partial(partitions[j], batches[i]))


# 09.2 compute(batches, schedule, partitions, devices, in_queues, out_queues)


def late_tasks(batches, schedule, partitions, devices, in_queues, out_queues):
    for i, j in schedule:
        in_queues[j].put(Task(lambda: partitions[j](batches[i])))  # noqa: B023 - the bug
    _take(batches, schedule, out_queues)


def plain_loop(batches, schedule, partitions, devices, in_queues, out_queues):
    for i, j in schedule:
        batches[i] = partitions[j](batches[i])


def waits_in_the_loop(batches, schedule, partitions, devices, in_queues, out_queues):
    for i, j in schedule:
        in_queues[j].put(Task(functools.partial(partitions[j], batches[i])))
        ok, result = out_queues[j].get()
        if not ok:
            raise result[1].with_traceback(result[2])
        batches[i] = result


def workers_per_call(batches, schedule, partitions, devices, in_queues, out_queues):
    with create_workers(devices) as (own_in, own_out):
        _give(batches, schedule, partitions, own_in)
        _take(batches, schedule, own_out)


def pool_per_call(batches, schedule, partitions, devices, in_queues, out_queues):
    with ThreadPoolExecutor(len(schedule)) as pool:
        futures = [pool.submit(partitions[j], batches[i]) for i, j in schedule]
    for (i, _), future in zip(schedule, futures, strict=True):
        batches[i] = future.result()


def helper_thread_per_call(batches, schedule, partitions, devices, in_queues, out_queues):
    giver = threading.Thread(target=_give, args=(batches, schedule, partitions, in_queues))
    giver.start()
    _take(batches, schedule, out_queues)
    giver.join()


def all_on_the_first_worker(batches, schedule, partitions, devices, in_queues, out_queues):
    for i, j in schedule:
        in_queues[0].put(Task(functools.partial(partitions[j], batches[i])))
    for i, _ in schedule:
        batches[i] = out_queues[0].get()[1]


def swallows(batches, schedule, partitions, devices, in_queues, out_queues):
    _give(batches, schedule, partitions, in_queues)
    for i, j in schedule:
        ok, result = out_queues[j].get()
        if ok:
            batches[i] = result


def stores_the_exception(batches, schedule, partitions, devices, in_queues, out_queues):
    _give(batches, schedule, partitions, in_queues)
    for i, j in schedule:
        _, batches[i] = out_queues[j].get()


def raises_without_traceback(batches, schedule, partitions, devices, in_queues, out_queues):
    _give(batches, schedule, partitions, in_queues)
    for i, j in schedule:
        ok, result = out_queues[j].get()
        if not ok:
            raise result[1].with_traceback(None)
        batches[i] = result


def raises_another(batches, schedule, partitions, devices, in_queues, out_queues):
    _give(batches, schedule, partitions, in_queues)
    for i, j in schedule:
        ok, result = out_queues[j].get()
        if not ok:
            raise RuntimeError(f"stage {j} failed")
        batches[i] = result


def leaves_results_behind(batches, schedule, partitions, devices, in_queues, out_queues):
    _give(batches, schedule, partitions, in_queues)
    for i, j in sorted(schedule, key=lambda pair: pair[1]):
        ok, result = out_queues[j].get()
        if not ok:
            raise result[1].with_traceback(result[2])
        batches[i] = result


def results_by_position(batches, schedule, partitions, devices, in_queues, out_queues):
    _give(batches, schedule, partitions, in_queues)
    for place, (_, j) in enumerate(schedule):
        batches[place] = out_queues[j].get()[1]


def results_in_reverse(batches, schedule, partitions, devices, in_queues, out_queues):
    _give(batches, schedule, partitions, in_queues)
    for (i, _), (_, j) in zip(schedule, reversed(schedule), strict=True):
        batches[i] = out_queues[j].get()[1]


def stores_the_pair(batches, schedule, partitions, devices, in_queues, out_queues):
    _give(batches, schedule, partitions, in_queues)
    for i, j in schedule:
        batches[i] = out_queues[j].get()


def forgets_to_store(batches, schedule, partitions, devices, in_queues, out_queues):
    _give(batches, schedule, partitions, in_queues)
    return [out_queues[j].get()[1] for _, j in schedule]


def waits_for_too_much(batches, schedule, partitions, devices, in_queues, out_queues):
    _give(batches, schedule, partitions, in_queues)
    for i, _ in schedule:
        for queue in out_queues:
            batches[i] = queue.get()[1]


def _give(batches, schedule, partitions, in_queues):
    for i, j in schedule:
        in_queues[j].put(Task(functools.partial(partitions[j], batches[i])))


def _take(batches, schedule, out_queues):
    failed = None
    for i, j in schedule:
        ok, result = out_queues[j].get()
        if ok:
            batches[i] = result
        else:
            failed = failed or result
    if failed:
        raise failed[1].with_traceback(failed[2])


# 09.3 forward(x, split_size, partitions, devices, compute)


def _piped(batches, partitions, compute):
    for schedule in clock_cycles(len(batches), len(partitions)):
        compute(batches, schedule)
    return torch.cat(batches)


def size_as_count(x, split_size, partitions, devices, compute):
    return _piped(list(x.chunk(split_size)), partitions, compute)


def even_pieces_only(x, split_size, partitions, devices, compute):
    whole = max(1, len(x) // split_size)
    return _piped(list(x.tensor_split(whole)), partitions, compute)


def whole_batch(x, split_size, partitions, devices, compute):
    return _piped([x], partitions, compute)


def drops_the_ragged_rest(x, split_size, partitions, devices, compute):
    pieces = [piece for piece in x.split(split_size) if len(piece) == split_size] or [x]
    return _piped(pieces, partitions, compute)


def missing_last_tick(x, split_size, partitions, devices, compute):
    batches = list(x.split(split_size))
    for schedule in list(clock_cycles(len(batches), len(partitions)))[:-1]:
        compute(batches, schedule)
    return torch.cat(batches)


def one_pair_per_cycle(x, split_size, partitions, devices, compute):
    batches = list(x.split(split_size))
    for schedule in clock_cycles(len(batches), len(partitions)):
        for pair in schedule:
            compute(batches, [pair])
    return torch.cat(batches)


def one_big_cycle(x, split_size, partitions, devices, compute):
    batches = list(x.split(split_size))
    compute(batches, [(i, j) for j in range(len(partitions)) for i in range(len(batches))])
    return torch.cat(batches)


def swapped_clock(x, split_size, partitions, devices, compute):
    batches = list(x.split(split_size))
    for schedule in clock_cycles(len(partitions), len(batches)):
        compute(batches, schedule)
    return torch.cat(batches)


def keeps_the_tuple(x, split_size, partitions, devices, compute):
    return _piped(x.split(split_size), partitions, compute)


def results_out_of_order(x, split_size, partitions, devices, compute):
    batches = list(x.split(split_size))
    _piped(batches, partitions, compute)
    return torch.cat(batches[::-1])


def last_micro_batch_only(x, split_size, partitions, devices, compute):
    batches = list(x.split(split_size))
    _piped(batches, partitions, compute)
    return batches[-1]


def stacks_a_list(x, split_size, partitions, devices, compute):
    batches = list(x.split(split_size))
    _piped(batches, partitions, compute)
    return batches


def detaches(x, split_size, partitions, devices, compute):
    return _piped(list(x.detach().split(split_size)), partitions, compute)


def under_no_grad(x, split_size, partitions, devices, compute):
    with torch.no_grad():
        return _piped(list(x.split(split_size)), partitions, compute)


def scales_the_gradient(x, split_size, partitions, devices, compute):
    output = _piped(list(x.split(split_size)), partitions, compute)
    return output + output - output.detach()


# 09.4 shutdown(in_queues, threads)


def says_nothing(in_queues, threads):
    return None


def only_joins(in_queues, threads):
    for thread in threads:
        thread.join()


def does_not_wait(in_queues, threads):
    for queue in in_queues:
        queue.put(None)


def one_goodbye_for_all(in_queues, threads):
    in_queues[0].put(None)
    for thread in threads:
        thread.join()


def gives_up_waiting(in_queues, threads):
    in_queues[0].put(None)
    for thread in threads:
        thread.join(timeout=0.5)


def throws_the_work_away(in_queues, threads):
    for queue in in_queues:
        while not queue.empty():
            queue.get()
        queue.put(None)
    for thread in threads:
        thread.join()


WRONG = [
    ("09.1", "late_binding", late_binding_lambda),
    ("09.1", "late_binding", late_binding_inner_function),
    ("09.1", "late_binding", binds_only_the_batch),
    ("09.1", "too_early", computes_at_once),
    ("09.1", "no_task", returns_results),
    ("09.1", "wrong_number", forgets_the_last_pair),
    ("09.1", "wrong_number", one_task_for_all),
    ("09.1", "wrong_order", sorts_the_pairs),
    ("09.1", "swapped_pair", swaps_the_pair),
    ("09.1", "no_list", forgets_to_return),
    ("09.2", "late_binding", late_tasks),
    ("09.2", "no_workers", plain_loop),
    ("09.2", "sequential", waits_in_the_loop),
    ("09.2", "threads_per_call", workers_per_call),
    ("09.2", "threads_per_call", pool_per_call),
    ("09.2", "threads_per_call", helper_thread_per_call),
    ("09.2", "wrong_worker", all_on_the_first_worker),
    ("09.2", "swallowed", swallows),
    ("09.2", "exception_as_activation", stores_the_exception),
    ("09.2", "lost_traceback", raises_without_traceback),
    ("09.2", "wrong_exception", raises_another),
    ("09.2", "stale_result", leaves_results_behind),
    ("09.2", "wrong_place", results_by_position),
    ("09.2", "wrong_place", results_in_reverse),
    ("09.2", "whole_tuple", stores_the_pair),
    ("09.2", "wrong_place", forgets_to_store),
    ("09.3", "size_as_count", size_as_count),
    ("09.3", "wrong_rows", even_pieces_only),
    ("09.3", "wrong_rows", whole_batch),
    ("09.3", "wrong_rows", drops_the_ragged_rest),
    ("09.3", "missing_tick", missing_last_tick),
    ("09.3", "unpipelined", one_pair_per_cycle),
    ("09.3", "two_on_one_stage", one_big_cycle),
    ("09.3", "wrong_clock", swapped_clock),
    ("09.3", "not_a_list", keeps_the_tuple),
    ("09.3", "out_of_order", results_out_of_order),
    ("09.3", "lost_rows", last_micro_batch_only),
    ("09.3", "no_tensor", stacks_a_list),
    ("09.3", "no_gradient", detaches),
    ("09.3", "no_gradient", under_no_grad),
    ("09.3", "wrong_gradient", scales_the_gradient),
    ("09.4", "not_told", says_nothing),
    ("09.4", "not_joined", does_not_wait),
    ("09.4", "not_told", gives_up_waiting),
    ("09.4", "lost_work", throws_the_work_away),
]

# These never come back, so only the deadline of a check refuses them.
HANGING = [
    ("09.2", "hang", waits_for_too_much),
    ("09.4", "no_goodbye", only_joins),
    ("09.4", "no_goodbye", one_goodbye_for_all),
]
