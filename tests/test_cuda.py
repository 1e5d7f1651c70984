"""The same code on GPUs. These tests need torch, transformers and pytest, and a GPU; others skip with their count.

`make exhaustive` runs them on the pretended GPU too, but for what it does not have: the marker `real_gpu` (compilation,
pinned memory, fused attention, a GPT-2 of 124M, contexts, the watchdog of nccl). Those have not been seen to pass yet,
for no real GPU was at hand; `python -m pytest -m cuda` runs them all.
"""

import copy
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from transformers import GPT2LMHeadModel

from pllab import accelerator, comm
from pllab.comm.devices import gpu_backend, num_gpus, synchronize
from pllab.models import GPT2LMHeadModelParallel, gpt2_config
from pllab.parallel import DataParallel, average_gradients
from pllab.pipeline import LaneExecutor, Pipe, calibrate, to_torch
from pllab.schedule import FAMILIES, Schedule, gpipe, one_f_one_b, zb_h1
from pllab.timeline import Timeline
from pllab.train import TrainConfig, train
from tests.pipeline.steps import ENGINES, Apply, assert_close, assert_in_order, gradients_of, mse, step_on

NUM_GPUS = num_gpus()
GPU = str(accelerator.gpu(0))
pytestmark = [pytest.mark.cuda, pytest.mark.skipif(NUM_GPUS < 1, reason=f"needs 1 GPU, found {NUM_GPUS}")]
needs_two = pytest.mark.skipif(NUM_GPUS < 2, reason=f"needs 2 GPUs, found {NUM_GPUS}")
needs_four = pytest.mark.skipif(NUM_GPUS < 4, reason=f"needs 4 GPUs, found {NUM_GPUS}")


def spread(count: int) -> list[str]:
    """`count` stages over the GPUs there are."""
    return [str(accelerator.gpu(index % max(1, NUM_GPUS))) for index in range(count)]


PAIRS = [[GPU, GPU]] if spread(2) == [GPU, GPU] else [[GPU, GPU], spread(2)]


def chain(width: int = 512) -> list[nn.Sequential]:
    torch.manual_seed(0)
    return [nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(4))) for _ in range(2)]


def on(devices: list[str], parts: list[nn.Sequential]) -> list[nn.Sequential]:
    return [part.to(device) for part, device in zip(parts, devices, strict=True)]


@pytest.mark.parametrize("devices", PAIRS)
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("start", ["cpu", GPU])
def test_pipe_trains_as_the_plain_model_over_many_steps(devices: list[str], recompute: bool, start: str) -> None:
    """A missing wait between streams shows as a wrong gradient in one of many steps.

    The optimizer runs on the caller's stream between batches; stages must wait for it, and it for them.
    """
    parts = chain()
    plain = copy.deepcopy(nn.Sequential(*parts)).to(GPU)
    with Pipe.from_partitions(on(devices, parts), devices, num_microbatches=8, recompute=recompute) as pipe:
        optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (pipe, plain)]
        for step in range(20):
            x = torch.randn(64, 512, device=start).requires_grad_()
            z = x.detach().to(GPU).requires_grad_()
            pipe.zero_grad()
            plain.zero_grad()
            y = pipe(x)
            assert y.device == torch.device(devices[-1])
            y.square().mean().backward()
            expected = plain(z)
            expected.square().mean().backward()
            torch.testing.assert_close(y.to(GPU), expected, msg=f"output of step {step}")
            torch.testing.assert_close(x.grad.to(GPU), z.grad)
            for a, b in zip(pipe.parameters(), plain.parameters(), strict=True):
                torch.testing.assert_close(a.grad.to(GPU), b.grad)
            for optimizer in optimizers:
                optimizer.step()


def test_stages_on_one_gpu_are_timed_by_events_in_a_legal_order() -> None:
    with Pipe.from_partitions(on([GPU, GPU], chain(2048)), [GPU, GPU], num_microbatches=4) as pipe:
        for _ in range(2):
            pipe(torch.randn(256, 2048, device=GPU)).sum().backward()
        assert_timed(pipe.schedule, pipe.last_timeline)


