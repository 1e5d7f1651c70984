"""Wrong solutions of lesson 09, each with the hint that must refuse it.

Most of them were seen in public solutions of the course this lesson descends from.
"""

import functools
import threading
from concurrent.futures import ThreadPoolExecutor

import torch

from pllab.pipeline import Task, clock_cycles, create_workers
from tests.lesson import strangers_09 as strangers

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
    return [Task(lambda batch=batches[i]: partitions[j](batch)) for i, j in schedule]  # noqa: B023 - the bug


def computes_at_once(batches, schedule, partitions):
    results = [partitions[j](batches[i]) for i, j in schedule]
    return [Task(lambda result=result: result) for result in results]


def returns_results(batches, schedule, partitions):
    return [partitions[j](batches[i]) for i, j in schedule]


def forgets_the_last_pair(batches, schedule, partitions):
    return [Task(functools.partial(partitions[j], batches[i])) for i, j in schedule[:-1]]


def one_task_for_all(batches, schedule, partitions):
    return [Task(lambda: [partitions[j](batches[i]) for i, j in schedule])]


def sorts_the_pairs(batches, schedule, partitions):
    return [Task(functools.partial(partitions[j], batches[i])) for i, j in sorted(schedule)]


def swaps_the_pair(batches, schedule, partitions):
    return [Task(functools.partial(partitions[i], batches[j])) for i, j in schedule]


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


# 09.4 cut_step(x, targets, first, second, loss_of)


def one_graph(x, targets, first, second, loss_of):
    loss = loss_of(second(first(x)), targets)
    loss.backward()
    return loss.item()


def cut_for_nothing(x, targets, first, second, loss_of):
    y = first(x)
    y.detach().requires_grad_()
    loss = loss_of(second(y), targets)
    loss.backward()
    return loss.item()


def forgets_the_first_stage(x, targets, first, second, loss_of):
    middle = first(x).detach().requires_grad_()
    loss = loss_of(second(middle), targets)
    loss.backward()
    return loss.item()


def forgets_to_ask_for_a_gradient(x, targets, first, second, loss_of):
    y = first(x)
    middle = y.detach()
    loss = loss_of(second(middle), targets)
    loss.backward()
    if middle.grad is not None:
        y.backward(middle.grad)
    return loss.item()


def starts_from_ones(x, targets, first, second, loss_of):
    y = first(x)
    middle = y.detach().requires_grad_()
    loss = loss_of(second(middle), targets)
    loss.backward()
    y.sum().backward()
    return loss.item()


def goes_back_twice(x, targets, first, second, loss_of):
    y = first(x)
    middle = y.detach().requires_grad_()
    loss = loss_of(second(middle), targets)
    loss.backward()
    y.backward(middle.grad, retain_graph=True)
    y.backward(middle.grad)
    return loss.item()


def returns_the_tensor(x, targets, first, second, loss_of):
    y = first(x)
    middle = y.detach().requires_grad_()
    loss = loss_of(second(middle), targets)
    loss.backward()
    y.backward(middle.grad)
    return loss


def returns_the_sum(x, targets, first, second, loss_of):
    loss = returns_the_tensor(x, targets, first, second, loss_of)
    return loss.item() * len(x)


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

    def share(self, i):
        return len(self.xs[i]) / self.num_rows

    def leaf(self, value):
        return value.detach().requires_grad_(value.is_floating_point())

    def forward(self, i, j):
        with torch.enable_grad():
            x = self.leaf(self.values[i])
            y = self.partitions[j](x)
            if j == len(self.partitions) - 1:
                y = self.loss_of(y, self.ys[i]) * self.share(i)
                self.losses[i] = y.item()
        self.kept[i, j] = x, y
        self.values[i] = y

    def backward(self, i, j):
        x, y = self.kept.pop((i, j))
        y.backward(self.values[i] if y.dim() else None)
        self.values[i] = x.grad

    def give(self, work, cells):
        for i, j in cells:
            self.in_queues[j].put(Task(functools.partial(work, i, j)))

    def take(self, cells):
        failed = [result for ok, result in [self.out_queues[j].get() for _, j in cells] if not ok]
        if failed:
            raise failed[0][1].with_traceback(failed[0][2])

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


class WholeBatch(Step):
    def cut(self, rows, split_size):
        return (rows,)


