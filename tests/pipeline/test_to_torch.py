from types import SimpleNamespace

import pytest
from torch.distributed.pipelining.schedules import _Action

from pllab.comm import launch
from pllab.pipeline import from_torch
from pllab.schedule import Schedule
from tests.pipeline import programs


@pytest.mark.ranks
def test_pytorchs_runtime_runs_the_same_rows_with_the_same_loss_and_gradients() -> None:
    for seen in launch(programs.both_executors, 2, backend="gloo", timeout_s=200):
        wrong = {name: found for name, found in seen.items() if not (found[0] < 1e-5 and found[1] < 1e-6 and found[2])}
        assert not wrong


def test_what_pytorch_schedules_for_a_whole_stage_is_no_action() -> None:
    """Its 1F1B and GPipe end a row with `0REDUCE_GRAD`; an idle slot is None."""
    row = ["0F0", None, "(0F1;0B0)OVERLAP_F_B", "0B1", "0REDUCE_GRAD"]
    theirs = SimpleNamespace(pipeline_order={0: [cell and _Action.from_str(cell) for cell in row]})
    assert from_torch(theirs) == Schedule.of([["0F0", "0F1", "0B0", "0B1"]])
