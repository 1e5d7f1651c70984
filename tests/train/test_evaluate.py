import math
from types import SimpleNamespace

import pytest
import sacrebleu
import torch

from pllab.comm import launch
from pllab.data import Collate, Example, train_tokenizer
from pllab.train import TrainConfig, evaluation
from pllab.train.evaluation import batches, bleu_score, validation_loss
from pllab.train.trainers import make_trainer

EXAMPLES = [Example("", "a " * length + "end") for length in (1, 9, 3, 14, 5)]


@pytest.mark.parametrize("mode", [{}, {"mode": "pipeline", "world_size": 2, "num_microbatches": 2}])
def test_the_mean_over_tokens_is_that_of_one_big_batch_without_dropout(mode):
    """The last batch has one row, which is one micro-batch."""
    tokenizer = train_tokenizer([example.target for example in EXAMPLES], 260)
    config = TrainConfig(n_layer=2, n_embd=16, n_head=2, max_length=32, dropout=0.5, device="cpu", **mode)
    trainer, collate = make_trainer(config, tokenizer.vocab_size), Collate(tokenizer, 32)
    trainer.model.train()
    found = validation_loss(trainer, EXAMPLES, collate, 2)
    assert trainer.model.training
    with torch.no_grad():
        expected = trainer.model.eval()(**collate(EXAMPLES)).loss.item()
    trainer.close()
    assert found == pytest.approx(expected, rel=1e-5)


def test_nothing_to_predict_is_nan():
    tokenizer = train_tokenizer(["a"], 260)
    config = TrainConfig(n_layer=1, n_embd=16, n_head=2, max_length=4, device="cpu")
    rows = [Example("a long source", "b")]
    assert math.isnan(validation_loss(make_trainer(config, tokenizer.vocab_size), rows, Collate(tokenizer, 4), 2))


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
        return bleu_score(trainer, SimpleNamespace(validation=PAIRS, tokenizer=None), 8, 2), asked


def test_ranks_share_the_translations_and_have_the_score_of_all():
    (score, mine), (same, theirs) = launch(bleu_on_a_rank, 2, backend="gloo", timeout_s=60)
    assert sorted(mine + theirs) == [pair.source for pair in PAIRS] and abs(len(mine) - len(theirs)) == 1
    texts = [f"the number {pair.source} is odd" for pair in PAIRS]
    assert score == same == sacrebleu.corpus_bleu(texts, [[pair.target for pair in PAIRS]]).score < 100


def test_batches_keep_the_order_and_the_rest():
    assert list(batches([1, 2, 3, 4, 5], 2)) == [[1, 2], [3, 4], [5]]
