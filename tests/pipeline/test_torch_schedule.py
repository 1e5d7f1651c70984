import pytest
from torch import nn

from pllab.comm import launch
from pllab.pipeline import to_torch
from pllab.schedule import Schedule
from tests.pipeline import programs


@pytest.mark.ranks
def test_pytorchs_runtime_runs_the_same_rows_with_the_same_loss_and_gradients() -> None:
    for seen in launch(programs.both_executors, 2, backend="gloo", timeout_s=200):
        wrong = {name: found for name, found in seen.items() if not (found[0] < 1e-5 and found[1] < 1e-6 and found[2])}
        assert not wrong


def test_without_a_group_it_is_said_what_to_call() -> None:
    with pytest.raises(ValueError, match=r"there is no process group; call pllab.comm.setup\(rank, world_size\) first"):
        to_torch(Schedule.of([["0F0", "0B0"]]), {0: nn.Linear(2, 2)}, nn.functional.mse_loss)
