"""The cases of exercise 10.3: `checkpointed(stage, x)` runs a stage, keeps its input alone and computes it again.

Truth is the plain stage under the same seed, bit for bit. Saved-tensor hooks see what autograd keeps; a large tensor
that is new after the forward was kept by the function itself.
"""

import gc
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from pllab.lesson.exercise import Asked, Function, Wrong, case
from pllab.lesson.exercises.tensors import difference, told

Tensors = dict[str, torch.Tensor | None]

_WIDTH = 6


class _Counted(nn.Module):
    """Passes its input on, and counts its calls."""

    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One more call."""
        self.calls += 1
        return x


def _dropping(*seeds: int) -> list[nn.Sequential]:
    """For each seed a stage of linear, counter, tanh, dropout, linear."""
    stages = []
    for seed in seeds:
        torch.manual_seed(seed)
        layers = [nn.Linear(_WIDTH, 16), _Counted(), nn.Tanh(), nn.Dropout(0.5), nn.Linear(16, _WIDTH)]
        stages.append(nn.Sequential(*layers))
    return stages


def _plain(*seeds: int) -> list[nn.Sequential]:
    """The same stages without dropout."""
    return [stage.eval() for stage in _dropping(*seeds)]


def _embedding(*, learns: bool) -> list[nn.Sequential]:
    """Embedding, tanh, linear: the input is whole numbers below 6; if it is frozen, one more weight is not used."""
    torch.manual_seed(5)
    stage = nn.Sequential(nn.Embedding(6, _WIDTH), nn.Tanh(), nn.Linear(_WIDTH, 2))
    stage[0].requires_grad_(learns)
    if not learns:
        stage[1].register_parameter("unused", nn.Parameter(torch.ones(2)))
    return [stage]


def _inputs_of(count: int) -> list[torch.Tensor]:
    """Micro-batches of 5 rows; of several, the last has fewer."""
    generator = torch.Generator().manual_seed(4)
    sizes = [5] * count if count == 1 else [5] * (count - 1) + [3]
    return [torch.randn(rows, _WIDTH, generator=generator) for rows in sizes]


def _tokens(_: int) -> list[torch.Tensor]:
    return [torch.tensor([[3, 0, 5], [5, 2, 1]])]


class Setting(NamedTuple):
    """Stages, the micro-batches in the order in which they go back, and their inputs."""

    stages: list[nn.Sequential]
    order: tuple[int, ...] = (0,)
    inputs: Callable[[int], list[torch.Tensor]] = _inputs_of
    learns: bool = True  # whether the input comes from something that needs a gradient


_SETTINGS: dict[str, Callable[[], Setting]] = {
    "one stage without dropout": lambda: Setting(_plain(1)),
    "two stages without dropout": lambda: Setting(_plain(1, 2)),
    "two micro-batches without dropout": lambda: Setting(_plain(1), (0, 1)),
    "an input that needs no gradient": lambda: Setting(_plain(1), learns=False),
    "token numbers": lambda: Setting(_embedding(learns=True), inputs=_tokens, learns=False),
    "token numbers, a frozen weight and an unused one": lambda: Setting(
        _embedding(learns=False), inputs=_tokens, learns=False
    ),
    "dropout": lambda: Setting(_dropping(1)),
    "dropout, 2 stages and backwards in the order 2, 1, 0": lambda: Setting(_dropping(1, 2), (2, 1, 0)),
    "dropout and backwards in the order 0, 1": lambda: Setting(_dropping(1), (0, 1)),
    "dropout, 3 stages and backwards in the order 3, 0, 4, 1, 2": lambda: Setting(_dropping(1, 2, 3), (3, 0, 4, 1, 2)),
    "dropout and backwards in the order 3, 2, 1, 0": lambda: Setting(_dropping(1), (3, 2, 1, 0)),
}


class Run(NamedTuple):
    """What the plain stages must give too: outputs and gradients by name, calls of each stage, and the generator."""

    outputs: Tensors
    gradients: Tensors
    calls: list[int]
    state: torch.Tensor


def went_through(checkpointed: Function, where: str, goes_back: bool = True) -> Run:
    """In the process of the function: forward of all micro-batches through all stages, then their backwards."""
    stages, order, inputs, learns = _SETTINGS[where]()
    torch.manual_seed(7)
    scales = [torch.ones(_WIDTH, requires_grad=True) for _ in order]
    outputs = []
    for x, scale in zip(inputs(len(order)), scales, strict=True):
        value: Any = x * scale if learns else x
        for stage in stages:
            value = checkpointed(stage, value)
            if not isinstance(value, torch.Tensor):
                raise Wrong("no_output", f"Your function returned a {type(value).__name__}; return the stage's output.")
        outputs.append(value)
    if not all(output.requires_grad for output in outputs):
        shown = f"With {where}, your output has no graph, so no parameter ever learns"
        why = "The output of a Function has one if a tensor among its arguments, as a parameter, needs a gradient."
        raise Wrong("no_graph", f"{shown}. {why}")
    if goes_back:
        _go_back([outputs[i] for i in order])
    gradients = {
        f"the gradient of {name} of stage {number}": weight.grad
        for number, stage in enumerate(stages)
        for name, weight in stage.named_parameters()
    }
    if learns:
        gradients |= {f"the gradient behind input {i}": scale.grad for i, scale in enumerate(scales)}
    calls = [layer.calls for stage in stages for layer in stage if isinstance(layer, _Counted)]
    told = {f"the output of micro-batch {i}": output.detach() for i, output in enumerate(outputs)}
    return Run(told, gradients, calls, torch.get_rng_state())


def _go_back(outputs: list[torch.Tensor]) -> None:
    for output in outputs:
        try:
            output.square().sum().backward()
        except RuntimeError as error:
            if "second time" not in str(error):
                raise
            shown = "Your backward goes on past the input of the stage, into what made it"
            why = "Detach the input before the second forward, and return the gradient of the copy."
            raise Wrong("not_detached", f"{shown}. {why}") from None


def _compare(mine: Tensors, right: Tensors, where: str, hint_id: str, sentence: str = "") -> None:
    """Every tensor bit for bit; where one differs most is shown."""
    for name, wanted in right.items():
        got = mine[name]
        if got is not wanted and (wanted is None or difference(got, wanted)):
            raise Wrong(hint_id, f"With {where}, {name} is {told(got, wanted)}. {sentence}".rstrip())


def _ask(checkpointed: Asked, where: str, goes_back: bool = True) -> tuple[Run, Run]:
    """What the function gives, and the plain stages."""
    right = went_through(lambda stage, x: stage(x), where, goes_back)
    return checkpointed.inside(went_through, where, goes_back), right


def _judge_gradients(checkpointed: Asked, *settings: str) -> None:
    for where in settings:
        mine, right = _ask(checkpointed, where)
        _compare(mine.gradients, right.gradients, where, "other_gradients")


@case("the output is what the stage gives, and it has a graph")
def same_output(checkpointed: Asked) -> None:
    mine, right = _ask(checkpointed, "dropout", goes_back=False)
    _compare(mine.outputs, right.outputs, "dropout", "other_output")


@case("after the forward only the input is kept")
def keeps_little(checkpointed: Asked) -> None:
    checkpointed.inside(look_at_memory)


def look_at_memory(checkpointed: Function) -> None:
    """In the process of the function: what autograd keeps, and what else is alive after the forward."""
    (stage,), (x,) = _dropping(1), _inputs_of(1)
    x.requires_grad_()
    saved: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved.append(tensor)
        return tensor.detach()

    before = {id(tensor) for tensor in _tensors()}
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        output = checkpointed(stage, x)
    new = [tensor for tensor in _tensors() if id(tensor) not in before and tensor.numel() >= x.numel()]
    own = [tensor.untyped_storage().data_ptr() for tensor in (x, *stage.parameters())]
    for tensors, allowed in ((saved, own), (new, [*own, output.untyped_storage().data_ptr()])):
        for tensor in tensors:
            # The state of a generator is bytes; it may be kept too.
            if tensor.dtype is not torch.uint8 and tensor.untyped_storage().data_ptr() not in allowed:
                told = f"Your function keeps a tensor of shape {tuple(tensor.shape)}; right is the input x alone."
                raise Wrong("more_than_input", told)


def _tensors() -> list[torch.Tensor]:
    """The tensors that Python code holds now."""
    gc.collect()
    return [thing for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor)]


@case("without dropout the gradients are the plain stage's, bit for bit")
def same_gradients(checkpointed: Asked) -> None:
    for count in ("one stage", "two stages", "two micro-batches"):
        _judge_gradients(checkpointed, f"{count} without dropout")


@case("parameters learn even if the input needs no gradient")
def first_stage(checkpointed: Asked) -> None:
    _judge_gradients(checkpointed, "an input that needs no gradient")


@case("token numbers can be the input, and weights may be frozen or unused")
def tokens_and_frozen(checkpointed: Asked) -> None:
    _judge_gradients(checkpointed, "token numbers", "token numbers, a frozen weight and an unused one")


@case("with dropout the gradients are the same too")
def same_masks(checkpointed: Asked) -> None:
    mine, right = _ask(checkpointed, "dropout")
    other_masks = "The second forward drops different numbers: run it from the generator state of the first."
    _compare(mine.gradients, right.gradients, "dropout", "generator_not_restored", other_masks)


@case("the same for several stages and micro-batches, with the backwards in any order")
def several(checkpointed: Asked) -> None:
    put_back = "After your first forward the generator must go on; put it back after the second only."
    other_state = "Every call needs the state from its own start; other calls move the generator in between."
    for where in (
        "dropout, 2 stages and backwards in the order 2, 1, 0",
        "dropout and backwards in the order 0, 1",
        "dropout, 3 stages and backwards in the order 3, 0, 4, 1, 2",
    ):
        mine, right = _ask(checkpointed, where)
        _compare(mine.outputs, right.outputs, where, "generator_put_back", put_back)
        _compare(mine.gradients, right.gradients, where, "state_of_another", other_state)


@case("the forward runs exactly twice, and the generator continues as if it had run once")
def leaves_no_trace(checkpointed: Asked) -> None:
    for where in ("dropout", "dropout and backwards in the order 3, 2, 1, 0"):
        mine, right = _ask(checkpointed, where)
        if mine.calls != [2 * right.calls[0]]:
            told = f"With {where}, the stage ran {mine.calls[0]} times; right is {2 * right.calls[0]}."
            raise Wrong("number_of_forwards", told)
        if not torch.equal(mine.state, right.state):
            shown = f"With {where}, the generator stands elsewhere after your backward than after the plain stage's"
            raise Wrong("generator_moved", f"{shown}: what draws next draws other numbers.")
