"""Solutions of lesson 09 by somebody who read the lesson alone."""

# ruff: noqa

import sys
import threading
from functools import partial
from queue import SimpleQueue

import torch

from pllab.pipeline import Task, clock_cycles


# ---------------------------------------------------------------- 09.1
def r1_partial(batches, schedule, partitions):
    return [Task(partial(partitions[j], batches[i])) for i, j in schedule]


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


def w1_late(batches, schedule, partitions):
    tasks = []
    for i, j in schedule:
        tasks.append(Task(lambda: partitions[j](batches[i])))
    return tasks


def w1_late_i(batches, schedule, partitions):
    return [Task(lambda j=j: partitions[j](batches[i])) for i, j in schedule]


def w1_late_locals(batches, schedule, partitions):
    tasks = []
    for pair in schedule:
        batch, stage = batches[pair[0]], partitions[pair[1]]
        tasks.append(Task(lambda: stage(batch)))
    return tasks


def w1_eager(batches, schedule, partitions):
    tasks = []
    for i, j in schedule:
        result = partitions[j](batches[i])
        tasks.append(Task(lambda result=result: result))
    return tasks


def w1_sorted(batches, schedule, partitions):
    return [Task(partial(partitions[j], batches[i])) for i, j in sorted(schedule, key=lambda pair: pair[1])]


def w1_kth_stage(batches, schedule, partitions):
    return [Task(partial(partitions[k], batches[i])) for k, (i, _) in enumerate(schedule)]


def w1_empty(batches, schedule, partitions):
    numbers, stages = zip(*schedule)
    return [Task(partial(partitions[j], batches[i])) for i, j in zip(numbers, stages)]


def w1_generator(batches, schedule, partitions):
    for i, j in schedule:
        yield Task(lambda: partitions[j](batches[i]))


def w1_no_task(batches, schedule, partitions):
    return [partial(partitions[j], batches[i]) for i, j in schedule]


def w1_swapped(batches, schedule, partitions):
    return [Task(partial(partitions[i], batches[j])) for i, j in schedule]


def w1_map_lazy(batches, schedule, partitions):
    return map(lambda pair: Task(partial(partitions[pair[1]], batches[pair[0]])), schedule)


# ---------------------------------------------------------------- 09.2
def r2_two_loops(batches, schedule, partitions, devices, in_queues, out_queues):
    for i, j in schedule:
        in_queues[j].put(Task(partial(partitions[j], batches[i])))
    failure = None
    for i, j in schedule:
        ok, result = out_queues[j].get()
        if ok:
            batches[i] = result
        elif failure is None:
            failure = result
    if failure is not None:
        raise failure[1].with_traceback(failure[2])


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


def w2_serial(batches, schedule, partitions, devices, in_queues, out_queues):
    failure = None
    for i, j in schedule:
        in_queues[j].put(Task(partial(partitions[j], batches[i])))
        ok, result = out_queues[j].get()
        if ok:
            batches[i] = result
        else:
            failure = failure or result
    if failure:
        raise failure[1].with_traceback(failure[2])


def w2_raises_early(batches, schedule, partitions, devices, in_queues, out_queues):
    for i, j in schedule:
        in_queues[j].put(Task(partial(partitions[j], batches[i])))
    for i, j in schedule:
        ok, result = out_queues[j].get()
        if not ok:
            raise result[1].with_traceback(result[2])
        batches[i] = result


def w2_new_exception(batches, schedule, partitions, devices, in_queues, out_queues):
    for i, j in schedule:
        in_queues[j].put(Task(partial(partitions[j], batches[i])))
    failure = None
    for i, j in schedule:
        ok, result = out_queues[j].get()
        if ok:
            batches[i] = result
        else:
            failure = result
    if failure:
        raise failure[0](*failure[1].args)


def w2_no_traceback(batches, schedule, partitions, devices, in_queues, out_queues):
    for i, j in schedule:
        in_queues[j].put(Task(partial(partitions[j], batches[i])))
    failure = None
    for i, j in schedule:
        ok, result = out_queues[j].get()
        if ok:
            batches[i] = result
        else:
            failure = result
    if failure:
        raise failure[1].with_traceback(None)


