"""Right solutions of lesson 10 that look different."""

from collections import deque

import torch
from torch.utils.checkpoint import checkpoint

from pllab.schedule import Action, Kind, Schedule

# 10.1


def warm_up_turns_drain(num_stages, num_microbatches):
    rows = []
    for stage in range(num_stages):
        warm_up = min(num_microbatches, num_stages - stage - 1)
        row = [f"F{i}" for i in range(warm_up)]
        for k in range(num_microbatches - warm_up):
            row += [f"F{warm_up + k}", f"B{k}"]
        row += [f"B{i}" for i in range(num_microbatches - warm_up, num_microbatches)]
        rows.append(row)
    return rows


def counts_what_is_held(num_stages, num_microbatches):
    """Forward while there is room and work, else backward."""

    def row(stage):
        forwards, backwards = deque(range(num_microbatches)), deque(range(num_microbatches))
        while backwards:
            held = len(backwards) - len(forwards)
            if forwards and held < num_stages - stage:
                yield Action(stage, Kind.F, forwards.popleft())
            else:
                yield Action(stage, Kind.B, backwards.popleft())

    return (row(stage) for stage in range(num_stages))


def pairs_that_name_no_stage(p, m):
    """The backward of i stands right behind the forward p - s - 1 later, or at the end."""
    table = []
    for s in range(p):
        row = []
        for i in range(m + p - s - 1):
            row += [("F", i)] * (i < m) + [("B", i - (p - s - 1))] * (i >= p - s - 1)
        table.append(row)
    return table


def as_text(p, m):
    return [" ".join(row) for row in warm_up_turns_drain(p, m)]


def by_stage(p, m):
    return {s: [(s, text[0], int(text[1:])) for text in row] for s, row in enumerate(warm_up_turns_drain(p, m))}


def as_csv(p, m):
    rows = [
        [Action(s, Kind(text[0]), int(text[1:])) for text in row] for s, row in enumerate(warm_up_turns_drain(p, m))
    ]
    return Schedule.of(rows).to_csv()


# 10.2


def dictionary(row, stage, loss, inputs, targets):
    live, total = {}, 0.0
    for _, kind, i in row:
        if kind == "F":
            live[i] = loss(stage(inputs[i]), targets[i]) / len(inputs)
            total += live[i].item()
        else:
            live.pop(i).backward()
    return total


def pairs_with_a_helper(row, stage, loss, inputs, targets):
    waiting, losses = [], []

    def forward(i):
        value = loss(stage(inputs[i]), targets[i])
        waiting.append((i, value))
        losses.append(value.detach())

    def take_out(i):
        place = [number for number, _ in waiting].index(i)
        return waiting.pop(place)[1]

    for action in row:
        if action.kind is Kind.F:
            forward(action.microbatch)
        else:
            take_out(action.microbatch).backward(torch.tensor(1 / len(inputs)))
    return torch.stack(losses).mean().item()


def lingering_names(row, stage, loss, inputs, targets):
    """Names of the last forward and the last backward stay, which costs two graphs and no more."""
    graphs = [None] * len(inputs)
    numbers = []
    for _stage, kind, i in row:
        if kind == Kind.F:
            output = stage(inputs[i])
            value = loss(output, targets[i])
            graphs[i] = value / len(inputs)
        if kind == Kind.B:
            graph = graphs[i]
            graph.backward()
            numbers.append(graph.item())
            graphs[i] = None
    return sum(numbers)


def splits_at_the_output(row, stage, loss, inputs, targets):
    """As a stage in the middle does: the gradient of the output first, then backward from there."""
    outputs, gradients, total = {}, {}, 0.0
    for _, kind, i in row:
        if kind == "F":
            outputs[i] = stage(inputs[i])
            leaf = outputs[i].detach().requires_grad_()
            value = loss(leaf, targets[i])
            (gradients[i],) = torch.autograd.grad(value / len(inputs), leaf)
            total += value.item() / len(inputs)
        else:
            outputs.pop(i).backward(gradients.pop(i))
    return total


