"""The same code on GPUs. These tests need torch, transformers and pytest, and a GPU; others skip with their count.

`make exhaustive` runs them on the pretended GPU too, but for what it does not have: the marker `real_gpu` (compilation,
pinned memory, fused attention, a GPT-2 of 124M, contexts, the watchdog of nccl). Those have not been seen to pass yet,
for no real GPU was at hand; `python -m pytest -m cuda` runs them all.
"""

import copy
import time
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import GPT2LMHeadModel

from pllab import accelerator, comm
from pllab.comm.devices import gpu_backend, num_gpus, synchronize
from pllab.models import GPT2LMHeadModelParallel, gpt2_config
from pllab.parallel import DataParallel, average_gradients
from pllab.pipeline import LaneExecutor, Pipe, Step, to_torch
from pllab.schedule import Schedule, gpipe, interleaved, one_f_one_b, zb_h1
from pllab.train import TrainConfig, train

NUM_GPUS = num_gpus()
GPU = str(accelerator.gpu(0))
pytestmark = [pytest.mark.cuda, pytest.mark.skipif(NUM_GPUS < 1, reason=f"needs 1 GPU, found {NUM_GPUS}")]
needs_two = pytest.mark.skipif(NUM_GPUS < 2, reason=f"needs 2 GPUs, found {NUM_GPUS}")
needs_four = pytest.mark.skipif(NUM_GPUS < 4, reason=f"needs 4 GPUs, found {NUM_GPUS}")


def spread(count: int) -> list[str]:
    """`count` stages over the GPUs there are."""
    return [str(accelerator.gpu(index % max(1, NUM_GPUS))) for index in range(count)]


PAIRS = [[GPU, GPU]] if spread(2) == [GPU, GPU] else [[GPU, GPU], spread(2)]


