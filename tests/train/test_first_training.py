"""The training to read first, against one process that takes the global batches by itself."""

import itertools
import random

import pytest
import torch
from torch import nn

from pllab.comm import launch
from pllab.models import GPT2LMHeadModelParallel, gpt2_config, layers_of
from pllab.train import train_data_parallel

ROWS = torch.randint(40, (23, 9), generator=torch.Generator().manual_seed(1))
DATASET = [(row[:-1], row[1:]) for row in ROWS]
NUM_STEPS, BATCH, LR = 9, 6, 0.2  # 23 rows on 2 ranks: epochs of 22, whose fourth step has 4


def make(seed):
    torch.manual_seed(seed)
    config = gpt2_config("tiny", 40, n_layer=2, n_embd=16, n_head=2, n_positions=16)
    return nn.Sequential(*layers_of(GPT2LMHeadModelParallel(config)))


def other_start(rank, world_size):
    model = make(seed=rank)
    losses = train_data_parallel(rank, world_size, model, DATASET, NUM_STEPS, BATCH, LR)
    return losses, model.state_dict()


def one_process(num_rows):
    """Losses and weights of epochs of so many rows, whose last batch is shorter."""
    model, losses = make(seed=0), []
    optimizer = torch.optim.SGD(model.parameters(), LR)
    for epoch in itertools.count():
        order = list(range(23))
        random.Random(1234 + epoch).shuffle(order)
        for start in range(0, num_rows, BATCH):
            rows = ROWS[order[:num_rows][start : start + BATCH]]
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == NUM_STEPS:
                return losses, model.state_dict()


def assert_same(found, right):
    (losses, weights), (right_losses, right_weights) = found, right
    assert losses == pytest.approx(right_losses, abs=1e-5)
    for name, weight in weights.items():
        torch.testing.assert_close(weight, right_weights[name], atol=1e-5, rtol=1e-4)


def test_two_ranks_from_different_starts_train_like_one_process():
    first, second = launch(other_start, 2, backend="gloo", timeout_s=120)
    assert first[0] == second[0]
    assert_same(first, one_process(22))


def test_alone_it_is_plain_sgd():
    assert_same(other_start(0, 1), one_process(23))


def test_what_cannot_be_shared_is_refused():
    with pytest.raises(ValueError, match="a data set of 0 cannot be shared by 1 ranks"):
        train_data_parallel(0, 1, make(0), [], 1, 4, LR)
    with pytest.raises(ValueError, match="batch_size 5 is the global batch and cannot be divided by 2 ranks"):
        train_data_parallel(0, 2, make(0), DATASET, 1, 5, LR)
