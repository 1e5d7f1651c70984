"""Solutions of lesson 10 by somebody who read the lesson alone."""

# ruff: noqa

from collections import deque

import torch
from torch.utils.checkpoint import checkpoint


# ---------------------------------------------------------------- 10.1
def r1_parts(num_stages, num_microbatches):
    rows = []
    for s in range(num_stages):
        warm = min(num_microbatches, num_stages - s - 1)
        row = [f"F{i}" for i in range(warm)]
        for k in range(num_microbatches - warm):
            row += [f"F{warm + k}", f"B{k}"]
        row += [f"B{i}" for i in range(num_microbatches - warm, num_microbatches)]
        rows.append(row)
    return rows


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


def rows_of(num_stages, num_microbatches, warm_of, limit=True):
    m = num_microbatches
    rows = []
    for s in range(num_stages):
        warm = min(m, warm_of(s))
        row = [f"F{i}" for i in range(warm)]
        for k in range(m - warm):
            row += [f"F{warm + k}", f"B{k}"]
        row += [f"B{i}" for i in range(m - warm, m)]
        rows.append(row)
    return rows


def w1_one_more(p, m):
    return rows_of(p, m, lambda s: p - s)


def w1_same_everywhere(p, m):
    return rows_of(p, m, lambda s: p - 1)


def w1_gpipe(p, m):
    return rows_of(p, m, lambda s: m)


def w1_none(p, m):
    return rows_of(p, m, lambda s: 0)


def w1_upside_down(p, m):
    return rows_of(p, m, lambda s: s)


