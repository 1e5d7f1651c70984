"""The cases of exercise 06.2: `install(model)` starts messages from hooks while backward runs, and returns `wait`.

Runs in one launch, told apart by the order of events and never by a clock: a chain of layers whose first layer looks
into the ledger before its own gradient is made; a rank that answers late; two branches that the ranks compute in
different order, beside a parameter that nothing uses, in each place it can have, and that is used in a second step.
"""

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
from pllab.lesson.exercises.lesson_06_ranks import appears, close, judge_alone, mean, seen_on_ranks, settle, write_down
from pllab.lesson.exercises.waits import Started, watch_waits

Install = Callable[[nn.Module], Any]
Gradients = dict[str, torch.Tensor]

_PATIENCE_S = 8.0  # rank 1 waits so long for rank 0 to end its backward; a right solution needs milliseconds
_WATCH_S = 0.5  # and watches so long whether rank 0 leaves wait() without an answer
_SLACK_BYTES = 128  # a solution may also tell the others which gradients it has


@dataclass
class Seen:
    """What one rank saw: gradients beside those of each rank alone, and the events."""

    got: list[Gradients] = field(default_factory=list)
    parts: list[list[Gradients]] = field(default_factory=list)
    places: list[str] = field(default_factory=list)  # of the unused parameter, in the steps after the chain's
    bytes_before_last: list[int] = field(default_factory=list)  # in each step of the chain
    bytes_there: int = 0  # of the gradients that exist at that moment
    messages_in_backward: int = 0
    messages: int = 0
    started: int = 0
    not_waited_for: int = 0
    same_weights: bool = True
    returns_function: bool = True
    blocked: bool = False
    left_early: bool = False


def program(rank: int, world_size: int, install: Install, folder: str) -> Seen:
    """All runs on one rank."""
    seen = Seen()
    with record_messages(write_down(folder, rank)) as ledger, watch_waits() as started:
        chain, wait = _installed(Chain, install, seen)
        if not seen.returns_function:
            return seen
        barrier()
        _late_answer(rank, chain, partial(_wait, wait, seen, started), seen, Path(folder))
        if seen.blocked:
            return seen  # nothing else is to be learned, and each backward would wait
        settle()
        chain, wait = _installed(Chain, install, seen)
        _two_steps(rank, world_size, chain, partial(_wait, wait, seen, started), seen, ledger)
        if _all_right(rank, seen, Path(folder)):  # what is left of a wrong step could hold up the next
            _branches(rank, world_size, install, seen, started, Path(folder))
    seen.messages = ledger.count("all_reduce")
    return seen


def _wait(wait: Callable[[], Any], seen: Seen, started: list[Started]) -> None:
    """Call the learner's wait, and see whether it waits for every message of the step."""
    wait()
    if not seen.not_waited_for:
        seen.started = len(started)
        seen.not_waited_for = sum(call.state == "started" for call in started)
    started.clear()


def _branches(rank: int, world_size: int, install: Install, seen: Seen, started: list[Started], folder: Path) -> None:
    """A step in which a parameter is unused, with each place it can have; then one in which it is used."""
    models = []
    for step, place in enumerate(PLACES):
        settle()
        branches, wait = _installed(partial(Branches, rank, place), install, seen)
        models.append((place, branches, partial(_wait, wait, seen, started)))
        _step(rank, world_size, branches, models[-1][2], seen, step=step)
        seen.places.append(place)
        if not _all_right(rank, seen, folder):
            return  # what is left of a wrong step could hold up the next
    for step, (place, branches, wait) in enumerate(models, start=10):
        settle()
        branches.use_all()
        _step(rank, world_size, branches, wait, seen, step=step)
        seen.places.append(place)


def _installed(make: Callable[[], nn.Module], install: Install, seen: Seen) -> tuple[Any, Any]:
    torch.manual_seed(3)
    model = make()
    wait = install(model)
    seen.returns_function = callable(wait)
    return model, wait


