import json
import re
import resource
import shutil
import socket
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2LMHeadModel

from pllab import cli, comm
from pllab.train import NothingLeftError, TrainConfig, train
from pllab.train.checkpoints import (
    checkpoints_in,
    load_checkpoint,
    open_checkpoint,
    save_checkpoint,
)
from pllab.train.comparing import SMALL, batch, layouts, share_of
from pllab.train.inputs import Updates, meta_model
from pllab.train.trainers import losses_of_all, make_trainer
from tests.tiers import exhaustive
from tests.train.sizes import NUMBERS

WEIGHTS, STATES = "model.safetensors", "optimizer.safetensors"
WHOSE = {"dataset": "docs", "seed": 1}
NAME = "transformer.wte.weight"


TINY = TrainConfig(n_layer=2, n_embd=16, n_head=2, max_length=8, device="cpu")


def tiny():
    """A trainer that has taken a step."""
    trainer = make_trainer(TINY, 20)
    ids = torch.arange(8).repeat(32, 1)
    trainer.step({"input_ids": ids, "labels": ids})
    return trainer


def test_transformers_reads_the_weights(tmp_path):
    trainer, tokens = tiny(), torch.arange(8).unsqueeze(0)
    loaded = GPT2LMHeadModel.from_pretrained(save_checkpoint(tmp_path, trainer, 1, WHOSE))
    torch.testing.assert_close(loaded(tokens).logits, trainer.model.eval()(tokens).logits)


def test_only_the_newest_stays_no_draft_of_a_killed_save_and_all_that_is_no_checkpoint(tmp_path):
    strays = {"step-abc", "step-9", "step-00000009x"}
    for name in (".draft-killed", *strays):
        (tmp_path / name).mkdir()
    for done in (1, 2, 3, 3):
        save_checkpoint(tmp_path, tiny(), done, WHOSE)
    assert {path.name for path in tmp_path.iterdir()} == {*strays, "step-00000003"}
    assert [path.name for path in checkpoints_in(tmp_path)] == ["step-00000003"]


