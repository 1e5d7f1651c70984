"""The comparison of strategies: what is counted is right, and a difference is said. Never against the clock."""

import json
from dataclasses import replace
from typing import Any

import pytest

from pllab.train import TrainConfig, comparing
from pllab.train.comparing import Strategy, StrategyComparison, compare_strategies, layouts

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
