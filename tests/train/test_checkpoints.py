import json
import resource
import shutil
import socket
from contextlib import contextmanager, nullcontext
from itertools import product

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2LMHeadModel

from pllab import cli, comm
from pllab.train import NothingLeftError, TrainConfig, train
from pllab.train.checkpoints import (
    Progress,
    checkpoints_in,
    load_checkpoint,
    open_checkpoint,
    plain_model,
    save_checkpoint,
)
from pllab.train.comparing import SMALL, batch, layouts, share_of
from pllab.train.inputs import build_model
from pllab.train.trainers import losses_of_all, make_trainer
from pllab.train.updates import Updates

WEIGHTS, STATES = "model.safetensors", "optimizer.safetensors"
WHOSE = {"dataset": "docs", "seed": 1}


def tiny(seed=1, n_layer=2):
    config = TrainConfig(n_layer=n_layer, n_embd=16, n_head=2, max_length=8, seed=seed)
    model = build_model(config, vocab_size=20)
    return model, Updates(model, [name for name, _ in model.named_parameters()], config)


def save(folder, model, updates, done=1):
    return save_checkpoint(folder, model, updates, Progress(done, 1), WHOSE)


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
    assert done == Progress(1, 1)
    load_checkpoint(path, other_updates)
    for each in (model, updates), (other, other_updates):
        step(*each)  # the second step needs the moments of the first
    for name, expected in model.named_parameters():
        torch.testing.assert_close(other.get_parameter(name), expected, rtol=0, atol=0)


def test_the_learning_rate_is_the_one_of_now(tmp_path):
    model, updates = tiny()
    step(model, updates)
    path = save(tmp_path, model, updates)
    updates.optimizer.param_groups[0]["lr"] = 0.25
    load_checkpoint(path, updates)
    assert updates.optimizer.param_groups[0]["lr"] == 0.25


def test_transformers_reads_the_weights(tmp_path):
    model, updates = tiny()
    path = save(tmp_path, model, updates)
    tokens = torch.arange(8).unsqueeze(0)
    loaded = GPT2LMHeadModel.from_pretrained(path)
    torch.testing.assert_close(loaded(tokens).logits, plain_model(model).eval()(tokens).logits)


def test_only_the_newest_stays_and_no_draft_of_a_killed_save(tmp_path):
    (tmp_path / ".draft-killed").mkdir()
    for done in (1, 2, 3, 3):
        save(tmp_path, *tiny(), done)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000003"]


def test_what_is_named_otherwise_is_no_checkpoint_and_stays(tmp_path):
    for stray in ("step-abc", "step-9", "step-00000009x"):
        (tmp_path / stray).mkdir()
    save(tmp_path, *tiny(), 2)
    assert [path.name for path in checkpoints_in(tmp_path)] == ["step-00000002"]
    assert (tmp_path / "step-abc").exists()
    assert open_checkpoint(tmp_path, WHOSE)[1].steps == 2


