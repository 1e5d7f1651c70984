import json
import shutil

import pytest
import torch
from transformers import GPT2LMHeadModel

from pllab.train import TrainConfig, train
from pllab.train.checkpoints import (
    checkpoints_in,
    load_checkpoint,
    open_checkpoint,
    plain_model,
    save_checkpoint,
)
from pllab.train.placing import build_model
from pllab.train.updates import Updates

WHOSE = {"dataset": "docs", "seed": 1}


def tiny(seed=1, n_layer=2):
    config = TrainConfig(n_layer=n_layer, n_embd=16, n_head=2, max_length=8, seed=seed)
    model = build_model(config, vocab_size=20)
    return model, Updates(model, [[name for name, _ in model.named_parameters()]], config)


def save(folder, model, updates, epochs_done=1):
    return save_checkpoint(folder, model, updates.states(), epochs_done, WHOSE)


def step(model, updates):
    for name, parameter in model.named_parameters():
        parameter.grad = torch.full_like(parameter, float(len(name)))
    updates.step()


def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(tmp_path):
    model, updates = tiny()
    step(model, updates)
    save(tmp_path, model, updates)
    other, other_updates = tiny(seed=2)
    path, done = open_checkpoint(tmp_path, WHOSE)
    assert done == 1
    other_updates.restore(load_checkpoint(path, other))
    for each in (model, updates), (other, other_updates):
        step(*each)  # the second step needs the moments of the first
    for name, expected in model.named_parameters():
        torch.testing.assert_close(other.get_parameter(name), expected, rtol=0, atol=0)


def test_the_learning_rate_is_the_one_of_now(tmp_path):
    model, updates = tiny()
    step(model, updates)
    path = save(tmp_path, model, updates)
    updates.optimizers[0].param_groups[0]["lr"] = 0.25
    updates.restore(load_checkpoint(path, model))
    assert updates.optimizers[0].param_groups[0]["lr"] == 0.25


def test_transformers_reads_the_weights(tmp_path):
    model, updates = tiny()
    path = save(tmp_path, model, updates)
    tokens = torch.arange(8).unsqueeze(0)
    loaded = GPT2LMHeadModel.from_pretrained(path)
    torch.testing.assert_close(loaded(tokens).logits, plain_model(model).eval()(tokens).logits)


def test_only_the_newest_stays_and_no_draft_of_a_killed_save(tmp_path):
    (tmp_path / ".draft-killed").mkdir()
    for epochs_done in (1, 2, 3, 3):
        save(tmp_path, *tiny(), epochs_done)
    assert [path.name for path in tmp_path.iterdir()] == ["epoch-0003"]


def test_what_is_named_otherwise_is_no_checkpoint_and_stays(tmp_path):
    for stray in ("epoch-abc", "epoch-9", "epoch-00009x"):
        (tmp_path / stray).mkdir()
    save(tmp_path, *tiny(), 2)
    assert [path.name for path in checkpoints_in(tmp_path)] == ["epoch-0002"]
    assert (tmp_path / "epoch-abc").exists()
    assert open_checkpoint(tmp_path, WHOSE)[1] == 2


def test_an_interrupted_save_keeps_the_old_checkpoint(tmp_path, monkeypatch):
    save(tmp_path, *tiny(), 1)

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="no space"):
        save(tmp_path, *tiny(), 2)
    assert [path.name for path in tmp_path.iterdir()] == ["epoch-0001"]


def flip(file):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))


def change(path, **fields):
    file = path / "checkpoint.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


def become_a_folder(file):
    file.unlink()
    file.mkdir()


