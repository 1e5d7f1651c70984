"""Training under torchrun survives the kill of a rank and of an agent; `faults.py` has the harness and all tries."""

import functools

import pytest

from tests.train.faults import Try, attempt, reference

TRIES = [
    Try("zero 3", 1, "forward", 7, 1),
    Try("pipeline", 2, "collective", 8, 0),
    Try("data parallel", 1, "checkpoint", 4, 0),
    Try("zero 3", 1, "move", 10, 0),
    Try("any size", 2, "agent", 7, 1),
]


@functools.cache
def expected(axes):
    return reference(axes)


@pytest.mark.exhaustive
@pytest.mark.parametrize("each", TRIES, ids=lambda each: f"{each.axes}-{each.moment}")
def test_a_killed_run_ends_as_if_nothing_had_happened(each):
    outcome = attempt(each, expected(each.axes))
    assert outcome.is_complete and outcome.orphans == 0
    assert outcome.repeated_steps <= 3  # those between two checkpoints
    assert outcome.recovery_s < 60