@contextmanager
def full_disk():
    """No file of this process may grow beyond a kilobyte."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_keeps_the_old_checkpoint(tmp_path):
    save(tmp_path, *tiny(), 1)
    with (
        full_disk(),
        pytest.raises(OSError, match=r"step-00000002' could not be saved \(.*too large") as said,
    ):
        save(tmp_path, *tiny(), 2)
    assert "\n" not in str(said.value)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def change(path, **fields):
    file = path / "checkpoint.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


RECORDS = {
    "no record": lambda path: (path / "checkpoint.json").unlink(),
    "a record that is a folder": lambda path: become_a_folder(path / "checkpoint.json"),
    "a foreign record": lambda path: (path / "checkpoint.json").write_text("[1, 2]"),
    "a truncated record": lambda path: (path / "checkpoint.json").write_text('{"progress": [1'),
    "a record of other steps": lambda path: change(path, progress=[-5, 1]),
    "a record of no steps": lambda path: change(path, progress=None),
    "a record of nobody": lambda path: change(path, identity=3),
    "a record of three numbers": lambda path: change(path, progress=[1, 1, 1]),
    "a record of no steps in an epoch": lambda path: change(path, progress=[1, 0]),
    "a record of an epoch of another length": lambda path: change(path, progress=[1, 5]),
    "a record of half a step": lambda path: change(path, progress=[True, 1.0]),
    "a record too deep to read": lambda path: (path / "checkpoint.json").write_text('{"progress":' + "[" * 10**5),
    "nothing at all": lambda path: (shutil.rmtree(path), path.mkdir()),
}
FILES = {
    "empty weights": lambda path: (path / WEIGHTS).write_bytes(b""),
    "truncated weights": lambda path: cut(path / WEIGHTS, -50),
    "missing weights": lambda path: (path / WEIGHTS).unlink(),
    "weights that are a folder": lambda path: become_a_folder(path / WEIGHTS),
    "weights of other names": lambda path: shutil.copy(path / STATES, path / WEIGHTS),
    "an optimizer of a few bytes": lambda path: cut(path / STATES, 50),
    "truncated optimizer": lambda path: cut(path / STATES, -50),
    "missing optimizer": lambda path: (path / STATES).unlink(),
    "an optimizer of other names": lambda path: shutil.copy(path / WEIGHTS, path / STATES),
    "an optimizer without one weight": lambda path: forget_a_state(path / STATES),
}


def become_a_folder(file):
    file.unlink()
    file.mkdir()


def forget_a_state(file):
    states = load_file(file)
    name = min(states).rpartition(".")[0]
    save_file({key: value for key, value in states.items() if key.rpartition(".")[0] != name}, file)


def cut(file, end):
    file.write_bytes(file.read_bytes()[:end])


@pytest.mark.parametrize("damage", RECORDS.values(), ids=RECORDS)
def test_every_kind_of_damage_of_the_record_is_one_sentence_before_anything_starts(tmp_path, damage):
    damage(save(tmp_path, *tiny()))
    with pytest.raises(ValueError, match=r"step-00000001' cannot be used \(.*\); restore the file") as refused:
        open_checkpoint(tmp_path, WHOSE, steps_per_epoch=1)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("damage", FILES.values(), ids=FILES)
def test_every_kind_of_damage_of_the_tensors_is_one_sentence(tmp_path, damage):
    model, updates = tiny()
    step(model, updates)
    path = save(tmp_path, model, updates)
    damage(path)
    with pytest.raises(ValueError, match=r"step-00000001' cannot be used \(.*\); restore the file") as refused:
        load_checkpoint(path, updates)
    assert "\n" not in str(refused.value)


def test_a_record_with_any_value_changed_is_as_it_was_or_refused_in_a_sentence(tmp_path):
    path = save(tmp_path, *tiny())
    file = path / "checkpoint.json"
    text = file.read_text()
    for old, new in product(
        json.loads(text), ("0", "[1, 1]", '"config.json"', "{}", "null", "[NaN, 1]", "1e999", "[[]]")
    ):
        file.write_text(json.dumps(json.loads(text) | {old: "?"}).replace('"?"', new))
        _accept_or_refuse(tmp_path, path)
    for cut in range(0, len(text), 37):
        file.write_text(text[:cut] + text[cut + 3 :])
        _accept_or_refuse(tmp_path, path)


def _accept_or_refuse(folder, path):
    try:
        assert open_checkpoint(folder, WHOSE, steps_per_epoch=1) == (path, Progress(1, 1))
    except ValueError as error:
        assert str(path) in str(error) and "\n" not in str(error)


@pytest.mark.parametrize("what", ["not a number", "another shape", "no optimizer"])
def test_what_is_whole_and_cannot_be_used_is_one_sentence_too(tmp_path, what):
    model, updates = tiny()
    with torch.no_grad():
        model.transformer.wte.weight[0, 0] = float("nan") if what == "not a number" else 0.0
    path = save(tmp_path, model, updates)
    if what == "no optimizer":
        (path / STATES).write_bytes(b"")
    with pytest.raises(ValueError, match=r"cannot be used \((.* not finite|.* has shape|.*)\); restore"):
        load_checkpoint(path, tiny(n_layer=3)[1] if what == "another shape" else updates)


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
    kept = (tmp_path / "single-1" / "step-00000006" / WEIGHTS).read_bytes()
    with pytest.raises(ValueError, match=r"checkpoints of an earlier run \(up to step-00000006\); .* --resume"):
        train(TrainConfig(**OPTIONS, num_epochs=1, checkpoint=True, seed=5, workdir=str(tmp_path)))
    train(TrainConfig(**OPTIONS, num_epochs=1, seed=5, workdir=str(tmp_path)))  # keeps none, and so touches none
    assert (tmp_path / "single-1" / "step-00000006" / WEIGHTS).read_bytes() == kept


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


# Saved under one layout, resumed under any.

SAVED = {"dp": 2, "tp": 2, "zero": 3, "loss_parallel": True}
STEPS = 3


MOMENTS = SMALL | {"optimizer": "adamw", "learning_rate": 0.01}
"""A model and steps whose optimizer has a state of every parameter."""


def losses(trainer, config, first):
    """Of some steps, over the whole batch."""
    trainer.updates.begin(2 * STEPS, first)
    shares = (share_of(batch(number, config), config) for number in range(first, first + STEPS))
    return losses_of_all([trainer.step(share) for share in shares], config.dp)[0]


def stopped(rank, world_size, folder, axes):
    """Save in the middle; the losses of the second half, as if nothing had happened."""
    config = TrainConfig(**MOMENTS | axes)
    trainer = make_trainer(config, 65)
    losses(trainer, config, 0)
    save_checkpoint(folder, trainer.model, trainer.updates, Progress(STEPS, STEPS), WHOSE, trainer.mesh)
    comm.barrier()
    return losses(trainer, config, STEPS)


def resumed(rank, world_size, folder, configs):
    """The losses of the second half under each configuration."""
    path, progress = open_checkpoint(folder, WHOSE)
    rows = []
    for config in configs:
        trainer = make_trainer(config, 65)
        load_checkpoint(path, trainer.updates, trainer.mesh)
        rows.append(losses(trainer, config, progress.steps))
        trainer.close()
    return rows


SOME = [
    SAVED,
    {"dp": 4, "zero": 1},
    {"dp": 2, "pp": 2},
    {"tp": 2, "pp": 2},
    {"dp": 4, "zero": 2, "implementation": "pytorch"},
]


@pytest.mark.ranks
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_a_run_goes_on_bit_by_bit_under_its_layout_and_within_rounding_under_others(tmp_path, quick_ranks, every):
    options = {"backend": "gloo", "timeout_s": 300.0}
    expected = comm.launch(stopped, 4, tmp_path, SAVED, **options)[0]
    configs = {1: [TrainConfig(**MOMENTS)], 4: [TrainConfig(**MOMENTS | axes) for axes in SOME]}
    if every:
        configs |= {number: list(layouts(number, **MOMENTS)) for number in (2, 4)}
    for number, those in configs.items():
        rows = comm.launch(resumed, number, tmp_path, those, **options)[0]
        for config, row in zip(those, rows, strict=True):
            assert row == pytest.approx(expected, rel=1e-5), config.run_name
            if (config.dp, config.tp, config.zero) == (2, 2, 3) and config.loss_parallel:
                assert row == expected, config.run_name
    assert GPT2LMHeadModel.from_pretrained(checkpoints_in(tmp_path)[-1]).num_parameters() > 0


@pytest.mark.exhaustive
@pytest.mark.ranks
@pytest.mark.parametrize(
    "axes",
    [
        {"dp": 4, "zero": 3, "implementation": "pytorch"},
        {"dp": 4, "implementation": "pytorch"},
        {"dp": 2, "pp": 2, "zero": 1, "schedule": "zbv"},
        {"tp": 2, "pp": 2, "schedule": "interleaved"},
    ],
    ids=lambda axes: TrainConfig(**axes).run_name,
)
def test_whoever_saved_it_all_can_go_on(tmp_path, quick_ranks, axes):
    expected = comm.launch(stopped, 4, tmp_path, axes, backend="gloo", timeout_s=300.0)[0]
    configs = [TrainConfig(**MOMENTS | each) for each in (axes, SAVED, {"dp": 2, "pp": 2})]
    own, *others = comm.launch(resumed, 4, tmp_path, configs, backend="gloo", timeout_s=300.0)[0]
    is_ddp = axes.get("implementation") == "pytorch" and not axes.get("zero")
    # DDP cuts its buckets anew after its first step, so 4 ranks add up in another order.
    assert own == (pytest.approx(expected, rel=1e-6) if is_ddp else expected)
    for row in others:
        assert row == pytest.approx(expected, rel=1e-5)


def failing(rank, world_size, folder):
    """The sentence of each rank when rank 0 cannot write, and what is left."""
    config = TrainConfig(**MOMENTS, dp=2)
    trainer = make_trainer(config, 65)
    said = []
    for steps in (1, 2):
        with full_disk() if rank == 0 and steps == 2 else nullcontext():
            try:
                save_checkpoint(folder, trainer.model, trainer.updates, Progress(steps, 4), WHOSE, trainer.mesh)
            except OSError as error:
                said.append(str(error))
    comm.barrier()
    return said, [path.name for path in folder.iterdir()]


@pytest.mark.ranks
def test_a_full_disk_is_the_same_sentence_on_all_ranks(tmp_path, quick_ranks):
    for said, left in comm.launch(failing, 2, tmp_path, backend="gloo", timeout_s=60.0):
        assert len(said) == 1 and "step-00000002' could not be saved (" in said[0] and "\n" not in said[0]
        assert left == ["step-00000001"]


def test_a_loss_that_is_no_number_is_not_saved(tmp_path):
    """Its step is named, and the checkpoint before it stays."""
    options = OPTIONS | {"checkpoint": True, "checkpoint_interval": 1, "workdir": str(tmp_path), "num_epochs": 1}
    with pytest.raises(
        ValueError, match=r"the loss of step 2 is not finite on rank 0; the checkpoint before it is kept"
    ):
        train(TrainConfig(**options | {"optimizer": "sgd", "learning_rate": 1e30, "samples_per_epoch": 32}))
    assert [path.name for path in checkpoints_in(tmp_path / "single-1")] == ["step-00000001"]


def test_a_run_stopped_within_an_epoch_goes_on_bit_by_bit(tmp_path):
    """With dropout: nothing of its generators is saved. TensorBoard counts on where the run was, too."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    class Fault(Exception):
        pass

    def fail(event):
        if event["epoch"] == 1 and event["step"] >= 3:
            raise Fault

    options = OPTIONS | {"samples_per_epoch": 32, "num_epochs": 2, "dropout": 0.2, "lr_schedule": "cosine"}
    whole = train(TrainConfig(**options, workdir=str(tmp_path / "whole")))
    saving = options | {"checkpoint": True, "resume": True, "checkpoint_interval": 2, "workdir": str(tmp_path / "cut")}
    with pytest.raises(Fault):
        train(TrainConfig(**saving), fail)
    rest = train(TrainConfig(**saving, tensorboard=True))
    assert rest.step_losses == whole.step_losses[-len(rest.step_losses) :]
    assert len(rest.step_losses) in (2, 4)  # progress is told ten times a second, so a step more may have been saved
    assert rest.validation_loss == whole.validation_loss
    reader = EventAccumulator(str(tmp_path / "cut" / "single-1" / "tensorboard"))
    reader.Reload()
    logged = {event.step: event.value for event in reader.Scalars("loss/training")}
    assert logged == {step: pytest.approx(whole.step_losses[step]) for step in range(8 - len(rest.step_losses), 8)}


