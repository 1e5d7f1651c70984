"""The cases of exercise 06.2: `install(model)` starts messages from hooks while backward runs, and returns `wait`.

Runs in one launch, told apart by the order of events and never by a clock: a chain of layers whose first layer looks
into the ledger before its own gradient is made; a rank that answers late; two branches that the ranks compute in
different order, beside a parameter that nothing uses, in each place it can have.
"""

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pllab.comm import Ledger, barrier, record_messages
from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.lesson_06_judge import judge_gradient
from pllab.lesson.exercises.lesson_06_models import PLACES, WIDTH, Branches, Chain, nothing
from pllab.lesson.exercises.lesson_06_ranks import close, mean, seen_on_ranks, write_down

Install = Callable[[nn.Module], Any]
Gradients = dict[str, torch.Tensor]

_PATIENCE_S = 8.0  # rank 1 waits so long for rank 0 to end its backward; a right solution needs milliseconds
_WATCH_S = 0.5  # and watches so long whether rank 0 leaves wait() without an answer


@dataclass
class Seen:
    """What one rank saw: gradients beside those of each rank alone, and the events."""

    got: list[Gradients] = field(default_factory=list)
    parts: list[list[Gradients]] = field(default_factory=list)
    messages_before_last: int = 0
    messages_in_backward: int = 0
    messages: int = 0
    same_weights: bool = True
    returns_function: bool = True
    blocked: bool = False
    left_early: bool = False


def program(rank: int, world_size: int, install: Install, folder: str) -> Seen:
    """All runs on one rank."""
    seen = Seen()
    with record_messages(write_down(folder, rank)) as ledger:
        chain, wait = _installed(Chain, install, seen)
        if not seen.returns_function:
            return seen
        barrier()
        _late_answer(rank, chain, wait, seen, Path(folder))
        _settle()
        chain, wait = _installed(Chain, install, seen)
        _two_steps(rank, world_size, chain, wait, seen, ledger)
        for step, place in enumerate(PLACES):
            _settle()
            branches, wait = _installed(partial(Branches, rank, place), install, seen)
            _step(rank, world_size, branches, wait, seen, step=step)
    seen.messages = ledger.count("all_reduce")
    return seen


def _installed(make: Callable[[], nn.Module], install: Install, seen: Seen) -> tuple[Any, Any]:
    torch.manual_seed(3)
    model = make()
    wait = install(model)
    seen.returns_function = callable(wait)
    return model, wait


def _late_answer(rank: int, chain: Chain, wait: Callable[[], Any], seen: Seen, folder: Path) -> None:
    """Rank 0 goes ahead; rank 1 begins its backward when rank 0 has ended its own, and watches whether it waits."""
    ended, left = folder / "backward-ended", folder / "wait-returned"
    if rank == 1:
        seen.blocked = not _appears(ended, _PATIENCE_S)
        seen.left_early = not seen.blocked and _appears(left, _WATCH_S)
    _loss(chain, rank, step=0).backward()
    if rank == 0:
        ended.touch()
    wait()
    if rank == 0:
        left.touch()


def _two_steps(rank: int, world_size: int, chain: Chain, wait: Callable[[], Any], seen: Seen, ledger: Ledger) -> None:
    """Two steps with other data; the first layer looks into the ledger while its gradient is still missing."""
    before = [(parameter.detach().clone(), parameter._version) for parameter in chain.parameters()]
    start = ledger.count("all_reduce")

    def look() -> None:
        seen.messages_before_last = ledger.count("all_reduce") - start

    parts = _alone(chain, world_size, step=1)
    chain.look = look
    _loss(chain, rank, step=1).backward()
    seen.messages_in_backward = ledger.count("all_reduce") - start
    chain.look = nothing
    wait()
    seen.got.append(_gradients(chain))
    seen.parts.append(parts)
    _step(rank, world_size, chain, wait, seen, step=2)
    seen.same_weights = all(
        torch.equal(weight, parameter) and version == parameter._version  # halved and summed, it has its old value
        for (weight, version), parameter in zip(before, chain.parameters(), strict=True)
    )


def _step(rank: int, world_size: int, model: nn.Module, wait: Callable[[], Any], seen: Seen, *, step: int) -> None:
    seen.parts.append(_alone(model, world_size, step))
    model.zero_grad()
    _loss(model, rank, step).backward()
    wait()
    seen.got.append(_gradients(model))


