"""Solutions of lesson 10 by somebody who read the lesson alone."""

# ruff: noqa

import torch

from tests.lesson.judge import with_switches
from tests.lesson.variants_10 import warm_up_turns_drain


# ---------------------------------------------------------------- 10.1
def r1_counters(num_stages, num_microbatches):
    rows = []
    for s in range(num_stages):
        limit = min(num_microbatches, num_stages - s)
        row, f, b = [], 0, 0
        while b < num_microbatches:
            if f < num_microbatches and f - b < limit:
                row.append("F" + str(f))
                f += 1
            else:
                row.append("B" + str(b))
                b += 1
        rows.append(row)
    return rows


def r1_merge(num_stages, num_microbatches):
    """Backward i stands behind forward i + p - s - 1; sort by that."""

    def row(s):
        keyed = [((i, 0), f"F{i}") for i in range(num_microbatches)]
        keyed += [((i + num_stages - s - 1, 1), f"B{i}") for i in range(num_microbatches)]
        return [text for _, text in sorted(keyed)]

    return list(map(row, range(num_stages)))


def r1_with_stage(p, m):
    return [[f"{s}{text}" for text in row] for s, row in enumerate(warm_up_turns_drain(p, m))]


# ---------------------------------------------------------------- 10.2
def r2_list(row, stage, loss, inputs, targets):
    m = len(row) // 2
    held = [None] * len(inputs)
    numbers = []

    def forward(i):
        one = loss(stage(inputs[i]), targets[i])
        numbers.append(one.item())
        return one / m

    def backward(i):
        one, held[i] = held[i], None
        one.backward()

    for action in row:
        _, kind, i = action
        if kind == "F":
            held[i] = forward(i)
        elif kind == "B":
            backward(i)
    return sum(numbers) / m


class Runner:
    def __init__(self, stage, loss, m):
        self.stage, self.loss, self.m = stage, loss, m
        self.kept = {}
        self.total = torch.zeros(())

    def F(self, x, t, i):
        out = self.stage(x)
        value = self.loss(out, t)
        self.total += value.detach()
        self.kept[i] = value

    def B(self, x, t, i):
        value = self.kept[i]
        del self.kept[i]
        value.backward(torch.tensor(1 / self.m))


def r2_class(row, stage, loss, inputs, targets):
    runner = Runner(stage, loss, len(inputs))
    for _, kind, i in row:
        getattr(runner, str(kind))(inputs[i], targets[i], i)
    return (runner.total / len(inputs)).item()


@with_switches
def r2_that(names, row, stage, loss, inputs, targets):
    """A name of the last forward or of the last backward stays, which costs one graph more."""
    losses, total = {}, 0.0
    for _, kind, i in row:
        if kind == "F":
            output = stage(inputs[i])
            value = loss(output, targets[i]) / len(inputs)
            losses[i] = value
            total += value.item()
            if "keeps_the_output" not in names:
                del output
            if "keeps_the_loss" not in names:
                del value
        else:
            graph = losses.pop(i)
            graph.backward()
            if "keeps_the_graph" not in names:
                del graph
    return total


# ---------------------------------------------------------------- 10.3
class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, stage, x, *weights):
        ctx.stage, ctx.state = stage, torch.get_rng_state()
        ctx.save_for_backward(x)
        return stage(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        begin = x.detach().requires_grad_(x.requires_grad)
        with torch.enable_grad(), torch.random.fork_rng():
            torch.set_rng_state(ctx.state)
            y = ctx.stage(begin)
        torch.autograd.backward(y, gradient)
        return None, begin.grad, *[None] * (len(ctx.needs_input_grad) - 2)


def r3_function(stage, x):
    return Again.apply(stage, x, *stage.parameters())


class AgainGrads(torch.autograd.Function):
    """Hands the gradients of the weights to autograd; frozen and unused ones get None."""

    @staticmethod
    def forward(ctx, stage, state, x, *weights):
        ctx.stage, ctx.state, ctx.weights = stage, state, weights
        ctx.save_for_backward(x)
        return stage(x)

    @staticmethod
    def backward(ctx, gradient):
        x = ctx.saved_tensors[0]
        with torch.random.fork_rng(), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            copy = x.detach()
            if ctx.needs_input_grad[2]:
                copy.requires_grad_()
            y = ctx.stage(copy)
            wanted = [t for t in (copy, *ctx.weights) if t.requires_grad]
            found = dict(zip(map(id, wanted), torch.autograd.grad(y, wanted, gradient, allow_unused=True)))
        return None, None, found.get(id(copy)), *[found.get(id(weight)) for weight in ctx.weights]


def r3_grads(stage, x):
    return AgainGrads.apply(stage, torch.get_rng_state(), x, *stage.parameters())


class Dummy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, dummy, run, x):
        ctx.run, ctx.x = run, x
        ctx.before = torch.get_rng_state()
        with torch.no_grad():
            return run(x)

    @staticmethod
    def backward(ctx, g):
        now = torch.get_rng_state()
        torch.set_rng_state(ctx.before)
        x = ctx.x.detach()
        x.requires_grad = ctx.x.requires_grad
        with torch.enable_grad():
            y = ctx.run(x)
        torch.set_rng_state(now)
        y.backward(g)
        return None, None, x.grad


def r3_dummy(stage, x):
    return Dummy.apply(torch.zeros((), requires_grad=True), stage, x)


RIGHT = {
    "10.1": [r1_counters, r1_merge, r1_with_stage],
    "10.2": [r2_list, r2_class, r2_that("keeps_the_output"), r2_that("keeps_the_loss"), r2_that("keeps_the_graph")],
    "10.3": [r3_function, r3_grads, r3_dummy],
}
