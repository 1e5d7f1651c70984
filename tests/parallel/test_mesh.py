"""Meshes and the norm over them, against one process and by counted messages."""

from typing import Any

import pytest
import torch

from pllab import comm
from tests.parallel import programs_mesh as programs
from tests.parallel.programs import assert_same, batch, loss_of, weights
from tests.parallel.programs_sharded import Chain

pytestmark = pytest.mark.ranks


@pytest.fixture(scope="module")
def ranks(launch_quickly: Any) -> list[dict[str, Any]]:
    """What each program returned on each of four ranks, started once."""
    return launch_quickly(programs.run_all, 4, timeout_s=200)


def test_every_group_of_the_mesh_has_the_deadline_that_was_asked_for(ranks: list[dict[str, Any]]) -> None:
    assert [result["deadlines"] for result in ranks] == [dict.fromkeys(comm.AXES, 200.0)] * 4


def test_tp_is_innermost_and_pp_outermost(ranks: list[dict[str, Any]]) -> None:
    assert [result["coordinates"] for result in ranks] == [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1)]
    assert ranks[0]["groups"] == {"pp": [0], "dp": [0, 2], "tp": [0, 1]}
    assert ranks[3]["sums"] == {"pp": 3.0, "dp": 1.0 + 3.0, "tp": 2.0 + 3.0}


@pytest.mark.parametrize("how", ["data_parallel", "sharded", "by_messages"])
def test_one_clipped_step_equals_one_process(ranks: list[dict[str, Any]], how: str) -> None:
    chain = Chain()
    loss_of(chain, *batch(0)).backward()
    norm = float(torch.nn.utils.clip_grad_norm_(chain.parameters(), programs.MOST))
    torch.optim.SGD(chain.parameters(), lr=1.0).step()
    expected = weights(chain)
    for result in (result[how] for result in ranks):
        assert result["norm"] == pytest.approx(norm, rel=1e-6)
        assert result["sent"] == [("all_reduce", 8)]
        assert_same(result["weights"], expected)
    assert [result["fsdp2"] for result in ranks] == [[pytest.approx(norm, rel=1e-6)] * 2] * 4


def test_the_norm_over_stages_counts_a_shared_weight_once(ranks: list[dict[str, Any]]) -> None:
    assert [result["stages"] for result in ranks] == [13.0] * 4


def test_refusals(ranks: list[dict[str, Any]]) -> None:
    no_group, product, axis, norm = ranks[0]["refusals"]
    assert "call pllab.comm.setup first" in no_group
    assert "dp 3 x tp 1 x pp 1 is 3, and there are 4 ranks; give sizes whose product is 4" in product
    assert "the mesh has no axis 'tp'" in axis
    assert "max_norm is 0.0; give a number above 0" in norm