class MeanOfMeans(Step):
    def share(self, i):
        return 1 / len(self.xs)

    def result(self):
        return sum(self.losses[i] * len(self.xs) * len(self.xs[i]) / self.num_rows for i in self.losses)


class MeanOfMeansInBoth(Step):
    def share(self, i):
        return 1 / len(self.xs)


class Summed(Step):
    def share(self, i):
        return 1.0

    def result(self):
        return sum(self.losses[i] * len(self.xs[i]) / self.num_rows for i in self.losses)


class LastLoss(Step):
    def result(self):
        return self.losses[len(self.xs) - 1]


class SaysNothing(Step):
    def result(self):
        return None


class GivesATensor(Step):
    def result(self):
        return torch.tensor(sum(self.losses.values()))


class ClearsOnTheWay(Step):
    def backward(self, i, j):
        self.partitions[j].zero_grad()
        super().backward(i, j)


class ForwardOnly(Step):
    def all_backward(self):
        pass


class BackwardOnTheMainThread(Step):
    """What 09.1 to 09.3 make together with `loss.backward()` behind them."""

    def leaf(self, value):
        return value

    def all_backward(self):
        for i in range(len(self.xs)):
            self.values[i].backward()


class CutBackwardOnTheMainThread(Step):
    def all_backward(self):
        for i in range(len(self.xs)):
            for j in reversed(range(len(self.partitions))):
                self.backward(i, j)


class WholeGraphOnOneWorker(Step):
    def leaf(self, value):
        return value

    def backward(self, i, j):
        if j == len(self.partitions) - 1:
            self.values[i].backward()


class AllBackwardOnTheLastWorker(Step):
    def all_backward(self):
        def all_stages(i, last):
            for j in reversed(range(last + 1)):
                self.backward(i, j)

        for i in range(len(self.xs)):
            self.cycle(all_stages, [(i, len(self.partitions) - 1)])


class SwapsTheWorkersInBackward(Step):
    def all_backward(self):
        last = len(self.partitions) - 1
        for cells in self.cycles():
            self.cycle(lambda i, j: self.backward(i, last - j), cells)


class ForwardOnTheMainThread(Step):
    def all_forward(self):
        for i, j in (cell for cells in self.cycles() for cell in cells):
            self.forward(i, j)


class WorkersOfItsOwn(Step):
    def run(self):
        with create_workers(self.devices) as (self.in_queues, self.out_queues):
            return super().run()


class BackwardOneAfterTheOther(Step):
    def all_backward(self):
        for i in range(len(self.xs)):
            for j in reversed(range(len(self.partitions))):
                self.cycle(self.backward, [(i, j)])


class ForwardOneAfterTheOther(Step):
    def all_forward(self):
        for i in range(len(self.xs)):
            for j in range(len(self.partitions)):
                self.cycle(self.forward, [(i, j)])


class OneMicroBatchAtATime(Step):
    """Sound, and not what is asked: nothing overlaps in backward, and backward comes before the last forward."""

    def run(self):
        for i in range(len(self.xs)):
            for j in range(len(self.partitions)):
                self.cycle(self.forward, [(i, j)])
            for j in reversed(range(len(self.partitions))):
                self.cycle(self.backward, [(i, j)])
        return self.result()


class TrustsTheGradMode(Step):
    def forward(self, i, j):
        x = self.leaf(self.values[i])
        y = self.partitions[j](x)
        if j == len(self.partitions) - 1:
            y = self.loss_of(y, self.ys[i]) * self.share(i)
            self.losses[i] = y.item()
        self.kept[i, j] = x, y
        self.values[i] = y


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


class Swallows(Step):
    def take(self, cells):
        for _, j in cells:
            self.out_queues[j].get()


class SwallowsInBackward(Step):
    def all_backward(self):
        try:
            super().all_backward()
        except Exception:
            pass


class RaisesAnother(Step):
    def take(self, cells):
        if not all([self.out_queues[j].get()[0] for _, j in cells]):
            raise RuntimeError("a stage failed")


class LosesTheTraceback(Step):
    def take(self, cells):
        failed = [result for ok, result in [self.out_queues[j].get() for _, j in cells] if not ok]
        if failed:
            raise failed[0][1].with_traceback(None)


class LeavesResultsBehind(Step):
    def take(self, cells):
        for _, j in sorted(cells, key=lambda cell: cell[1]):
            ok, result = self.out_queues[j].get()
            if not ok:
                raise result[1].with_traceback(result[2])


