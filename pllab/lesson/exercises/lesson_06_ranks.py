"""What the exercises of lesson 06 share: a run on two ranks whose failures are hints, and comparing gradients."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from tempfile import TemporaryDirectory
from typing import Any

import torch

from pllab.comm import RankError
from pllab.lesson.exercise import Wrong
from pllab.lesson.judging import Program, run_on_ranks

WORLD_SIZE = 2
_TIMEOUT_S = 45.0  # of a whole launch; a busy machine needs some of it to start the ranks

# What an error of a rank says, and the bug it comes from.
_KNOWN = (
    (
        "NoneType",
        "none_gradient",
        "A frozen or unused parameter has grad None, and your function took it for a tensor; skip it.",
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


@lru_cache(maxsize=1)  # one launch for all cases of an exercise
def seen_on_ranks(program: Program, solution: Callable[..., Any]) -> list[Any]:
    """Run `program(rank, world_size, solution, folder)` on two ranks and return what each one saw.

    Raises:
        Wrong: the solution raised, never came back, or broke the process.
    """
    try:
        with TemporaryDirectory(prefix="pllab-check-") as folder:
            return run_on_ranks(program, solution, WORLD_SIZE, folder, timeout_s=_TIMEOUT_S)
    except RankError as error:
        raise _as_hint(str(error).partition("\n")[0]) from None


def _as_hint(error: str) -> Exception:
    if "raised NotImplementedError" in error:
        return NotImplementedError()
    if "had not finished" in error:
        return Wrong(
            "hang",
            "The ranks waited for each other for ever: one of them sent a message that the other never answered. "
            "Every rank has to send the same messages in the same order.",
        )
    known = (Wrong(hint_id, sentence) for words, hint_id, sentence in _KNOWN if words in error)
    return next(known, Wrong("raised", f"On two ranks: {error}"))


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
