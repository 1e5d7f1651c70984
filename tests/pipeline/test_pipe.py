import atexit
import copy
import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pllab.pipeline import LaneExecutor, Pipe, WithDevice, Workers
from pllab.schedule import breadth_first, check, gpipe


def layers(dropout: float = 0.0) -> list[nn.Module]:
    torch.manual_seed(0)
    parts: list[nn.Module] = []
    for _ in range(4):
        parts += [nn.Linear(6, 6), nn.Tanh(), nn.Dropout(dropout)]
    return parts


def on_lanes(parts: list[nn.Module], lanes: int = 2) -> nn.Sequential:
    return nn.Sequential(*(WithDevice(part, f"cpu:{index * lanes // len(parts)}") for index, part in enumerate(parts)))


def gradients(module: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None, list[torch.Tensor]]:
    module.zero_grad()
    x = x.clone().requires_grad_()
    y = module(x)
    (y * torch.arange(y.numel()).view_as(y)).mean().backward()
    return y.detach(), x.grad, [p.grad.clone() for p in module.parameters() if p.grad is not None]


def assert_same(module: nn.Module, plain: nn.Module, x: torch.Tensor) -> None:
    (y, dx, dw), (y_, dx_, dw_) = gradients(module, x), gradients(plain, x)
    torch.testing.assert_close(y, y_)
    torch.testing.assert_close(dx, dx_)
    assert len(dw) == len(dw_)
    for a, b in zip(dw, dw_, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("rows", range(1, 8))
@pytest.mark.parametrize("split_size", [1, 2, 3, 9])
def test_output_and_gradients_equal_the_plain_model(rows: int, split_size: int) -> None:
    parts = layers()
    plain = copy.deepcopy(nn.Sequential(*parts))
    with Pipe(on_lanes(parts), split_size, timeout_s=20) as pipe:
        assert_same(pipe, plain, torch.randn(rows, 6))


@pytest.mark.parametrize("lanes", [1, 3, 4])
@pytest.mark.parametrize("recompute", [False, True])
def test_any_number_of_lanes_with_and_without_recompute(lanes: int, recompute: bool) -> None:
    parts = layers()
    plain = copy.deepcopy(nn.Sequential(*parts))
    with Pipe(on_lanes(parts, lanes), num_microbatches=3, recompute=recompute, timeout_s=20) as pipe:
        for _ in range(3):
            assert_same(pipe, plain, torch.randn(7, 6))


def test_a_lane_that_holds_two_stages() -> None:
    parts = layers()
    plain = copy.deepcopy(nn.Sequential(*parts))
    seq = nn.Sequential(*(WithDevice(part, f"cpu:{(index // 3) % 2}") for index, part in enumerate(parts)))
    with Pipe(seq, 2, timeout_s=20) as pipe:
        assert len(pipe.partitions) == 4
        assert_same(pipe, plain, torch.randn(6, 6))
        assert pipe.last_timeline.num_ranks == 2


def test_split_size_is_a_number_of_rows_and_num_microbatches_a_count() -> None:
    with Pipe(on_lanes(layers()), split_size=2) as pipe:
        pipe(torch.randn(8, 6))
        assert len(pipe.last_timeline.of_rank(0)) == 4
    with Pipe(on_lanes(layers()), num_microbatches=2) as pipe:
        pipe(torch.randn(8, 6))
        assert len(pipe.last_timeline.of_rank(0)) == 2


def test_a_size_and_a_number_of_micro_batches_are_refused_together() -> None:
    with pytest.raises(ValueError, match="split_size is 2 and num_microbatches 4: .*; give one of them"):
        Pipe(on_lanes(layers()), split_size=2, num_microbatches=4)


def test_tuples_travel_and_whole_numbers_carry_no_gradient() -> None:
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, value: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
            x, index = value
            return x * self.weight[index], index

    scales = [Scale(), Scale()]
    x, index = torch.randn(5, requires_grad=True), torch.tensor([0, 1, 2, 0, 1])
    with Pipe(on_lanes([*scales]), 2) as pipe:
        y, index_out = pipe((x, index))
        y.sum().backward()
    assert torch.equal(index_out, index) and not index_out.requires_grad
    torch.testing.assert_close(x.grad, torch.ones(5))
    expected = torch.zeros(3).index_add(0, index, x.detach())
    torch.testing.assert_close(scales[0].weight.grad, expected)
    torch.testing.assert_close(scales[1].weight.grad, expected)


def test_a_parameter_in_two_stages_gets_both_gradients() -> None:
    torch.manual_seed(0)
    first, last = nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False)
    last.weight = first.weight
    parts = [first, nn.Tanh(), last]
    plain = copy.deepcopy(nn.Sequential(*parts))
    seq = nn.Sequential(*(WithDevice(part, f"cpu:{lane}") for part, lane in zip(parts, (0, 0, 1), strict=True)))
    with Pipe(seq, 2, timeout_s=20) as pipe:
        for _ in range(2):
            assert_same(pipe, plain, torch.randn(7, 6))


