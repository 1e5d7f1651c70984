"""Every layout trains the model that one process trains; `make test` takes a sample, `make exhaustive` all.

The tables of `compare` and `equivalence` say so, and what is counted in them is right. Never against the clock.
"""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from pllab.comm import launch
from pllab.train import TrainConfig, comparing
from pllab.train.checkpoints import whole_weights
from pllab.train.comparing import (
    FROZEN,
    SMALL,
    Strategy,
    StrategyComparison,
    Trained,
    batch,
    compare_strategies,
    compared,
    deviation,
    equivalence,
    layouts,
    share_of,
)
from pllab.train.trainers import losses_of_all, make_trainer

ADAM: dict[str, Any] = SMALL | {"optimizer": "adamw", "learning_rate": 0.01, "gradient_clipping": 1.0}
SAMPLE_OF_2: list[dict[str, Any]] = [  # on top of SOME, which are compared below
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


GPIPE, ONE_F_ONE_B = "pipeline-2-pytorch", "pipeline-2-1f1b-pytorch"
SOME = {"data_parallel-2", "data_parallel-2-zero3", "data_parallel-2-pytorch", GPIPE, ONE_F_ONE_B}


def test_every_layout_has_a_row_with_an_equal_loss_and_sharding_takes_less_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def chosen(num_ranks: int, **fields: Any) -> list[TrainConfig]:
        return [config for config in layouts(num_ranks, **fields) if config.run_name in SOME]

    monkeypatch.setattr(comparing, "layouts", chosen)
    result = compare_strategies(num_steps=3, batch_size=8, n_embd=64)
    names = [row.name for row in result.rows]
    assert names == ["single-1", *(config.run_name for config in chosen(2))] and len(names) >= 6
    assert result.is_equal and "NOT EQUAL" not in result.table()
    assert result.tokens == 8 * 64
    held = {row.name: row.peak_bytes for row in result.rows}
    assert held["data_parallel-2-zero3"] < held["data_parallel-2"]
    assert held[ONE_F_ONE_B] < held[GPIPE] < held["single-1"]  # half the micro-batches, and half the model
    told = json.loads(json.dumps(result.to_json()))
    assert told["rows"][0]["name"] == "single-1" and told["machine"]["cores"] >= 1
    assert "strategies" in result.picture().alt


def test_a_row_that_differs_is_named_and_one_that_is_no_number_does_not_hold() -> None:
    alone = Strategy("single-1", 0.2, 2**20, 0.0, 0.0)
    rows = (alone, replace(alone, name="dp", step_s=0.1, loss_off=0.1), replace(alone, name="tp", parameters_off=0.5))
    table = StrategyComparison(3, 100, 1e-5, True, rows).table().splitlines()
    assert "1.00x         1.0      0.0e+00            0.0e+00" in table[1] and "NOT EQUAL" not in table[1]
    assert "2.00x         1.0      1.0e-01            0.0e+00   NOT EQUAL" in table[2] and "NOT EQUAL" in table[3]
    assert "NOT EQUAL" not in StrategyComparison(3, 100, 1e-5, False, rows).table().splitlines()[3]
    nothing = replace(alone, loss_off=float("nan"))
    assert not StrategyComparison(3, 100, 1e-5, True, (nothing,)).is_equal


def test_a_row_has_the_seconds_and_the_bytes_of_the_rank_that_has_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two steps warm up."""
    other = [8.0, 8.0, 4.0, 2.0, 6.0], 10
    monkeypatch.setattr(comparing.comm, "all_gather_object", lambda of_this_rank: [of_this_rank, other])
    assert comparing._of_the_rank_with_most([9.0, 9.0, 1.0, 5.0, 3.0], 7) == (5.0, 10)


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({"num_ranks": 3}, "batch_size 32 is not divisible by dp 3"),
        ({"batch_size": 33}, "batch_size 33 is not divisible by dp 2"),
        ({"num_steps": 2}, "num_steps is 2, and the first 2 are not timed; give at least 3"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(
    sizes: dict[str, int], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no layout is left out for them."""
    monkeypatch.setattr(comparing, "compared", lambda *_: pytest.fail("it measured"))
    with pytest.raises(ValueError, match=sentence):
        compare_strategies(**sizes)