@pytest.mark.parametrize("under_torchrun", [False, True])
def test_a_finished_run_has_nothing_left_to_do(tmp_path, monkeypatch, capsys, under_torchrun):
    """A requeued job and a restarted one give the same command again; a job of other settings is still refused."""
    words = [f"--{name.replace('_', '-')}={value}" for name, value in OPTIONS.items() if name != "bleu"]
    words = ["train", *words, "--num-epochs=1", "--checkpoint", "--resume", "--quiet", f"--workdir={tmp_path}"]
    if under_torchrun:
        words += ["--mode=data_parallel", "--world-size=1"]
        monkeypatch.setattr("pllab.comm.processes.end_with_parent", lambda: None)
        for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}.items():
            monkeypatch.setenv(name, str(value))
    assert cli.main(words) == 0
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert cli.main(words) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("nothing left to do: num_epochs is 1, and '") and line.endswith("-1.json'")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == kept
    assert cli.main([*words, "--seed=9"]) == 2
    assert "is of a run with seed 1234, and this one has 9" in capsys.readouterr().err


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def test_a_named_run_goes_on_under_other_axes(tmp_path):
    """The dot of its name is no suffix."""
    options = OPTIONS | {"name": "v1.5", "checkpoint": True, "resume": True, "workdir": str(tmp_path)}
    train(TrainConfig(**options, num_epochs=1))
    result = train(TrainConfig(**options, num_epochs=2, pp=2))
    assert len(result.step_losses) == 2 and result.path == tmp_path / "v1.5.json"
    assert [path.name for path in checkpoints_in(tmp_path / "v1.5")] == ["step-00000004"]
    with pytest.raises(NothingLeftError, match=r"or see the result '.*v1\.5\.json'"):
        train(TrainConfig(**options, num_epochs=2, pp=2))