def w1_half(p, m):
    return rows_of(p, m, lambda s: (p - s) // 2)


def w1_eager(p, m):
    return rows_of(p, m, lambda s: 2 * (p - s - 1))


def w1_uncapped(p, m):
    """Forwards that do not exist where there are few micro-batches."""
    rows = []
    for s in range(p):
        warm = p - s - 1
        row = [f"F{i}" for i in range(warm)]
        for k in range(m - warm):
            row += [f"F{warm + k}", f"B{k}"]
        row += [f"B{i}" for i in range(max(0, m - warm), m)]
        rows.append(row)
    return rows


def w1_few_lost(p, m):
    """The last backwards are lost where m < p."""
    rows = []
    for s in range(p):
        warm = min(m, p - s - 1)
        row = [f"F{i}" for i in range(warm)]
        for k in range(m - warm):
            row += [f"F{warm + k}", f"B{k}"]
        row += [f"B{m - 1 - i}" for i in range(warm - 1, -1, -1)] if m >= p else [f"B{i}" for i in range(warm - 1)]
        rows.append(row)
    return rows


def w1_last_in(p, m):
    """The backwards at the end in the reverse order."""
    rows = []
    for s in range(p):
        warm = min(m, p - s - 1)
        row = [f"F{i}" for i in range(warm)]
        for k in range(m - warm):
            row += [f"F{warm + k}", f"B{k}"]
        row += [f"B{i}" for i in range(m - 1, m - warm - 1, -1)]
        rows.append(row)
    return rows


def w1_backward_first(p, m):
    """Warm-up one shorter, then backward and forward: fewer held, longer step."""
    rows = []
    for s in range(p):
        warm = min(m, max(1, p - s - 1))
        row = [f"F{i}" for i in range(warm)]
        for k in range(m - warm):
            row += [f"B{k}", f"F{warm + k}"]
        row += [f"B{i}" for i in range(m - warm, m)]
        rows.append(row)
    return rows


def w1_one_stage(p, m):
    if p == 1:
        return [[f"F{i}" for i in range(m)] + [f"B{i}" for i in range(m)]]
    return rows_of(p, m, lambda s: p - s - 1)


def w1_few_is_gpipe(p, m):
    """Where m < p everything goes forward first."""
    if m < p:
        return rows_of(p, m, lambda s: m)
    return rows_of(p, m, lambda s: p - s - 1)


def w1_shared_row(p, m):
    rows = [[]] * p
    for s in range(p):
        rows[s] += rows_of(p, m, lambda s: p - s - 1)[s]
    return rows


def w1_from_one(p, m):
    return [[f"{text[0]}{int(text[1:]) + 1}" for text in row] for row in rows_of(p, m, lambda s: p - s - 1)]


def r1_with_stage(p, m):
    return [[f"{s}{text}" for text in row] for s, row in enumerate(rows_of(p, m, lambda s: p - s - 1))]


def r1_joined(p, m):
    return [" ".join(row) for row in rows_of(p, m, lambda s: p - s - 1)]


# ---------------------------------------------------------------- 10.2
def r2_dict(row, stage, loss, inputs, targets):
    losses, total = {}, 0.0
    for _, kind, i in row:
        if kind == "F":
            losses[i] = loss(stage(inputs[i]), targets[i]) / len(inputs)
            total += losses[i].item()
        else:
            losses.pop(i).backward()
    return total


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


def w2_sum_of_tensors(row, stage, loss, inputs, targets):
    losses, total = {}, 0.0
    for _, kind, i in row:
        if kind == "F":
            losses[i] = loss(stage(inputs[i]), targets[i]) / len(inputs)
            total = total + losses[i]
        else:
            losses.pop(i).backward()
    return total.item()


def w2_no_pop(row, stage, loss, inputs, targets):
    losses, total = {}, 0.0
    for _, kind, i in row:
        if kind == "F":
            losses[i] = loss(stage(inputs[i]), targets[i]) / len(inputs)
            total += losses[i].item()
        else:
            losses[i].backward()
    return total


def r2_name_in_forward(row, stage, loss, inputs, targets):
    losses, total = {}, 0.0
    for _, kind, i in row:
        if kind == "F":
            value = loss(stage(inputs[i]), targets[i]) / len(inputs)
            losses[i] = value
            total += value.item()
        else:
            losses.pop(i).backward()
    return total


def r2_name_in_backward(row, stage, loss, inputs, targets):
    losses, total = {}, 0.0
    for _, kind, i in row:
        if kind == "F":
            losses[i] = loss(stage(inputs[i]), targets[i]) / len(inputs)
            total += losses[i].item()
        else:
            value = losses.pop(i)
            value.backward()
    return total


def r2_output_name(row, stage, loss, inputs, targets):
    losses, total = {}, 0.0
    for _, kind, i in row:
        if kind == "F":
            output = stage(inputs[i])
            losses[i] = loss(output, targets[i]) / len(inputs)
            total += losses[i].item()
        else:
            losses.pop(i).backward()
    return total


def w2_outputs_list(row, stage, loss, inputs, targets):
    losses, outputs, total = {}, {}, 0.0
    for _, kind, i in row:
        if kind == "F":
            outputs[i] = stage(inputs[i])
            losses[i] = loss(outputs[i], targets[i]) / len(inputs)
            total += losses[i].item()
        else:
            losses.pop(i).backward()
    return total


def w2_fifo(row, stage, loss, inputs, targets):
    losses, total = deque(), 0.0
    for _, kind, i in row:
        if kind == "F":
            losses.append(loss(stage(inputs[i]), targets[i]) / len(inputs))
            total += losses[-1].item()
        else:
            losses.popleft().backward()
    return total


def w2_stack(row, stage, loss, inputs, targets):
    losses, total = [], 0.0
    for _, kind, i in row:
        if kind == "F":
            losses.append(loss(stage(inputs[i]), targets[i]) / len(inputs))
            total += losses[-1].item()
        else:
            losses.pop().backward()
    return total


def w2_not_divided(row, stage, loss, inputs, targets):
    losses, total = {}, 0.0
    for _, kind, i in row:
        if kind == "F":
            losses[i] = loss(stage(inputs[i]), targets[i])
            total += losses[i].item()
        else:
            losses.pop(i).backward()
    return total / len(inputs)


def w2_number_not_divided(row, stage, loss, inputs, targets):
    losses, total = {}, 0.0
    for _, kind, i in row:
        if kind == "F":
            one = loss(stage(inputs[i]), targets[i])
            total += one.item()
            losses[i] = one / len(inputs)
            del one
        else:
            losses.pop(i).backward()
    return total


def w2_at_once(row, stage, loss, inputs, targets):
    total = 0.0
    for _, kind, i in row:
        if kind == "F":
            value = loss(stage(inputs[i]), targets[i]) / len(inputs)
            total += value.item()
            value.backward()
            del value
    return total


def w2_again(row, stage, loss, inputs, targets):
    """Keeps nothing: the forward runs a second time at the B."""
    total = 0.0
    for _, kind, i in row:
        if kind == "F":
            with torch.no_grad():
                total += loss(stage(inputs[i]), targets[i]).item() / len(inputs)
        else:
            (loss(stage(inputs[i]), targets[i]) / len(inputs)).backward()
    return total


def w2_deferred(row, stage, loss, inputs, targets):
    """Counts at F, computes at B: bytes of one micro-batch, forwards out of order."""
    total = 0.0
    for _, kind, i in row:
        if kind == "B":
            one = loss(stage(inputs[i]), targets[i]) / len(inputs)
            total += one.item()
            one.backward()
            del one
    return total


def w2_whole_batch(row, stage, loss, inputs, targets):
    """One graph for the whole batch at the last B."""
    losses, total, left = {}, 0.0, len(row) // 2
    for _, kind, i in row:
        if kind == "F":
            losses[i] = loss(stage(inputs[i]), targets[i]) / len(inputs)
            total += losses[i].item()
        else:
            left -= 1
            if not left:
                sum(losses.values()).backward()
                losses.clear()
    return total


def w2_tensor(row, stage, loss, inputs, targets):
    losses, total = {}, torch.zeros(())
    for _, kind, i in row:
        if kind == "F":
            losses[i] = loss(stage(inputs[i]), targets[i]) / len(inputs)
            total += losses[i].detach()
        else:
            losses.pop(i).backward()
    return total


def w2_by_position(row, stage, loss, inputs, targets):
    """The k-th forward takes input k, whatever its number."""
    losses, total, k = {}, 0.0, 0
    for _, kind, i in row:
        if kind == "F":
            losses[i] = loss(stage(inputs[k]), targets[i]) / len(inputs)
            total += losses[i].item()
            k += 1
        else:
            losses.pop(i).backward()
    return total


def w2_running_mean(row, stage, loss, inputs, targets):
    """Gradients divided by the micro-batches so far, not by all."""
    losses, numbers = {}, []
    for _, kind, i in row:
        if kind == "F":
            losses[i] = loss(stage(inputs[i]), targets[i])
            numbers.append(losses[i].item())
        else:
            (losses.pop(i) / len(numbers)).backward()
    return sum(numbers) / len(numbers)


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


def r3_library(stage, x):
    return checkpoint(stage, x, use_reentrant=False)


def again(
    *,
    restore=True,
    fork=True,
    keep_output=False,
    clone=False,
    after=False,
    always=False,
    history=False,
    constant=None,
    back_to_end=False,
    fork_forward=False,
    returns_too=False,
    strict=False,
    shared=None,
    zeros=False,
    no_rng=False,
):
    """A family of the same Function with one thing different."""

    class Other(torch.autograd.Function):
        @staticmethod
        def forward(ctx, stage, x, *weights):
            ctx.stage, ctx.weights = stage, weights
            state = torch.get_rng_state()
            if fork_forward:
                with torch.random.fork_rng():
                    y = stage(x)
            else:
                y = stage(x)
            if after:
                state = torch.get_rng_state()
            ctx.state, ctx.end = state, torch.get_rng_state()
            if shared == "stage":
                stage._state = state
            if shared == "stack":
                stage.__dict__.setdefault("_states", []).append(state)
            kept = x.clone() if clone else x
            ctx.save_for_backward(kept, y) if keep_output else ctx.save_for_backward(kept)
            return y

        @staticmethod
        def backward(ctx, gradient):
            x = ctx.saved_tensors[0]
            state = ctx.state
            if shared == "stage":
                state = ctx.stage._state
            if shared == "stack":
                state = ctx.stage._states.pop()
            begin = x if history else x.detach()
            if always:
                begin.requires_grad_()
            elif not history:
                begin.requires_grad_(x.requires_grad)
            now = torch.get_rng_state()
            if not no_rng:
                torch.set_rng_state(state)
            with torch.enable_grad():
                y = ctx.stage(begin)
            if back_to_end:
                torch.set_rng_state(ctx.end)
            elif fork:
                torch.set_rng_state(now)
            if strict:
                wanted = [begin, *ctx.weights] if x.requires_grad else list(ctx.weights)
                found = list(torch.autograd.grad(y, wanted, gradient))
                return None, found.pop(0) if x.requires_grad else None, *found
            if zeros:
                wanted = [t for t in (begin, *ctx.weights) if t.requires_grad]
                found = torch.autograd.grad(y, wanted, gradient)
                for weight, grad in zip(wanted, found):
                    weight.grad = grad
                return None, begin.grad, *[None] * len(ctx.weights)
            torch.autograd.backward(y, gradient)
            rest = [weight.grad for weight in ctx.weights] if returns_too else [None] * len(ctx.weights)
            return None, begin.grad, *rest

    return Other


def w3_no_rng(stage, x):
    return again(no_rng=True).apply(stage, x, *stage.parameters())


def w3_state_after(stage, x):
    return again(after=True).apply(stage, x, *stage.parameters())


def w3_no_fork(stage, x):
    return again(fork=False).apply(stage, x, *stage.parameters())


def w3_back_to_end(stage, x):
    return again(back_to_end=True).apply(stage, x, *stage.parameters())


def w3_no_weights(stage, x):
    return again().apply(stage, x)


def w3_clone(stage, x):
    return again(clone=True).apply(stage, x, *stage.parameters())


def w3_keeps_output(stage, x):
    return again(keep_output=True).apply(stage, x, *stage.parameters())


def w3_state_on_stage(stage, x):
    return again(shared="stage").apply(stage, x, *stage.parameters())


def w3_state_stack(stage, x):
    return again(shared="stack").apply(stage, x, *stage.parameters())


def w3_always_grad(stage, x):
    return again(always=True).apply(stage, x, *stage.parameters())


def w3_history(stage, x):
    return again(history=True).apply(stage, x, *stage.parameters())


def w3_fork_forward(stage, x):
    return again(fork_forward=True).apply(stage, x, *stage.parameters())


def w3_returns_too(stage, x):
    return again(returns_too=True).apply(stage, x, *stage.parameters())


def w3_frozen(stage, x):
    return again(strict=True).apply(stage, x, *stage.parameters())


def w3_overwrites(stage, x):
    return again(zeros=True).apply(stage, x, *stage.parameters())


def w3_seeded(stage, x):
    """Both forwards with the same seed."""

    def run(x):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return stage(x)

    return Again.apply(run, x, *stage.parameters())


def w3_reentrant_checkpoint(stage, x):
    return checkpoint(stage, x, use_reentrant=True)


def w3_no_preserve(stage, x):
    return checkpoint(stage, x, use_reentrant=False, preserve_rng_state=False)


class Now3(torch.autograd.Function):
    """Asks for the grad flag of the copy by dtype, and drops the input's gradient where x is no leaf."""

    @staticmethod
    def forward(ctx, stage, x, *weights):
        ctx.stage, ctx.state = stage, torch.get_rng_state()
        ctx.save_for_backward(x)
        return stage(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        begin = x.detach().requires_grad_(x.is_leaf and x.requires_grad)
        with torch.enable_grad(), torch.random.fork_rng():
            torch.set_rng_state(ctx.state)
            y = ctx.stage(begin)
        torch.autograd.backward(y, gradient)
        return None, begin.grad, *[None] * (len(ctx.needs_input_grad) - 2)


def w3_leaf_only(stage, x):
    return Now3.apply(stage, x, *stage.parameters())


# ---------------------------------------------------------------- second round
class Listed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, stage, x, weights):
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
        return None, begin.grad, None


def w3_weights_in_list(stage, x):
    return Listed.apply(stage, x, list(stage.parameters()))


class Attribute(Again):
    """The copy and the output are kept as attributes of ctx."""

    @staticmethod
    def forward(ctx, stage, x, *weights):
        ctx.stage, ctx.state = stage, torch.get_rng_state()
        ctx.x = x.clone()
        return stage(x)

    @staticmethod
    def backward(ctx, gradient):
        begin = ctx.x.detach().requires_grad_(ctx.needs_input_grad[1])
        with torch.enable_grad(), torch.random.fork_rng():
            torch.set_rng_state(ctx.state)
            y = ctx.stage(begin)
        torch.autograd.backward(y, gradient)
        return None, begin.grad, *[None] * (len(ctx.needs_input_grad) - 2)


def w3_copy_as_attribute(stage, x):
    return Attribute.apply(stage, x, *stage.parameters())


class WholeGraph(torch.autograd.Function):
    """Keeps the whole first graph in ctx: right gradients, one forward, no memory saved."""

    @staticmethod
    def forward(ctx, stage, x, *weights):
        with torch.enable_grad():
            ctx.begin = x.detach().requires_grad_(x.requires_grad)
            ctx.y = stage(ctx.begin)
        return ctx.y.detach()

    @staticmethod
    def backward(ctx, gradient):
        torch.autograd.backward(ctx.y, gradient)
        return None, ctx.begin.grad, *[None] * (len(ctx.needs_input_grad) - 2)


def w3_whole_graph(stage, x):
    return WholeGraph.apply(stage, x, *stage.parameters())


class Thrice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, stage, x, *weights):
        ctx.stage, ctx.state, ctx.weights = stage, torch.get_rng_state(), weights
        ctx.save_for_backward(x)
        return stage(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        grad_x = None

        def again(begin):
            with torch.enable_grad(), torch.random.fork_rng():
                torch.set_rng_state(ctx.state)
                return ctx.stage(begin)

        if x.requires_grad:
            begin = x.detach().requires_grad_()
            (grad_x,) = torch.autograd.grad(again(begin), begin, gradient)
        grads = torch.autograd.grad(again(x.detach()), ctx.weights, gradient)
        return None, grad_x, *grads


def w3_thrice(stage, x):
    return Thrice.apply(stage, x, *stage.parameters())


def w3_output_attribute(stage, x):
    """A cache on the stage keeps every output alive."""
    y = Again.apply(stage, x, *stage.parameters())
    stage.__dict__.setdefault("_cache", []).append(y.detach().clone())
    return y


RIGHT = [
    ("10.1", r1_parts),
    ("10.1", r1_counters),
    ("10.1", r1_merge),
    ("10.2", r2_dict),
    ("10.2", r2_list),
    ("10.2", r2_class),
    ("10.1", r1_with_stage),
    ("10.1", r1_joined),
    ("10.2", r2_name_in_forward),
    ("10.2", r2_name_in_backward),
    ("10.2", r2_output_name),
    ("10.3", r3_function),
    ("10.3", r3_grads),
    ("10.3", r3_dummy),
    ("10.3", r3_library),
]
WRONG = [
    ("10.1", w1_one_more, "holds one more"),
    ("10.1", w1_same_everywhere, "warm-up of stage 0 everywhere"),
    ("10.1", w1_gpipe, "GPipe"),
    ("10.1", w1_none, "no warm-up"),
    ("10.1", w1_upside_down, "warm-up upside down"),
    ("10.1", w1_half, "half the warm-up: slower"),
    ("10.1", w1_eager, "eager: holds more"),
    ("10.1", w1_uncapped, "m < p: forwards too many"),
    ("10.1", w1_few_lost, "m < p: backwards lost"),
    ("10.1", w1_last_in, "last backwards reversed"),
    ("10.1", w1_backward_first, "backward first: slower"),
    ("10.1", w1_one_stage, "one stage: GPipe"),
    ("10.1", w1_few_is_gpipe, "m < p: GPipe, holds more"),
    ("10.1", w1_shared_row, "all rows one list"),
    ("10.1", w1_from_one, "counted from 1"),
    ("10.2", w2_sum_of_tensors, "sum holds graphs"),
    ("10.2", w2_no_pop, "dictionary holds graphs"),
    ("10.2", w2_outputs_list, "outputs hold graphs"),
    ("10.2", w2_fifo, "first in first out"),
    ("10.2", w2_stack, "last in first out"),
    ("10.2", w2_not_divided, "gradients not divided"),
    ("10.2", w2_number_not_divided, "number not divided"),
    ("10.2", w2_at_once, "backward at the F"),
    ("10.2", w2_again, "forward runs twice"),
    ("10.2", w2_deferred, "forward at the B"),
    ("10.2", w2_whole_batch, "one backward at the end"),
    ("10.2", w2_tensor, "returns a tensor"),
    ("10.2", w2_by_position, "input by position"),
    ("10.2", w2_running_mean, "divided by those so far"),
    ("10.3", w3_no_rng, "other masks"),
    ("10.3", w3_state_after, "state from after forward"),
    ("10.3", w3_no_fork, "generator moved by backward"),
    ("10.3", w3_back_to_end, "generator put back too far"),
    ("10.3", w3_no_weights, "no graph for data"),
    ("10.3", w3_clone, "keeps a copy"),
    ("10.3", w3_keeps_output, "keeps the output too"),
    ("10.3", w3_state_on_stage, "one state per stage"),
    ("10.3", w3_state_stack, "states last in first out"),
    ("10.3", w3_always_grad, "fails with token numbers"),
    ("10.3", w3_history, "backward runs on into history"),
    ("10.3", w3_fork_forward, "forward does not draw"),
    ("10.3", w3_returns_too, "weights get it twice"),
    ("10.3", w3_frozen, "fails: frozen or unused weight"),
    ("10.3", w3_overwrites, "overwrites the gradients"),
    ("10.3", w3_seeded, "constant seed, other output"),
    ("10.3", w3_reentrant_checkpoint, "reentrant: no graph for data"),
    ("10.3", w3_no_preserve, "other masks, library"),
    ("10.3", w3_leaf_only, "input gradient of leaves only"),
    ("10.3", w3_weights_in_list, "weights in a list: no graph"),
    ("10.3", w3_copy_as_attribute, "copy kept as attribute"),
    ("10.3", w3_whole_graph, "keeps the first graph"),
    ("10.3", w3_thrice, "stage runs three times"),
    ("10.3", w3_output_attribute, "keeps a copy of the output"),
]
