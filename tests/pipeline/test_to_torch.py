import pytest

from pllab.comm import launch
from tests.pipeline import programs


@pytest.mark.ranks
def test_pytorchs_runtime_runs_the_same_rows_with_the_same_loss_and_gradients() -> None:
    for seen in launch(programs.both_executors, 2, backend="gloo", timeout_s=200):
        wrong = {name: found for name, found in seen.items() if not (found[0] < 1e-5 and found[1] < 1e-6 and found[2])}
        assert not wrong
