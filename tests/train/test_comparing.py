"""The comparison of strategies: what is counted is right, and a difference is said. Never against the clock."""

import json
from typing import Any

import pytest

from pllab.train import TrainConfig, comparing
from pllab.train.comparing import Strategy, StrategyComparison, compare_strategies
from pllab.train.layouts import layouts

SOME = {"data_parallel-2", "data_parallel-2-zero3", "data_parallel-2-pytorch", "pipeline-2", "pipeline-2-1f1b"}


@pytest.mark.ranks
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_every_layout_has_a_row_with_an_equal_loss_and_sharding_takes_less_memory(
    quick_ranks: None, monkeypatch: pytest.MonkeyPatch, every: bool
) -> None:
    def chosen(num_ranks: int, **fields: Any) -> list[TrainConfig]:
        return [config for config in layouts(num_ranks, **fields) if every or config.label in SOME]

    monkeypatch.setattr(comparing, "layouts", chosen)
    result = compare_strategies(num_steps=3, batch_size=8, n_embd=64)
    names = [row.name for row in result.rows]
    assert names == ["single-1", *(config.label for config in chosen(2))] and len(names) >= 6
    assert {round(row.loss, 4) for row in result.rows} == {round(result.rows[0].loss, 4)}
    assert all(row.tokens_per_s == pytest.approx(8 * 64 / row.step_s) for row in result.rows)
    held = {row.name: row.peak_bytes for row in result.rows}
    assert held["data_parallel-2-zero3"] < held["data_parallel-2"]
    assert held["pipeline-2-1f1b"] < held["pipeline-2"] < held["single-1"]  # half the micro-batches, and half the model
    assert json.loads(json.dumps(result.to_json()))["num_ranks"] == 2
    assert "strategies" in result.picture().alt


def test_a_loss_that_differs_is_named() -> None:
    rows = (Strategy("single-1", 0.2, 100.0, 2**20, 2.0), Strategy("data_parallel-2", 0.1, 200.0, 2**19, 2.2))
    table = StrategyComparison(2, 3, rows).table()
    assert "2.00x         0.5  2.20000   NOT EQUAL: 1.0e-01 from one rank" in table
    assert "1.00x         1.0  2.00000\n" in table


def test_a_wrong_number_of_ranks_is_refused() -> None:
    with pytest.raises(ValueError, match="num_ranks is 3 and num_steps 8; give 2 or 4 ranks"):
        compare_strategies(num_ranks=3)