DAMAGE = {
    "a flipped bit of the weights": lambda path: flip(path / "model.safetensors"),
    "a flipped bit of the optimizer": lambda path: flip(path / "optimizer.pt"),
    "empty weights": lambda path: (path / "model.safetensors").write_bytes(b""),
    "truncated optimizer": lambda path: (path / "optimizer.pt").write_bytes((path / "optimizer.pt").read_bytes()[:50]),
    "missing optimizer": lambda path: (path / "optimizer.pt").unlink(),
    "weights that are a folder": lambda path: (
        (path / "model.safetensors").unlink(),
        (path / "model.safetensors").mkdir(),
    ),
    "no record": lambda path: (path / "checkpoint.json").unlink(),
    "a foreign record": lambda path: (path / "checkpoint.json").write_text("[1, 2]"),
    "a truncated record": lambda path: (path / "checkpoint.json").write_text('{"epochs_done": 1'),
    "a record of other epochs": lambda path: change(path, epochs_done=-5),
    "a record of no epochs": lambda path: change(path, epochs_done=None),
    "a record without checksums": lambda path: change(path, sha256={}),
    "a record whose checksums are a number": lambda path: change(path, sha256=3),
    "a record of nobody": lambda path: change(path, identity=3),
    "nothing at all": lambda path: (shutil.rmtree(path), path.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_every_kind_of_damage_is_one_sentence(tmp_path, damage):
    damage(save(tmp_path, *tiny()))
    with pytest.raises(ValueError, match=r"epoch-0001' cannot be used \(.*\); restore the file") as refused:
        open_checkpoint(tmp_path, WHOSE)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("what", ["not a number", "another shape", "no optimizer"])
def test_what_is_whole_and_cannot_be_used_is_one_sentence_too(tmp_path, what):
    """Checksums agree, because it was saved so."""
    model, updates = tiny()
    with torch.no_grad():
        model.transformer.wte.weight[0, 0] = float("nan") if what == "not a number" else 0.0
    path = save(tmp_path, model, updates)
    if what == "no optimizer":
        (path / "optimizer.pt").write_bytes(b"")
    with pytest.raises(ValueError, match=r"cannot be used \((.* not finite|.* has shape|.*)\); restore"):
        load_checkpoint(path, tiny(n_layer=3)[0] if what == "another shape" else model)


def test_what_differs_is_named(tmp_path):
    save(tmp_path, *tiny())
    with pytest.raises(ValueError, match=r"is of a run with seed 1, and this one has 2; give the same seed, or train"):
        open_checkpoint(tmp_path, WHOSE | {"seed": 2})


def test_a_field_that_only_one_of_both_has_differs(tmp_path):
    """The record's own names may be damaged: what had no namesake was not compared."""
    save(tmp_path, *tiny())
    for whose in ({"dataset": "docs"}, WHOSE | {"dropout": 0.5}):
        with pytest.raises(ValueError, match="is of a run with (seed 1|dropout None), and this one has (None|0.5);"):
            open_checkpoint(tmp_path, whose)


def test_nothing_to_resume_says_what_to_do(tmp_path):
    with pytest.raises(ValueError, match="--checkpoint"):
        open_checkpoint(tmp_path, WHOSE)


OPTIONS = {
    "batch_size": 8,
    "samples_per_epoch": 16,
    "validation_samples": 4,
    "max_length": 32,
    "n_layer": 2,
    "n_embd": 16,
    "n_head": 2,
    "vocab_size": 300,
    "device": "cpu",
    "dataset": "numbers",
    "bleu": False,
}


def test_a_fresh_run_touches_no_checkpoint_of_another(tmp_path):
    """It deleted its own, because the older run had more epochs, and a resume went on with the older weights."""
    train(TrainConfig(**OPTIONS, num_epochs=3, checkpoint=True, workdir=str(tmp_path)))
    kept = (tmp_path / "single-1" / "epoch-0003" / "model.safetensors").read_bytes()
    with pytest.raises(ValueError, match=r"checkpoints of an earlier run \(up to epoch-0003\); .* --resume"):
        train(TrainConfig(**OPTIONS, num_epochs=1, checkpoint=True, seed=5, workdir=str(tmp_path)))
    train(TrainConfig(**OPTIONS, num_epochs=1, seed=5, workdir=str(tmp_path)))  # keeps none, and so touches none
    assert (tmp_path / "single-1" / "epoch-0003" / "model.safetensors").read_bytes() == kept


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"dataset": "docs"}, "dataset"),
        ({"seed": 9}, "seed"),
        ({"batch_size": 4}, "batch_size"),
        ({"n_embd": 32}, "n_embd"),
        ({"optimizer": "sgd"}, "optimizer"),
    ],
)
def test_a_resume_refuses_what_differs_and_names_it(tmp_path_factory, changed, named):
    workdir = tmp_path_factory.getbasetemp() / "resumed"
    if not workdir.exists():
        train(TrainConfig(**OPTIONS, num_epochs=1, checkpoint=True, workdir=str(workdir)))
    with pytest.raises(ValueError, match=f"is of a run with {named} .*; give the same {named}"):
        train(TrainConfig(**OPTIONS | changed, num_epochs=2, resume=True, workdir=str(workdir)))


def test_a_resume_takes_another_learning_rate_and_refuses_other_texts(tmp_path):
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(json.dumps({"text": f"number {n} and more words"}) + "\n" for n in range(40)))
    options = OPTIONS | {"dataset": str(texts), "workdir": str(tmp_path / "work")}
    train(TrainConfig(**options, num_epochs=1, checkpoint=True))
    quick = train(TrainConfig(**options, num_epochs=2, learning_rate=0.5, resume=True))
    slow = train(TrainConfig(**options, num_epochs=2, learning_rate=1e-6, resume=True))
    assert quick.step_losses[1] != pytest.approx(slow.step_losses[1], abs=1e-3)
    texts.write_text(texts.read_text().replace("more", "less"))
    with pytest.raises(ValueError, match="is of a run with data '.*', and this one has '.*'"):
        train(TrainConfig(**options, num_epochs=2, resume=True))
