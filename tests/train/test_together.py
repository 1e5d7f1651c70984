"""What a run puts together from its ranks: the score of their translations, and the memory of a model they share."""

from types import SimpleNamespace

import pytest
import sacrebleu
import torch

from pllab.comm import launch
from pllab.data import Example
from pllab.train import EpochMetrics, TrainConfig, evaluation
from pllab.train.metrics import RankOutcome, StepMetrics
from pllab.train.running import _save

PAIRS = [Example(str(number), f"the number {number} is {'odd' if number % 2 else 'even'}") for number in range(5)]


def bleu_on_a_rank(rank, world_size):
    """The score, and the sources this rank was asked for, of a model that calls every number odd."""
    asked = []

    def translate(model, tokenizer, sources, max_length):
        asked.extend(sources)
        return [f"the number {source} is odd" for source in sources]

    trainer = SimpleNamespace(gather=lambda: None, device="cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "plain_model", lambda _: torch.nn.Identity())
        patch.setattr(evaluation, "translate", translate)
        return evaluation.bleu_score(trainer, SimpleNamespace(validation=PAIRS, tokenizer=None), 8, 2), asked


@pytest.mark.ranks
def test_ranks_share_the_translations_and_have_the_score_of_all():
    (score, mine), (same, theirs) = launch(bleu_on_a_rank, 2, backend="gloo", timeout_s=60)
    assert sorted(mine + theirs) == [pair.source for pair in PAIRS] and abs(len(mine) - len(theirs)) == 1
    texts = [f"the number {pair.source} is odd" for pair in PAIRS]
    assert score == same == sacrebleu.corpus_bleu(texts, [[pair.target for pair in PAIRS]]).score < 100


def outcome(rank, peak_memory_bytes):
    losses = {"training_loss": 2.0, "validation_loss": 2.0}
    return RankOutcome(
        epochs=(EpochMetrics(rank=rank, epoch=0, training_time_s=1.0, num_tokens=300, num_samples=10, **losses),),
        steps=(StepMetrics(2.0, 10, 1e-3),),
        bleu=None,
        reason="",
        num_parameters=1000,
        wall_time_s=20.0,
        peak_memory_bytes=peak_memory_bytes,
        peak_flops=1e9,
        predicted_bubble_fraction=None,
    )


def test_the_memory_of_a_model_that_ranks_share_is_that_of_the_rank_with_most(tmp_path):
    outcomes = [outcome(rank, peak) for rank, peak in enumerate((1, 5, 7, 3))]
    result = _save(TrainConfig(dp=2, tp=2, workdir=str(tmp_path)), "gloo", outcomes)
    assert result.metrics.peak_memory_bytes == (5, 7)
