import copy
import gc
import weakref
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from pllab.pipeline import backward_input, backward_weight
from tests.pipeline.families import stages_of, tiny_gpt2


class Counted(TorchDispatchMode):
    """Counts the kernels that compute; views and allocations do not."""

    FREE = tuple("view detach t.default transpose alias expand empty slice unsqueeze split as_st".split())

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


def ends_frozen() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8).requires_grad_(False))


def convolved() -> nn.Module:
    return nn.Sequential(nn.Unflatten(1, (1, 8)), nn.Conv1d(1, 4, 3, padding=1), nn.GroupNorm(2, 4))


class Several(nn.Module):
    """Two inputs, of which one needs no gradient, and two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.first(x) + self.second(z), self.second(x)


class BesideTheTrunk(nn.Module):
    """As a block that makes a position bias of parameters alone and passes it on beside the hidden states."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.bias, self.free = nn.Linear(8, 8), nn.Parameter(torch.randn(8)), nn.Parameter(torch.randn(8))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        shared = self.bias.exp()  # on a branch and behind an output: its node must not be freed by the one before it
        return self.linear(x) + shared, shared.expand(4, -1), self.free


class Checkpointed(nn.Sequential):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(super().forward, x, use_reentrant=False)


X, Z = torch.randn(4, 8, requires_grad=True), torch.randn(4, 8)
CASES: dict[str, tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...]]] = {
    "linears": (linear_chain, (X,)),
    "convolution": (convolved, (X,)),
    "one weight twice": (Twice, (X,)),
    "frozen": (ends_frozen, (X,)),
    "nothing to train": (nn.Tanh, (X,)),
    "several inputs and outputs": (Several, (X, Z)),
    "an output beside the trunk": (BesideTheTrunk, (X,)),
    "a stage of GPT-2": (lambda: stages_of(tiny_gpt2(), 3)[1], (torch.randn(2, 8, 16, requires_grad=True),)),
    "no input with a gradient": (lambda: nn.Embedding(5, 8), (torch.tensor([[1, 2], [3, 1]]),)),
}


def gradients(module: nn.Module, inputs: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    """The gradients there are, of parameters and inputs."""
    named = {**dict(module.named_parameters()), **{f"input {number}": x for number, x in enumerate(inputs)}}
    return {name: tensor.grad for name, tensor in named.items() if tensor.grad is not None}


def whole_and_split(make: Callable[[], nn.Module], inputs: Sequence[torch.Tensor]) -> list[Counter[str]]:
    """Run a whole and a split backward, compare their gradients, return the kernels of whole, I and W."""
    torch.manual_seed(0)
    whole = make()
    split = copy.deepcopy(whole)
    x, y = ([each.detach().clone().requires_grad_(each.requires_grad) for each in inputs] for _ in range(2))
    outputs = [out if isinstance(out, tuple) else (out,) for out in (whole(*x), split(*y))]
    grads = [torch.randn_like(out) for out in outputs[0]]
    with Counted() as at_once:
        torch.autograd.backward(outputs[0], grads)
    with Counted() as first:
        rest = backward_input(outputs[1], grads, y)
    with Counted() as second:
        backward_weight(rest)
    assert not rest
    torch.testing.assert_close(gradients(split, y), gradients(whole, x))
    return [at_once.count, first.count, second.count]


@pytest.mark.parametrize("name", CASES)
def test_the_halves_add_up_to_the_whole_and_nothing_is_computed_twice(name: str) -> None:
    at_once, first, second = whole_and_split(*CASES[name])
    # One kernel makes all gradients of a norm or a convolution; it comes once for each half, with a mask of what it
    # is to compute.
    assert {name.split(".")[0] for name in first + second - at_once} <= {
        "native_layer_norm_backward",
        "native_group_norm_backward",
        "convolution_backward",
    }
    if name == "no input with a gradient":
        assert not first


def test_a_checkpointed_stage_adds_its_gradients_once() -> None:
    whole_and_split(lambda: Checkpointed(*linear_chain()), (X,))  # computes its forward again in both halves


def test_gradients_add_up_over_micro_batches_that_are_split_in_any_order() -> None:
    module = linear_chain()
    plain, batches = copy.deepcopy(module), torch.randn(3, 4, 8)
    sum((plain(x) ** 2).sum() for x in batches).backward()
    inputs = [x.clone().requires_grad_() for x in batches]
    rests = [backward_input([(module(x) ** 2).sum()], [None], [x]) for x in inputs]
    assert all(parameter.grad is None for parameter in module.parameters())
    for rest in reversed(rests):
        backward_weight(rest)
    torch.testing.assert_close(gradients(module, ()), gradients(plain, ()))


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
    module = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8))
    x = torch.randn(4, 8, requires_grad=True)
    with Saved() as saved:
        y = module(x)
        rest = backward_input([y], [torch.ones_like(y)], [x])
        del y
        gc.collect()
        after_i = saved.alive()
        backward_weight(rest)
        gc.collect()
    # W needs the inputs of the three linears: the batch and what each GELU returned. I also needed what each GELU took.
    assert after_i == 2
    assert saved.alive() == 0


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
