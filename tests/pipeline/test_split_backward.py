import copy
import gc
import weakref
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.distributed.pipelining._backward import stage_backward_input, stage_backward_weight
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from pllab.pipeline import backward_input, backward_weight
from tests.pipeline.families import stages_of, tiny_gpt2


class Counted(TorchDispatchMode):
    """Counts the kernels that compute; views and allocations do not."""

    FREE = (
        "view",
        "detach",
        "t.default",
        "transpose",
        "alias",
        "expand",
        "empty",
        "slice",
        "unsqueeze",
        "split",
        "as_st",
    )

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = str(func).removeprefix("aten.")
        if not name.startswith(self.FREE):
            self.count[name] += 1
        return func(*args, **(kwargs or {}))


def linear_chain() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8, bias=False), nn.LayerNorm(8), nn.Linear(8, 8))


class Twice(nn.Module):
    """One weight used in two places of the trunk, and one that hangs behind another computation."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.scale = nn.Parameter(torch.randn(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.linear.weight * self.scale.exp()
        return functional.linear(self.linear(x).tanh() + x, weight, self.scale) * x.sigmoid()


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused, self.frozen = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8).requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.frozen(self.used(x).relu())


class Convolved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(1, 4, 3, padding=1), nn.GroupNorm(2, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x[:, None])).mean(1)


MODULES: dict[str, Callable[[], nn.Module]] = {
    "linears": linear_chain,
    "convolution": Convolved,
    "one weight twice": Twice,
    "unused and frozen": Unused,
    "nothing to train": nn.Tanh,
}


def whole_and_split(make: Callable[[], nn.Module], rows: torch.Tensor) -> tuple[Counter[str], Counter[str]]:
    """Run both backwards, compare their gradients, return the kernels of each."""
    torch.manual_seed(0)
    whole = make()
    split = copy.deepcopy(whole)
    inputs = [rows.clone().requires_grad_() for _ in range(2)]
    outputs = [module(x) for module, x in zip((whole, split), inputs, strict=True)]
    grad = torch.randn_like(outputs[0])
    with Counted() as at_once:
        outputs[0].backward(grad)
    with Counted() as in_halves:
        rest = backward_input([outputs[1]], [grad], [inputs[1]])
        backward_weight(rest)
    assert not rest
    torch.testing.assert_close(inputs[1].grad, inputs[0].grad)
    for ours, theirs in zip(split.parameters(), whole.parameters(), strict=True):
        assert (ours.grad is None) == (theirs.grad is None)
        if ours.grad is not None:
            torch.testing.assert_close(ours.grad, theirs.grad)
    return at_once.count, in_halves.count


@pytest.mark.parametrize("name", MODULES)
def test_the_halves_add_up_to_the_whole_and_nothing_is_computed_twice(name: str) -> None:
    at_once, in_halves = whole_and_split(MODULES[name], torch.randn(4, 8))
    twice = in_halves - at_once
    # One kernel makes all gradients of a norm or a convolution; it comes once for each half, with a mask of what it
    # is to compute.
    assert {name.split(".")[0] for name in twice} <= {
        "native_layer_norm_backward",
        "native_group_norm_backward",
        "convolution_backward",
    }


def test_a_gpt2_stage_computes_nothing_twice() -> None:
    hidden = torch.randn(2, 8, 16)
    at_once, in_halves = whole_and_split(lambda: stages_of(tiny_gpt2(), 3)[1], hidden)
    assert in_halves["mm.default"] == at_once["mm.default"] > 0
    assert set(in_halves - at_once) <= {"native_layer_norm_backward.default"}
    assert not at_once - in_halves


def test_i_leaves_the_weights_alone_and_computes_none_of_their_products() -> None:
    module = linear_chain()
    x = torch.randn(4, 8, requires_grad=True)
    y = module(x)
    with Counted() as first:
        rest = backward_input([y], [torch.ones_like(y)], [x])
    assert all(parameter.grad is None for parameter in module.parameters())
    assert first.count["mm.default"] == 3
    with Counted() as second:
        backward_weight(rest)
    assert second.count["mm.default"] == 3


def test_gradients_add_up_over_micro_batches_that_are_split_in_any_order() -> None:
    module = linear_chain()
    batches = [torch.randn(4, 8) for _ in range(3)]
    sum((module(x) ** 2).sum() for x in batches).backward()
    expected = [parameter.grad.clone() for parameter in module.parameters()]
    module.zero_grad()
    rests = []
    for x in batches:
        x = x.clone().requires_grad_()
        rests.append(backward_input([(module(x) ** 2).sum()], [None], [x]))
    for rest in reversed(rests):
        backward_weight(rest)
    for parameter, grad in zip(module.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, grad)


def test_a_stage_without_a_differentiable_input_leaves_everything_for_w() -> None:
    module = nn.Sequential(nn.Embedding(5, 8), nn.Linear(8, 8))
    ids = torch.tensor([[1, 2], [3, 1]])
    module(ids).sum().backward()
    expected = [parameter.grad.clone() for parameter in module.parameters()]
    module.zero_grad()
    y = module(ids)
    grad = torch.ones_like(y)
    with Counted() as nothing:
        rest = backward_input([y], [grad], [ids])
    assert not nothing.count
    backward_weight(rest)
    for parameter, grad in zip(module.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, grad)


def test_several_outputs_and_inputs_some_without_gradients() -> None:
    first, second = nn.Linear(8, 8), nn.Linear(8, 8)

    def run(x: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return first(x) + second(z), second(x)

    x, z = torch.randn(4, 8), torch.randn(4, 8)
    grads = (torch.randn(4, 8), torch.randn(4, 8))
    pairs = [(x.clone().requires_grad_(), z.clone()) for _ in range(2)]
    torch.autograd.backward(run(*pairs[0]), grads)
    expected = [parameter.grad.clone() for parameter in (*first.parameters(), *second.parameters())]
    first.zero_grad(), second.zero_grad()
    backward_weight(backward_input(run(*pairs[1]), grads, pairs[1]))
    torch.testing.assert_close(pairs[1][0].grad, pairs[0][0].grad)
    for parameter, grad in zip((*first.parameters(), *second.parameters()), expected, strict=True):
        torch.testing.assert_close(parameter.grad, grad)


class Saved(TorchDispatchMode):
    """Weak references to the storages of what the forward's linears and GELUs return."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[weakref.ref] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if str(func) in ("aten.addmm.default", "aten.gelu.default"):
            self.made.append(weakref.ref(out))
        return out

    def alive(self) -> int:
        return sum(ref() is not None for ref in self.made)


