from types import SimpleNamespace

import pytest
from torch import nn
from torch.distributed.pipelining.schedules import _Action

from pllab.comm import launch
from pllab.pipeline import from_torch, to_torch
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


def test_what_has_no_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="a Schedule has no pipeline_order; give an executor"):
        from_torch(Schedule.of([["0F0", "0B0"]]))  # type: ignore[arg-type]


def test_without_a_group_it_is_said_what_to_call() -> None:
    with pytest.raises(ValueError, match=r"there is no process group; call pllab.comm.setup\(rank, world_size\) first"):
        to_torch(Schedule.of([["0F0", "0B0"]]), {0: nn.Linear(2, 2)}, nn.functional.mse_loss)
