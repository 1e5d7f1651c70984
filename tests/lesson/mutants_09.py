"""Wrong solutions of lesson 09, each with the hint that must refuse it.

Most of them were seen in public solutions of the course this lesson descends from.
"""

import functools

import torch

from pllab.pipeline import Task, clock_cycles
from tests.lesson.judge import with_switches
from tests.lesson.variants_09 import two_loops

# 09.1 make_tasks(batches, schedule, partitions)


def late_binding_lambda(batches, schedule, partitions):
    return [Task(lambda: partitions[j](batches[i])) for i, j in schedule]  # noqa: B023 - the bug


def computes_at_once(batches, schedule, partitions):
    results = [partitions[j](batches[i]) for i, j in schedule]
    return [Task(lambda result=result: result) for result in results]


def returns_results(batches, schedule, partitions):
    return [partitions[j](batches[i]) for i, j in schedule]


def forgets_the_last_pair(batches, schedule, partitions):
    return [Task(functools.partial(partitions[j], batches[i])) for i, j in schedule[:-1]]


def swaps_the_pair(batches, schedule, partitions):
    return [Task(functools.partial(partitions[i], batches[j])) for i, j in schedule]


def fails_for_no_pair(batches, schedule, partitions):
    numbers, stages = zip(*schedule, strict=True)
    return [Task(functools.partial(partitions[j], batches[i])) for i, j in zip(numbers, stages, strict=True)]


# 09.2 compute(batches, schedule, partitions, devices, in_queues, out_queues)


def late_tasks(batches, schedule, partitions, devices, in_queues, out_queues):
    for i, j in schedule:
        in_queues[j].put(Task(lambda: partitions[j](batches[i])))  # noqa: B023 - the bug
    for batch, stage in schedule:
        batches[batch] = out_queues[stage].get()[1]


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


@with_switches
def compute_that(mistakes, batches, schedule, partitions, devices, in_queues, out_queues):
    """Leaves results in the queues when it takes an exception; a switch does one thing more wrong."""
    _give(batches, schedule, partitions, in_queues)
    for place, (i, j) in enumerate(schedule):
        ok, result = out_queues[j].get()
        if ok:
            batches[place if "stores_by_place" in mistakes else i] = result
        elif "swallows" not in mistakes:
            raise result[1].with_traceback(None if "loses_the_traceback" in mistakes else result[2])


def into_the_old_tensor(batches, schedule, partitions, devices, in_queues, out_queues):
    _give(batches, schedule, partitions, in_queues)
    for i, j in schedule:
        batches[i][:] = out_queues[j].get()[1]


def waits_for_too_much(batches, schedule, partitions, devices, in_queues, out_queues):
    _give(batches, schedule, partitions, in_queues)
    for i, _ in schedule:
        for queue in out_queues:
            batches[i] = queue.get()[1]


def cuts_the_graph(batches, schedule, partitions, devices, in_queues, out_queues):
    cut = [lambda x, partition=partition: partition(x.detach()) for partition in partitions]
    two_loops(batches, schedule, cut, devices, in_queues, out_queues)


def _give(batches, schedule, partitions, in_queues):
    for i, j in schedule:
        in_queues[j].put(Task(functools.partial(partitions[j], batches[i])))


# 09.3 forward(x, split_size, partitions, devices, compute)


def _piped(batches, partitions, compute):
    for schedule in clock_cycles(len(batches), len(partitions)):
        compute(batches, schedule)
    return torch.cat(batches)


def size_as_count(x, split_size, partitions, devices, compute):
    return _piped(list(x.chunk(split_size)), partitions, compute)


def missing_last_tick(x, split_size, partitions, devices, compute):
    batches = list(x.split(split_size))
    for schedule in list(clock_cycles(len(batches), len(partitions)))[:-1]:
        compute(batches, schedule)
    return torch.cat(batches)


def keeps_the_tuple(x, split_size, partitions, devices, compute):
    return _piped(x.split(split_size), partitions, compute)


def results_out_of_order(x, split_size, partitions, devices, compute):
    batches = list(x.split(split_size))
    _piped(batches, partitions, compute)
    return torch.cat(batches[::-1])


def detaches(x, split_size, partitions, devices, compute):
    return _piped(list(x.detach().split(split_size)), partitions, compute)


# 09.4 cut_step(x, targets, first, second, loss_of)


def one_graph(x, targets, first, second, loss_of):
    loss = loss_of(second(first(x)), targets)
    loss.backward()
    return loss.item()