@pytest.mark.parametrize("run", ["pipe", "lanes"])
def test_a_later_stage_works_with_a_shadow_so_that_two_workers_never_add_to_one_gradient(run: str) -> None:
    saw_the_parameter = []

    class Watched(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            saw_the_parameter.append((threading.current_thread().name, self.weight is weight))
            return super().forward(x)

    first, second, x = Watched(6, 6), Watched(6, 6), torch.randn(2, 6)
    weight = second.weight = first.weight
    if run == "pipe":
        with Pipe(on_lanes([first, second]), 2) as pipe:
            pipe(x).sum().backward()
    else:
        with LaneExecutor(gpipe(2, 1), [first, second], nn.functional.mse_loss) as executor:
            executor.step(x, x)
    assert sorted(saw_the_parameter) == [("pllab-cpu:0", True), ("pllab-cpu:1", False)]


def test_a_module_in_two_stages_is_refused() -> None:
    layer = nn.Linear(6, 6)
    with pytest.raises(ValueError, match="same module"):
        Pipe(nn.Sequential(WithDevice(layer, "cpu:0"), WithDevice(layer, "cpu:1")))


def test_frozen_layers_get_no_gradient_and_stop_none() -> None:
    parts = layers()
    for part in parts[:3] + parts[6:9]:
        part.requires_grad_(False)
    plain = copy.deepcopy(nn.Sequential(*parts))
    for recompute in (False, True):
        with Pipe(on_lanes(parts, 4), 2, recompute=recompute) as pipe:
            assert_same(pipe, plain, torch.randn(5, 6))


def test_input_without_gradient_and_grad_mode_off() -> None:
    with Pipe(on_lanes(layers()), 2) as pipe:
        assert pipe(torch.randn(4, 6)).requires_grad
        with torch.no_grad():
            assert not pipe(torch.randn(4, 6)).requires_grad
        pipe.requires_grad_(False)
        assert not pipe(torch.randn(4, 6)).requires_grad


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_reaches_the_workers(dtype: torch.dtype) -> None:
    with Pipe(on_lanes([nn.Linear(6, 6), nn.Linear(6, 6)]), 2) as pipe, torch.autocast("cpu", dtype=dtype):
        assert pipe(torch.randn(4, 6)).dtype == dtype


def test_two_batches_in_flight_keep_their_own_activations() -> None:
    parts = layers()
    plain = copy.deepcopy(nn.Sequential(*parts))
    x, z = torch.randn(4, 6), torch.randn(4, 6)
    with Pipe(on_lanes(parts), 2) as pipe:
        (pipe(x) * pipe(z)).sum().backward()
    (plain(x) * plain(z)).sum().backward()
    for a, b in zip(pipe.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_backward_twice_is_refused() -> None:
    with Pipe(on_lanes(layers()), 2) as pipe:
        loss = pipe(torch.randn(4, 6)).sum()
        loss.backward(retain_graph=True)
        with pytest.raises(RuntimeError, match="went backward before"):
            loss.backward()


class Fails(nn.Module):
    """Raise in forward, or in the backward of the given call."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.where == "forward":
            raise ZeroDivisionError("by design")
        if self.where == "backward":
            x.register_hook(self._fail)
        return x * 1.0

    def _fail(self, grad: torch.Tensor) -> None:
        raise ZeroDivisionError("by design")


@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize("stage", [0, 1, 2])
def test_an_exception_travels_with_its_stage_and_the_workers_survive(where: str, stage: int) -> None:
    parts: list[nn.Module] = [nn.Linear(6, 6) for _ in range(3)]
    bad = Fails(where)
    parts[stage] = nn.Sequential(parts[stage], bad)
    with Pipe(on_lanes(parts, 3), 1, timeout_s=20) as pipe:
        with pytest.raises(ZeroDivisionError, match="by design") as caught:
            pipe(torch.randn(4, 6)).sum().backward()
        assert any(f"stage {stage}" in note for note in caught.value.__notes__)
        threads = set(threading.enumerate())
        bad.where = "nowhere"
        pipe(torch.randn(4, 6)).sum().backward()
        assert set(threading.enumerate()) == threads


def test_a_stage_that_hangs_ends_in_a_sentence_and_the_pipe_works_again(monkeypatch: pytest.MonkeyPatch) -> None:
    release, at_exit, register = threading.Event(), list[Any](), atexit.register
    monkeypatch.setattr("atexit.register", lambda call: at_exit.append(call) or register(call))

    class Hang(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            release.wait(20)
            return x

    with Pipe(on_lanes([nn.Linear(6, 6), Hang()]), 1, timeout_s=20) as pipe:
        release.set()
        pipe(torch.randn(4, 6))  # the first call makes what the later ones use
        release.clear()
        pipe.timeout_s = 1.0
        with pytest.raises(TimeoutError, match="stage 1 has not finished micro-batch 0"):
            pipe(torch.randn(4, 6))
        pipe.timeout_s = 20
        release.set()
        assert pipe(torch.randn(4, 6)).shape == (4, 6)
    (close,) = [call for call in at_exit if isinstance(getattr(call, "__self__", None), Workers)]
    late: Workers = close.__self__
    assert late.in_queues == late.out_queues == []  # only the late threads are kept until the process ends
    close()  # a thread that is inside torch when Python ends would abort it
    assert late.threads and not any(thread.is_alive() for thread in late.threads)


def test_the_workers_survive_a_stage_whose_own_wait_was_too_long() -> None:
    class Waits(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if (x == 0).all():
                raise TimeoutError("its own")
            return x

    with Pipe(on_lanes([nn.Identity(), Waits()]), 1, timeout_s=20) as pipe:
        pipe(torch.ones(2, 6))
        threads = set(threading.enumerate())
        with pytest.raises(TimeoutError, match="its own"):
            pipe(torch.zeros(2, 6))
        pipe(torch.ones(2, 6))
        assert set(threading.enumerate()) == threads


@pytest.mark.exhaustive
def test_an_interrupt_stops_the_run_and_the_pipe_works_again() -> None:
    class Interrupts(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not interrupted.is_set():
                interrupted.set()
                os.kill(os.getpid(), signal.SIGINT)
                over.wait(10)
            return x

    interrupted, over = threading.Event(), threading.Event()
    with Pipe(on_lanes([nn.Linear(6, 6), Interrupts()]), 1, timeout_s=20) as pipe:
        with pytest.raises(KeyboardInterrupt):
            pipe(torch.randn(4, 6))
        over.set()
        assert pipe(torch.randn(4, 6)).shape == (4, 6)


_INTERRUPTED = """
import os, signal, sys, torch
from torch import nn
from pllab.pipeline import Pipe

class Works(nn.Module):
    def forward(self, x):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(2000):
            torch.mm(x, x)
        return x

try:
    Pipe(nn.Sequential(Works()), 200)(torch.ones(200, 200))
except KeyboardInterrupt:
    print("interrupted", "torch._dynamo" in sys.modules)
"""


@pytest.mark.exhaustive
def test_a_program_that_ends_after_an_interrupt_waits_for_what_its_lanes_still_compute() -> None:
    """Python aborted ("terminate called without an active exception"), because it ends threads inside torch.

    And the first batch imports no compiler, which takes seconds.
    """
    done = subprocess.run([sys.executable, "-c", _INTERRUPTED], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted False\n", "")


def test_no_thread_outlives_the_pipe(threads_left: Callable[[], set[threading.Thread]]) -> None:
    with Pipe(on_lanes(layers()), 2) as pipe:
        pipe(torch.randn(4, 6)).sum().backward()
    assert not threads_left()
    forgotten = Pipe(on_lanes(layers()), 2)
    forgotten(torch.randn(4, 6))
    gone = weakref.ref(forgotten)
    del forgotten
    gc.collect()
    assert gone() is None and not threads_left()


def test_activations_are_freed_by_backward() -> None:
    with Pipe(on_lanes(layers()), 1) as pipe:
        alive: list[weakref.ref[torch.Tensor]] = []
        hook = pipe.partitions[1][0].register_forward_hook(lambda *parts: alive.append(weakref.ref(parts[2])))
        pipe(torch.randn(4, 6)).sum().backward()
        hook.remove()
        gc.collect()
        assert len(alive) == 4 and all(tensor() is None for tensor in alive)


@pytest.mark.parametrize("recompute", [False, True])
def test_dropout_depends_on_the_seed_and_on_nothing_else(recompute: bool) -> None:
    def once(seed: int, recompute: bool) -> list[torch.Tensor]:
        with Pipe(on_lanes(layers(dropout=0.5)), 2, recompute=recompute) as pipe:
            torch.manual_seed(seed)
            y, dx, dw = gradients(pipe, torch.ones(6, 6))
            assert dx is not None
            return [y, dx, *dw]

    first = once(1, False)
    assert all(torch.equal(a, b) for _ in range(5) for a, b in zip(first, once(1, recompute), strict=True))
    assert not torch.equal(first[0], once(2, recompute)[0])


def test_dropout_masks_differ_between_stages_and_micro_batches_and_keep_the_mean() -> None:
    parts: list[nn.Module] = [nn.Dropout(0.5), nn.Dropout(0.5)]
    with Pipe(on_lanes(parts), 100) as pipe:
        torch.manual_seed(0)
        both = pipe(torch.ones(200, 100))
        parts[1].eval()
        torch.manual_seed(0)
        first = pipe(torch.ones(200, 100))
    assert not torch.equal(first[:100], first[100:])
    assert set(first.unique().tolist()) == {0.0, 2.0} and set(both.unique().tolist()) == {0.0, 4.0}
    assert abs(both.mean().item() - 1.0) < 0.05  # 20,000 draws: five standard deviations are 0.06


def test_the_timeline_holds_every_action_once_in_a_legal_order() -> None:
    with Pipe(on_lanes(layers()), 1) as pipe:
        pipe(torch.randn(3, 6)).sum().backward()
        timeline = pipe.last_timeline
    spans = {str(span.action): span for span in timeline.spans}
    assert set(spans) == {f"{stage}{kind}{i}" for stage in range(2) for kind in "FB" for i in range(3)}
    for i in range(3):
        assert spans[f"0F{i}"].end <= spans[f"1F{i}"].start
        assert spans[f"1B{i}"].end <= spans[f"0B{i}"].start
    assert timeline.engine == "real" and timeline.start == 0.0
    assert timeline.peak_in_flight == (3.0, 3.0)  # GPipe holds every micro-batch until backward


@pytest.mark.parametrize(
    ("stage", "sentence"),
    [(lambda x: x.sum(), "one value per row"), (lambda x: {"x": x}, "stage 1 has dict")],
)
def test_results_that_cannot_be_passed_on_are_refused(stage: Any, sentence: str) -> None:
    class Apply(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return stage(x)

    with Pipe(on_lanes([nn.Linear(6, 6), Apply()]), 1) as pipe, pytest.raises(ValueError, match=sentence):
        pipe(torch.randn(4, 6))


def test_partitions_and_devices_must_match() -> None:
    with pytest.raises(ValueError, match="1 partitions and 2 devices; give one device per partition"):
        Pipe.from_partitions([nn.Sequential(nn.ReLU())], ["cpu:0", "cpu:1"])


@pytest.mark.parametrize("value", [2.5, "2", True, 0, -1])
def test_a_number_of_rows_or_micro_batches_is_whole(value: Any) -> None:
    layers = on_lanes([nn.Linear(6, 6)])
    for name in ("split_size", "num_microbatches"):
        with pytest.raises(ValueError, match=rf"{name} is {value!r}; give a whole number of at least 1"):
            Pipe(layers, **{name: value})


def test_a_number_of_rows_or_micro_batches_may_be_of_numpy() -> None:
    for name in ("split_size", "num_microbatches"):
        with Pipe(on_lanes([nn.Linear(6, 6)]), **{name: np.int64(2)}) as pipe:
            pipe(torch.randn(4, 6)).sum().backward()
            assert len(pipe.last_timeline.spans) == 4


def test_a_backward_after_close_has_workers_of_its_own(threads_left: Callable[[], set[threading.Thread]]) -> None:
    parts, x = layers(), torch.randn(4, 6)
    plain = copy.deepcopy(nn.Sequential(*parts))
    plain(x).sum().backward()
    with Pipe(on_lanes(parts), timeout_s=20) as pipe:
        y = pipe(x)
    y.sum().backward()
    for ours, theirs in zip(pipe.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)
    pipe.close()
    assert not threads_left()


def test_the_gradient_of_an_input_on_another_device_is_brought_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Autograd takes no gradient of another device. The meta device stands in for a GPU; nothing can be copied back
    from it, so that is stood in for as well."""
    to = torch.Tensor.to

    def back(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if tensor.is_meta and args[0] == torch.device("cpu"):
            return torch.full(tensor.shape, 7.0)
        return to(tensor, *args, **kwargs)

    monkeypatch.setattr("pllab.pipeline.pipe.checked_device", torch.device)
    monkeypatch.setattr(torch.Tensor, "to", back)
    x = torch.randn(4, 6, requires_grad=True)
    with Pipe.from_partitions([nn.Sequential(nn.Linear(6, 6, device="meta"))], ["meta"], timeout_s=10) as pipe:
        pipe(x).sum().backward()
    assert x.grad is not None and x.grad.unique().tolist() == [7.0]


@pytest.mark.parametrize("timeout_s", [0, -1.0, float("nan"), float("inf"), None, "5"])
def test_a_deadline_is_a_number_above_zero(timeout_s: Any) -> None:
    with pytest.raises(ValueError, match=rf"timeout_s is {timeout_s!r}; give the longest wait in seconds"):
        Pipe(on_lanes([nn.Linear(6, 6)]), timeout_s=timeout_s)


def rows_of(timeline: Any) -> list[list[str]]:
    return [[str(span.action) for span in timeline.of_rank(rank)] for rank in range(timeline.num_ranks)]


@pytest.mark.parametrize("lanes", [[0, 1, 2], [0, 1, 0, 1], [0, 0, 1]])
@pytest.mark.parametrize("recompute", [False, True])
def test_the_schedule_is_checked_and_the_timelines_rows_are_its_rows(lanes: list[int], recompute: bool) -> None:
    """GPipe, and breadth-first where a lane has several stages; R stands before its B."""
    parts = [nn.Linear(6, 6) for _ in lanes]
    devices = [f"cpu:{lane}" for lane in lanes]
    partitions = [nn.Sequential(part) for part in parts]
    with Pipe.from_partitions(partitions, devices, num_microbatches=3, recompute=recompute) as pipe:
        before = pipe.schedule
        pipe(torch.randn(7, 6)).sum().backward()
        check(pipe.schedule)
        assert pipe.schedule == before == breadth_first(lanes, 3)
        assert pipe.schedule == gpipe(3, 3) or len(set(lanes)) < len(lanes)
        ran = rows_of(pipe.last_timeline)
    assert [[one for one in row if "R" not in one] for row in ran] == [[*map(str, row)] for row in before.rows]
    again = {one: row[place - 1] for row in ran for place, one in enumerate(row) if "B" in one}
    assert all((before == one.replace("B", "R")) is recompute for one, before in again.items())


@pytest.mark.parametrize(("rows", "asked", "ran"), [(5, 4, 4), (7, 3, 3), (3, 4, 3), (1, 4, 1), (8, 4, 4)])
def test_micro_batches_are_as_many_as_asked_for_or_as_there_are_rows(rows: int, asked: int, ran: int) -> None:
    parts = layers()
    plain = copy.deepcopy(nn.Sequential(*parts))
    with Pipe(on_lanes(parts), num_microbatches=asked, timeout_s=20) as pipe:
        assert pipe.schedule == gpipe(2, asked)
        assert_same(pipe, plain, torch.randn(rows, 6))
        assert pipe.schedule == gpipe(2, ran)
        assert_same(pipe, plain, torch.randn(8, 6))
        assert pipe.schedule == gpipe(2, asked)


def test_a_pipe_used_from_two_threads_at_once_refuses() -> None:
    """It returned the rows of the other thread, without an error, in one call of six."""
    inside, gate = threading.Event(), threading.Event()

    class Waits(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            inside.set()
            gate.wait(20)
            return x

    with Pipe(on_lanes([nn.Linear(6, 6), Waits()]), 2, timeout_s=30) as pipe:
        results: list[torch.Tensor] = []
        first = threading.Thread(target=lambda: results.append(pipe(torch.zeros(4, 6))))
        first.start()
        assert inside.wait(20)
        with pytest.raises(RuntimeError, match="at work on another thread; make a pipe or executor for each thread"):
            pipe(torch.ones(4, 6))
        gate.set()
        first.join(20)
        assert results[0].shape == (4, 6)


def test_a_used_pipe_can_be_copied_and_the_copy_has_workers_of_its_own() -> None:
    parts = layers()
    plain = copy.deepcopy(nn.Sequential(*parts))
    with Pipe(on_lanes(parts), 2, timeout_s=20) as pipe:
        pipe(torch.randn(4, 6)).sum().backward()
        with copy.deepcopy(pipe) as other:
            x = torch.randn(4, 6)
            assert_same(other, plain, x)
            assert other._lanes is not pipe._lanes
            assert_same(pipe, plain, x)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_of_a_process_with_a_used_pipe_starts_its_own_workers() -> None:
    """Threads do not follow a process into its fork: the pipe waited for them until the deadline."""
    with Pipe(on_lanes([nn.Identity(), nn.Identity()]), 1, timeout_s=20) as pipe:
        pipe(torch.ones(2, 2))
        child = os.fork()
        if child == 0:
            is_right = False
            try:
                with torch.no_grad():
                    is_right = bool(pipe(torch.ones(2, 2)).sum() == 4)
            finally:  # an error would run the rest of the tests in the child too
                os._exit(0 if is_right else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_a_last_stage_that_changes_the_number_of_rows_is_refused() -> None:
    class Fold(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mean(0, keepdim=True)

    with Pipe(on_lanes([nn.Linear(6, 6), Fold()]), 2) as pipe:
        with pytest.raises(ValueError, match=r"the last stage made a tensor of shape \(1, 6\) from 2 rows"):
            pipe(torch.randn(4, 6))
