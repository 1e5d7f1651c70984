"""The cases of exercise 05.2: `average_gradients(model)` makes three ranks equal to one process.

The steps are SGD's: it shows a constant factor in the gradient, which Adam divides away.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.lesson_05_ratio import judge_gradients
from pllab.lesson.exercises.lesson_05_watch import LITERAL, WORLD_SIZE, Attempt, attempt, log_of, run

Average = Callable[[nn.Module], Any]
Gradients = dict[str, torch.Tensor | None]

_ROWS = 4  # per rank
_STEPS = 3
_SLACK_BYTES = 128  # a solution may also tell the others which gradients it has


class Small(nn.Module):
    """A model with the three special cases: a frozen layer, one that forward never calls, a weight used twice."""

    def __init__(self, *, frozen: bool = False, unused: bool = False, tied: bool = False) -> None:
        super().__init__()
        if unused:
            self.unused = nn.Linear(6, 20)  # first, so that who leaves the loop at it has done nothing yet
        self.gain = nn.Parameter(torch.ones(6, dtype=torch.float64))  # of the model itself, and of another type
        self.embed = nn.Embedding(11, 6)
        self.middle = nn.Linear(6, 6).requires_grad_(not frozen)
        self.hidden = nn.Linear(6, 6)
        self.head = nn.Linear(6, 11, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """(rows,) int64 -> (rows, 11)."""
        hidden = torch.tanh(self.hidden(torch.tanh(self.middle(self.embed(tokens)))))
        logits: torch.Tensor = self.head(hidden * self.gain.float())
        return logits


@dataclass(frozen=True)
class Seen:
    """One rank around one call: its gradients before and after, and the parameters that the call changed."""

    attempt: Attempt
    local: Gradients
    after: Gradients
    changed: tuple[str, ...]


@dataclass(frozen=True)
class Trained:
    """One rank after three steps: its last call, calls per step, weights, and the first gradients before and after."""

    attempt: Attempt
    calls_per_step: tuple[int, ...]
    gradient_bytes: int
    gradient_elements: int
    weights: dict[str, torch.Tensor]
    first: tuple[Gradients, Gradients]


def average_on_ranks(rank: int, _: int, average_gradients: Average, folder: str) -> dict[str, Any]:
    """Inside a rank: a plain model, one with a frozen layer, one with an unused layer, then three steps of all."""
    log, results = log_of(folder, rank), dict[str, Any]()
    for name, model in {"plain": _make(), "frozen": _make(frozen=True), "unused": _make(unused=True)}.items():
        results[name] = _one_call(model, rank, average_gradients, log)
        if results[name].attempt.error:
            return results
    model = _make(frozen=True, unused=True, tied=True)
    counts, attempted, gradients = list[int](), Attempt([]), list[Gradients]()
    for step in range(_STEPS):
        _backward(model, step, slice(_ROWS * rank, _ROWS * (rank + 1)))
        gradients.append(_gradients(model))
        _, attempted = attempt(log, average_gradients, model)
        gradients.append(_gradients(model))
        counts.append(len(attempted.calls))
        if attempted.error:
            break
        _sgd_step(model)
    there = [gradient for gradient in gradients[0].values() if gradient is not None]
    sizes = sum(gradient.nbytes for gradient in there), sum(gradient.numel() for gradient in there)
    return results | {"steps": Trained(attempted, tuple(counts), *sizes, _weights(model), (gradients[0], gradients[1]))}


def alone_on_rank(rank: int, _: int, average_gradients: Average, folder: str) -> dict[str, Any]:
    """Inside the only rank of a world of one."""
    return {"alone": _one_call(_make(), rank, average_gradients, log_of(folder, rank))}


def one_process() -> dict[str, torch.Tensor]:
    """The weights after three steps of one process with the whole batch."""
    model = _make(frozen=True, unused=True, tied=True)
    for step in range(_STEPS):
        _backward(model, step, slice(None))
        _sgd_step(model)
    return _weights(model)


def _make(**kinds: bool) -> Small:
    torch.manual_seed(5)
    return Small(**kinds)


def _sgd_step(model: nn.Module) -> None:
    """Plain SGD with learning rate 0.5; the first step of torch.optim imports torch._dynamo, which takes seconds."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.sub_(parameter.grad, alpha=0.5)


def _backward(model: nn.Module, step: int, rows: slice) -> None:
    """The gradient of the mean loss over some rows of the batch that all ranks share."""
    generator = torch.Generator().manual_seed(step)
    tokens, targets = torch.randint(11, (2, _ROWS * WORLD_SIZE), generator=generator)
    model.zero_grad()
    nn.functional.cross_entropy(model(tokens[rows]), targets[rows]).backward()


