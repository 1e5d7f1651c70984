"""Run a student's function on real ranks, from inside a check.

A launched rank imports its program, and a function of a notebook cell cannot be imported. So an importable program
of the exercise travels by name, and the student's function beside it by cloudpickle.
"""

from collections.abc import Callable
from typing import Any

import cloudpickle

from pllab.comm import launch

Program = Callable[..., Any]  # program(rank, world_size, solution, *args)


def run_on_ranks(
    program: Program, solution: Callable[..., Any], world_size: int, *args: Any, timeout_s: float = 15.0
) -> list[Any]:
    """Run `program(rank, world_size, solution, *args)` on every rank; return what each one returned.

    The program is a function of an exercise's module. Let it return what it saw (gradients, shares, the ledger's
    messages) and judge that afterwards; one launch takes a few seconds, so put several questions into one.

    Example: `run_on_ranks(average_three_steps, solution, 2)` -> the weights of rank 0 and of rank 1.

    Raises:
        RankError: a rank raised, or had not finished after `timeout_s` seconds ("had not finished" in its sentence).
    """
    return launch(_enter, world_size, program, cloudpickle.dumps(solution), args, backend="gloo", timeout_s=timeout_s)


def _enter(rank: int, world_size: int, program: Program, packed: bytes, args: tuple[Any, ...]) -> Any:
    return program(rank, world_size, cloudpickle.loads(packed), *args)
