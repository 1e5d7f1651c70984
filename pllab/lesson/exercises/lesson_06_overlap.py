"""The cases of exercise 06.2: `install(model)` starts messages from hooks while backward runs, and returns `wait`.

Runs in one launch, told apart by the order of events and never by a clock: a chain of layers whose first layer looks
into the ledger before its own gradient is made; a rank that answers late; two branches that the ranks compute in
different order, beside a parameter that nothing uses, in each place it can have, and that is used in a second step.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pllab.comm import Ledger, barrier, record_messages
from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.failures import seen_in_call
from pllab.lesson.exercises.ranks import Attempt, Watch, appear
from pllab.lesson.exercises.tensors import close, compare_tensors
from pllab.lesson.mistakes import Mistake

Gradients = dict[str, torch.Tensor]

_SIZE = 2
_PLAN = ((_SIZE, 1),)
_PATIENCE_S = 3.0  # rank 1 waits so long for rank 0 to end its backward; a right solution needs milliseconds
_WATCH_S = 0.5  # and watches so long whether rank 0 leaves wait() without an answer
_SLACK_BYTES = 128  # a solution may also tell the others which gradients it has
_CHAIN_STEPS = (1, 2)
_USED_LATER = 10  # is added to the number of a step in which the unused parameter is used
_WIDTH = 8
_PLACES = ("first", "between", "last")  # of the unused parameter of `Branches`


class Chain(nn.Module):
    """Four layers, one of them frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(_WIDTH, _WIDTH, bias=False) for _ in range(4))
        self.layers[1].requires_grad_(requires_grad=False)
        self.look: Callable[[], None] = lambda: None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The last step of backward is the first layer's gradient; the look comes right before it."""
        x = self.layers[0](x)
        x.register_hook(lambda _: self.look())
        for layer in list(self.layers)[1:]:
            x = layer(x).tanh()
        return x


class Branches(nn.Module):
    """Two layers side by side, of which the one computed last gets its gradient first, and one not used at first."""

    def __init__(self, rank: int, place: str) -> None:
        super().__init__()
        names = ["left", "right"]
        names.insert(_PLACES.index(place), "unused")
        for name in names:
            self.add_module(name, nn.Linear(_WIDTH, _WIDTH, bias=False))
        self.order = ["left", "right"] if rank == 0 else ["right", "left"]

    def use_all(self) -> None:
        """From now on the loss needs the unused one too."""
        self.order.insert(1, "unused")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Sum the branches, in this rank's order."""
        total = torch.zeros(())
        for name in self.order:
            total = total + self.get_submodule(name)(x * (1 + (name == "left"))).tanh()
        return total


@dataclass
class Seen:
    """What one rank saw: the gradients after each step, and what the steps before them showed."""

    got: dict[str, Gradients] = field(default_factory=dict)
    bytes_before_last: list[int] = field(default_factory=list)  # in each step of the chain
    same_weights: bool = True
    blocked: bool = False
    left_early: bool = False


def train_on_ranks(watch: Watch, rank: int, world_size: int, install: Function) -> dict[str, Attempt]:
    """On every rank: all steps, or one step of the chain in a world of one."""
    return {"all models": watch.attempt(_all_steps, watch.folder, rank, world_size, install)}


def _all_steps(folder: Path, rank: int, world_size: int, install: Function) -> Seen:
    seen = Seen()
    chain, wait = _installed(Chain, install)
    if world_size == 1:
        seen.got["chain, step 1"] = _step(rank, chain, wait, step=1)
        return seen
    barrier()
    _late_answer(folder, rank, chain, wait, seen)
    if seen.blocked:
        return seen  # nothing else is to be learned, and each backward would wait
    _settle()
    chain, wait = _installed(Chain, install)
    before = [(parameter.detach().clone(), parameter._version) for parameter in chain.parameters()]
    with record_messages() as ledger:
        for step in _CHAIN_STEPS:
            chain.look = partial(_look, ledger, ledger.num_bytes("all_reduce"), seen)
            seen.got[f"chain, step {step}"] = _step(rank, chain, wait, step=step)
    seen.same_weights = all(
        torch.equal(weight, parameter) and version == parameter._version  # halved and summed, it has its old value
        for (weight, version), parameter in zip(before, chain.parameters(), strict=True)
    )
    if _all_right(folder, rank, seen, _parts(chain, step)):
        _branch_steps(folder, rank, install, seen)
    return seen