@contextmanager
def full_disk():
    """No file of this process may grow beyond a kilobyte."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


RECORDS = {
    "no record": lambda path: (path / "checkpoint.json").unlink(),
    "a foreign record": lambda path: (path / "checkpoint.json").write_text("[1, 2]"),
    "a truncated record": lambda path: (path / "checkpoint.json").write_text('{"steps": 1'),
    "a record too deep to read": lambda path: (path / "checkpoint.json").write_text('{"steps":' + "[" * 10**5),
}
FILES = {
    "truncated weights": lambda path: (path / WEIGHTS).write_bytes((path / WEIGHTS).read_bytes()[:-50]),
    "missing weights": lambda path: (path / WEIGHTS).unlink(),
    "weights of other names": lambda path: shutil.copy(path / STATES, path / WEIGHTS),
    "missing optimizer": lambda path: (path / STATES).unlink(),
    "an optimizer of other names": lambda path: shutil.copy(path / WEIGHTS, path / STATES),
    "an optimizer without one weight": lambda path: rewrite(path / STATES, forget_one),
    "weights of another shape": lambda path: rewrite(path / WEIGHTS, lambda whole: whole.update({NAME: torch.ones(3)})),
}


def rewrite(file, change):
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file)


def forget_one(states):
    name = min(states).rpartition(".")[0]
    for key in [key for key in states if key.rpartition(".")[0] == name]:
        del states[key]


def test_counts_of_steps_stay_on_the_cpu_where_the_optimizer_is_not_fused(tmp_path):
    """It reads them in every step, and would wait for the GPU."""
    updates = Updates(dict(meta_model(TINY, 20).named_parameters()), TINY)
    load_checkpoint(save_checkpoint(tmp_path, tiny(), 1, WHOSE), SimpleNamespace(updates=updates, mesh=None))
    places = {kind: value.device.type for state in updates.optimizer.state.values() for kind, value in state.items()}
    assert places == {"step": "cpu", "exp_avg": "meta", "exp_avg_sq": "meta"}


@pytest.mark.parametrize("damage", [*RECORDS.values(), *FILES.values()], ids=[*RECORDS, *FILES])
def test_every_kind_of_damage_is_one_sentence(tmp_path, damage):
    """That of the record before anything starts, that of the tensors when they are read."""
    trainer = tiny()
    path = save_checkpoint(tmp_path, trainer, 1, WHOSE)
    damage(path)
    with pytest.raises(ValueError, match=r"step-00000001' cannot be used \(.*\); restore the file") as refused:
        open_checkpoint(tmp_path, WHOSE)
        assert damage in FILES.values()
        load_checkpoint(path, trainer)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("whose", "name", "sentence"),
    [
        ({"dataset": "docs"}, "step-00000001", "is of a run with seed 1, and this one has None; give the same seed,"),
        (WHOSE | {"dropout": 0.5}, "step-00000001", "is of a run with dropout None, and this one has 0.5;"),
        (WHOSE | {"steps_per_epoch": 5}, "step-00000001", "and this one has 5; give the same data, batch size and dp,"),
        (WHOSE, "step-00000009", "is of a run with steps 1, and this one has 9;"),
    ],
)
def test_what_differs_is_named_and_nothing_is_called_damaged(tmp_path, whose, name, sentence):
    """Also if only one of both has it. Another dp may make epochs of another length."""
    with pytest.raises(ValueError, match="holds no checkpoint to resume; train with --checkpoint first"):
        open_checkpoint(tmp_path, WHOSE)
    save_checkpoint(tmp_path, tiny(), 1, WHOSE).rename(tmp_path / name)
    with pytest.raises(ValueError, match=sentence):
        open_checkpoint(tmp_path, whose)


def test_a_fresh_run_touches_no_checkpoint_of_another(tmp_path):
    """It deleted its own, because the older run had more epochs, and a resume went on with the older weights."""
    train(TrainConfig(**NUMBERS, num_epochs=3, checkpoint=True, workdir=str(tmp_path)))
    kept = (tmp_path / "single-1" / "step-00000006" / WEIGHTS).read_bytes()
    with pytest.raises(ValueError, match=r"checkpoints of an earlier run \(up to step-00000006\); .* --resume"):
        train(TrainConfig(**NUMBERS, num_epochs=1, checkpoint=True, seed=5, workdir=str(tmp_path)))
    train(TrainConfig(**NUMBERS, num_epochs=1, seed=5, workdir=str(tmp_path)))  # keeps none, and so touches none
    assert (tmp_path / "single-1" / "step-00000006" / WEIGHTS).read_bytes() == kept


def test_a_resume_takes_another_learning_rate_and_refuses_what_else_differs(tmp_path):
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(json.dumps({"text": f"number {n} and more words"}) + "\n" for n in range(40)))
    options = NUMBERS | {"dataset": str(texts), "workdir": str(tmp_path / "work")}
    train(TrainConfig(**options, num_epochs=1, checkpoint=True))
    resumed = options | {"num_epochs": 2, "resume": True}
    quick, slow = (train(TrainConfig(**resumed, learning_rate=rate)) for rate in (0.5, 1e-6))
    assert quick.step_losses[1] != pytest.approx(slow.step_losses[1], abs=1e-3)
    for changed in {"dataset": "docs"}, {"seed": 9}, {"batch_size": 4}, {"n_embd": 32}, {"optimizer": "sgd"}:
        with pytest.raises(ValueError, match="is of a run with {0} .*; give the same {0}".format(*changed)):
            train(TrainConfig(**resumed | changed))
    texts.write_text(texts.read_text().replace("more", "less"))
    with pytest.raises(ValueError, match="is of a run with data '.*', and this one has '.*'"):
        train(TrainConfig(**resumed))


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
    save_checkpoint(folder, trainer, STEPS, WHOSE)
    comm.barrier()
    return losses(trainer, config, STEPS)


def resumed(rank, world_size, folder, configs):
    """The losses of the second half under each configuration."""
    path, steps = open_checkpoint(folder, WHOSE)
    rows = []
    for config in configs:
        trainer = make_trainer(config, 65)
        load_checkpoint(path, trainer)
        rows.append(losses(trainer, config, steps))
        trainer.close()
    return rows


def configurations(*every_axes):
    return [TrainConfig(**MOMENTS | axes) for axes in every_axes]


DDP = {"dp": 4, "implementation": "pytorch"}
ALSO_SAVED = [
    DDP,
    DDP | {"zero": 3},
    {"dp": 2, "pp": 2, "zero": 1, "schedule": "zbv"},
    {"tp": 2, "pp": 2, "schedule": "interleaved"},
]


@pytest.mark.parametrize(
    ("saved", "others"),
    [
        (SAVED, configurations({}, {"tp": 2, "pp": 2}, DDP | {"zero": 2})),
        *exhaustive(
            (SAVED, [*layouts(2, **MOMENTS), *layouts(4, **MOMENTS)]),
            *((axes, configurations(SAVED, {"dp": 2, "pp": 2})) for axes in ALSO_SAVED),
        ),
    ],
)
def test_a_run_goes_on_bit_by_bit_under_its_layout_and_within_rounding_under_others(tmp_path, saved, others):
    options = {"backend": "gloo", "timeout_s": 300.0}
    expected = comm.launch(stopped, 4, tmp_path, saved, **options)[0]
    (own,) = configurations(saved)
    for number in {config.world_size for config in (own, *others)}:
        those = [config for config in (own, *others) if config.world_size == number]
        for config, row in zip(those, comm.launch(resumed, number, tmp_path, those, **options)[0], strict=True):
            # DDP cuts its buckets anew after its first step, so 4 ranks add up in another order.
            off = 1e-5 if config != own else 1e-6 if saved is DDP else 0.0
            assert row == pytest.approx(expected, rel=off, abs=0.0), config.run_name
    assert GPT2LMHeadModel.from_pretrained(checkpoints_in(tmp_path)[-1]).num_parameters() > 0


def failing(rank, world_size, folder):
    """The sentence of each rank when rank 0 cannot write, or rank 1 has diverged, and what is left."""
    config = TrainConfig(**MOMENTS, tp=2)
    trainer = make_trainer(config, 65)
    said = []
    for steps in (1, 2, 3):
        if steps == 3 and rank == 1:
            next(trainer.model.parameters()).detach().fill_(torch.nan)
        with full_disk() if rank == 0 and steps == 2 else nullcontext():
            try:
                save_checkpoint(folder, trainer, steps, WHOSE)
            except (OSError, ValueError) as error:
                said.append(str(error))
    comm.barrier()
    return said, [path.name for path in folder.iterdir()]


def test_what_cannot_be_saved_is_the_same_sentence_on_all_ranks(tmp_path):
    """A full disk, and weights that no resumed run would take."""
    for said, left in comm.launch(failing, 2, tmp_path, backend="gloo", timeout_s=60.0):
        assert len(said) == 2 and "\n" not in "".join(said)
        assert re.search(r"step-00000002' could not be saved \(.*too large", said[0])
        assert re.search(r"the weights after step 3 are not finite, .*; the checkpoint before it is kept", said[1])
        assert left == ["step-00000001"]


def test_a_run_stopped_within_an_epoch_goes_on_bit_by_bit(tmp_path):
    """With dropout, of whose generators nothing is saved. TensorBoard counts on where it was."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    class Fault(Exception):
        pass

    def fail(event):
        if event["epoch"] == 1 and event["step"] >= 3:
            raise Fault

    options = NUMBERS | {"samples_per_epoch": 32, "num_epochs": 2, "dropout": 0.2, "lr_schedule": "cosine"}
    options |= {"warmup_steps": 3, "eval_interval": 3, "gradient_clipping": 0.5}
    whole = train(TrainConfig(**options, workdir=str(tmp_path / "whole")))
    saving = options | {"checkpoint": True, "resume": True, "checkpoint_interval": 2, "workdir": str(tmp_path / "cut")}
    with pytest.raises(Fault):
        train(TrainConfig(**saving), fail)
    rest = train(TrainConfig(**saving, tensorboard=True), (told := []).append)
    assert told[-1]["step"] == told[-1]["num_steps"]
    assert rest.steps == whole.steps[-len(rest.steps) :]
    assert len(rest.step_losses) in (2, 4)  # progress is told ten times a second, so a step more may have been saved
    assert rest.validation_loss == whole.validation_loss
    reader = EventAccumulator(str(tmp_path / "cut" / "single-1" / "tensorboard"))
    reader.Reload()
    logged = {event.step: event.value for event in reader.Scalars("loss/training")}
    assert logged == {step: pytest.approx(whole.step_losses[step]) for step in range(8 - len(rest.step_losses), 8)}


