import math

import pytest

from pllab.train import EpochMetrics, Summary
from pllab.train.metrics import mean_time_s, total_tokens_per_s


def metrics(rank, epoch, seconds, tokens):
    return EpochMetrics(
        rank=rank,
        epoch=epoch,
        training_time_s=seconds,
        num_tokens=tokens,
        training_loss=1.0,
        validation_loss=1.0,
    )


def test_the_first_of_several_epochs_is_dropped():
    assert Summary.of([100.0, 2.0, 4.0]) == Summary(3.0, math.sqrt(2.0), 2)


def test_a_single_epoch_is_kept():
    assert Summary.of([7.0]) == Summary(7.0, 0.0, 1)


def test_no_epoch_is_refused():
    with pytest.raises(ValueError, match="no epoch"):
        Summary.of([])


def test_rates_are_summed_and_times_averaged_over_ranks():
    ranks = [
        [metrics(0, 0, 50.0, 1), metrics(0, 1, 2.0, 100), metrics(0, 2, 4.0, 100)],
        [metrics(1, 0, 50.0, 1), metrics(1, 1, 4.0, 100), metrics(1, 2, 4.0, 300)],
    ]
    assert mean_time_s(ranks).mean == pytest.approx((3.0 + 4.0) / 2)
    # Epoch 1: 50 + 25 tokens/s, epoch 2: 25 + 75 tokens/s.
    assert total_tokens_per_s(ranks).mean == pytest.approx((75.0 + 100.0) / 2)
    assert total_tokens_per_s(ranks).deviation == pytest.approx(25.0 / math.sqrt(2.0))


def test_a_rate_is_total_tokens_over_total_time():
    assert metrics(0, 0, 4.0, 1000).tokens_per_s == 250.0
