"""The tables drawn in the docstrings are what the virtual clock draws: cell by cell, `.` for idle."""

import inspect
from collections.abc import Callable

import pytest

from pllab.schedule import (
    Schedule,
    dual_pipe_v,
    gpipe,
    interleaved,
    looped_breadth_first,
    one_f_one_b,
    v_half,
    v_min,
    zb_h1,
    zb_h2,
    zbv,
)
from pllab.simulate import Costs, simulate

EQUAL_BACKWARD = Costs(forward=1.0, backward_input=0.5, backward_weight=0.5)
EQUAL_KINDS = Costs(forward=1.0, backward_input=1.0, backward_weight=1.0)


def drawn(generator: Callable[..., Schedule]) -> list[list[str]]:
    """The cells of the docstring's rows; the same text without a stage stands for the row's own stage."""
    lines = (line.split() for line in inspect.getdoc(generator).splitlines())  # type: ignore[union-attr]
    return [cells[2:] for cells in lines if cells[:1] == ["rank"]]


def simulated(schedule: Schedule, costs: Costs, *, with_stage: bool) -> list[list[str]]:
    timeline = simulate(schedule, costs)
    rows = [["."] * round(timeline.makespan) for _ in range(schedule.num_ranks)]
    for span in timeline.spans:
        for unit in range(round(span.start), round(span.end)):
            rows[span.rank][unit] = str(span.action) if with_stage else str(span.action).removeprefix(str(span.rank))
    return rows


@pytest.mark.parametrize(
    ("generator", "sizes", "costs"),
    [
        (gpipe, (2, 3), EQUAL_BACKWARD),
        (one_f_one_b, (3, 4), EQUAL_BACKWARD),
        (interleaved, (2, 4), EQUAL_BACKWARD),
        (looped_breadth_first, (2, 3), EQUAL_BACKWARD),
        (zb_h1, (3, 4), EQUAL_KINDS),
        (zb_h2, (3, 5), EQUAL_KINDS),
        (zbv, (2, 3), EQUAL_KINDS),
        (v_half, (2, 3), EQUAL_KINDS),
        (v_min, (2, 3), EQUAL_KINDS),
        (dual_pipe_v, (2, 4), EQUAL_KINDS),
    ],
)
def test_the_table_is_the_schedule(generator: Callable[..., Schedule], sizes: tuple[int, int], costs: Costs) -> None:
    schedule = generator(*sizes)
    with_stage = schedule.num_stages > schedule.num_ranks
    assert drawn(generator) == simulated(schedule, costs, with_stage=with_stage)
