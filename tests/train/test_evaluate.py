import math

import pytest
import torch

from pllab.data import Collate, Example, train_tokenizer
from pllab.train import TrainConfig
from pllab.train.evaluate import batches, validation_loss
from pllab.train.model import build_model

EXAMPLES = [Example("", "a " * length + "end") for length in (1, 9, 3, 14, 5)]


def test_the_mean_over_tokens_is_that_of_one_big_batch_without_dropout():
    tokenizer = train_tokenizer([example.target for example in EXAMPLES], 260)
    config = TrainConfig(n_layer=1, n_embd=16, n_head=2, max_length=32, dropout=0.5)
    model = build_model(config, tokenizer.vocab_size).train()
    collate = Collate(tokenizer, 32)
    found = validation_loss(model, EXAMPLES, collate, 2, torch.device("cpu"))
    assert model.training
    with torch.no_grad():
        expected = model.eval()(**collate(EXAMPLES)).loss.item()
    assert found == pytest.approx(expected, rel=1e-5)


def test_nothing_to_predict_is_nan():
    tokenizer = train_tokenizer(["a"], 260)
    model = build_model(TrainConfig(n_layer=1, n_embd=16, n_head=2, max_length=4), tokenizer.vocab_size)
    rows = [Example("a long source", "b")]
    assert math.isnan(validation_loss(model, rows, Collate(tokenizer, 4), 2, torch.device("cpu")))


def test_batches_keep_the_order_and_the_rest():
    assert list(batches([1, 2, 3, 4, 5], 2)) == [[1, 2], [3, 4], [5]]
