import itertools
import json
import math
import os
import re
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from pllab.comm import RankError, launch
from pllab.comm.group import counted_rank
from pllab.train import TrainConfig, loop, train, train_as_rank
from tests.train.sizes import LANES, NUMBERS, TINY


def test_a_folder_in_the_place_of_the_result_is_told_before_a_step(tmp_path):
    config = TrainConfig(**NUMBERS, workdir=str(tmp_path))
    (tmp_path / f"{config.run_name}.json").mkdir()
    with pytest.raises(ValueError, match="single.*json' is a folder, and the results go into a file of that name"):
        train(config)


def test_axes_of_another_size_than_the_group_are_refused(tmp_path):
    config = TrainConfig(**NUMBERS, mode="pipeline", world_size=2, workdir=str(tmp_path))
    with pytest.raises(ValueError, match="the group has 1 rank, but dp 1 x tp 1 x pp 2 is 2; give axes whose product"):
        train_as_rank(config, "gloo")


DIFFERENT = {
    "learning_rate is 0.1 on rank 0 and 0.2 on rank 1": ({"learning_rate": 0.1}, {"learning_rate": 0.2}),
    "mode is 'data_parallel' on rank 0 and 'single' on rank 1": ({}, {"mode": "single", "world_size": 1}),
    "data is '.*' on rank 0 and '.*' on rank 1": ({"dataset": "texts.jsonl", "name": "other"},) * 2,
    "newest checkpoint is None on rank 0 and 'step-00000002' on rank 1": ({"num_epochs": 2},) * 2,
}
HERE = NUMBERS | {"num_epochs": 1, "name": "run", "workdir": "work", "checkpoint": True, "resume": True}


def refusals(rank, world_size, folder):
    """What a rank says in a folder of its own, as on a host that does not see those of the others."""
    os.chdir(folder / str(rank))
    said = []
    for options in DIFFERENT.values():
        with pytest.raises(ValueError, match="; give all ranks the same flags, data and --workdir") as refused:
            train_as_rank(TrainConfig(**HERE | {"mode": "data_parallel", "world_size": 2} | options[rank]), "gloo")
        said.append(str(refused.value))
    return said


def test_ranks_that_differ_are_refused_all_with_one_sentence(tmp_path):
    for rank in range(2):
        (tmp_path / str(rank)).mkdir()
        (tmp_path / str(rank) / "texts.jsonl").write_text(f'{{"text": "of host {rank}"}}\n' * 40)
    train(TrainConfig(**HERE | {"workdir": str(tmp_path / "1" / "work")}))
    mine, theirs = launch(refusals, 2, tmp_path, backend="gloo", timeout_s=60.0)
    assert mine == theirs
    assert all(map(re.match, DIFFERENT, mine)), mine


@pytest.mark.parametrize(("asked", "computes"), [("cuda", "cpu"), ("cpu", "cuda:0")])
def test_a_group_that_computes_elsewhere_than_asked_is_refused(asked, computes, monkeypatch, tmp_path):
    monkeypatch.setattr("pllab.comm.own_device", lambda: torch.device(computes))
    words = f"device is '{asked}', and this group computes on {computes}.*; take 'auto'"
    with counted_rank(0, 2), pytest.raises(ValueError, match=words):
        train_as_rank(TrainConfig(**NUMBERS | {"dp": 2, "device": asked, "workdir": str(tmp_path)}), "its reason")


def seeds_at_dropout(rank, world_size, config):
    """What the generator of this rank began with, wherever dropout draws in a training step."""
    seeds = set()

    def note(layer, _):
        if isinstance(layer, nn.Dropout) and layer.training:
            seeds.add(torch.initial_seed())

    with register_module_forward_pre_hook(note):
        train_as_rank(TrainConfig(**config), "gloo")
    return seeds


def test_dropout_differs_between_ranks_and_between_steps(tmp_path):
    config = {**NUMBERS, "mode": "data_parallel", "world_size": 2, "num_epochs": 2, "workdir": str(tmp_path)}
    mine, theirs = launch(seeds_at_dropout, 2, config)
    assert len(mine) == len(theirs) == 4
    assert not mine & theirs


def test_the_time_of_an_epoch_leaves_out_what_saving_takes(tmp_path, monkeypatch):
    """An hour for each checkpoint, on a clock that is put on."""
    hours = []
    clock = SimpleNamespace(perf_counter=lambda: time.perf_counter() + 3600 * len(hours))
    monkeypatch.setattr(loop, "time", clock)
    monkeypatch.setattr(loop, "save_checkpoint", lambda *_: hours.append(1))
    result = train(TrainConfig(**NUMBERS, num_epochs=2, workdir=str(tmp_path), checkpoint=True))
    assert len(hours) == 2
    assert max(epoch.training_time_s for epoch in result.ranks[0]) < 3600