def _late_answer(rank: int, chain: Chain, wait: Callable[[], Any], seen: Seen, folder: Path) -> None:
    """Rank 0 goes ahead; rank 1 begins its backward when rank 0 has ended its own, and watches whether it waits."""
    ended, left, blocked = folder / "backward-ended", folder / "wait-returned", folder / "blocked"
    if rank == 1:
        seen.blocked = not appears(ended, _PATIENCE_S)
        if seen.blocked:
            blocked.touch()
        seen.left_early = not seen.blocked and appears(left, _WATCH_S)
    _loss(chain, rank, step=0).backward()
    if rank == 0:
        ended.touch()
    wait()
    if rank == 0:
        left.touch()
        seen.blocked = blocked.exists()


def _two_steps(rank: int, world_size: int, chain: Chain, wait: Callable[[], Any], seen: Seen, ledger: Ledger) -> None:
    """Two steps with other data; the first layer looks into the ledger while its gradient is still missing."""
    before = [(parameter.detach().clone(), parameter._version) for parameter in chain.parameters()]
    trained = [parameter for parameter in chain.parameters() if parameter.requires_grad]
    seen.bytes_there = sum(parameter.nbytes for parameter in trained[1:])  # all but the first layer's
    for step in (1, 2):
        _look_and_step(rank, world_size, chain, wait, seen, ledger, step)
    seen.same_weights = all(
        torch.equal(weight, parameter) and version == parameter._version  # halved and summed, it has its old value
        for (weight, version), parameter in zip(before, chain.parameters(), strict=True)
    )


def _look_and_step(
    rank: int, world_size: int, chain: Chain, wait: Callable[[], Any], seen: Seen, ledger: Ledger, step: int
) -> None:
    start, start_bytes = ledger.count("all_reduce"), ledger.num_bytes("all_reduce")

    def look() -> None:
        seen.bytes_before_last.append(ledger.num_bytes("all_reduce") - start_bytes)

    seen.parts.append(_alone(chain, world_size, step))
    chain.look = look
    chain.zero_grad()
    _loss(chain, rank, step).backward()
    seen.messages_in_backward = max(seen.messages_in_backward, ledger.count("all_reduce") - start)
    chain.look = nothing
    wait()
    seen.got.append(_gradients(chain))


def _step(rank: int, world_size: int, model: nn.Module, wait: Callable[[], Any], seen: Seen, *, step: int) -> None:
    seen.parts.append(_alone(model, world_size, step))
    model.zero_grad()
    _loss(model, rank, step).backward()
    wait()
    seen.got.append(_gradients(model))


def _all_right(rank: int, seen: Seen, folder: Path) -> bool:
    """Whether the gradients of the latest step are the mean on both ranks."""
    got, parts = seen.got[-1], seen.parts[-1]
    if not all(close(got.get(name), mean([part[name] for part in parts])) for name in parts[0]):
        (folder / f"wrong-{rank}").touch()
    settle()
    return not list(folder.glob("wrong-*"))


def _alone(model: nn.Module, world_size: int, step: int) -> list[Gradients]:
    """The gradients of each rank by itself, by torch.autograd.grad, which runs no accumulation hooks."""
    used = getattr(model, "order", None)
    names = [
        name
        for name, one in model.named_parameters()
        if one.requires_grad and (used is None or name.partition(".")[0] in used)
    ]
    wanted = [dict(model.named_parameters())[name] for name in names]
    all_gradients = [torch.autograd.grad(_loss(model, rank, step), wanted) for rank in range(world_size)]
    return [dict(zip(names, deepcopy(gradients), strict=True)) for gradients in all_gradients]


def _loss(model: nn.Module, rank: int, step: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 * step + rank)
    loss: torch.Tensor = model(torch.randn(4, WIDTH, generator=generator)).square().mean()
    return loss


def _gradients(model: nn.Module) -> Gradients:
    return {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}


