"""Solutions of lesson 09 by somebody who read the lesson alone."""

# ruff: noqa

from functools import partial
from queue import SimpleQueue

import torch

from pllab.pipeline import Task, clock_cycles


# ---------------------------------------------------------------- 09.1


def r1_defaults(batches, schedule, partitions):
    tasks = []
    for i, j in schedule:
        tasks.append(Task(lambda i=i, j=j: partitions[j](batches[i])))
    return tasks


def r1_factory(batches, schedule, partitions):
    def make(i, j):
        def compute():
            return partitions[j](batches[i])

        return Task(compute)

    tasks = []
    for pair in schedule:
        tasks += [make(*pair)]
    return tasks


# ---------------------------------------------------------------- 09.2


def r2_collect(self, batches, schedule):
    """As the method of a Pipe."""
    schedule = list(schedule)
    for i, j in schedule:

        def work(stage=self.partitions[j], x=batches[i]):
            return stage(x)

        self.in_queues[j].put(Task(work))
    answers = [self.out_queues[j].get() for _, j in schedule]
    errors = [answer for ok, answer in answers if not ok]
    for (i, _), (ok, answer) in zip(schedule, answers):
        if ok:
            batches[i] = answer
    if errors:
        raise errors[0][1]


def r2_worker_stores(batches, schedule, partitions, devices, in_queues, out_queues):
    def work(i, j):
        batches[i] = partitions[j](batches[i])

    for i, j in schedule:
        in_queues[j].put(Task(partial(work, i, j)))
    bad = []
    for _ in schedule:
        pass
    for _, j in schedule:
        ok, info = out_queues[j].get(timeout=60)
        if not ok:
            bad.append(info)
    if bad:
        kind, error, trace = bad[-1]
        raise error.with_traceback(trace)


def r2_sorted_by_stage(batches, schedule, partitions, devices, in_queues, out_queues):
    for i, j in schedule:
        in_queues[j].put(Task(partial(partitions[j], batches[i])))
    failure = None
    for i, j in sorted(schedule, key=lambda pair: pair[1]):
        ok, result = out_queues[j].get()
        if ok:
            batches[i] = result
        else:
            failure = failure or result
    if failure:
        raise failure[1].with_traceback(failure[2])


# ---------------------------------------------------------------- 09.3


def r3_slices(x, split_size, partitions, devices, compute):
    batches = []
    for start in range(0, x.shape[0], split_size):
        batches.append(x[start : start + split_size])
    m, p = len(batches), len(devices)
    for tick in range(m + p - 1):
        compute(batches, [(tick - j, j) for j in range(p - 1, -1, -1) if 0 <= tick - j < m])
    return torch.cat(batches, dim=0)


def r3_method(self, x):
    num = (len(x) + self.split_size - 1) // self.split_size
    batches = [x.narrow(0, k * self.split_size, min(self.split_size, len(x) - k * self.split_size)) for k in range(num)]
    for cycle in clock_cycles(num, len(self.partitions)):
        self.compute(batches, cycle)
    return torch.vstack(batches) if batches[0].dim() == 2 else torch.cat(batches)


# ---------------------------------------------------------------- 09.4
def r4_grad(x, targets, first, second, loss_of):
    y = first(x)
    begin = y.detach().clone()
    begin.requires_grad = True
    loss = loss_of(second(begin), targets)
    weights = list(second.parameters())
    grads = torch.autograd.grad(loss, [begin, *weights])
    for weight, grad in zip(weights, grads[1:]):
        weight.grad = grad if weight.grad is None else weight.grad + grad
    torch.autograd.backward(y, grads[0])
    return float(loss)


class Cut4:
    def __init__(self, value):
        self.end = value
        self.begin = value.data
        self.begin.requires_grad_(True)

    def backward(self):
        (self.end * self.begin.grad).sum().backward()


def r4_class(x, targets, first, second, loss_of):
    cut = Cut4(first(x))
    loss = loss_of(second(cut.begin), targets)
    loss.backward()
    number = loss.detach().tolist()
    cut.backward()
    return number


# ---------------------------------------------------------------- 09.5
def cycle5(pairs, work, in_queues, out_queues):
    for i, j in pairs:
        in_queues[j].put(Task(partial(work, i, j)))
    failure = None
    for _, j in pairs:
        ok, result = out_queues[j].get()
        if not ok and failure is None:
            failure = result
    if failure is not None:
        raise failure[1].with_traceback(failure[2])


