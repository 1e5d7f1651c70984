"""Pipelines between ranks on PyTorch's runtime, against the plain model of one process."""

import pytest

from pllab.comm import RankError, launch
from tests.tiers import exhaustive
from tests.train import pipelines

pytestmark = pytest.mark.ranks
CASES = [
    ("interleaved", False, False),
    ("zb_h1", False, False),
    ("zbv", True, False),
    ("1f1b", False, True),
    *exhaustive(
        ("gpipe", False, False),
        ("1f1b", False, False),
        ("zbv", False, False),
        ("1f1b", True, False),
        ("interleaved", False, True),
    ),
]


@pytest.mark.parametrize(("name", "frozen", "recompute"), CASES)
def test_losses_gradients_and_evaluations_are_the_plain_models(name: str, frozen: bool, recompute: bool) -> None:
    """Of 8, 7, 3 and 9 rows in 4 micro-batches: three shapes, to train and to evaluate; the newest 4 runtimes stay."""
    for seen in launch(pipelines.against_the_plain_model, 2, name, frozen, recompute, backend="gloo", timeout_s=100):
        assert max(seen.loss, seen.evaluation) < 1e-5 and seen.gradient < 1e-6
        assert seen.num_runtimes == 4
        assert seen.is_whole or (frozen and name == "zbv")  # which gets whole backwards where nothing trains before


def test_a_mean_over_tokens_is_the_plain_models() -> None:
    for loss, gradient in launch(pipelines.mean_over_tokens, 2, backend="gloo", timeout_s=60):
        assert loss < 1e-5 and gradient < 1e-6


def test_a_rank_that_is_killed_ends_the_others_and_is_the_cause() -> None:
    with pytest.raises(RankError, match="rank 1 was killed") as caught:
        launch(pipelines.one_dies, 2, backend="gloo", timeout_s=60)
    assert caught.value.rank == 1


@pytest.mark.exhaustive
def test_a_rank_that_is_late_is_an_error_at_the_deadline_in_a_sentence() -> None:
    words = launch(pipelines.one_is_late, 2, 3.0, backend="gloo", timeout_s=60)
    assert words[1] == "late"
    assert "a step of the pipeline on rank 0 waited until its deadline for another rank" in words[0]