def keeps_only_backwards(row, stage, loss, inputs, targets):
    """What waits is a bound method: it goes away with its graph when it is called."""
    waiting, numbers = {}, []
    for action in row:
        i = action.microbatch
        if action.kind == "F":
            waiting[i] = (loss(stage(inputs[i]), targets[i]) / len(inputs)).backward
            numbers.append(waiting[i].__self__.item())
        else:
            waiting.pop(i)()
    return sum(numbers)


def an_array_of_numbers(row, stage, loss, inputs, targets):
    live, numbers = [None] * len(inputs), torch.zeros(len(inputs))
    for _, kind, i in row:
        if str(kind) == "F":
            live[i] = loss(stage(inputs[i]), targets[i])
            numbers[i] = live[i].item()
        else:
            live[i].backward(live[i].new_tensor(1 / len(inputs)))
            live[i] = None
    return numbers.mean().item()


# 10.3


class _Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, stage, x, *parameters):
        ctx.stage, ctx.x, ctx.state = stage, x.detach(), torch.get_rng_state()
        ctx.wants = x.requires_grad
        return stage(x)

    @staticmethod
    def backward(ctx, gradient):
        leaf = ctx.x.detach().requires_grad_(ctx.wants)
        before = torch.get_rng_state()
        torch.set_rng_state(ctx.state)
        with torch.enable_grad():
            output = ctx.stage(leaf)
        torch.set_rng_state(before)
        wanted = [tensor for tensor in (leaf, *ctx.stage.parameters()) if tensor.requires_grad]
        grads = iter(torch.autograd.grad(output, wanted, gradient, allow_unused=True))
        return None, *(next(grads) if needed else None for needed in ctx.needs_input_grad[1:])


def returns_all_gradients(stage, x):
    return _Own.apply(stage, x, *stage.parameters())


def torchs_own(stage, x):
    return checkpoint(stage, x, use_reentrant=False)


class _WithDummy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, dummy, stage, state, x):
        ctx.stage = stage
        ctx.save_for_backward(x, state)
        return stage(x)

    @staticmethod
    def backward(ctx, gradient):
        x, state = ctx.saved_tensors
        leaf = x.detach()
        leaf.requires_grad = x.requires_grad
        with torch.random.fork_rng():
            torch.set_rng_state(state)
            with torch.set_grad_enabled(True):
                ctx.stage(leaf).backward(gradient)
        return None, None, None, leaf.grad


def with_a_dummy(stage, x):
    return _WithDummy.apply(torch.zeros((), requires_grad=True), stage, torch.get_rng_state(), x)


def on_copies_of_the_weights(stage, x):
    """The weights go in as arguments, and what comes back are the gradients of detached copies."""
    names = [name for name, _ in stage.named_parameters()]

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, *weights):
            ctx.state = torch.get_rng_state()
            ctx.save_for_backward(x, *weights)
            return torch.func.functional_call(stage, dict(zip(names, weights, strict=True)), (x,))

        @staticmethod
        def backward(ctx, gradient):
            leaves = [kept.detach().requires_grad_(kept.requires_grad) for kept in ctx.saved_tensors]
            now = torch.get_rng_state()
            torch.set_rng_state(ctx.state)
            with torch.enable_grad():
                output = torch.func.functional_call(stage, dict(zip(names, leaves[1:], strict=True)), (leaves[0],))
            torch.set_rng_state(now)
            wanted = [leaf for leaf in leaves if leaf.requires_grad]
            grads = iter(torch.autograd.grad(output, wanted, gradient, allow_unused=True))
            return tuple(next(grads) if leaf.requires_grad else None for leaf in leaves)

    return Function.apply(x, *stage.parameters())


RIGHT = {
    "10.1": [warm_up_turns_drain, counts_what_is_held, pairs_that_name_no_stage, as_text, by_stage, as_csv],
    "10.2": [
        dictionary,
        pairs_with_a_helper,
        lingering_names,
        splits_at_the_output,
        keeps_only_backwards,
        an_array_of_numbers,
    ],
    "10.3": [returns_all_gradients, torchs_own, with_a_dummy, on_copies_of_the_weights],
}
