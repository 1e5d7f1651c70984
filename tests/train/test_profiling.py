"""`--profile`: torch's own traces of a pipeline, read back by `pllab.traces`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pllab.schedule import FAMILIES
from pllab.traces import read_trace
from pllab.train import TrainConfig, loop, train
from tests.tiers import exhaustive
from tests.train.sizes import NUMBERS

SMALL: dict[str, Any] = NUMBERS | {
    "samples_per_epoch": 24,
    "n_layer": 4,
    "num_epochs": 1,
    "num_microbatches": 4,
    "peak_flops": 1e9,
    "timeout_s": 60.0,
}
LANES: dict[str, Any] = {"mode": "pipeline", "world_size": 2, "schedule": "zb_h1"}
RANKS: dict[str, Any] = {"pp": 2, "schedule": "zbv", "implementation": "pytorch"}


@pytest.mark.parametrize(
    ("axes", "num_files"),
    [(LANES, 1), *exhaustive((LANES | {"schedule": "1f1b", "recompute": True}, 1), (RANKS, 2))],
    ids=["lanes", "recomputing lanes", "ranks"],
)
def test_the_traces_have_the_schedules_rows(axes: dict[str, Any], num_files: int, tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    train(TrainConfig(**SMALL | axes, profile=str(folder), workdir=str(tmp_path / "work")))
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == [f"rank{rank}.json" for rank in range(num_files)]
    recorded = read_trace(files)
    assert recorded.schedule.rows == FAMILIES[axes["schedule"]].make(2, 4).rows
    assert recorded.steps == (1, 2)
    assert recorded.timeline.makespan > 0
    again = [span.action for span in recorded.timeline.spans if span.action.kind == "R"]
    assert len(again) == (2 * 4 if "recompute" in axes else 0)  # work, and not idle: one before each backward


@pytest.mark.parametrize("left", [1, 2])
def test_a_resumed_run_is_recorded_in_its_first_epoch_with_enough_steps(
    left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too few steps of an epoch are left, which a restarted run is not refused for, unless it is the last epoch."""

    class Fault(Exception):
        pass

    def fail(event: dict[str, Any]) -> None:
        if event["step"] == 4 - left:
            raise Fault

    monkeypatch.setattr(loop, "_SECONDS_BETWEEN_EVENTS", 0.0)
    options = SMALL | LANES | {"num_epochs": 2, "profile": str(tmp_path / "traces"), "workdir": str(tmp_path / "work")}
    saving = TrainConfig(**options, checkpoint=True, checkpoint_interval=1, resume=True)
    with pytest.raises(Fault):
        train(saving, fail)
    recorded = tmp_path / "traces" / "rank0.json"
    recorded.unlink()
    with pytest.raises(ValueError, match=f"and none has more than {left} to take; give more num_epochs"):
        train(replace(saving, num_epochs=1))
    assert len(train(saving).steps) == left + 3
    assert recorded.read_text().count('"PP:0I0"') == 2  # an evaluation has forwards alone


def test_a_run_of_two_steps_is_refused_before_the_first(tmp_path: Path) -> None:
    options = SMALL | LANES | {"batch_size": 12, "profile": str(tmp_path / "traces"), "workdir": str(tmp_path)}
    with pytest.raises(ValueError, match="second and third step of an epoch, and none has more than 2 to take"):
        train(TrainConfig(**options), lambda _: pytest.fail("a step ran"))