def w2_wrapped(batches, schedule, partitions, devices, in_queues, out_queues):
    for i, j in schedule:
        in_queues[j].put(Task(partial(partitions[j], batches[i])))
    failure = None
    for i, j in schedule:
        ok, result = out_queues[j].get()
        if ok:
            batches[i] = result
        else:
            failure = (j, result)
    if failure:
        raise RuntimeError(f"stage {failure[0]} failed") from failure[1][1]


def w2_zip_queues(batches, schedule, partitions, devices, in_queues, out_queues):
    for i, j in schedule:
        in_queues[j].put(Task(partial(partitions[j], batches[i])))
    failure = None
    places = [i for i, _ in schedule]
    stages = sorted(j for _, j in schedule)
    for i, j in zip(places, stages):  # answers by stage, places by schedule
        ok, result = out_queues[j].get()
        if ok:
            batches[i] = result
        else:
            failure = failure or result
    if failure:
        raise failure[1].with_traceback(failure[2])


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


def w2_copy(batches, schedule, partitions, devices, in_queues, out_queues):
    batches = list(batches)
    r2_two_loops(batches, schedule, partitions, devices, in_queues, out_queues)
    return batches


def w2_remembers(batches, schedule, partitions, devices, in_queues, out_queues, failures=[]):
    for i, j in schedule:
        in_queues[j].put(Task(partial(partitions[j], batches[i])))
    for i, j in schedule:
        ok, result = out_queues[j].get()
        if ok:
            batches[i] = result
        else:
            failures.append(result)
    if failures:
        raise failures[0][1].with_traceback(failures[0][2])


def w2_polls(batches, schedule, partitions, devices, in_queues, out_queues):
    """Drains what is there after a failure; a slow stage answers later."""
    for i, j in schedule:
        in_queues[j].put(Task(partial(partitions[j], batches[i])))
    for i, j in schedule:
        ok, result = out_queues[j].get()
        if not ok:
            for queue in out_queues:
                while not queue.empty():
                    queue.get()
            raise result[1].with_traceback(result[2])
        batches[i] = result


def w2_own_threads(batches, schedule, partitions, devices, in_queues, out_queues):
    results = {}

    def work(i, j):
        try:
            results[i] = (True, partitions[j](batches[i]))
        except BaseException:
            results[i] = (False, sys.exc_info())

    threads = [threading.Thread(target=work, args=pair) for pair in schedule]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    failure = None
    for i, (ok, result) in results.items():
        if ok:
            batches[i] = result
        else:
            failure = result
    if failure:
        raise failure[1].with_traceback(failure[2])


def w2_kth_queue(batches, schedule, partitions, devices, in_queues, out_queues):
    """The k-th pair goes to worker k."""
    for k, (i, j) in enumerate(schedule):
        in_queues[k].put(Task(partial(partitions[j], batches[i])))
    failure = None
    for k, (i, j) in enumerate(schedule):
        ok, result = out_queues[k].get()
        if ok:
            batches[i] = result
        else:
            failure = failure or result
    if failure:
        raise failure[1].with_traceback(failure[2])


def w2_late(batches, schedule, partitions, devices, in_queues, out_queues):
    for i, j in schedule:
        in_queues[j].put(Task(lambda: partitions[j](batches[i])))
    failure = None
    for i, j in schedule:
        ok, result = out_queues[j].get()
        if ok:
            batches[i] = result
        else:
            failure = failure or result
    if failure:
        raise failure[1].with_traceback(failure[2])


def w2_swallows_second(batches, schedule, partitions, devices, in_queues, out_queues):
    """Only plain Exceptions are failures; a worker's other exceptions vanish."""
    for i, j in schedule:
        in_queues[j].put(Task(partial(partitions[j], batches[i])))
    failure = None
    for i, j in schedule:
        ok, result = out_queues[j].get()
        if ok:
            batches[i] = result
        failure = None if ok else result  # a later good answer forgets it
    if failure:
        raise failure[1].with_traceback(failure[2])


# ---------------------------------------------------------------- 09.3
def r3_split(x, split_size, partitions, devices, compute):
    batches = list(x.split(split_size))
    for schedule in clock_cycles(len(batches), len(partitions)):
        compute(batches, schedule)
    return torch.cat(batches)


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


