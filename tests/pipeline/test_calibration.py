"""Calibration on sleeping stages, whose costs are known, and on real ones, whose gradients must stay as they were."""

import numpy as np
import pytest
import torch
from torch import nn

from pllab.pipeline import LaneExecutor, calibrate
from pllab.pipeline.executor import Step
from pllab.simulate import Costs, simulate


def test_what_is_measured_is_what_the_timelines_say(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Costs((1.0, 2.0), (3.0, 4.0), (5.0, 6.0), 0.5, backward=(7.0, 9.0))
    steps = []

    def step(executor: LaneExecutor, *_: object) -> Step:
        steps.append(executor.schedule)
        warming_up = steps.count(executor.schedule) == 1
        return Step(0.0, simulate(executor.schedule, Costs(99.0, 99.0, 99.0) if warming_up else known))

    monkeypatch.setattr(LaneExecutor, "step", step)
    x, loss = torch.zeros(5, 1), nn.functional.mse_loss
    assert calibrate([nn.Identity(), nn.Identity()], x, x, loss, num_microbatches=5, repeats=1) == known
    assert {schedule.is_split for schedule in steps} == {True, False}


def test_gradients_are_left_as_they_were_also_by_a_failure_and_numbers_may_be_of_numpy() -> None:
    stages, x = [nn.Linear(4, 4) for _ in range(4)], torch.randn(8, 4)
    stages[1].weight.grad = kept = torch.full((4, 4), 7.0)
    given = {"num_microbatches": np.int64(4), "num_ranks": np.int64(2), "repeats": np.int64(1)}
    assert len(calibrate(stages, x, x, nn.functional.mse_loss, **given).forward) == 4
    with pytest.raises(RuntimeError, match="shape"):
        calibrate(stages, torch.randn(8, 3), x, nn.functional.mse_loss, **given)
    assert stages[1].weight.grad is kept and kept.eq(7.0).all()
    assert all(p.grad is None for stage in stages for p in stage.parameters() if p is not stages[1].weight)
