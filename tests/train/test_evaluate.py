import math

import pytest
import torch

from pllab.data import Collate, Example, train_tokenizer
from pllab.train import TrainConfig
from pllab.train.evaluation import batches, validation_loss
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


def test_batches_keep_the_order_and_the_rest():
    assert list(batches([1, 2, 3, 4, 5], 2)) == [[1, 2], [3, 4], [5]]