def _alone(model: nn.Module, world_size: int, step: int) -> list[Gradients]:
    """The gradients of each rank by itself, by torch.autograd.grad, which runs no accumulation hooks."""
    names = [name for name, one in model.named_parameters() if one.requires_grad and "unused" not in name]
    wanted = [dict(model.named_parameters())[name] for name in names]
    all_gradients = [torch.autograd.grad(_loss(model, rank, step), wanted) for rank in range(world_size)]
    return [dict(zip(names, deepcopy(gradients), strict=True)) for gradients in all_gradients]


def _loss(model: nn.Module, rank: int, step: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 * step + rank)
    loss: torch.Tensor = model(torch.randn(4, WIDTH, generator=generator)).square().mean()
    return loss


def _gradients(model: nn.Module) -> Gradients:
    return {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}


def _settle() -> None:
    """All ranks are here; messages that nobody waited for have had time to arrive."""
    barrier()
    time.sleep(0.05)
    barrier()


def _appears(file: Path, patience_s: float) -> bool:
    until = time.monotonic() + patience_s
    while not (there := file.exists()) and time.monotonic() < until:
        time.sleep(0.01)
    return there


@case("a message is under way before the last gradient exists")
def starts_in_backward(install: Install) -> None:
    seen = seen_on_ranks(program, install)[0]
    if not seen.returns_function:
        raise Wrong("no_wait", "install(model) should return a function without arguments, which waits.")
    if not seen.same_weights:
        raise Wrong(
            "takes_parameter_for_gradient",
            "The weights changed. A post-accumulate hook is called with the parameter, not with its gradient; the "
            "gradient is parameter.grad.",
        )
    if seen.messages == 0:
        raise Wrong("unseen", "The ledger saw no message; start them with all_reduce_async of pllab.comm.")
    if seen.messages_in_backward == 0:
        raise Wrong(
            "after_backward",
            "The first message was started after backward had ended, so nothing overlaps; start it in the hook.",
        )
    if seen.messages_before_last == 0:
        raise Wrong(
            "starts_late",
            "No message was under way when the last gradient was made. Backward makes the gradients of the last layer "
            "first: send in that order, and do not collect all before the first message.",
        )


@case("backward does not wait for the other rank, and wait() does")
def really_waits(install: Install) -> None:
    seen = seen_on_ranks(program, install)[1]
    if seen.blocked:
        raise Wrong(
            "blocks_backward",
            "Backward stood still until the other rank came: the hook waits for its message. Start it with "
            "all_reduce_async and wait later, in wait().",
        )
    if seen.left_early:
        raise Wrong(
            "waits_on_nothing",
            "wait() came back before the other rank had sent anything, so step() would use half a sum. Keep what "
            "all_reduce_async returns, and call wait() on each.",
        )


@case("after wait() the gradients are the mean over the ranks, step after step")
def two_steps(install: Install) -> None:
    for one in seen_on_ranks(program, install):
        for step in (0, 1):
            for name in one.parts[step][0]:
                judge_gradient(name, one.got[step].get(name), [part[name] for part in one.parts[step]], step)


@case("messages pair up when gradients arrive in another order on each rank, and a parameter gets none")
def same_order(install: Install) -> None:
    for rank, one in enumerate(seen_on_ranks(program, install)):
        for place, parts, got in zip(PLACES, one.parts[2:], one.got[2:], strict=True):
            for name in parts[0]:
                _judge_branch(name, place, got.get(name), [part[name] for part in parts], rank)


def _judge_branch(name: str, place: str, got: torch.Tensor | None, parts: list[torch.Tensor], rank: int) -> None:
    if close(got, mean(parts)):
        return
    if close(got, parts[rank]) or close(got, parts[rank] / len(parts)):
        raise Wrong(
            "held_back",
            f"After wait() the gradient of {name} is this rank's own. A parameter that nothing uses ({place} in the "
            "model) never calls its hook, and what comes behind it in your order was never sent; wait() sends it.",
        )
    raise Wrong(
        "order_differs",
        f"The gradient of {name} was summed with that of another parameter. On rank 1 the gradients came "
        "in another order, and ranks pair messages by order alone. Start them in one fixed order; a "
        "gradient that comes early waits for its turn.",
    )