def test_the_loss_falls_and_every_step_is_counted(tmp_path):
    events = []
    options = TINY | {"samples_per_epoch": 80, "n_embd": 32, "num_epochs": 4, "learning_rate": 3e-3}
    result = train(TrainConfig(**options, workdir=str(tmp_path)), on_progress=events.append)
    assert result.validation_loss < result.step_losses[0] - 0.5
    assert len(result.step_losses) == 4 * 10
    assert result.bleu is None  # plain text has no source
    last = [event for event in events if event["step"] == event["num_steps"]]
    assert [event["epoch"] for event in last] == [0, 1, 2, 3]
    assert [event["tokens"] for event in last] == [epoch.num_tokens for epoch in result.ranks[0]]
    assert all(early["seconds"] <= late["seconds"] for early, late in itertools.pairwise(events[:2]))
    assert json.loads(result.config.result_file.read_text())["validation_loss"] == pytest.approx(result.validation_loss)


def test_fewer_examples_than_ranks_are_refused(tmp_path):
    config = TrainConfig(**NUMBERS | {"samples_per_epoch": 1}, dp=2, workdir=str(tmp_path))
    with pytest.raises(RankError, match="dp 2 needs 2 training examples at least, not 1; give more samples"):
        train(config)


@pytest.mark.parametrize("num_long", [1, 4])
def test_a_row_whose_source_fills_it_is_passed_over_and_nothing_but_such_rows_is_refused(num_long, tmp_path):
    rows = [{"de": "eins " * (30 if number < num_long else 1), "en": "one"} for number in range(20)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = NUMBERS | {"dataset": str(tmp_path / "rows.jsonl"), "batch_size": 1, "samples_per_epoch": 4}
    config = TrainConfig(**options, num_epochs=2, tensorboard=True, checkpoint=True, workdir=str(tmp_path))
    if num_long == 4:
        with pytest.raises(ValueError, match="max_length 24 cuts off every target; give a larger max_length"):
            train(config)
    else:
        losses = train(config).step_losses
        assert [sum(map(math.isnan, losses[start : start + 4])) for start in (0, 4)] == [1, 1]


@pytest.mark.exhaustive
def test_a_pipeline_is_trained_in_a_short_way(tmp_path):
    """How many files of the package a reader has to open who follows a run on lanes, from the command to the result.

    In a process of its own, where no other test's model has left a hook that runs at each optimizer step.
    """
    sizes = "--batch-size 8 --samples-per-epoch 16 --validation-samples 4 --max-length 16 --n-layer 2 --n-embd 16"
    words = f"train --mode pipeline --num-microbatches 4 {sizes} --vocab-size 300 --num-epochs 1 --device cpu --quiet"
    command = [*words.split(), "--peak-flops", "1e9", "--workdir", str(tmp_path)]
    program = f"""
from pllab import cli
from tests.pipeline.tracer import way_of
way = way_of(lambda: cli.main({command}))
print(*sorted(way.files))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    files = done.stdout.splitlines()[-1].split()
    in_this_room = [file for file in files if file.startswith("train/")]
    assert "train/loop.py" in in_this_room and len(in_this_room) <= 9 and len(files) <= 45


def test_tensorboard_asks_for_gradient_norms_which_change_no_update(tmp_path):
    """In bfloat16."""
    options = {**TINY, "num_epochs": 1, "dtype": "bfloat16", "workdir": str(tmp_path)}
    result, unwatched = train(TrainConfig(**options, tensorboard=True)), train(TrainConfig(**options))
    assert 0.0 < result.validation_loss < 10.0
    assert all(step.gradient_norm > 0 for step in result.steps)
    assert [step.gradient_norm for step in unwatched.steps] == [None] * 2
    assert result.step_losses == unwatched.step_losses


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_gpu_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no CUDA GPU"):
        train(TrainConfig(**TINY | {"device": "cuda"}, workdir=str(tmp_path)))


CUDA = NUMBERS | {"n_layer": 4, "optimizer": "sgd", "learning_rate": 0.1, "device": "cuda"}


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs 1 GPU")
@pytest.mark.parametrize("name", LANES)
def test_modes_agree_on_one_gpu(name, tmp_path):
    """Stages share the GPU; float32 on a GPU adds in another order, so the bound is wider."""
    alone = train(TrainConfig(**CUDA, workdir=str(tmp_path)))
    result = train(TrainConfig(**CUDA, **LANES[name], workdir=str(tmp_path)))
    assert result.step_losses == pytest.approx(alone.step_losses, abs=1e-3)


@pytest.mark.cuda
@pytest.mark.parametrize("num_gpus", [1, 2])
def test_ranks_train_over_nccl(num_gpus, tmp_path):
    if torch.cuda.device_count() < num_gpus:
        pytest.skip(f"GPUs needed: {num_gpus}")
    alone = train(TrainConfig(**CUDA, workdir=str(tmp_path)))
    result = train(TrainConfig(**CUDA, mode="data_parallel", world_size=num_gpus, workdir=str(tmp_path)))
    assert "nccl" in result.backend
    assert result.step_losses == pytest.approx(alone.step_losses, abs=1e-3)
