"""Every layout trains the model that one process trains; `make test` takes a sample, `make exhaustive` all."""

import math
from typing import Any

import pytest
import torch

from pllab.comm import launch
from pllab.train import TrainConfig
from pllab.train.checkpoints import whole_weights
from pllab.train.comparing import (
    FROZEN,
    SMALL,
    Strategy,
    Trained,
    batch,
    compared,
    deviation,
    equivalence,
    layouts,
    share_of,
)
from pllab.train.trainers import losses_of_all, make_trainer

ADAM: dict[str, Any] = SMALL | {"optimizer": "adamw", "learning_rate": 0.01, "gradient_clipping": 1.0}
SAMPLE_OF_2: list[dict[str, Any]] = [  # on top of those of test_comparing.py
    {"dp": 2, "zero": 1},
    {"dp": 2, "zero": 3, "deferred_init": True},
    {"dp": 2, "zero": 3, "implementation": "pytorch"},
    {"tp": 2, "loss_parallel": True},
    {"pp": 2, "schedule": "zbv"},
    {"pp": 2, "schedule": "zero_bubble"},
]
SAMPLE_OF_4: list[dict[str, Any]] = [
    {"dp": 2, "tp": 2, "zero": 3},
    {"dp": 2, "pp": 2, "schedule": "1f1b"},
    {"dp": 2, "pp": 2, "schedule": "zbv", "zero": 1},
    {"dp": 2, "pp": 2, "schedule": "interleaved", "zero": 1},
    {"tp": 2, "pp": 2, "schedule": "zb_h1"},
]


def unequal(
    configs: list[TrainConfig], base: TrainConfig, num_steps: int, frozen: tuple[str, ...] = FROZEN
) -> list[Strategy]:
    """The rows that are not what one process with the base's options trains; all configurations have as many ranks."""
    _, *rows = compared([[base], configs], num_steps, 300.0, frozen)
    assert len(rows) == len(configs)
    return [row for row in rows if not max(row.loss_off, row.parameters_off) <= 1e-5]


def test_a_sample_trains_what_one_process_trains() -> None:
    assert unequal([TrainConfig(**SMALL | axes) for axes in SAMPLE_OF_2], TrainConfig(**SMALL), 3) == []


@pytest.mark.exhaustive
def test_a_frozen_beginning_trains_what_one_process_trains() -> None:
    """All of a pipeline's first stage is frozen: what comes after it has an input without a gradient."""
    frozen = tuple(f"transformer.{layer}." for layer in ("wte", "wpe", "h.0", "h.1"))
    assert unequal(list(layouts(2, **SMALL)), TrainConfig(**SMALL), 2, frozen) == []


@pytest.mark.exhaustive
def test_every_layout_trains_what_one_process_trains() -> None:
    result = equivalence()
    assert result.is_equal, result.table()
    assert len(result.rows) == 1 + len([config for ranks in (2, 4, 8) for config in layouts(ranks)]) > 50


@pytest.mark.exhaustive
def test_a_clipped_step_is_the_same_on_every_axis() -> None:
    """The norm counts each parameter once: clipped to a tenth, one counted twice would shrink all others."""
    clipped = SMALL | {"gradient_clipping": 0.05}
    both = [{"dp": 2}, {"pp": 2, "schedule": "1f1b", "implementation": "pytorch"}]
    for sample in ([*both, *SAMPLE_OF_2], SAMPLE_OF_4):
        assert unequal([TrainConfig(**clipped | axes) for axes in sample], TrainConfig(**clipped), 3) == []


PASSING: list[dict[str, Any]] = [
    *({"dp": 2, **more} for more in ({}, {"zero": 3}, {"implementation": "pytorch"})),
    {"tp": 2},
    {"pp": 2},
]


def with_one_in_vain(_rank: int, _world_size: int, every_axes: list[dict[str, Any]], missing: bool) -> list[Any]:
    """Losses, norms and weights of two steps of AdamW, with a batch without targets between them or none."""
    found = []
    for config in (TrainConfig(**ADAM | axes) for axes in every_axes):
        trainer = make_trainer(config, config.vocab_size)
        trainer.updates.begin(3)
        batches = [batch(number, config) for number in (0, 2)]
        if missing:
            batches.insert(1, {**batches[0], "labels": torch.full_like(batches[0]["labels"], -100)})
        records = [trainer.step(share_of(each, config)) for each in batches]
        weights = dict(whole_weights(trainer))
        found.append((losses_of_all(records, config.dp), [r.gradient_norm for r in records], weights))
        trainer.close()
    return found


def test_a_batch_without_targets_changes_nothing() -> None:
    """It has no loss, and neither momentum nor numbers of any trainer know of it."""
    ((losses, mean), norms, weights) = with_one_in_vain(0, 1, [{}], missing=False)[0]
    alone = with_one_in_vain(0, 1, [{}, {"mode": "pipeline", "world_size": 2}], missing=True)
    for (found, found_mean), found_norms, own in alone + launch(with_one_in_vain, 2, PASSING, True)[0]:
        assert found == pytest.approx([losses[0], math.nan, losses[1]], nan_ok=True)
        assert found_mean == pytest.approx(mean)
        assert found_norms == pytest.approx([norms[0], 0.0, norms[1]], rel=1e-4)
        torch.testing.assert_close(own, weights, rtol=1e-4, atol=1e-3)  # another step would change ten times as much


def test_the_comparison_sees_a_wrong_loss_a_wrong_parameter_and_nan() -> None:
    right = Trained([2.0], 0.1, 4, {"w": torch.tensor([4.0, 1.0])})
    assert deviation(right, right) == (0.0, 0.0)
    assert deviation(right._replace(losses=[2.2]), right)[0] == pytest.approx(0.1)
    assert deviation(right._replace(parameters={"w": torch.tensor([4.0, 2.0])}), right)[1] == 0.25
    lost = right._replace(parameters={"v": torch.zeros(2), "w": right.parameters["w"]})
    assert deviation(lost, lost) == (0.0, 0.0), "zeros are zeros"
    for name in ("v", "w"):  # the first of two, and the last
        nan = lost._replace(parameters=lost.parameters | {name: torch.full((2,), math.nan)})
        assert math.isnan(deviation(nan, lost)[1])


def test_the_layouts_cover_every_axis_and_both_implementations() -> None:
    names = {config.run_name for ranks in (2, 4, 8) for config in layouts(ranks)}
    parts = "zero2-pytorch zero3-pytorch tensor_parallel-4 interleaved-pytorch tp2-pp2 dp2-pp2-zero1-interleaved"
    for part in [*parts.split(), "dp2-tp2-pp2"]:
        assert any(part in name for name in names), part