@pytest.mark.real_gpu
@pytest.mark.parametrize("devices", [spread(2), pytest.param(spread(4), marks=needs_four)])
def test_gpt2_124m_takes_the_same_step_as_transformers(devices: list[str]) -> None:
    config = gpt2_config("gpt2", vocab_size=50257)
    torch.manual_seed(0)
    model = GPT2LMHeadModelParallel(config)
    plain = GPT2LMHeadModel(config)
    plain.load_state_dict(model.state_dict())
    plain.to(GPU)
    model.parallelize(devices, time=256)
    model.prepare_pipeline_parallel(num_microbatches=4)
    ids = torch.randint(50257, (8, 256), device=GPU)
    loss, expected = model(ids, labels=ids).loss, plain(ids, labels=ids).loss
    torch.testing.assert_close(loss.to(GPU), expected, rtol=1e-4, atol=1e-4)
    loss.backward()
    expected.backward()
    for (name, a), (_, b) in zip(model.named_parameters(), plain.named_parameters(), strict=True):
        error = (a.grad.to(GPU) - b.grad).norm() / b.grad.norm()
        assert error < 1e-3, f"{name}: {error:.1e}"
    model.close()


@pytest.mark.real_gpu
def test_gpt2_124m_trains_in_bfloat16() -> None:
    torch.manual_seed(0)
    model = GPT2LMHeadModelParallel(gpt2_config("gpt2", vocab_size=50257)).to(torch.bfloat16)
    model.parallelize(spread(2), time=256)
    model.prepare_pipeline_parallel(num_microbatches=4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ids = torch.randint(50257, (8, 256), device=GPU)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = model(ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 1.0
    model.close()


def _step(rank: int, world_size: int, strategy: str | None) -> tuple[str, str, float]:
    """One step of a small GPT-2 on this rank's share: backend, strategy, and the distance from one process."""
    device = comm.own_device()
    torch.manual_seed(0)
    model = GPT2LMHeadModelParallel(gpt2_config("small")).to(device)
    plain = copy.deepcopy(model)
    ids = torch.randint(2048, (4 * world_size, 64), device=device, generator=torch.Generator(device).manual_seed(1))
    plain(ids, labels=ids).loss.backward()
    mine = ids[4 * rank : 4 * rank + 4]
    name = "average"
    if strategy == "average":
        model(mine, labels=mine).loss.backward()
        average_gradients(model)
    else:
        wrapped = DataParallel(model, strategy=strategy)
        name = wrapped.strategy
        wrapped(mine, labels=mine).loss.backward()
    synchronize()
    pairs = zip(model.parameters(), plain.parameters(), strict=True)
    return comm.backend_name(), name, max(((a.grad - b.grad).norm() / b.grad.norm()).item() for a, b in pairs)


def _each(rank: int, world_size: int, program: Callable[..., Any], values: Sequence[Any]) -> dict[Any, Any]:
    """One program after another in the same ranks, which take longer to start."""
    return {value: program(rank, world_size, value) for value in values}


NUMBERS_OF_RANKS = [1, pytest.param(2, marks=needs_two), pytest.param(4, marks=needs_four)]


@pytest.mark.parametrize("world_size", NUMBERS_OF_RANKS)
def test_data_parallel_over_nccl_gives_the_one_process_gradient(world_size: int) -> None:
    strategies = (None, "flat", "overlapped", "average")
    for of_rank in comm.launch(_each, world_size, _step, strategies, backend=gpu_backend(), timeout_s=180):
        assert {backend for backend, _, _ in of_rank.values()} == {gpu_backend()}
        assert {strategy: error for strategy, (_, _, error) in of_rank.items() if not error < 1e-4} == {}
        assert of_rank[None][1] == "overlapped"


def assert_same_gradients(parts: list[nn.Sequential], plain: nn.Sequential) -> None:
    for a, b in zip(nn.Sequential(*parts).parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a.grad.to(b.grad.device), b.grad)


def assert_timed(schedule: Schedule, timeline: Timeline) -> None:
    """Events resolve about half a microsecond; the host's base, or two clocks on one host, a little more."""
    assert_in_order(schedule, timeline, slack=1e-4)
    assert all(span.duration > 0 for span in timeline.spans)


@pytest.mark.parametrize("make", [gpipe, one_f_one_b, zb_h1])
@pytest.mark.parametrize("devices", [spread(2), [GPU, "cpu:0"], ["cpu:0", GPU]])
@pytest.mark.parametrize("start", ["cpu", GPU])
def test_lanes_equal_the_plain_model_over_many_steps(make, devices: list[str], start: str) -> None:
    """Two lanes on one GPU, one on each of two, and one beside a CPU lane; whole and split backwards."""
    parts, schedule = chain(), make(2, 4)
    plain = copy.deepcopy(nn.Sequential(*parts)).to(GPU)
    with LaneExecutor(schedule, parts, mse, devices=devices, timeout_s=60) as executor:
        for _ in range(10):
            x, y = torch.randn(2, 64, 512, device=start).unbind()
            nn.Sequential(*parts).zero_grad()
            plain.zero_grad()
            step = executor.step(x, y)
            loss = mse(plain(x.to(GPU)), y.to(GPU))
            loss.backward()
            assert step.loss == pytest.approx(loss.item(), rel=1e-4)
            assert_same_gradients(parts, plain)
    assert_timed(schedule, step.timeline)


def test_lanes_find_the_gpu_their_stages_are_on() -> None:
    parts = on(spread(2), chain())
    with LaneExecutor(gpipe(2, 2), parts, mse, timeout_s=60) as executor:
        assert [str(device) for device in executor._lanes.devices] == spread(2)
        assert executor.step(torch.randn(4, 512), torch.randn(4, 512)).loss > 0


def test_what_is_measured_on_gpus_keeps_its_gradients_of_the_cpu() -> None:
    """A parameter takes a gradient only from its device."""
    parts, x = chain(8), torch.randn(8, 8)
    nn.Sequential(*parts)(x).sum().backward()
    before = gradients_of(*parts)
    calibrate(parts, x, x, mse, num_microbatches=4, devices=spread(2), repeats=1)
    assert_close([gradient.cpu() for gradient in gradients_of(*parts)], before)


def test_a_gpt2_that_was_on_two_devices_generates_once_it_is_closed() -> None:
    model = GPT2LMHeadModelParallel(gpt2_config("tiny", vocab_size=64)).eval()
    ids, plain = torch.randint(64, (2, 8)), copy.deepcopy(model)
    model.parallelize([GPU, "cpu:0"])
    model.close()
    options = {"max_new_tokens": 3, "do_sample": False}
    assert torch.equal(model.generate(ids.to(GPU), **options).cpu(), plain.generate(ids, **options))


def test_the_number_of_targets_may_be_on_the_device_of_the_labels() -> None:
    """The loss is on the last device, and two GPUs do not divide by each other's numbers."""
    model = GPT2LMHeadModelParallel(gpt2_config("tiny", vocab_size=64))
    ids, plain = torch.randint(64, (2, 8)), copy.deepcopy(model)
    model.parallelize([GPU, "cpu:0"])
    count = torch.tensor(7)
    with torch.no_grad():
        loss = model(ids.to(GPU), labels=ids.to(GPU), num_items_in_batch=count.to(GPU)).loss
        assert_close([loss], [plain(ids, labels=ids, num_items_in_batch=count).loss])
    model.close()


@pytest.mark.parametrize("devices", PAIRS)
@pytest.mark.parametrize("engine", ENGINES)
def test_masks_follow_the_seed_and_are_the_same_when_they_are_drawn_again(engine: str, devices: list[str]) -> None:
    """`functional.dropout` is one kernel on a GPU, `nn.Dropout` is ours."""
    drops, x, seen = Apply(lambda x: nn.functional.dropout(x, 0.5)), torch.randn(8, 64), []
    for seed, recompute in ((7, False), (7, True), (8, False)):
        torch.manual_seed(0)
        stages = [nn.Sequential(nn.Linear(64, 64), part, nn.Linear(64, 64)) for part in (nn.Dropout(0.5), drops)]
        torch.manual_seed(seed)
        loss, _ = step_on(engine, on(devices, stages), x, x, recompute=recompute, devices=devices)
        seen.append([torch.tensor(loss), *gradients_of(*stages)])
    assert_close(seen[1], seen[0])
    assert seen[1][0] == seen[0][0] != seen[2][0]
    assert engine == "lanes" or all(map(torch.equal, seen[1], seen[0]))


def _schedule_step(rank: int, world_size: int, name: str) -> tuple[str | None, float, float]:
    """Backend, error of the loss and of the worst gradient of a second step over nccl, on PyTorch's runtime."""
    schedule, device = FAMILIES[name].make(world_size, 4), comm.own_device()
    torch.manual_seed(0)
    stages = [nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(schedule.num_stages)]
    plain = copy.deepcopy(nn.Sequential(*stages)).to(device)
    mine = {stage: stages[stage].to(device) for stage in schedule.stages_of_rank(rank)}
    runtime = to_torch(schedule, mine, mse)
    x, y = torch.randn(2, 16, 64, device=device).unbind()
    target = {"target": y} if schedule.num_stages - 1 in mine else {}
    for _ in range(2):  # the first step settles the shapes
        nn.ModuleList(mine.values()).zero_grad()
        losses: list[torch.Tensor] = []
        runtime.step(*([x] if 0 in mine else []), **target, losses=losses)
    total = torch.stack([torch.zeros((), device=device), *(loss.detach() for loss in losses)]).sum()
    comm.all_reduce(total)
    loss = mse(plain(x), y)
    loss.backward()
    pairs = [pair for stage in mine for pair in zip(stages[stage].parameters(), plain[stage].parameters(), strict=True)]
    worst = max((a.grad - b.grad).abs().max().item() for a, b in pairs)
    return comm.backend_name(), abs(total.item() - loss.item()), worst


@pytest.mark.parametrize("world_size", NUMBERS_OF_RANKS)
def test_ranks_over_nccl_equal_the_plain_model(world_size: int) -> None:
    names = ("gpipe", "1f1b", "zb_h1", "interleaved")
    for of_rank in comm.launch(_each, world_size, _schedule_step, names, backend=gpu_backend(), timeout_s=180):
        for name, (backend, loss, gradient) in of_rank.items():
            assert backend == gpu_backend() and loss < 1e-4 and gradient < 1e-5, name


def _touched(rank: int, world_size: int) -> list[int]:
    """The GPUs on which this rank has a context after a step and all that waits for it."""
    _step(rank, world_size, None)
    return [index for index in range(NUM_GPUS) if torch._C._cuda_hasPrimaryContext(index)]


@pytest.mark.real_gpu
@needs_two
def test_a_rank_has_a_context_on_its_own_gpu_alone() -> None:
    assert comm.launch(_touched, 2, timeout_s=180) == [[0], [1]]


def _late(rank: int, world_size: int) -> None:
    impatient = dist.new_group(timeout=timedelta(seconds=10))
    comm.all_reduce(torch.ones(2, device=comm.own_device()), group=impatient)
    time.sleep(120.0 * rank)
    comm.all_reduce(torch.ones(2, device=comm.own_device()), group=impatient)
    synchronize()


@pytest.mark.real_gpu
@needs_two
def test_a_late_peer_ends_the_ranks_in_a_sentence() -> None:
    """nccl's watchdog ends the process of the rank that waits, long before its owner would; the owner says which."""
    with pytest.raises(comm.RankError, match="^rank 0 (was killed|ended|raised)"):
        comm.launch(_late, 2, timeout_s=60)


@pytest.mark.real_gpu
def test_the_peak_of_a_small_model_is_not_the_rulers(tmp_path: Path) -> None:
    """The ruler of FLOP/s multiplies matrices of half a gigabyte after the training."""
    config = TrainConfig(samples_per_epoch=64, num_epochs=1, workdir=str(tmp_path))
    assert 0 < max(train(config).metrics.peak_memory_bytes) < 2**28


@needs_two
def test_a_ring_passes_on_over_the_backend_of_gpus() -> None:
    assert comm.launch(_passed, 2, timeout_s=180) == [[1.0], [0.0]]


def _passed(rank: int, world_size: int) -> list[float]:
    return comm.ring_pass(torch.full((1,), float(rank), device=comm.own_device())).tolist()
