"""The contract of the engines: one GPT-2, tied weights, unequal rows and targets, the same numbers everywhere."""

import pytest

from pllab.bench.equivalence import OF_THE_PIPE, Equivalence, Task, deviation, equivalence, on_lanes, plain, schedules

pytestmark = [pytest.mark.exhaustive, pytest.mark.ranks, pytest.mark.usefixtures("quick_ranks")]
NAMES = tuple(schedules(2, 4))


@pytest.fixture(scope="module")
def found() -> Equivalence:
    return equivalence(num_ranks=2, num_microbatches=4)  # 9 rows: micro-batches of 3, 2, 2 and 2


def test_every_engine_runs_every_schedule_it_takes(found: Equivalence) -> None:
    for reference in ("plain model", "lanes, with dropout"):
        rows = [(row.where, row.schedule) for row in found.rows if row.reference == reference]
        expected = [(where, name) for where in ("lanes", "ranks") for name in NAMES]
        assert sorted(rows) == sorted([*expected, *(("pipe", name) for name in OF_THE_PIPE)])


@pytest.mark.parametrize("where", ["pipe", "lanes", "ranks"])
def test_losses_gradients_and_rows_are_the_same(found: Equivalence, where: str) -> None:
    """Without dropout those of the plain model; with it, those of the lanes for the same cut."""
    wrong = [row for row in found.rows if row.where == where and not row.is_equal]
    assert not wrong, wrong
    assert found.is_equal


def test_the_table_has_a_line_for_every_row(found: Equivalence) -> None:
    lines = found.table().splitlines()
    assert len(lines) == len(found.rows) + 2 and not any("NOT EQUAL" in line for line in lines)


def test_dropout_drops_something() -> None:
    dropped = on_lanes(Task(dropout=0.2), schedules(2, 4)["gpipe"])
    assert deviation(dropped, plain(Task()))[1] > 0.1