def _branch_steps(folder: Path, rank: int, install: Function, seen: Seen) -> None:
    """A step in which a parameter is unused, with each place it can have; then one in which it is used."""
    models = {}
    for step, place in enumerate(_PLACES):
        _settle()
        branches, wait = models[place] = _installed(partial(Branches, rank, place), install)
        seen.got[f"unused {place}"] = _step(rank, branches, wait, step=step)
        if not _all_right(folder, rank, seen, _parts(branches, step)):
            return  # what is left of a wrong step could hold up the next
    for step, (place, (branches, wait)) in enumerate(models.items(), start=_USED_LATER):
        _settle()
        branches.use_all()
        seen.got[f"unused {place}, but not now"] = _step(rank, branches, wait, step=step)


def _installed(make: Callable[[], nn.Module], install: Function) -> tuple[Any, Any]:
    torch.manual_seed(3)
    model = make()
    return model, install(model)


def _late_answer(folder: Path, rank: int, chain: Chain, wait: Callable[[], Any], seen: Seen) -> None:
    """Rank 0 goes ahead; rank 1 begins its backward when rank 0 has ended its own, and watches whether it waits."""
    ended, left, blocked = folder / "backward-ended", folder / "wait-returned", folder / "blocked"
    if rank == 1:
        seen.blocked = not appear(ended, timeout_s=_PATIENCE_S)
        if seen.blocked:
            blocked.touch()
        seen.left_early = not seen.blocked and appear(left, timeout_s=_WATCH_S)
    _loss(chain, rank, step=0).backward()
    if rank == 0:
        ended.touch()
    wait()
    if rank == 0:
        left.touch()
        seen.blocked = blocked.exists()


def _settle() -> None:
    """All ranks are here; messages that nobody waited for have had time to arrive."""
    barrier()
    time.sleep(0.05)
    barrier()


def _look(ledger: Ledger, start: int, seen: Seen) -> None:
    seen.bytes_before_last.append(ledger.num_bytes("all_reduce") - start)


def _step(rank: int, model: nn.Module, wait: Callable[[], Any], *, step: int) -> Gradients:
    model.zero_grad()
    _loss(model, rank, step).backward()
    if isinstance(model, Chain):
        model.look = lambda: None
    wait()
    return {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}


def _all_right(folder: Path, rank: int, seen: Seen, parts: list[Gradients]) -> bool:
    """Whether the gradients of the latest step are the mean on both ranks."""
    got = list(seen.got.values())[-1]
    if not all(close(got.get(name), (parts[0][name] + parts[1][name]) / 2) for name in parts[0]):
        (folder / f"wrong-{rank}").touch()
    _settle()
    return not list(folder.glob("wrong-*"))


def _loss(model: nn.Module, rank: int, step: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 * step + rank)
    loss: torch.Tensor = model(torch.randn(4, _WIDTH, generator=generator)).square().mean()
    return loss


def _parts(model: nn.Module, step: int) -> list[Gradients]:
    """The gradients of each rank by itself, by torch.autograd.grad, which runs no accumulation hooks."""
    used = getattr(model, "order", None)
    wanted = {
        name: one
        for name, one in model.named_parameters()
        if one.requires_grad and (used is None or name.partition(".")[0] in used)
    }
    gradients = [torch.autograd.grad(_loss(model, rank, step), list(wanted.values())) for rank in range(_SIZE)]
    return [dict(zip(wanted, each, strict=True)) for each in gradients]


def _all_parts() -> dict[str, list[Gradients]]:
    """The same for all steps, with models as the ranks had them."""
    torch.manual_seed(3)
    chain = Chain()
    parts = {f"chain, step {step}": _parts(chain, step) for step in _CHAIN_STEPS}
    for step, place in enumerate(_PLACES):
        torch.manual_seed(3)
        branches = Branches(0, place)
        parts[f"unused {place}"] = _parts(branches, step)
        branches.use_all()
        parts[f"unused {place}, but not now"] = _parts(branches, step + _USED_LATER)
    return parts


