"""Name the bug from a wrong gradient: used where gradients come from a real backward."""

from collections.abc import Sequence

import torch

from pllab.lesson.exercise import Wrong
from pllab.lesson.exercises.lesson_06_ranks import close, mean


def judge_gradient(name: str, got: torch.Tensor | None, parts: Sequence[torch.Tensor], step: int) -> None:
    """Compare with the mean of the ranks' own gradients, `parts`; `step` counts from 0.

    Raises:
        Wrong: it is another one.
    """
    expected = mean(parts)
    if close(got, expected):
        return
    if got is None:
        raise Wrong("gone", f"{name} has no gradient after wait().")
    if close(got, expected * len(parts)):
        raise Wrong("sum", f"The gradient of {name} is the sum over the ranks; divide by world_size().")
    if any(close(got, part) or close(got, part / len(parts)) for part in parts):
        if step:
            raise Wrong(
                "second_step",
                f"In the second step the gradient of {name} is one rank's own: something was left from the first. "
                "wait() has to make everything ready for the next backward.",
            )
        raise Wrong(
            "not_averaged",
            f"After wait() the gradient of {name} is one rank's own: it was never sent, or the result was not kept.",
        )
    factor = float((got * expected).sum() / (expected * expected).sum())
    if close(got, factor * expected):
        twice = abs(factor * len(parts) - 1) < 1e-3
        words = "it was divided by world_size() once too often" if twice else "divide by world_size(), once"
        raise Wrong(
            "divided_twice" if twice else "wrong_factor",
            f"The gradient of {name} is {factor:.3g} times the mean over the {len(parts)} ranks: {words}.",
        )
    when = "second" if step else "first"
    raise Wrong(
        "value",
        f"In the {when} step the gradient of {name} is not the mean over the ranks. Is it touched while its message "
        "is under way, or summed twice?",
    )