def _one_call(model: Small, rank: int, average_gradients: Average, log: Path) -> Seen:
    """One backward and one call; the weights are moved apart in between, so that averaging them would show."""
    _backward(model, 0, slice(_ROWS * rank, _ROWS * (rank + 1)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(rank)
    if rank == 1 and model.hidden.bias.grad is not None:
        model.hidden.bias.grad.zero_()  # a zero is a gradient like any other
    local, before = _gradients(model), _weights(model)
    _, attempted = attempt(log, average_gradients, model)
    changed = tuple(name for name, weight in _weights(model).items() if not torch.equal(weight, before[name]))
    return Seen(attempted, local, _gradients(model), changed)


def _gradients(model: nn.Module) -> Gradients:
    return {name: None if p.grad is None else p.grad.detach().clone() for name, p in model.named_parameters()}


def _weights(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


@case("every gradient becomes the mean over three ranks, on each of them")
def the_mean(average_gradients: Average) -> None:
    """A plain model: every gradient is the mean over the ranks, on every rank, and nothing else moved."""
    try:
        seen: list[Seen] = run(average_on_ranks, average_gradients).of("plain")
    except Wrong as wrong:
        raise _none_returned(wrong) from None
    _judge_changed(seen)
    judge_gradients([each.local for each in seen], [each.after for each in seen], _calls(seen))
    _judge_digits(seen)
    (only,) = run(alone_on_rank, average_gradients, 1).of("alone")
    if any(not torch.allclose(_there(only.after[name]), _there(own)) for name, own in only.local.items()):
        raise Wrong(*LITERAL)


@case("frozen and unused parameters, whose grad is None on all ranks, are left alone")
def skipped(average_gradients: Average) -> None:
    for kind, words in {"frozen": "is frozen", "unused": "is not used in forward"}.items():
        try:
            seen: list[Seen] = run(average_on_ranks, average_gradients).of(kind)
        except Wrong as wrong:
            if wrong.hint_id != "raised" or _raises_anyway(average_gradients):
                raise
            why = f"A parameter that {words} has grad None on all ranks, and your function did not expect that"
            raise Wrong(f"{kind}_crash", f"{why}. {wrong.sentence}") from None
        _judge_changed(seen)
        for name, gradient in seen[0].local.items():
            if gradient is None and any(each.after[name] is not None for each in seen):
                raise Wrong(
                    "invented_gradient",
                    f"{name} {words}: its gradient was None on all ranks and is a tensor now, which weight decay "
                    "and momentum would act on.",
                )
        judge_gradients([each.local for each in seen], [each.after for each in seen], _calls(seen))


@case("no gradient travels twice (the messages are counted)")
def few_messages(average_gradients: Average) -> None:
    """What has no gradient sends nothing, and a tied weight is sent once."""
    for each in run(average_on_ranks, average_gradients).of("steps"):
        sent = each.attempt.num_bytes()
        more = each.attempt.num_elements() > each.gradient_elements + _SLACK_BYTES // 4
        if each.calls_per_step[-1] and more and sent > each.gradient_bytes + _SLACK_BYTES:
            raise Wrong(
                "sent_twice",
                f"The gradients have {each.gradient_bytes} bytes and your calls moved {sent}: a tied weight has two "
                "names and one gradient, or something without a gradient was sent.",
            )


@case("after three SGD steps three ranks have the weights of one process with the whole batch")
def equals_one_process(average_gradients: Average) -> None:
    """Three SGD steps with a frozen, an unused and a tied parameter against one process with the whole batch."""
    seen: list[Trained] = run(average_on_ranks, average_gradients).of("steps")
    right = one_process()
    for rank, each in enumerate(seen):
        if 0 in each.calls_per_step and any(each.calls_per_step):
            raise Wrong(
                "not_every_step",
                f"In the three steps you made {', '.join(map(str, each.calls_per_step))} calls; "
                "every step has new gradients to average.",
            )
        wrong = [name for name in right if not torch.allclose(each.weights[name], right[name], rtol=1e-4, atol=1e-5)]
        if wrong and _only_the_tied([each.first for each in seen]):
            raise Wrong(
                "tied_twice",
                "In the first step only embed.weight has another gradient than in one process: it is tied, and its one "
                "gradient was treated twice.",
            )
        if wrong:
            raise Wrong(
                "parts_from_one_process",
                f"After three SGD steps {', '.join(wrong)} on rank {rank} differs from one process.",
            )


def _judge_digits(seen: list[Seen]) -> None:
    right = torch.stack([_there(each.local["gain"]) for each in seen]).mean(0)
    if any(not torch.allclose(_there(each.after["gain"]), right, rtol=1e-12, atol=0.0) for each in seen):
        raise Wrong(
            "digits_lost",
            "The float64 gradient of gain came back with the digits of a smaller type; let each gradient travel in its "
            "own.",
        )


def _there(gradient: torch.Tensor | None) -> torch.Tensor:
    return torch.empty(0) if gradient is None else gradient


def _only_the_tied(first: list[tuple[Gradients, Gradients]]) -> bool:
    """Whether the mean over the ranks is right but for the weight that is used twice."""
    untied = [[{**each[moment], "embed.weight": None} for each in first] for moment in (0, 1)]
    try:
        judge_gradients(untied[0], untied[1], num_calls=1)
    except Wrong:
        return False
    return True


def _none_returned(wrong: Wrong) -> Wrong:
    """In the plain model every gradient is there, so a None comes from the call itself."""
    if wrong.hint_id == "raised" and "NoneType" in wrong.sentence:
        return Wrong("none_returned", f"all_reduce works in place and returns None. {wrong.sentence}")
    return wrong


def _raises_anyway(average_gradients: Average) -> bool:
    """Whether it raises even where every parameter has a gradient."""
    return bool(run(average_on_ranks, average_gradients).results[0]["plain"].attempt.error)


def _judge_changed(seen: list[Seen]) -> None:
    for each in seen:
        if each.changed:
            raise Wrong(
                "parameters_changed",
                f"Your function changed the parameter {each.changed[0]} itself; only .grad is to be averaged, "
                "the step is the optimizer's.",
            )


def _calls(seen: list[Seen]) -> int:
    return sum(len(each.attempt.calls) for each in seen)