@pytest.mark.parametrize("moment", ["loop.validation_loss", "loop.measured_peak_flops", "metrics.TrainResult.save"])
def test_a_run_that_ends_after_its_last_step_still_gets_a_result(tmp_path, monkeypatch, moment):
    """Only a run with a result is complete."""
    options = NUMBERS | {"checkpoint": True, "resume": True, "checkpoint_interval": 1, "peak_flops": None}
    whole = train(TrainConfig(**options, num_epochs=1, workdir=str(tmp_path / "whole")))
    cut = TrainConfig(**options, num_epochs=1, workdir=str(tmp_path / "cut"))
    with monkeypatch.context() as broken, pytest.raises(KeyboardInterrupt):
        broken.setattr(f"pllab.train.{moment}", interrupt)
        train(cut)
    result = train(cut)
    assert result.steps == whole.steps[-1:] and result.validation_loss == whole.validation_loss
    assert [path.name for path in checkpoints_in(cut.folder)] == [f"step-{len(whole.steps):08d}"]


def interrupt(*_args, **_options):
    raise KeyboardInterrupt


@pytest.mark.parametrize("under_torchrun", [False, True])
def test_a_finished_run_has_nothing_left_to_do(tmp_path, monkeypatch, capsys, under_torchrun):
    """A requeued job and a restarted one give the same command again; a job of other settings is still refused."""
    words = [f"--{name.replace('_', '-')}={value}" for name, value in NUMBERS.items() if name != "bleu"]
    words = ["train", *words, "--num-epochs=1", "--checkpoint", "--resume", "--quiet", f"--workdir={tmp_path}"]
    if under_torchrun:
        monkeypatch.setattr("pllab.cli.training.end_with_parent", lambda: None)
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
    options = NUMBERS | {"name": "v1.5", "checkpoint": True, "resume": True, "workdir": str(tmp_path)}
    train(TrainConfig(**options, num_epochs=1))
    result = train(TrainConfig(**options, num_epochs=2, pp=2))
    assert len(result.step_losses) == 2 and result.config.result_file == tmp_path / "v1.5.json"
    assert [path.name for path in checkpoints_in(tmp_path / "v1.5")] == ["step-00000004"]
    with pytest.raises(NothingLeftError, match=r"or see the result '.*v1\.5\.json'"):
        train(TrainConfig(**options, num_epochs=2, pp=2))
