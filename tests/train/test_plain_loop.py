"""The loop against one that transformers, torch's AdamW and torch's schedulers run by themselves."""

import itertools

import pytest
import torch
from torch.nn.utils import clip_grad_norm_
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR, LinearLR, SequentialLR
from transformers import GPT2LMHeadModel

from pllab.data import Collate, partition_dataset
from pllab.train import TrainConfig, train
from pllab.train.inputs import Updates, build_model, load_corpus
from pllab.train.trainers import make_trainer
from tests.tiers import exhaustive
from tests.train.sizes import LANES, NUMBERS

OPTIONS = NUMBERS | {
    "n_layer": 4,
    "samples_per_epoch": 26,  # the last batch of an epoch has 2 rows, fewer than there are micro-batches
    "num_epochs": 2,
    "lr_schedule": "cosine",
    "warmup_steps": 3,
    "gradient_clipping": 0.5,
    "eval_interval": 3,
}
MODES = LANES | {"single": {}, "accumulation": {"accumulation": 3}}  # parts of 3, 3 and 2 rows


def torch_schedule(optimizer, name, warmup, num_steps):
    left = num_steps - warmup
    after = {
        "constant": lambda: ConstantLR(optimizer, 1.0),
        "cosine": lambda: CosineAnnealingLR(optimizer, left),
        "linear": lambda: LinearLR(optimizer, 1.0, 0.0, left),
    }[name]()
    if not warmup:
        return after
    return SequentialLR(optimizer, [LinearLR(optimizer, 1 / (warmup + 1), 1.0, warmup), after], [warmup])


@pytest.fixture(scope="module")
def plain():
    """Loss, norm, learning rate, validation loss and tokens of a step, by a loop with nothing of ours but its data."""
    config = TrainConfig(**OPTIONS)
    corpus = load_corpus(config)
    collate = Collate(corpus.tokenizer, config.max_length)
    loader = partition_dataset(0, 1, corpus.training, 8, collate, seed=config.seed, remainder="drop")
    ours = build_model(config, corpus.tokenizer.vocab_size)
    model = GPT2LMHeadModel(ours.config).train()
    for name, own in ours.named_parameters():  # their spread, though not their values, is as transformers makes them
        assert own.std().item() == pytest.approx(model.get_parameter(name).std().item(), rel=0.5, abs=1e-6)
    model.load_state_dict(ours.state_dict())
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, weight_decay=0.0)
    scheduler = torch_schedule(optimizer, "cosine", 3, 8)
    steps = []
    for epoch in range(2):
        loader.set_epoch(epoch)
        for batch in loader:
            loss = model(**batch).loss
            loss.backward()
            norm = clip_grad_norm_(model.parameters(), 0.5)
            rate = scheduler.get_last_lr()[0]
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
            with torch.no_grad():
                validation = model(**collate(corpus.validation)).loss.item()
            num_tokens = int((batch["input_ids"] != corpus.tokenizer.pad_id).sum())
            steps.append((loss.item(), float(norm), rate, validation, num_tokens))
    return [list(column) for column in zip(*steps, strict=True)]


def assert_as_plain(steps, plain):
    losses, norms, rates, validation, _ = plain
    assert [step.loss for step in steps] == pytest.approx(losses, abs=1e-5)
    assert [step.gradient_norm for step in steps] == pytest.approx(norms, rel=1e-4)
    assert [step.learning_rate for step in steps] == pytest.approx(rates, rel=1e-12)
    assert [step.num_samples for step in steps] == [8, 8, 8, 2] * 2
    found = {number: step.validation_loss for number, step in enumerate(steps) if step.validation_loss is not None}
    assert found == pytest.approx({number: validation[number] for number in (2, 3, 5, 7)}, abs=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        *("accumulation", "model_parallel", "ragged", "zbv", "zero_bubble"),
        *exhaustive("single", "gpipe", "1f1b", "interleaved", "zb_h1"),
    ],
)
def test_a_run_is_that_of_a_plain_loop(name, plain, tmp_path):
    """After 3 and 6 steps there is a validation loss for the interval, after 4 and 8 for the epoch."""
    assert_as_plain(train(TrainConfig(**OPTIONS | MODES[name], workdir=str(tmp_path))).steps, plain)