def test_what_only_i_needs_is_freed_after_i() -> None:
    def held(first_half_only: bool) -> int:
        base = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64))
        x = torch.randn(32, 64, requires_grad=True)
        with Saved() as saved:
            y = base(x)
            rest = backward_input([y], [torch.ones_like(y)], [x])
            del y
            gc.collect()
            alive = saved.alive()
            backward_weight(rest)
            gc.collect()
        return alive if first_half_only else saved.alive()

    # W needs the inputs of the three linears, 32 x 64 each: the batch and what each GELU returned. I also needed
    # what each GELU took.
    assert held(first_half_only=True) == 2
    assert held(first_half_only=False) == 0


def test_the_halves_agree_with_pytorchs_own() -> None:
    module = linear_chain()
    theirs = copy.deepcopy(module)
    x = torch.randn(4, 8, requires_grad=True)
    x_ = x.detach().clone().requires_grad_()
    grad = torch.randn(4, 8)
    backward_weight(backward_input([module(x)], [grad], [x]))
    _, groups = stage_backward_input([theirs(x_)], [grad], [x_], theirs.parameters())
    stage_backward_weight(theirs.parameters(), groups)
    torch.testing.assert_close(x.grad, x_.grad)
    for ours, other in zip(module.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, other.grad)


def test_parameters_behind_an_output_beside_the_trunk_get_their_gradients() -> None:
    """As a block that makes a position bias of parameters alone and passes it on beside the hidden states."""
    linear, bias, free = nn.Linear(8, 8), nn.Parameter(torch.randn(8)), nn.Parameter(torch.randn(8))

    def run(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        shared = bias.exp()  # on a branch and behind an output: its node must not be freed by the one before the other
        return linear(x) + shared, shared.expand(4, -1), free

    parameters = [*linear.parameters(), bias, free]
    x, grads = torch.randn(4, 8), [torch.randn(4, 8), torch.randn(4, 8), torch.randn(8)]
    leaves = [x.clone().requires_grad_() for _ in range(2)]
    torch.autograd.backward(run(leaves[0]), grads)
    expected = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    backward_weight(backward_input(run(leaves[1]), grads, [leaves[1]]))
    torch.testing.assert_close(leaves[1].grad, leaves[0].grad)
    for parameter, grad in zip(parameters, expected, strict=True):
        torch.testing.assert_close(parameter.grad, grad)


class Scaled(torch.autograd.Function):
    """A function of one's own: its backward makes all gradients, whatever is asked for."""

    @staticmethod
    def forward(ctx, x, scale, calls):
        ctx.save_for_backward(x, scale)
        ctx.calls = calls
        return x * scale

    @staticmethod
    def backward(ctx, grad):
        ctx.calls.append("backward")
        x, scale = ctx.saved_tensors
        return grad * scale, (grad * x).sum(0), None


def test_the_backward_of_a_function_of_ones_own_runs_once() -> None:
    calls: list[str] = []
    scale, x = nn.Parameter(torch.randn(8)), torch.randn(4, 8, requires_grad=True)
    backward_weight(backward_input([Scaled.apply(x, scale, calls)], [torch.ones(4, 8)], [x]))
    assert calls == ["backward"]
    torch.testing.assert_close(scale.grad, x.detach().sum(0))


def test_a_checkpointed_stage_adds_its_gradients_once() -> None:
    stage, x = linear_chain(), torch.randn(4, 8, requires_grad=True)
    stage(x).sum().backward()
    expected = [parameter.grad.clone() for parameter in stage.parameters()]
    stage.zero_grad()
    backward_weight(backward_input([checkpoint(stage, x, use_reentrant=False)], [torch.ones(4, 8)], [x]))
    for parameter, grad in zip(stage.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, grad)
