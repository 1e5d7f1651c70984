import pytest
import torch
from transformers import GPT2LMHeadModel

from pllab.train import TrainConfig
from pllab.train.checkpoint import latest_checkpoint, load_checkpoint, plain_model, save_checkpoint
from pllab.train.model import build_model
from pllab.train.step import make_optimizer


def tiny(seed=1, n_layer=2):
    config = TrainConfig(n_layer=n_layer, n_embd=16, n_head=2, max_length=8, seed=seed)
    model = build_model(config, vocab_size=20)
    return model, make_optimizer(model, config)


def step(model, optimizer):
    tokens = torch.arange(8).unsqueeze(0)
    plain = plain_model(model)  # only to have a loss that no mode decides
    for name, parameter in model.named_parameters():
        parameter.grad = torch.full_like(parameter, float(len(name)))
    optimizer.step()
    return plain(tokens).logits


def parameters(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(tmp_path):
    model, optimizer = tiny()
    step(model, optimizer)
    path = save_checkpoint(tmp_path, model, optimizer, 1)
    other, other_optimizer = tiny(seed=2)
    assert load_checkpoint(path, other, other_optimizer) == 1
    step(model, optimizer)
    step(other, other_optimizer)  # the second step needs the moments of the first
    for name, expected in parameters(model).items():
        torch.testing.assert_close(parameters(other)[name], expected, rtol=0, atol=0)


def test_transformers_reads_the_weights(tmp_path):
    model, optimizer = tiny()
    path = save_checkpoint(tmp_path, model, optimizer, 1)
    tokens = torch.arange(8).unsqueeze(0)
    loaded = GPT2LMHeadModel.from_pretrained(path)
    torch.testing.assert_close(loaded(tokens).logits, plain_model(model).eval()(tokens).logits)


def test_only_the_newest_stays_and_no_draft(tmp_path):
    model, optimizer = tiny()
    for epochs_done in (1, 2, 3, 3):
        save_checkpoint(tmp_path, model, optimizer, epochs_done)
    assert [path.name for path in tmp_path.iterdir()] == ["epoch-0003"]
    assert latest_checkpoint(tmp_path).name == "epoch-0003"


def test_an_interrupted_save_keeps_the_old_checkpoint(tmp_path, monkeypatch):
    model, optimizer = tiny()
    save_checkpoint(tmp_path, model, optimizer, 1)

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="no space"):
        save_checkpoint(tmp_path, model, optimizer, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["epoch-0001"]


def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path):
    path = save_checkpoint(tmp_path, *tiny(), 1)
    with pytest.raises(ValueError, match="does not fit this run"):
        load_checkpoint(path, *tiny(n_layer=3))
    (path / "optimizer.pt").unlink()
    with pytest.raises(ValueError, match="does not fit this run.*No such file"):
        load_checkpoint(path, *tiny())


def test_nothing_to_resume_says_what_to_do(tmp_path):
    with pytest.raises(ValueError, match="--checkpoint"):
        latest_checkpoint(tmp_path)