def test_model_parallel_accumulates_at_most_a_part_for_each_row():
    trainer = make_trainer(TrainConfig(**OPTIONS | MODES["model_parallel"]), 300)
    trainer.close()
    assert trainer.schedule.num_microbatches == 8


def test_a_sharded_run_is_that_too_and_every_rank_tells_of_its_share(plain, tmp_path):
    """Number words have unequal numbers of target tokens, so a mean of means would show."""
    events = []
    config = TrainConfig(**OPTIONS | {"bleu": True}, dp=2, zero=3, workdir=str(tmp_path))
    result = train(config, on_progress=events.append)
    assert_as_plain(result.steps, plain)
    mine, theirs = ([epoch.num_tokens for epoch in epochs] for epochs in result.ranks)
    assert mine != theirs and sum(mine + theirs) == sum(plain[-1])
    assert {(event["rank"], event["epoch"]) for event in events} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert 0.0 <= result.bleu <= 100.0


@pytest.mark.parametrize(("name", "warmup"), [*itertools.product(["constant", "cosine", "linear"], [0, 4])])
def test_the_learning_rate_is_that_of_torchs_schedulers(name, warmup):
    """The second half starts anew, as a resumed run does."""
    model = torch.nn.Linear(1, 1)
    config = TrainConfig(lr_schedule=name, warmup_steps=warmup, learning_rate=0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    scheduler = torch_schedule(optimizer, name, warmup, 12)
    for number in range(12):
        if number in (0, 6):
            updates = Updates(dict(model.named_parameters()), config)
            updates.begin(12, done=number)
        assert updates.step() == pytest.approx(scheduler.get_last_lr()[0], abs=1e-12)
        optimizer.step()
        scheduler.step()


@pytest.mark.parametrize(("name", "dtype"), [*itertools.product(["adamw", "sgd"], ["float32", "bfloat16"])])
def test_an_update_is_that_of_torchs_plain_optimizer(name, dtype):
    """Of 70 numbers, which no vector of a processor divides."""
    updated, expected = (torch.nn.Parameter(torch.linspace(-1, 1, 70).to(getattr(torch, dtype))) for _ in range(2))
    kind, options = {"adamw": (torch.optim.AdamW, {"weight_decay": 0.0}), "sgd": (torch.optim.SGD, {})}[name]
    for parameter in (updated, expected):
        parameter.grad = parameter.detach().flip(0).clone()
    kind([expected], lr=0.1, foreach=False, **options).step()
    Updates({"w": updated}, TrainConfig(optimizer=name, dtype=dtype, learning_rate=0.1)).step()
    torch.testing.assert_close(updated, expected)


@pytest.mark.exhaustive
def test_a_validation_in_between_changes_nothing_that_is_learned(tmp_path):
    """A pipeline draws a seed for each batch, also for one that only validates."""
    options = NUMBERS | LANES["gpipe"] | {"samples_per_epoch": 32, "num_epochs": 2, "dropout": 0.2}
    often, never = (
        train(TrainConfig(**options, eval_interval=interval, workdir=str(tmp_path / str(interval))))
        for interval in (1, 0)
    )
    assert often.step_losses == never.step_losses
    assert sum(step.validation_loss is not None for step in often.steps) == 8
    assert sum(step.validation_loss is not None for step in never.steps) == 2


@pytest.mark.exhaustive
def test_a_compiled_model_learns_the_same(tmp_path):
    """Rows of one length, so that torch compiles once for training and once for validating."""
    options = NUMBERS | {"dataset": "docs", "max_length": 8, "n_layer": 1, "num_epochs": 1, "samples_per_epoch": 16}
    eager = train(TrainConfig(**options, workdir=str(tmp_path)))
    compiled = train(TrainConfig(**options, compile=True, workdir=str(tmp_path)))
    ranks = train(TrainConfig(**options, compile=True, dp=2, workdir=str(tmp_path)))
    for found in (compiled, ranks):
        assert found.step_losses == pytest.approx(eager.step_losses, abs=1e-5)
        assert found.validation_loss == pytest.approx(eager.validation_loss, abs=1e-5)
