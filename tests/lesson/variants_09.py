"""Right solutions of lesson 09 that look different, some as methods of the course's `Pipe`."""

import functools

import torch

from pllab.pipeline import Task, clock_cycles

# 09.1


def with_partial(batches, schedule, partitions):
    return [Task(functools.partial(partitions[j], batches[i])) for i, j in schedule]


def with_default_arguments(batches, schedule, partitions):
    tasks = []
    for i, j in schedule:

        def compute(i=i, j=j):
            return partitions[j](batches[i])

        tasks.append(Task(compute))
    return tasks


def with_a_factory(batches, schedule, partitions):
    def make(i, j):
        return lambda: partitions[j](batches[i])

    return tuple(make(i, j) for i, j in schedule)


class Bound:
    """A task of the student's own making."""

    def __init__(self, stage, batch):
        self.stage, self.batch = stage, batch

    def compute(self):
        return self.stage(self.batch)


def with_a_class(batches, schedule, partitions):
    return [Bound(partitions[j], batches[i]) for i, j in schedule]


# 09.2


def two_loops(batches, schedule, partitions, devices, in_queues, out_queues):
    for i, j in schedule:
        in_queues[j].put(Task(functools.partial(partitions[j], batches[i].to(devices[j]))))
    failed = None
    for i, j in schedule:
        ok, result = out_queues[j].get()
        if ok:
            batches[i] = result
        elif failed is None:
            failed = result
    if failed is not None:
        raise failed[1].with_traceback(failed[2])


def all_answers_first(batches, schedule, partitions, devices, in_queues, out_queues):
    for i, j in schedule:

        def run(batch=batches[i], stage=partitions[j], device=devices[j]):
            return stage(batch.to(device))

        in_queues[j].put(Task(run))
    answers = [out_queues[j].get(timeout=30) for _, j in schedule]
    for (i, _), (ok, result) in zip(schedule, answers, strict=True):
        if not ok:
            kind, error, trace = result
            raise error.with_traceback(trace)
        batches[i] = result


def chains_the_exception(batches, schedule, partitions, devices, in_queues, out_queues):
    def give(i, j):
        in_queues[j].put(Task(lambda: partitions[j](batches[i])))

    for i, j in schedule:
        give(i, j)
    answers = {(i, j): out_queues[j].get() for i, j in schedule}
    for (i, j), (ok, result) in answers.items():
        if not ok:
            raise RuntimeError(f"stage {j} failed on micro-batch {i}") from result[1]
        batches[i] = result


def as_in_the_course(self, batches, schedule):
    partitions, devices = self.partitions, self.devices
    for i, j in schedule:
        batch, partition = batches[i].to(devices[j]), partitions[j]
        self.in_queues[j].put(Task(lambda batch=batch, partition=partition: partition(batch)))
    exc_info = None
    for i, j in schedule:
        success, payload = self.out_queues[j].get()
        if success:
            batches[i] = payload
        else:
            exc_info = payload
    if exc_info is not None:
        raise exc_info[0].with_traceback(exc_info[1], exc_info[2])


# 09.3


def split_and_cat(x, split_size, partitions, devices, compute):
    batches = list(x.split(split_size))
    for schedule in clock_cycles(len(batches), len(partitions)):
        compute(batches, schedule)
    return torch.cat(batches).to(devices[-1])


def own_slices_and_clock(x, split_size, partitions, devices, compute):
    batches = [x[start : start + split_size] for start in range(0, len(x), split_size)]
    num_batches, num_stages = len(batches), len(partitions)
    for tick in range(num_batches + num_stages - 1):
        compute(batches, [(tick - j, j) for j in range(num_stages) if 0 <= tick - j < num_batches])
    return torch.vstack(batches)


def by_count_of_pieces(x, split_size, partitions, devices, compute):
    batches = [*torch.split(x, split_size, dim=0)]
    for schedule in map(tuple, clock_cycles(num_batches=len(batches), num_partitions=len(devices))):
        compute(batches, schedule)
    return torch.cat([batch.to(devices[-1]) for batch in batches], dim=0)


def forward_of_the_course(self, x):
    micro_batches = list(x.split(self.split_size, dim=0))
    for schedule in clock_cycles(len(micro_batches), len(self.partitions)):
        self.compute(micro_batches, schedule)
    return torch.cat(micro_batches, dim=0).to(self.devices[-1])


# 09.4


def tells_then_joins(in_queues, threads):
    for queue in in_queues:
        queue.put(None)
    for thread in threads:
        thread.join()


def one_by_one(in_queues, threads):
    for queue, thread in zip(in_queues, threads, strict=True):
        queue.put(None)
        thread.join(timeout=10)


def only_the_living(in_queues, threads):
    living = [(queue, thread) for queue, thread in zip(in_queues, threads, strict=True) if thread.is_alive()]
    for queue, _ in living:
        queue.put(None)
    while any(thread.is_alive() for _, thread in living):
        for _, thread in living:
            thread.join(0.05)


RIGHT = [
    ("09.1", with_partial),
    ("09.1", with_default_arguments),
    ("09.1", with_a_factory),
    ("09.1", with_a_class),
    ("09.2", two_loops),
    ("09.2", all_answers_first),
    ("09.2", chains_the_exception),
    ("09.2", as_in_the_course),
    ("09.3", split_and_cat),
    ("09.3", own_slices_and_clock),
    ("09.3", by_count_of_pieces),
    ("09.3", forward_of_the_course),
    ("09.4", tells_then_joins),
    ("09.4", one_by_one),
    ("09.4", only_the_living),
]