def r5_cycles(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    parts, aims = batch.split(split_size), targets.split(split_size)
    m, p = len(parts), len(partitions)
    begins, ends, losses = {}, {}, [0.0] * m

    def forward(i, j):
        with torch.enable_grad():
            x = parts[i] if j == 0 else ends[i, j - 1].detach().requires_grad_()
            y = partitions[j](x)
            if j == p - 1:
                y = loss_of(y, aims[i]) * (len(parts[i]) / len(batch))
                losses[i] = y.item()
            begins[i, j], ends[i, j] = x, y

    def backward(i, j):
        y = ends.pop((i, j))
        gradient = begins.pop((i, j + 1)).grad if j < p - 1 else None
        if y.requires_grad:
            y.backward(gradient)

    for pairs in clock_cycles(m, p):
        cycle5(pairs, forward, in_queues, out_queues)
    for pairs in clock_cycles(m, p):
        cycle5([(i, p - 1 - j) for i, j in pairs], backward, in_queues, out_queues)
    return sum(losses)


def r5_reversed(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    """The loss on the caller's thread, of the whole output, and the clock backwards."""
    rows = list(torch.split(batch, split_size))
    cycles = list(clock_cycles(len(rows), len(partitions)))
    last = len(partitions) - 1
    values = list(rows)
    kept = {}
    grads = {}

    def run(cycle, make):
        for i, j in cycle:
            in_queues[j].put(Task(make(i, j)))
        answers = [(i, out_queues[j].get()) for i, j in cycle]
        for _, (ok, info) in answers:
            if not ok:
                raise info[1].with_traceback(info[2])
        return [(i, answer[1]) for i, answer in answers]

    def make_forward(i, j):
        x = values[i]

        def work():
            with torch.enable_grad():
                begin = x.detach()
                if begin.is_floating_point():
                    begin.requires_grad_()
                y = partitions[j](begin)
            kept[i, j] = begin, y
            return y.detach()

        return work

    def make_backward(i, j):
        def work():
            begin, y = kept.pop((i, j))
            torch.autograd.backward([y], [grads[i]])
            return begin.grad

        return work

    for cycle in cycles:
        for i, value in run(cycle, make_forward):
            values[i] = value
    with torch.enable_grad():
        output = torch.cat(values).requires_grad_()
        loss = loss_of(output, targets)
        (whole,) = torch.autograd.grad(loss, output)
    grads.update(enumerate(whole.split(split_size)))
    for cycle in reversed(cycles):
        for i, value in run(cycle, make_backward):
            grads[i] = value
    return loss.item()


class Flow5:
    """Each worker gets its whole row at once; queues between the stages."""

    def __init__(self, m, p):
        self.up = [SimpleQueue() for _ in range(p + 1)]
        self.down = [SimpleQueue() for _ in range(p + 1)]
        self.kept = {}
        self.losses = []


def r5_flow(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    parts, aims = batch.split(split_size), targets.split(split_size)
    m, p = len(parts), len(partitions)
    flow = Flow5(m, p)

    def forward(i, j):
        sent = False
        try:
            x = parts[i] if j == 0 else flow.up[j].get(timeout=60)
            if x is None:
                return
            with torch.enable_grad():
                if j > 0:
                    x = x.detach().requires_grad_()
                y = partitions[j](x)
                if j == p - 1:
                    y = loss_of(y, aims[i]) * len(aims[i]) / len(targets)
                    flow.losses.append(y.item())
            flow.kept[i, j] = x, y
            flow.up[j + 1].put(y)
            sent = True
        finally:
            if not sent:
                flow.up[j + 1].put(None)

    def backward(i, j):
        out = None
        try:
            gradient = None
            if j < p - 1:
                gradient = flow.down[j + 1].get(timeout=60)
                if gradient is None:
                    return
            x, y = flow.kept.pop((i, j))
            y.backward(gradient)
            out = x.grad
        finally:
            flow.down[j].put(out)

    def all_of(work, stages):
        order = [(i, j) for i in range(m) for j in stages]
        for i, j in order:
            in_queues[j].put(Task(partial(work, i, j)))
        bad = None
        for _, j in order:
            ok, info = out_queues[j].get()
            if not ok:
                bad = bad or info
        if bad:
            raise bad[1]

    all_of(forward, range(p))
    all_of(backward, range(p - 1, -1, -1))
    return sum(flow.losses)


# ---------------------------------------------------------------- second round
def r2_worker_looks_up(batches, schedule, partitions, devices, in_queues, out_queues):
    """Stores nothing until all is well taken; answers kept in a dict."""
    answers = {}
    for pair in schedule:
        in_queues[pair[1]].put(Task(lambda pair=pair: partitions[pair[1]](batches[pair[0]])))
    for pair in schedule:
        answers[pair] = out_queues[pair[1]].get()
    for (i, j), (ok, value) in answers.items():
        if ok:
            batches[i] = value
    for ok, value in answers.values():
        if not ok:
            raise value[1].with_traceback(value[2])


RIGHT = {
    "09.1": [r1_defaults, r1_factory],
    "09.2": [r2_collect, r2_worker_stores, r2_worker_looks_up, r2_sorted_by_stage],
    "09.3": [r3_slices, r3_method],
    "09.4": [r4_grad, r4_class],
    "09.5": [r5_cycles, r5_reversed, r5_flow],
}
