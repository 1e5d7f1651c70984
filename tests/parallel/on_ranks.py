"""Ranks that run many programs, each with its own checks: to start ranks takes longer than to run them all."""

import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import pytest

from pllab import comm

Program = Callable[..., None]


class Programs(dict[str, Program]):
    """The programs of a file, by name."""

    def add(self, **given: Sequence[Any]) -> Callable[[Program], Program]:
        """Add the function below, once for each combination of values.

        Example: `@programs.add(zero=(1, 2))` above `def step(rank, world_size, zero)` adds "step zero=1" and one more.
        """

        def register(program: Program) -> Program:
            for values in product(*given.values()):
                chosen = dict(zip(given, values, strict=True))
                said = "".join(f" {name}={value}" for name, value in chosen.items())
                self[program.__name__ + said] = partial(program, **chosen)
            return program

        return register


def failures(rank: int, world_size: int, programs: Mapping[str, Program]) -> dict[str, str]:
    """Run every program in one group; the traceback of each that failed on this rank."""
    found = {}
    for name, program in programs.items():
        try:
            program(rank, world_size)
        except Exception:
            found[name] = traceback.format_exc()
    return found


def assert_passed(failed: Sequence[Mapping[str, str]], name: str) -> None:
    """Fail with the tracebacks of a program, of every rank on which it failed."""
    if said := [f"rank {rank}: {found[name]}" for rank, found in enumerate(failed) if name in found]:
        pytest.fail("\n".join(said), pytrace=False)


def run_on(programs: Programs, *sizes: int) -> tuple[Any, Callable[..., None]]:
    """A fixture that starts each number of ranks once, and a test of each program in them.

    Example, at the end of a file: `failed, test_ranks = run_on(PROGRAMS, 2, 4)`.
    """

    @pytest.fixture(scope="module", params=sizes)
    def failed(request: pytest.FixtureRequest) -> list[dict[str, str]]:
        return comm.launch(failures, request.param, programs, backend="gloo", timeout_s=200)

    @pytest.mark.parametrize("name", programs)
    def test_ranks(failed: list[dict[str, str]], name: str) -> None:
        assert_passed(failed, name)

    return failed, test_ranks


def sentence(action: Callable[[], object]) -> str:
    """What an action says that is refused."""
    try:
        action()
    except ValueError as error:
        return str(error)
    return ""