def _seen(install: Function, size: int = _SIZE) -> list[Seen]:
    """What the ranks saw, unless one waited in its backward: then the run ended there."""
    seen: list[Seen] = [one.value for one in seen_in_call(train_on_ranks, install, _PLAN, size, "all models")]
    if any(one.blocked for one in seen):
        told = f"Rank 0 did not end its backward until rank 1 began its own, {_PATIENCE_S:g} s later"
        why = "Start the message with all_reduce_async in the hook, and wait for it in wait()."
        raise Wrong("blocks_backward", f"{told}. {why}")
    return seen


@case("a message is under way before the last gradient exists")
def starts_in_backward(install: Function) -> None:
    for one in _seen(install):
        if not one.same_weights:
            told = "The weights changed; right is that they stay"
            raise Wrong("wrong", f"{told}. A post-accumulate hook is called with the parameter, not its gradient.")
        there = sum(parameter.nbytes for parameter in list(Chain().parameters())[1:] if parameter.requires_grad)
        for step, num_bytes in zip(_CHAIN_STEPS, one.bytes_before_last, strict=True):
            sent = f"In step {step}, {num_bytes} bytes of messages had started when {there} of gradients were there"
            if num_bytes == 0:
                why = "Backward makes the last layer's gradients first, and wait() makes all ready for the next step."
                raise Wrong("starts_late", f"{sent} and the last one was missing; right is more than 0. {why}")
            if num_bytes > there + _SLACK_BYTES:
                shown = f"{sent}: some left with old numbers"
                why = "wait() has to empty what the step filled, so that the next counts from the beginning."
                raise Wrong("sent_too_early", f"{shown}. {why}")


@case("backward does not wait for the other rank, and wait() does")
def really_waits(install: Function) -> None:
    """Whoever leaves a message without waiting for it is refused before this."""
    if _seen(install)[1].left_early:
        raise Wrong("wrong", "wait() came back on rank 0 before rank 1 had sent anything; right is to wait for it.")


def _compare(install: Function, steps: str, mistakes: Callable[..., list[Mistake]], size: int = _SIZE) -> None:
    """Compare the gradients after those steps whose names begin so; `mistakes` is given the gradients of each rank."""
    seen, parts = [one.got for one in _seen(install, size)], _all_parts()
    compare_tensors(
        lambda name, step, rank: seen[rank][step].get(name),
        [
            (name, step, rank)
            for step in seen[0]
            if step.startswith(steps)
            for name in parts[step][0]
            for rank in range(size)
        ],
        lambda name, step, _: torch.stack([part[name] for part in parts[step][:size]]).mean(0),
        mistakes(parts),
        asked=f"{{}}.grad after wait() ({{}}) on rank {{}} of {size}",
        same=close,
    )


@case("after wait() the gradients are the mean over the ranks, step after step")
def two_steps(install: Function) -> None:
    half = "That is half of it, which is right only on two ranks. Ask world_size()."
    _compare(install, "chain", lambda _: [])
    _compare(
        install,
        "chain",
        lambda parts: [Mistake("literal_world_size", half, like=lambda name, step, rank: parts[step][rank][name] / 2)],
        size=1,
    )


@case("messages pair up even if gradients arrive in another order on each rank and a parameter gets none")
def same_order(install: Function) -> None:
    _compare(install, "unused", _order_mistakes)


def _order_mistakes(parts: dict[str, list[Gradients]]) -> list[Mistake]:
    def is_mixed(got: Any, _: str, step: str, __: int) -> bool:
        mine, others = parts[step]
        return any(close(got, (mine[a] + others[b]) / 2) for a in mine for b in others if a != b)

    held_back = (
        "That is this rank's own gradient, or half of it: it was not sent. A layer that nothing uses never calls its "
        "hook; wait() sends what is behind it, and a later step may use it."
    )
    return [
        *(
            Mistake("held_back", held_back, like=lambda name, step, rank, x=factor: x * parts[step][rank][name])
            for factor in (1.0, 0.5)
        ),
        Mistake(
            "order_differs",
            "That is a mean with the gradient of another layer: ranks pair messages by order alone, and on rank 1 the "
            "gradients come in another one. Start them in one fixed order; what comes early waits for its turn.",
            when=is_mixed,
        ),
    ]