def alone(rank: int, world_size: int, install: Install, _folder: str) -> tuple[Gradients, Gradients]:
    """The gradients after a step in a world of one rank, and what they should be."""
    seen = Seen()
    chain, wait = _installed(Chain, install, seen)
    _step(rank, world_size, chain, wait, seen, step=1)
    return seen.got[0], seen.parts[0][0]


def _seen(install: Install) -> list[Seen]:
    """What both ranks saw, unless one waited in its backward: then the run ended there."""
    seen: list[Seen] = seen_on_ranks(program, install)
    if any(one.blocked for one in seen):
        raise Wrong(
            "blocks_backward",
            "Backward stood still until the other rank came: a hook waits for its message or for the rank. Start the "
            "message with all_reduce_async and wait later, in wait().",
        )
    return seen


def _judge_overlap(seen: Seen) -> None:
    """Whether the messages of each step left when their gradients were there: not later and not earlier."""
    for step, num_bytes in enumerate(seen.bytes_before_last, start=1):
        if num_bytes == 0:
            raise Wrong(
                "first_step_only",
                f"In step {step} no message was under way when the last gradient was made, and in the first one was: "
                "hooks stay, and wait() has to make everything ready for the next backward.",
            )
        if num_bytes > seen.bytes_there + _SLACK_BYTES:
            raise Wrong(
                "sent_too_early",
                f"In step {step} messages of {num_bytes} bytes had started when only {seen.bytes_there} bytes of "
                "gradients were there: some left with old numbers. wait() has to empty what the step filled, so that "
                "the next counts anew.",
            )


@case("a message is under way before the last gradient exists")
def starts_in_backward(install: Install) -> None:
    seen = _seen(install)[0]
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
    if seen.bytes_before_last[0] == 0:
        raise Wrong(
            "starts_late",
            "No message was under way when the last gradient was made. Backward makes the gradients of the last layer "
            "first: send in that order, and do not collect all before the first message.",
        )
    for one in _seen(install):
        _judge_overlap(one)


@case("backward does not wait for the other rank, and wait() does")
def really_waits(install: Install) -> None:
    if _seen(install)[1].left_early:
        raise Wrong(
            "waits_on_nothing",
            "wait() came back before the other rank had sent anything, so step() would use half a sum. Keep what "
            "all_reduce_async returns, and call wait() on each.",
        )
    for seen in _seen(install):
        if seen.not_waited_for:
            raise Wrong(
                "not_all_waited_for",
                f"{seen.started} messages were started in a step, and {seen.not_waited_for} of them nobody waited for. "
                "Messages may arrive in another order than they left, so wait() has to wait for each.",
            )


@case("after wait() the gradients are the mean over the ranks, step after step")
def two_steps(install: Install) -> None:
    for one in _seen(install):
        for step in (0, 1) if one.got else ():
            for name in one.parts[step][0]:
                judge_gradient(name, one.got[step].get(name), [part[name] for part in one.parts[step]], step)
    (got, own), *_ = seen_on_ranks(alone, install, 1)
    for name, gradient in own.items():
        judge_alone(got.get(name), gradient)


@case("messages pair up when gradients arrive in another order on each rank, and a parameter gets none")
def same_order(install: Install) -> None:
    for rank, one in enumerate(_seen(install)):
        for place, parts, got in zip(one.places, one.parts[2:], one.got[2:], strict=True):
            for name in parts[0]:
                _judge_branch(name, place, got.get(name), [part[name] for part in parts], rank)


def _judge_branch(name: str, place: str, got: torch.Tensor | None, parts: list[torch.Tensor], rank: int) -> None:
    if close(got, mean(parts)):
        return
    if name.startswith("unused"):
        raise Wrong(
            "left_out_for_ever",
            f"Nothing used {name} ({place} in the model) in the first step. In the second all ranks did, and its "
            "gradient is not the mean: what got none in one step belongs to the order of the next all the same.",
        )
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