@with_switches
def step_that(mistakes, x, targets, first, second, loss_of):
    """A right step but for one thing."""
    y = first(x)
    middle = y.detach().requires_grad_()
    if "goes_on_behind_the_leaf" in mistakes:
        middle = middle.clone()
    if "cuts_through_a_list" in mistakes:
        middle = torch.tensor(y.tolist(), requires_grad=True)
    loss = loss_of(second(middle), targets)
    loss.backward()
    if "starts_from_ones" in mistakes:
        y.sum().backward()
    elif "forgets_the_first_stage" not in mistakes:
        y.backward(middle.grad)
    return loss.item()


# 09.5 pipe_step(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of)


class Step:
    """A right step in pieces, for wrong ones to change one of them."""

    def __init__(self, batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
        self.xs, self.ys = self.cut(batch, split_size), self.cut(targets, split_size)
        self.values, self.num_rows = list(self.xs), len(batch)
        self.partitions, self.devices, self.loss_of = partitions, devices, loss_of
        self.in_queues, self.out_queues = in_queues, out_queues
        self.kept, self.losses = {}, {}

    def cut(self, rows, split_size):
        return rows.split(split_size)

    def leaf(self, value):
        return value.detach().requires_grad_(value.is_floating_point())

    def forward(self, i, j):
        with torch.enable_grad():
            self.compute(i, j)

    def compute(self, i, j):
        x = self.leaf(self.values[i])
        y = self.partitions[j](x)
        if self.has_loss(j):
            y = self.loss_of(y, self.ys[i]) * len(self.xs[i]) / self.num_rows
            self.losses[i] = y.item()
        self.kept[i, j] = x, y
        self.values[i] = y

    def has_loss(self, j):
        return j == len(self.partitions) - 1

    def backward(self, i, j):
        x, y = self.kept.pop((i, j))
        y.backward(self.values[i] if j < len(self.partitions) - 1 else None)
        self.values[i] = x.grad

    def give(self, work, cells):
        for i, j in cells:
            self.in_queues[j].put(Task(functools.partial(work, i, j)))

    def take(self, cells):
        failed = [result for ok, result in [self.out_queues[j].get() for _, j in cells] if not ok]
        if failed:
            self.fail(*failed[0])

    def fail(self, kind, error, trace):
        raise error.with_traceback(trace)

    def cycle(self, work, cells):
        self.give(work, cells)
        self.take(cells)

    def cycles(self):
        return list(clock_cycles(len(self.xs), len(self.partitions)))

    def all_forward(self):
        for cells in self.cycles():
            self.cycle(self.forward, cells)

    def all_backward(self):
        for cells in self.cycles():
            self.cycle(self.backward, [(i, len(self.partitions) - 1 - j) for i, j in cells])

    def run(self):
        self.all_forward()
        self.all_backward()
        return self.result()

    def result(self):
        return sum(self.losses.values())


def as_function(kind):
    def step(*arguments):
        return kind(*arguments).run()

    step.__name__ = kind.__name__
    return step


class CountForSize(Step):
    def cut(self, rows, split_size):
        return rows.chunk(split_size)


class BackwardOnTheMainThread(Step):
    """What 09.1 to 09.3 make together with `loss.backward()` behind them."""

    def leaf(self, value):
        return value

    def all_backward(self):
        for i in range(len(self.xs)):
            self.values[i].backward()


class WholeGraphOnOneWorker(Step):
    def leaf(self, value):
        return value

    def backward(self, i, j):
        if j == len(self.partitions) - 1:
            self.values[i].backward()


class BackwardOneAfterTheOther(Step):
    def all_backward(self):
        for i in range(len(self.xs)):
            for j in reversed(range(len(self.partitions))):
                self.cycle(self.backward, [(i, j)])


class OneMicroBatchAtATime(Step):
    """Sound, and not what is asked: nothing overlaps in backward, and backward comes before the last forward."""

    def run(self):
        for i in range(len(self.xs)):
            for j in range(len(self.partitions)):
                self.cycle(self.forward, [(i, j)])
            for j in reversed(range(len(self.partitions))):
                self.cycle(self.backward, [(i, j)])
        return self.result()


class BackwardBesideForward(Step):
    """As in 1F1B: the last stage goes back with the first micro-batch before the first stage has run the last."""

    def run(self):
        stages, cycles = len(self.partitions), self.cycles()
        for tick in range(len(cycles) + stages):
            if tick < len(cycles):
                self.cycle(self.forward, cycles[tick])
            if tick >= stages:
                self.cycle(self.backward, [(i, stages - 1 - j) for i, j in cycles[tick - stages]])
        return self.result()


class TrustsTheGradMode(Step):
    def forward(self, i, j):
        self.compute(i, j)


class OverwritesGradients(Step):
    """Adds up for each stage by itself, and forgets that two may share a weight."""

    def all_backward(self):
        self.sums = {}
        super().all_backward()
        for (_, weight), grad in self.sums.items():
            weight.grad = grad

    def backward(self, i, j):
        x, y = self.kept.pop((i, j))
        weights = list(self.partitions[j].parameters())
        inputs = [x, *weights] if x.requires_grad else weights
        grads = list(torch.autograd.grad(y, inputs, self.values[i] if y.dim() else None))
        self.values[i] = grads.pop(0) if x.requires_grad else None
        for weight, grad in zip(weights, grads, strict=True):
            self.sums[j, weight] = self.sums.get((j, weight), 0) + grad


class LosesTheTraceback(Step):
    def fail(self, kind, error, trace):
        raise error.with_traceback(None)


class WrapsTheException(Step):
    def fail(self, kind, error, trace):
        raise RuntimeError("a stage failed") from error


class TakesUntilTheFirstFailure(Step):
    def take(self, cells):
        for _, j in cells:
            ok, result = self.out_queues[j].get()
            if not ok:
                self.fail(*result)


class AsksTokensForGradients(Step):
    def leaf(self, value):
        return value.detach().requires_grad_()


class NoLossForOneStage(Step):
    """The last stage is known by not being the first."""

    def has_loss(self, j):
        return j > 0 and super().has_loss(j)


def takes_too_much(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    step = Step(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of)
    for cells in step.cycles():
        step.give(step.forward, cells)
        for queue in out_queues:
            queue.get()


WRONG = [
    ("09.1", "late_binding", late_binding_lambda),
    ("09.1", "too_early", computes_at_once),
    ("09.1", "no_task", returns_results),
    ("09.1", "wrong", forgets_the_last_pair),
    ("09.1", "swapped_pair", swaps_the_pair),
    ("09.1", "raised", fails_for_no_pair),
    ("09.2", "late_binding", late_tasks),
    ("09.2", "wrong_worker", plain_loop),
    ("09.2", "sequential", waits_in_the_loop),
    ("09.2", "wrong_exception", compute_that("swallows")),
    ("09.2", "lost_traceback", compute_that("loses_the_traceback")),
    ("09.2", "stale_result", compute_that("leaves_results")),
    ("09.2", "wrong", compute_that("stores_by_place")),
    ("09.2", "raised", into_the_old_tensor),
    ("09.3", "wrong_rows", size_as_count),
    ("09.3", "wrong_clock", missing_last_tick),
    ("09.3", "not_a_list", keeps_the_tuple),
    ("09.3", "wrong", results_out_of_order),
    ("09.3", "no_gradient", detaches),
    ("09.4", "not_cut", one_graph),
    ("09.4", "no_gradient", step_that("forgets_the_first_stage")),
    ("09.4", "no_gradient", step_that("goes_on_behind_the_leaf")),
    ("09.4", "wrong", step_that("starts_from_ones")),
    ("09.4", "raised", step_that("cuts_through_a_list")),
    ("09.5", "stale_result", as_function(TakesUntilTheFirstFailure)),
    ("09.5", "wrong_exception", as_function(WrapsTheException)),
    ("09.5", "wrong", as_function(CountForSize)),
    ("09.5", "main_thread", as_function(BackwardOnTheMainThread)),
    ("09.5", "wrong_worker", as_function(WholeGraphOnOneWorker)),
    ("09.5", "sequential", as_function(BackwardOneAfterTheOther)),
    ("09.5", "wrong", as_function(OneMicroBatchAtATime)),
    ("09.5", "grad_mode", as_function(TrustsTheGradMode)),
    ("09.5", "wrong", as_function(OverwritesGradients)),
    ("09.5", "lost_traceback", as_function(LosesTheTraceback)),
    ("09.5", "raised", as_function(AsksTokensForGradients)),
    ("09.5", "raised", as_function(NoLossForOneStage)),
]

# Accepted once.
LET_THROUGH = [
    ("09.2", "wrong", cuts_the_graph),
    ("09.5", "wrong", as_function(BackwardBesideForward)),
]

# These never come back, so only the deadline of a check refuses them.
HANGING = [
    ("09.2", "hang", waits_for_too_much),
    ("09.5", "hang", takes_too_much),
]
