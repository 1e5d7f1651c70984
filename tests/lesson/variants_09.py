"""Right solutions of lesson 09 that look different, some as methods of the course's `Pipe`."""

import functools
from queue import SimpleQueue

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

    return tuple(Task(make(i, j)) for i, j in schedule)


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


def in_a_dictionary(batches, schedule, partitions, devices, in_queues, out_queues):
    def give(i, j):
        in_queues[j].put(Task(lambda: partitions[j](batches[i])))

    for i, j in schedule:
        give(i, j)
    answers = {(i, j): out_queues[j].get() for i, j in schedule}
    for (i, _), (ok, result) in answers.items():
        if not ok:
            raise result[1]
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


def cut_and_go_on(x, targets, first, second, loss_of):
    y = first(x)
    middle = y.detach().requires_grad_()
    loss = loss_of(second(middle), targets)
    loss.backward()
    y.backward(middle.grad)
    return loss.item()


def with_autograd_grad(x, targets, first, second, loss_of):
    y = first(x)
    middle = y.data.clone().requires_grad_(True)
    loss = loss_of(second(middle), targets)
    (grad, *rest) = torch.autograd.grad(loss, [middle, *second.parameters()])
    for weight, mine in zip(second.parameters(), rest, strict=True):
        weight.grad = mine
    torch.autograd.backward([y], [grad])
    return float(loss.detach())


def first_stage_again(x, targets, first, second, loss_of):
    state = torch.get_rng_state()
    with torch.no_grad():
        middle = first(x)
    middle.requires_grad_()
    loss = loss_of(second(middle), targets)
    loss.backward()
    torch.set_rng_state(state)  # for dropout
    (first(x) * middle.grad).sum().backward()
    return loss.item()


def with_a_hook(x, targets, first, second, loss_of):
    y, caught = first(x), []
    middle = y.detach().requires_grad_()
    middle.register_hook(caught.append)
    loss = loss_of(second(middle), targets)
    torch.autograd.backward(loss)
    torch.autograd.backward(y, caught)
    return loss.item()


# 09.5


def clock_there_and_back(  # noqa: C901 - in one piece, as it is written in a cell
    batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of
):
    values, aims, last = list(batch.split(split_size)), targets.split(split_size), len(partitions) - 1
    kept, total = {}, []

    def forward(i, j):
        x = values[i].to(devices[j]).detach().requires_grad_(values[i].is_floating_point())
        with torch.enable_grad():
            y = partitions[j](x)
            if j == last:
                y = loss_of(y, aims[i]) * len(aims[i]) / len(batch)
                total.append(y.item())
        kept[i, j], values[i] = (x, y), y

    def backward(i, j):
        x, y = kept.pop((i, j))
        y.backward(values[i] if j < last else None)
        values[i] = x.grad

    for work, turn in ((forward, False), (backward, True)):
        for cycle in clock_cycles(len(values), len(partitions)):
            cells = [(i, last - j if turn else j) for i, j in cycle]
            for i, j in cells:
                in_queues[j].put(Task(functools.partial(work, i, j)))
            answers = [out_queues[j].get() for _, j in cells]
            for ok, answer in answers:
                if not ok:
                    raise answer[1].with_traceback(answer[2])
    return sum(total)


def loss_of_the_whole_batch(  # noqa: C901 - in one piece
    batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of
):
    """The loss on the caller's thread; each phase is given out at once, and backward begins with the last piece."""
    num_stages, pieces = len(partitions), batch.split(split_size)
    m = len(pieces)
    boxes = [[SimpleQueue() for _ in range(m)] for _ in range(num_stages + 1)]
    back = [[SimpleQueue() for _ in range(m)] for _ in range(num_stages + 1)]
    kept = {}

    def forward(i, j):
        given = boxes[j][i].get(timeout=10)
        try:
            if given is None:
                raise RuntimeError("the stage before failed")
            with torch.enable_grad():
                x = given.detach()
                if x.is_floating_point():
                    x.requires_grad_()
                kept[i, j] = x, partitions[j](x)
        except BaseException:
            boxes[j + 1][i].put(None)
            raise
        boxes[j + 1][i].put(kept[i, j][1])

    def backward(i, j):
        grad = back[j + 1][i].get(timeout=10)
        try:
            if grad is None:
                raise RuntimeError("the stage behind failed")
            x, y = kept[i, j]
            torch.autograd.backward(y, grad)
        except BaseException:
            back[j][i].put(None)
            raise
        back[j][i].put(torch.zeros(()) if x.grad is None else x.grad)

    def run(work, order):
        for i in order:
            for j in range(num_stages):
                in_queues[j].put(Task(functools.partial(work, i, j)))
        answers = [out_queues[j].get(timeout=10) for _ in order for j in range(num_stages)]
        causes = [answer[1] for ok, answer in answers if not ok]
        causes.sort(key=lambda cause: "failed" in str(cause) and isinstance(cause, RuntimeError))
        if causes:
            raise causes[0]

    for box, piece in zip(boxes[0], pieces, strict=True):
        box.put(piece)
    run(forward, range(m))
    output = torch.cat([boxes[-1][i].get() for i in range(m)]).detach().requires_grad_()
    loss = loss_of(output, targets)
    loss.backward()
    for box, grad in zip(back[-1], output.grad.split(split_size), strict=True):
        box.put(grad)
    run(backward, range(m)[::-1])
    return loss.item()


class OneStage:
    """A stage that keeps what its backward needs."""

    def __init__(self, module, loss_of=None):
        self.module, self.loss_of, self.kept = module, loss_of, []

    def forward(self, x, y, share):
        with torch.set_grad_enabled(True):
            x = x.clone().detach()
            x.requires_grad = x.is_floating_point()
            out = self.module(x)
            if self.loss_of is not None:
                out = self.loss_of(out, y) * share
            self.kept.append((x, out))
            return out.detach()

    def backward(self, grad):
        x, out = self.kept.pop(0)
        out.backward(grad)
        return x.grad


def with_stage_objects(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    xs, ys = batch.split(split_size), targets.split(split_size)
    stages = [OneStage(part, loss_of if part is partitions[-1] else None) for part in partitions]
    flow, m, p = list(xs), len(xs), len(partitions)

    def cycle(cells, call):
        for i, j in cells:
            in_queues[j].put(Task(call(i, j)))
        answers = [(i, out_queues[j].get()) for i, j in cells]
        for i, (ok, answer) in answers:
            if not ok:
                raise answer[1].with_traceback(answer[2])
            flow[i] = answer

    for k in range(m + p - 1):
        cells = [(k - j, j) for j in range(p) if 0 <= k - j < m]
        cycle(cells, lambda i, j: functools.partial(stages[j].forward, flow[i], ys[i], len(ys[i]) / len(targets)))
    loss = float(sum(flow))
    flow[:] = [None] * m
    for k in range(m + p - 1):
        cells = [(k - (p - 1 - j), j) for j in range(p) if 0 <= k - (p - 1 - j) < m]
        cycle(cells, lambda i, j: functools.partial(stages[j].backward, flow[i]))
    return loss


RIGHT = {
    "09.1": [with_partial, with_default_arguments, with_a_factory, with_a_class],
    "09.2": [two_loops, all_answers_first, in_a_dictionary, as_in_the_course],
    "09.3": [split_and_cat, own_slices_and_clock, by_count_of_pieces, forward_of_the_course],
    "09.4": [cut_and_go_on, with_autograd_grad, first_stage_again, with_a_hook],
    "09.5": [clock_there_and_back, loss_of_the_whole_batch, with_stage_objects],
}
