"""What the exercises of lesson 06 share: a run on two ranks whose failures are hints, and comparing gradients.

A rank that gloo ends, or that waits for ever, cannot tell what it did. So each message is written to a file before it
leaves, and the first that differs between the ranks names the cause.
"""

import json
import re
import time
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from pllab.comm import Message, RankError, barrier
from pllab.lesson.exercise import Wrong, once_a_check

Program = Callable[..., Any]  # program(rank, world_size, function, *args), on every rank
WORLD_SIZE = 2
_TIMEOUT_S = 45.0  # of a whole launch; a busy machine needs some of it to start the ranks

# What an error of a rank says, and the bug it comes from.
_KNOWN = (
    (
        "NoneType",
        "none_gradient",
        "A grad was None, and your function took it for a tensor: that of a frozen or unused parameter, or one that "
        "this step has not made yet, as after a step whose notes were not cleared.",
    ),
    (
        "leaf Variable that requires grad",
        "takes_parameter_for_gradient",
        "A post-accumulate hook is called with the parameter, not with its gradient; the gradient is parameter.grad.",
    ),
    (
        "cannot register a hook on a tensor that doesn't require",
        "hooks_a_frozen_one",
        "A frozen parameter never gets a gradient, so it takes no hook; skip those without requires_grad.",
    ),
)
# What the end of a rank says when the messages of the ranks did not fit: gloo ended it, it waits, or its peer is gone.
_MISMATCH = re.compile(r"killed by signal|SIGABRT|had not finished|PeerError")


def seen_on_ranks(program: Program, solution: Any, world_size: int = WORLD_SIZE) -> list[Any]:
    """Run `program(rank, world_size, solution, folder)` on the ranks, once for all cases, and return what each saw.

    Raises:
        Wrong: the solution raised, never came back, or broke the process.
    """
    outcome = _outcome(program, solution, world_size)
    if isinstance(outcome, Exception):
        raise outcome from None
    return outcome


@once_a_check  # a failure too: no case launches again after it
def _outcome(program: Program, solution: Any, world_size: int) -> list[Any] | Exception:
    with TemporaryDirectory(dir=solution.folder) as folder:
        try:
            return solution.on_ranks(program, world_size, folder, timeout_s=_TIMEOUT_S)
        except RankError as error:
            return _as_hint(str(error).partition("\n")[0], Path(folder))


def write_down(folder: str, rank: int) -> Callable[[Message], None]:
    """For `record_messages`: append each message to a file of this rank before it is sent."""
    file = Path(folder, f"messages-{rank}")

    def on_message(message: Message) -> None:
        with file.open("a") as lines:
            lines.write(json.dumps([message.name, list(message.shape), message.num_bytes]) + "\n")

    return on_message


def _as_hint(error: str, folder: Path) -> Exception:
    if "raised NotImplementedError" in error:
        return NotImplementedError()
    if _MISMATCH.search(error) and (difference := _first_difference(folder)):
        return Wrong("other_message", difference)
    if "had not finished" in error:
        return Wrong(
            "hang",
            "The ranks sent the same messages and one of them never came back: something waits for ever. Wait for "
            "each message once, and for nothing else.",
        )
    known = (Wrong(hint_id, sentence) for words, hint_id, sentence in _KNOWN if words in error)
    return next(known, Wrong("raised", f"On two ranks: {error}"))


def _first_difference(folder: Path) -> str | None:
    """A sentence about the first message that the ranks did not both send."""
    files = [folder / f"messages-{rank}" for rank in range(WORLD_SIZE)]
    sent = [[json.loads(line) for line in file.read_text().splitlines()] if file.exists() else [] for file in files]
    for number, (mine, other) in enumerate(zip_longest(*sent)):
        if mine == other:
            continue
        return (
            f"Message {number} is {_in_words(mine)} on rank 0 and {_in_words(other)} on rank 1. Ranks pair messages by "
            "order alone, and messages of different sizes that meet end a process or wait for ever. Send the same "
            "messages in the same order on every rank: the order of the parameters, and never that of a Python set, "
            "which each process orders in its own way."
        )
    return None


def _in_words(message: list[Any] | None) -> str:
    return "missing" if message is None else f"{message[0]} of shape {message[1]} ({message[2]} bytes)"


def close(got: torch.Tensor | None, expected: torch.Tensor, tolerance: float = 1e-5) -> bool:
    """Whether two gradients are the same but for rounding."""
    return (
        got is not None
        and got.shape == expected.shape
        and torch.allclose(got.double(), expected.double(), rtol=tolerance, atol=tolerance)
    )


def mean(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """The mean over the ranks."""
    return torch.stack(list(parts)).mean(0)


def judge_alone(got: torch.Tensor | None, own: torch.Tensor) -> None:
    """Compare the gradient of the only rank of a world of one with its own.

    Raises:
        Wrong: it is another one, so a number of ranks stands in the code.
    """
    if not close(got, own):
        raise Wrong(
            "literal_world_size",
            "On two ranks the numbers are right, and in a world of one rank the mean is not that rank's own gradient: "
            "the 2 stands in your code. Ask world_size().",
        )


def settle() -> None:
    """All ranks are here; messages that nobody waited for have had time to arrive."""
    barrier()
    time.sleep(0.05)
    barrier()


def appears(file: Path, patience_s: float) -> bool:
    """Whether another rank writes this file in time."""
    until = time.monotonic() + patience_s
    while not (there := file.exists()) and time.monotonic() < until:
        time.sleep(0.01)
    return there
