from collections.abc import Iterator

import pytest

from pllab.schedule import optimal, zero_bubble
from pllab.simulate import Costs, simulate

pytest.importorskip("ortools", reason="the extra `solver` is not installed")


def grid(p: int) -> Iterator[tuple[int, int, Costs, float]]:
    """Small questions with costs of several shapes; the last two have unequal stages."""
    costs = (
        Costs(1.9, 2.6, 2.0, 1.0),
        Costs(0.5, 0.8, 0.5, 0.5),
        Costs(2.8, 0.3, 1.1, 0.1),
        Costs(1.0, 1.5, (0.2, 1.4, 2.7)[:p], 0.3),
        Costs((0.3, 2.0, 1.2)[:p], 0.2, (2.2, 2.1, 0.4)[:p], 2.0),
    )
    yield from ((p, m, of_stages, limit) for m in (3, 5) for of_stages in costs for limit in (1.5, p, p + 0.5))


def over(question: tuple[int, int, Costs, float], best: float, makespan_first: bool) -> float:
    schedule = zero_bubble(*question, makespan_first=makespan_first)
    return simulate(schedule, question[2]).makespan / best - 1


@pytest.mark.parametrize("p", [2, 3])
def test_small_questions_get_the_makespan_that_the_solver_proves(p: int) -> None:
    """The proof does not come from the search: it holds for every order."""
    questions = list(grid(p))
    found = [optimal(*question, time_limit_s=30) for question in questions]
    assert all(best.proven for best in found)
    pairs = [(question, best.makespan) for question, best in zip(questions, found, strict=True)]
    assert max(over(*pair, makespan_first=True) for pair in pairs) <= 1e-9
    assert max(over(*pair, makespan_first=False) for pair in pairs) <= 0.015  # the slowest rank's time comes first