class LateBinding(Step):
    def give(self, work, cells):
        for i, j in cells:
            self.in_queues[j].put(Task(lambda: work(i, j)))  # noqa: B023 - the bug


def takes_too_much(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    step = Step(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of)
    for cells in step.cycles():
        step.give(step.forward, cells)
        for queue in out_queues:
            queue.get()


def strided_pieces(x, split_size, partitions, devices, compute):
    batches = [x[k::split_size] for k in range(split_size) if len(x[k::split_size])]
    output = torch.empty_like(x)
    for k, piece in enumerate(_piped(batches, partitions, compute).split([len(batch) for batch in batches])):
        output[k::split_size] = piece
    return output


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
    ("09.3", "not_consecutive", strided_pieces),
    ("09.4", "not_cut", one_graph),
    ("09.4", "not_cut", cut_for_nothing),
    ("09.4", "no_gradient", forgets_the_first_stage),
    ("09.4", "no_gradient", forgets_to_ask_for_a_gradient),
    ("09.4", "wrong_gradient", starts_from_ones),
    ("09.4", "wrong_gradient", goes_back_twice),
    ("09.4", "no_number", returns_the_tensor),
    ("09.4", "wrong_loss", returns_the_sum),
    ("09.1", "no_task", strangers.w1_no_task),
    ("09.2", "wrong_exception", strangers.w2_wrapped),
    ("09.2", "wrong_worker", strangers.w2_kth_queue),
    ("09.2", "stale_result", strangers.w2_polls),
    ("09.2", "old_failure", strangers.w2_remembers),
    ("09.2", "swallowed", strangers.w2_swallows_second),
    ("09.2", "swallowed", strangers.w2_forgets),
    ("09.3", "wrong_shape", strangers.w3_empty_like),
    ("09.5", "stale_result", strangers.w5_early_forward),
    ("09.5", "stale_result", strangers.w5_early_backward),
    ("09.5", "stale_result", strangers.w5_early_reversed),
    ("09.5", "stale_result", strangers.w5_drains),
    ("09.5", "wrong_exception", strangers.w5_wrapped),
    ("09.5", "dead_worker", strangers.w5_frees),
    ("09.5", "size_as_count", as_function(CountForSize)),
    ("09.5", "wrong_rows", as_function(WholeBatch)),
    ("09.5", "mean_of_means", as_function(MeanOfMeans)),
    ("09.5", "wrong_loss", as_function(MeanOfMeansInBoth)),
    ("09.5", "summed", as_function(Summed)),
    ("09.5", "wrong_loss", as_function(LastLoss)),
    ("09.5", "nothing", as_function(SaysNothing)),
    ("09.5", "no_number", as_function(GivesATensor)),
    ("09.5", "last_only", as_function(ClearsOnTheWay)),
    ("09.5", "no_gradient", as_function(ForwardOnly)),
    ("09.5", "main_thread", as_function(BackwardOnTheMainThread)),
    ("09.5", "main_thread", as_function(CutBackwardOnTheMainThread)),
    ("09.5", "whole_graph", as_function(WholeGraphOnOneWorker)),
    ("09.5", "whole_graph", as_function(AllBackwardOnTheLastWorker)),
    ("09.5", "wrong_worker", as_function(SwapsTheWorkersInBackward)),
    ("09.5", "no_workers", as_function(ForwardOnTheMainThread)),
    ("09.5", "threads_per_call", as_function(WorkersOfItsOwn)),
    ("09.5", "sequential_backward", as_function(BackwardOneAfterTheOther)),
    ("09.5", "sequential_forward", as_function(ForwardOneAfterTheOther)),
    ("09.5", "not_gpipe", as_function(OneMicroBatchAtATime)),
    ("09.5", "grad_mode", as_function(TrustsTheGradMode)),
    ("09.5", "shared_weight", as_function(OverwritesGradients)),
    ("09.5", "swallowed", as_function(Swallows)),
    ("09.5", "swallowed", as_function(SwallowsInBackward)),
    ("09.5", "wrong_exception", as_function(RaisesAnother)),
    ("09.5", "lost_traceback", as_function(LosesTheTraceback)),
    ("09.5", "stale_result", as_function(LeavesResultsBehind)),
]

# These never come back, so only the deadline of a check refuses them.
HANGING = [
    ("09.2", "hang", waits_for_too_much),
    ("09.5", "hang", takes_too_much),
]