def chain(width: int = 512, layers: int = 8, dropout: float = 0.0) -> list[nn.Sequential]:
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Dropout(dropout)) for _ in range(layers)]
    return [nn.Sequential(*blocks[: layers // 2]), nn.Sequential(*blocks[layers // 2 :])]


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


def test_dropout_follows_the_seed_with_two_stages_on_one_gpu() -> None:
    parts = on([GPU, GPU], chain(dropout=0.3))

    def output(seed: int, recompute: bool) -> torch.Tensor:
        with Pipe.from_partitions(parts, [GPU, GPU], num_microbatches=4, recompute=recompute) as pipe:
            torch.manual_seed(seed)
            pipe.zero_grad()
            y = pipe(torch.ones(32, 512, device=GPU))
            y.sum().backward()
            return torch.cat([y.detach().flatten(), *(p.grad.flatten() for p in pipe.parameters())])

    assert torch.equal(output(1, False), output(1, True))
    assert not torch.equal(output(1, False), output(2, False))


def test_stages_on_one_gpu_are_timed_by_events_in_a_legal_order() -> None:
    parts = on([GPU, GPU], chain(width=2048))
    with Pipe.from_partitions(parts, [GPU, GPU], num_microbatches=4) as pipe:
        pipe(torch.randn(256, 2048, device=GPU)).sum().backward()
        pipe(torch.randn(256, 2048, device=GPU)).sum().backward()
        timeline = pipe.last_timeline
    spans = {str(span.action): span for span in timeline.spans}
    assert len(spans) == 16 and all(span.duration > 0 for span in spans.values())
    slack = 1e-4  # events resolve about half a microsecond; the host's base a little more
    assert all(spans[f"0F{i}"].end <= spans[f"1F{i}"].start + slack for i in range(4))
    assert all(spans[f"1B{i}"].end <= spans[f"0B{i}"].start + slack for i in range(4))


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


@pytest.mark.parametrize("world_size", [1, pytest.param(2, marks=needs_two), pytest.param(4, marks=needs_four)])
@pytest.mark.parametrize("strategy", [None, "flat", "overlapped", "average"])
def test_data_parallel_over_nccl_gives_the_one_process_gradient(world_size: int, strategy: str | None) -> None:
    results = comm.launch(_step, world_size, strategy, backend=gpu_backend(), timeout_s=180)
    for backend, name, error in results:
        assert backend == gpu_backend() and error < 1e-4
        assert strategy is not None or name == "overlapped"


def mse(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output - target).square().mean()


def assert_same_gradients(parts: list[nn.Sequential], plain: nn.Sequential) -> None:
    for a, b in zip(nn.Sequential(*parts).parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a.grad.to(b.grad.device), b.grad)


def assert_legal(schedule: Schedule, step: Step) -> None:
    """Every action ran, in its row's order, and none began before the F it takes from had ended."""
    spans = {span.action: span for span in step.timeline.spans}
    slack = 1e-4  # events resolve about half a microsecond; two clocks on one host a little more
    for row in schedule.rows:
        starts = [spans[action].start for action in row]
        assert starts == sorted(starts)
    for action, span in spans.items():
        assert span.duration > 0
        if action.kind == "F" and action.stage:
            assert spans[action._replace(stage=action.stage - 1)].end <= span.start + slack


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
    assert_legal(schedule, step)


def test_lanes_find_the_gpu_their_stages_are_on() -> None:
    parts = on(spread(2), chain())
    with LaneExecutor(gpipe(2, 2), parts, mse, timeout_s=60) as executor:
        assert [str(device) for device in executor._lanes.devices] == spread(2)
        assert executor.step(torch.randn(4, 512), torch.randn(4, 512)).loss > 0


@pytest.mark.parametrize("first", [nn.ReLU(inplace=True), nn.Dropout(0.0, inplace=True)])
def test_a_stage_that_begins_in_place_leaves_what_another_stream_reads(first: nn.Module) -> None:
    parts = [nn.Sequential(copy.deepcopy(first), nn.Linear(512, 512), nn.Tanh()) for _ in range(2)]
    parts = on(spread(2), parts)
    plain = nn.Sequential(*(layer for part in copy.deepcopy(parts) for layer in part)).to(GPU)
    for layer in plain:
        if hasattr(layer, "inplace"):
            layer.inplace = False
    x, y = torch.randn(2, 64, 512, device=GPU).unbind()
    before = x.clone()
    with LaneExecutor(zb_h1(2, 4), parts, mse, timeout_s=60) as executor:
        executor.step(x, y)
    mse(plain(x), y).backward()
    assert torch.equal(x, before)
    assert_same_gradients(parts, plain)


def test_a_recomputed_stage_draws_the_same_masks_on_a_gpu() -> None:
    """`functional.dropout` is one kernel on a GPU, `nn.Dropout` is ours: both follow the seed."""

    class Drops(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.dropout(x, 0.5, self.training)

    x, seen = torch.randn(8, 64), []
    for recompute in (False, True):
        torch.manual_seed(0)
        stages = [nn.Sequential(nn.Linear(64, 64), part, nn.Linear(64, 64)) for part in (nn.Dropout(0.5), Drops())]
        with LaneExecutor(zb_h1(2, 4), on(spread(2), stages), mse, recompute=recompute) as executor:
            torch.manual_seed(7)
            loss = executor.step(x, x).loss
        seen.append([loss, *(parameter.grad.clone() for stage in stages for parameter in stage.parameters())])
    assert seen[0][0] == seen[1][0]
    for plain, again in zip(seen[0][1:], seen[1][1:], strict=True):
        torch.testing.assert_close(plain, again)


def _schedule_step(rank: int, world_size: int, name: str) -> tuple[str | None, float, float]:
    """Backend, error of the loss and of the worst gradient of a second step over nccl, on PyTorch's runtime."""
    makes = {"gpipe": gpipe, "1f1b": one_f_one_b, "zb_h1": zb_h1, "interleaved": interleaved}
    schedule, device = makes[name](world_size, 4), comm.own_device()
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


@pytest.mark.parametrize("world_size", [1, pytest.param(2, marks=needs_two), pytest.param(4, marks=needs_four)])
@pytest.mark.parametrize("name", ["gpipe", "1f1b", "zb_h1", "interleaved"])
def test_ranks_over_nccl_equal_the_plain_model(world_size: int, name: str) -> None:
    outcomes = comm.launch(_schedule_step, world_size, name, backend=gpu_backend(), timeout_s=180)
    for backend, loss, gradient in outcomes:
        assert backend == gpu_backend() and loss < 1e-4 and gradient < 1e-5


def _touched(rank: int, world_size: int) -> list[int]:
    """The GPUs on which this rank has a context after a step and all that waits for it."""
    _step(rank, world_size, None)
    return [index for index in range(NUM_GPUS) if torch._C._cuda_hasPrimaryContext(index)]


@pytest.mark.real_gpu
@needs_two
def test_a_rank_has_a_context_on_its_own_gpu_alone() -> None:
    assert comm.launch(_touched, 2, timeout_s=180) == [[0], [1]]


def _late(rank: int, world_size: int) -> None:
    comm.all_reduce(torch.ones(2, device=comm.own_device()))
    time.sleep(60.0 * rank)
    comm.all_reduce(torch.ones(2, device=comm.own_device()))
    synchronize()


@pytest.mark.real_gpu
@needs_two
def test_a_late_peer_ends_the_ranks_in_a_sentence() -> None:
    """nccl's watchdog ends the process of the rank that waits; the owner says which."""
    with pytest.raises(comm.RankError, match="rank 0"):
        comm.launch(_late, 2, timeout_s=20)


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