def w3_chunk(x, split_size, partitions, devices, compute):
    batches = list(x.chunk(split_size))
    for schedule in clock_cycles(len(batches), len(partitions)):
        compute(batches, schedule)
    return torch.cat(batches)


def w3_chunk_ceil(x, split_size, partitions, devices, compute):
    batches = list(x.chunk(-(-len(x) // split_size)))
    for schedule in clock_cycles(len(batches), len(partitions)):
        compute(batches, schedule)
    return torch.cat(batches)


def w3_drops_last(x, split_size, partitions, devices, compute):
    m = max(1, len(x) // split_size)
    batches = [x[k * split_size : (k + 1) * split_size] for k in range(m)]
    for schedule in clock_cycles(m, len(partitions)):
        compute(batches, schedule)
    return torch.cat(batches)


def w3_clock_floor(x, split_size, partitions, devices, compute):
    batches = list(x.split(split_size))
    for schedule in clock_cycles(max(1, len(x) // split_size), len(partitions)):
        compute(batches, schedule)
    return torch.cat(batches)


def w3_swapped(x, split_size, partitions, devices, compute):
    batches = list(x.split(split_size))
    for schedule in clock_cycles(len(partitions), len(batches)):
        compute(batches, schedule)
    return torch.cat(batches)


def w3_one_by_one(x, split_size, partitions, devices, compute):
    batches = list(x.split(split_size))
    for schedule in clock_cycles(len(batches), len(partitions)):
        for pair in schedule:
            compute(batches, [pair])
    return torch.cat(batches)


def w3_empty_like(x, split_size, partitions, devices, compute):
    batches = list(x.split(split_size))
    for schedule in clock_cycles(len(batches), len(partitions)):
        compute(batches, schedule)
    out = torch.empty_like(x)
    start = 0
    for piece in batches:
        out[start : start + len(piece)] = piece
        start += len(piece)
    return out


def w3_strided(x, split_size, partitions, devices, compute):
    m = -(-len(x) // split_size)
    batches = [x[k::m] for k in range(m)]
    for schedule in clock_cycles(m, len(partitions)):
        compute(batches, schedule)
    order = torch.cat([torch.arange(len(x))[k::m] for k in range(m)])
    return torch.cat(batches)[order.argsort()]


def w3_padded(x, split_size, partitions, devices, compute):
    missing = -len(x) % split_size
    padded = torch.cat([x, x.new_zeros(missing, *x.shape[1:])])
    batches = list(padded.split(split_size))
    for schedule in clock_cycles(len(batches), len(partitions)):
        compute(batches, schedule)
    return torch.cat(batches)[: len(x)]


def w3_copy(x, split_size, partitions, devices, compute):
    batches = x.split(split_size)
    for schedule in clock_cycles(len(batches), len(partitions)):
        compute(list(batches), schedule)
    return torch.cat(batches)


def w3_detach(x, split_size, partitions, devices, compute):
    batches = [piece.detach() for piece in x.split(split_size)]
    for schedule in clock_cycles(len(batches), len(partitions)):
        compute(batches, schedule)
    return torch.cat(batches)


def w3_one_by_one_stage(x, split_size, partitions, devices, compute):
    """Waves of whole stages: right numbers, m p cycles of nothing but one stage."""
    batches = list(x.split(split_size))
    for j in range(len(partitions)):
        compute(batches, [(i, j) for i in range(len(batches))])
    return torch.cat(batches)


# ---------------------------------------------------------------- 09.4
def r4_detach(x, targets, first, second, loss_of):
    y = first(x)
    begin = y.detach().requires_grad_()
    loss = loss_of(second(begin), targets)
    loss.backward()
    y.backward(begin.grad)
    return loss.item()


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


def q4_inputs(x, targets, first, second, loss_of):
    """No detach: autograd is told where to end."""
    y = first(x)
    loss = loss_of(second(y), targets)
    gradient, *grads = torch.autograd.grad(loss, [y, *second.parameters()])
    for weight, grad in zip(second.parameters(), grads):
        weight.grad = grad
    y.backward(gradient)
    return loss.item()


def w4_uncut(x, targets, first, second, loss_of):
    loss = loss_of(second(first(x)), targets)
    loss.backward()
    return loss.item()


def w4_half(x, targets, first, second, loss_of):
    begin = first(x).detach().requires_grad_()
    loss = loss_of(second(begin), targets)
    loss.backward()
    return loss.item()


def w4_uses_y(x, targets, first, second, loss_of):
    y = first(x)
    begin = y.detach().requires_grad_()
    loss = loss_of(second(y), targets)
    loss.backward()
    if begin.grad is not None:
        y.backward(begin.grad)
    return loss.item()


def w4_twice(x, targets, first, second, loss_of):
    y = first(x)
    y.retain_grad()
    loss = loss_of(second(y), targets)
    loss.backward(retain_graph=True)
    y.backward(y.grad.clone())
    return loss.item()


def w4_halved(x, targets, first, second, loss_of):
    y = first(x)
    y.retain_grad()
    loss = loss_of(second(y), targets)
    loss.backward(retain_graph=True)
    first.zero_grad()
    y.backward(y.grad.clone())
    return loss.item()


def w4_ones(x, targets, first, second, loss_of):
    y = first(x)
    begin = y.detach().requires_grad_()
    loss = loss_of(second(begin), targets)
    loss.backward()
    y.backward(torch.ones_like(y))
    return loss.item()


def w4_tensor(x, targets, first, second, loss_of):
    y = first(x)
    begin = y.detach().requires_grad_()
    loss = loss_of(second(begin), targets)
    loss.backward()
    y.backward(begin.grad)
    return loss.detach()


def w4_non_leaf(x, targets, first, second, loss_of):
    y = first(x)
    begin = y.detach().requires_grad_().clone()
    loss = loss_of(second(begin), targets)
    loss.backward()
    y.backward(begin.grad)
    return loss.item()


def w4_in_place(x, targets, first, second, loss_of):
    y = first(x)
    begin = y.detach_().requires_grad_()
    loss = loss_of(second(begin), targets)
    loss.backward()
    y.backward(begin.grad)
    return loss.item()


def w4_cut_at_x(x, targets, first, second, loss_of):
    begin = x.detach()
    y = first(begin)
    loss = loss_of(second(y), targets)
    loss.backward(retain_graph=False)
    return float(loss)


def w4_overwritten(x, targets, first, second, loss_of):
    """Takes the gradient of the cut by the rows once more."""
    y = first(x)
    begin = y.detach().requires_grad_()
    loss = loss_of(second(begin), targets)
    loss.backward()
    y.backward(begin.grad / len(x))
    return loss.item()


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


def core5(
    batch,
    targets,
    partitions,
    in_queues,
    out_queues,
    split_size,
    loss_of,
    *,
    weigh=None,
    grad_mode=True,
    cut_all=False,
    cycle_f=cycle5,
    cycle_b=cycle5,
    take=None,
    backward_order=None,
    cut=None,
):
    parts = batch.split(split_size) if cut is None else cut(batch)
    aims = targets.split(split_size) if cut is None else cut(targets)
    m, p = len(parts), len(partitions)
    weigh = weigh or (lambda i: len(parts[i]) / len(batch))
    begins, ends, losses = {}, {}, [0.0] * m

    def forward(i, j):
        with torch.set_grad_enabled(grad_mode or torch.is_grad_enabled()):
            x = parts[i] if j == 0 else ends[i, j - 1].detach().requires_grad_()
            if j == 0 and cut_all:
                x = x.detach().requires_grad_()
            y = partitions[j](x)
            if j == p - 1:
                y = loss_of(y, aims[i]) * weigh(i)
                losses[i] = y.item()
            begins[i, j], ends[i, j] = x, y

    def backward(i, j):
        y = ends.pop((i, j))
        gradient = begins.pop((i, j + 1)).grad if j < p - 1 else None
        if take is not None:
            take(partitions[j], y, gradient, begins[i, j])
        elif y.requires_grad:
            y.backward(gradient)

    for pairs in clock_cycles(m, p):
        cycle_f(pairs, forward, in_queues, out_queues)
    order = backward_order(m, p) if backward_order else clock_cycles(m, p)
    for pairs in order:
        cycle_b([(i, p - 1 - j) for i, j in pairs], backward, in_queues, out_queues)
    return sum(losses)


def w5_main_backward(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    values, aims = list(batch.split(split_size)), targets.split(split_size)

    def work(x, j):
        with torch.enable_grad():
            return partitions[j](x)

    for pairs in clock_cycles(len(values), len(partitions)):
        for i, j in pairs:
            in_queues[j].put(Task(partial(work, values[i], j)))
        bad = None
        for i, j in pairs:
            ok, answer = out_queues[j].get()
            if ok:
                values[i] = answer
            else:
                bad = answer
        if bad:
            raise bad[1].with_traceback(bad[2])
    with torch.enable_grad():
        loss = loss_of(torch.cat(values), torch.cat(aims))
    loss.backward()
    return loss.item()


def w5_grad_mode(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    with torch.enable_grad():  # on the caller's thread only
        return core5(batch, targets, partitions, in_queues, out_queues, split_size, loss_of, grad_mode=False)


def w5_equal_weights(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    m = len(batch.split(split_size))
    return core5(batch, targets, partitions, in_queues, out_queues, split_size, loss_of, weigh=lambda i: 1 / m)


def w5_split_weights(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    n = len(batch)
    return core5(batch, targets, partitions, in_queues, out_queues, split_size, loss_of, weigh=lambda i: split_size / n)


def w5_tokens(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    return core5(batch, targets, partitions, in_queues, out_queues, split_size, loss_of, cut_all=True)


def w5_chunk(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    m = -(-len(batch) // split_size)
    return core5(batch, targets, partitions, in_queues, out_queues, split_size, loss_of, cut=lambda t: t.chunk(m))


def overwrite5(stage, y, gradient, begin):
    weights = list(stage.parameters())
    wanted = weights + ([begin] if begin.requires_grad else [])
    found = torch.autograd.grad(y, wanted, gradient)
    for weight, grad in zip(wanted, found):
        weight.grad = grad  # the last micro-batch wins


def w5_overwrites(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    return core5(batch, targets, partitions, in_queues, out_queues, split_size, loss_of, take=overwrite5)


def w5_tied(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    """Gradients are gathered for each stage and stored at the end: of a weight of two stages the last stage's stay."""
    sums = {}

    def gather(stage, y, gradient, begin):
        weights = list(stage.parameters())
        wanted = weights + ([begin] if begin.requires_grad else [])
        found = torch.autograd.grad(y, wanted, gradient)
        for weight, grad in zip(weights, found):
            key = id(stage), weight
            sums[key] = sums[key] + grad if key in sums else grad
        if begin.requires_grad:
            begin.grad = found[-1]

    loss = core5(batch, targets, partitions, in_queues, out_queues, split_size, loss_of, take=gather)
    for (_, weight), grad in sums.items():
        weight.grad = grad
    return loss


def serial5(pairs, work, in_queues, out_queues):
    for i, j in pairs:
        in_queues[j].put(Task(partial(work, i, j)))
        ok, info = out_queues[j].get()
        if not ok:
            raise info[1].with_traceback(info[2])


def w5_serial_backward(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    return core5(batch, targets, partitions, in_queues, out_queues, split_size, loss_of, cycle_b=serial5)


def early5(pairs, work, in_queues, out_queues):
    for i, j in pairs:
        in_queues[j].put(Task(partial(work, i, j)))
    for _, j in pairs:
        ok, info = out_queues[j].get()
        if not ok:
            raise info[1].with_traceback(info[2])


def w5_early_backward(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    return core5(batch, targets, partitions, in_queues, out_queues, split_size, loss_of, cycle_b=early5)


def drain5(pairs, work, in_queues, out_queues):
    for i, j in pairs:
        in_queues[j].put(Task(partial(work, i, j)))
    for _, j in pairs:
        ok, info = out_queues[j].get()
        if not ok:
            for queue in out_queues:
                while not queue.empty():
                    queue.get()
            raise info[1].with_traceback(info[2])


def w5_drains(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    return core5(batch, targets, partitions, in_queues, out_queues, split_size, loss_of, cycle_f=drain5, cycle_b=drain5)


def deaf5(pairs, work, in_queues, out_queues):
    for i, j in pairs:
        in_queues[j].put(Task(partial(work, i, j)))
    for _, j in pairs:
        out_queues[j].get()


def w5_deaf_backward(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    return core5(batch, targets, partitions, in_queues, out_queues, split_size, loss_of, cycle_b=deaf5)


def stage_waves5(m, p):
    return [[(i, j)] for j in range(p) for i in range(m)]


def w5_waves(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    return core5(batch, targets, partitions, in_queues, out_queues, split_size, loss_of, backward_order=stage_waves5)


def w5_early_last(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    """The last stage goes back at once, inside its forward task."""
    parts, aims = batch.split(split_size), targets.split(split_size)
    m, p = len(parts), len(partitions)
    begins, ends, losses = {}, {}, [0.0] * m

    def forward(i, j):
        with torch.enable_grad():
            x = parts[i] if j == 0 else ends[i, j - 1].detach().requires_grad_()
            y = partitions[j](x)
            if j == p - 1:
                loss = loss_of(y, aims[i]) * (len(parts[i]) / len(batch))
                losses[i] = loss.item()
                loss.backward()
            begins[i, j], ends[i, j] = x, y

    def backward(i, j):
        if j < p - 1:
            ends[i, j].backward(begins[i, j + 1].grad)

    for pairs in clock_cycles(m, p):
        cycle5(pairs, forward, in_queues, out_queues)
    for pairs in clock_cycles(m, p):
        cycle5([(i, p - 1 - j) for i, j in pairs], backward, in_queues, out_queues)
    return sum(losses)


def w5_plain_sum(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    """The number is right, the gradients are m times too large."""
    m = len(batch.split(split_size))
    n = len(batch)
    total = core5(
        batch,
        targets,
        partitions,
        in_queues,
        out_queues,
        split_size,
        loss_of,
        weigh=lambda i: m * min(split_size, n - i * split_size) / n,
    )
    return total / m


def w5_first_worker(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    """Backward of a pair goes to the worker of the mirrored stage."""

    def mirrored(pairs, work, ins, outs):
        p = len(partitions)
        for i, j in pairs:
            ins[p - 1 - j].put(Task(partial(work, i, j)))
        bad = None
        for _, j in pairs:
            ok, info = outs[p - 1 - j].get()
            if not ok:
                bad = bad or info
        if bad:
            raise bad[1].with_traceback(bad[2])

    return core5(batch, targets, partitions, in_queues, out_queues, split_size, loss_of, cycle_b=mirrored)


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


def w2_first_worker_stage(batches, schedule, partitions, devices, in_queues, out_queues):
    """Everything on the worker that is free: the queues in turn, by micro-batch."""
    n = len(in_queues)
    for i, j in schedule:
        in_queues[i % n].put(Task(partial(partitions[j], batches[i])))
    failure = None
    for i, j in schedule:
        ok, result = out_queues[i % n].get()
        if ok:
            batches[i] = result
        else:
            failure = failure or result
    if failure:
        raise failure[1].with_traceback(failure[2])


def w2_forgets(batches, schedule, partitions, devices, in_queues, out_queues):
    """All answers taken, the failure of any but the last pair is forgotten."""
    for i, j in schedule:
        in_queues[j].put(Task(partial(partitions[j], batches[i])))
    for i, j in schedule:
        ok, result = out_queues[j].get()
        if ok:
            batches[i] = result
    if not ok:
        raise result[1].with_traceback(result[2])


def w5_one_stage(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    """The last stage is known by not being the first."""
    parts, aims = batch.split(split_size), targets.split(split_size)
    m, p = len(parts), len(partitions)
    begins, ends, losses = {}, {}, [0.0] * m

    def forward(i, j):
        with torch.enable_grad():
            if j == 0:
                begins[i, j] = parts[i]
                ends[i, j] = partitions[j](parts[i])
            else:
                x = begins[i, j] = ends[i, j - 1].detach().requires_grad_()
                y = partitions[j](x)
                if j == p - 1:
                    y = loss_of(y, aims[i]) * (len(parts[i]) / len(batch))
                    losses[i] = y.item()
                ends[i, j] = y

    def backward(i, j):
        ends[i, j].backward(begins[i, j + 1].grad if j < p - 1 else None)

    for pairs in clock_cycles(m, p):
        cycle5(pairs, forward, in_queues, out_queues)
    for pairs in clock_cycles(m, p):
        cycle5([(i, p - 1 - j) for i, j in pairs], backward, in_queues, out_queues)
    return sum(losses)


def w5_early_reversed(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    """Backward raises at the first bad answer; the clock runs in reverse, first stage first."""
    p = len(partitions)
    return core5(
        batch,
        targets,
        partitions,
        in_queues,
        out_queues,
        split_size,
        loss_of,
        cycle_b=early5,
        backward_order=lambda m, p: [
            [(i, p - 1 - j) for i, j in pairs] for pairs in reversed(list(clock_cycles(m, p)))
        ],
    )


def w5_early_forward(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    return core5(batch, targets, partitions, in_queues, out_queues, split_size, loss_of, cycle_f=early5)


def wrapped5(pairs, work, in_queues, out_queues):
    try:
        cycle5(pairs, work, in_queues, out_queues)
    except Exception as error:
        raise RuntimeError("a stage failed") from error


def w5_wrapped(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    return core5(
        batch, targets, partitions, in_queues, out_queues, split_size, loss_of, cycle_f=wrapped5, cycle_b=wrapped5
    )


def w5_few(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    """A backward clock that is only right for m >= p."""

    def order(m, p):
        return [[(k - j, j) for j in range(min(k + 1, p)) if k - j < m] for k in range(m + min(m, p) - 1)]

    return core5(batch, targets, partitions, in_queues, out_queues, split_size, loss_of, backward_order=order)


def w5_frees(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of):
    """Tells the worker to end when something failed."""
    try:
        return core5(batch, targets, partitions, in_queues, out_queues, split_size, loss_of)
    except BaseException:
        for queue in in_queues:
            queue.put(None)
        raise


def compute_in_place(batches, schedule, partitions, devices, in_queues, out_queues):
    for i, j in schedule:
        in_queues[j].put(Task(partial(partitions[j], batches[i])))
    failure = None
    for i, j in schedule:
        ok, value = out_queues[j].get()
        if ok:
            batches[i][:] = value
        else:
            failure = value
    if failure:
        raise failure[1].with_traceback(failure[2])


def cut_step_twice(x, targets, first, second, loss_of):
    with torch.no_grad():
        begin = first(x)
    begin.requires_grad_()
    loss = loss_of(second(begin), targets)
    loss.backward()
    first(x).backward(begin.grad)
    return loss.item()


def cut_step_list(x, targets, first, second, loss_of):
    y = first(x)
    begin = torch.tensor(y.tolist(), requires_grad=True)
    loss = loss_of(second(begin), targets)
    loss.backward()
    y.backward(begin.grad)
    return loss.item()


RIGHT = [
    ("09.1", r1_partial),
    ("09.1", r1_defaults),
    ("09.1", r1_factory),
    ("09.2", r2_two_loops),
    ("09.2", r2_collect),
    ("09.2", r2_worker_stores),
    ("09.3", r3_split),
    ("09.3", r3_slices),
    ("09.3", r3_method),
    ("09.4", r4_detach),
    ("09.4", r4_grad),
    ("09.4", r4_class),
    ("09.5", r5_cycles),
    ("09.5", r5_reversed),
    ("09.5", r5_flow),
    ("09.2", r2_worker_looks_up),
    ("09.2", r2_sorted_by_stage),
]
WRONG = [
    ("09.1", w1_late, "late lambda"),
    ("09.1", w1_late_i, "only j is bound"),
    ("09.1", w1_late_locals, "locals of the loop are late"),
    ("09.1", w1_eager, "computed on the caller"),
    ("09.1", w1_sorted, "sorted by stage"),
    ("09.1", w1_kth_stage, "k-th pair takes stage k"),
    ("09.1", w1_empty, "empty schedule fails"),
    ("09.1", w1_generator, "generator with late lambdas"),
    ("09.1", w1_no_task, "functions, no tasks"),
    ("09.1", w1_swapped, "i and j swapped"),
    ("09.1", w1_map_lazy, "a map, no list"),
    ("09.2", w2_serial, "waits for each at once"),
    ("09.2", w2_raises_early, "leaves answers in queues"),
    ("09.2", w2_new_exception, "new exception, traceback lost"),
    ("09.2", w2_no_traceback, "traceback thrown away"),
    ("09.2", w2_wrapped, "another exception type"),
    ("09.2", w2_zip_queues, "answers by stage, places by schedule"),
    ("09.2", w2_copy, "stores into a copy"),
    ("09.2", w2_remembers, "old failure is raised again"),
    ("09.2", w2_polls, "slow answer stays in queue"),
    ("09.2", w2_own_threads, "starts threads of its own"),
    ("09.2", w2_kth_queue, "k-th pair to worker k"),
    ("09.2", w2_late, "late lambda"),
    ("09.2", w2_swallows_second, "later good answer forgets failure"),
    ("09.3", w3_chunk, "chunk takes a count"),
    ("09.3", w3_chunk_ceil, "evened out, 3+3 not 4+2"),
    ("09.3", w3_drops_last, "last rows dropped"),
    ("09.3", w3_clock_floor, "last micro-batch not run"),
    ("09.3", w3_swapped, "m and p swapped"),
    ("09.3", w3_one_by_one, "one pair a cycle"),
    ("09.3", w3_empty_like, "output shape of the input"),
    ("09.3", w3_strided, "rows do not follow"),
    ("09.3", w3_padded, "last one is padded"),
    ("09.3", w3_copy, "results lost in copy"),
    ("09.3", w3_detach, "input gradient lost"),
    ("09.3", w3_one_by_one_stage, "stage after stage"),
    ("09.4", q4_inputs, "no detach: autograd is told where to end"),
    ("09.4", w4_uncut, "no cut at all"),
    ("09.4", w4_half, "first stage gets nothing"),
    ("09.4", w4_uses_y, "second runs on uncut y"),
    ("09.4", w4_twice, "first gets it twice"),
    ("09.4", w4_halved, "right gradients, graph uncut"),
    ("09.4", w4_ones, "starts from ones"),
    ("09.4", w4_tensor, "loss is a tensor"),
    ("09.4", w4_non_leaf, "begin is no leaf"),
    ("09.4", w4_in_place, "detach_ kills the history"),
    ("09.4", w4_cut_at_x, "cut before first"),
    ("09.4", w4_overwritten, "divided by rows again"),
    ("09.5", w5_main_backward, "backward on the caller"),
    ("09.5", w5_grad_mode, "grad mode on caller only"),
    ("09.5", w5_equal_weights, "micro-batches weigh the same"),
    ("09.5", w5_split_weights, "last weighs split_size"),
    ("09.5", w5_tokens, "tokens asked for gradients"),
    ("09.5", w5_chunk, "evened out, 3+3 not 4+2"),
    ("09.5", w5_overwrites, "last micro-batch wins"),
    ("09.5", w5_tied, "tied weight: one stage only"),
    ("09.5", w5_serial_backward, "backward waits for each"),
    ("09.5", w5_early_backward, "backward leaves answers"),
    ("09.5", w5_drains, "late answer stays in queue"),
    ("09.5", w5_deaf_backward, "backward failures not raised"),
    ("09.5", w5_waves, "backward stage after stage"),
    ("09.5", w5_early_last, "last goes back in forward"),
    ("09.5", w5_plain_sum, "gradients not averaged"),
    ("09.5", w5_first_worker, "backward on the mirrored worker"),
    ("09.2", w2_first_worker_stage, "worker by micro-batch"),
    ("09.2", w2_forgets, "forgets a failure"),
    ("09.5", w5_one_stage, "one stage: no loss"),
    ("09.5", w5_early_reversed, "backward leaves answers"),
    ("09.5", w5_early_forward, "forward leaves answers"),
    ("09.5", w5_wrapped, "another exception type"),
    ("09.5", w5_few, "m < p: gradients missing"),
    ("09.5", w5_frees, "ends the workers"),
    ("09.2", compute_in_place, "copies the result into the old tensor"),
    ("09.4", cut_step_twice, "runs first twice, dropout differs between both"),
    ("09.4", cut_step_list, "cut through a list loses the dtype"),
]
