import copy
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pllab.pipeline import Pipe, WithDevice
from pllab.schedule import Action, Kind, breadth_first, check, gpipe
from tests.pipeline.steps import ENGINES, Apply, assert_close, assert_in_order, gradients_of, step_on


def layers() -> list[nn.Module]:
    torch.manual_seed(0)
    return [layer for _ in range(4) for layer in (nn.Linear(6, 6), nn.Tanh())]


def on_lanes(parts: Sequence[nn.Module], lanes: Sequence[int] = (0, 1)) -> nn.Sequential:
    """The layers dealt to as many stages as there are lanes, one after another."""
    places = (lanes[index * len(lanes) // len(parts)] for index in range(len(parts)))
    return nn.Sequential(*(WithDevice(part, f"cpu:{lane}") for part, lane in zip(parts, places, strict=True)))


def gradients(module: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """The output, and the gradients of the input and of the parameters that have one."""
    module.zero_grad()
    x = x.clone().requires_grad_()
    y = module(x)
    (y * torch.arange(y.numel()).view_as(y)).mean().backward()
    return [y.detach(), x.grad, *(p.grad.clone() for p in module.parameters() if p.grad is not None)]


def assert_same(module: nn.Module, plain: nn.Module, x: torch.Tensor) -> None:
    assert_close(gradients(module, x), gradients(plain, x))


@contextmanager
def beside_plain(sequential: nn.Sequential, **options: Any) -> Iterator[tuple[Pipe, nn.Module]]:
    """A pipe, and a plain model of the same weights."""
    plain = copy.deepcopy(sequential)
    with Pipe(sequential, timeout_s=20, **options) as pipe:
        yield pipe, plain


@pytest.mark.parametrize("rows", [1, 5, 7])
@pytest.mark.parametrize(
    "given",
    [
        *({"split_size": size} for size in (1, np.int64(2), 3, 9)),
        *({"num_microbatches": count} for count in (np.int64(2), 3, 4)),
    ],
)
def test_output_and_gradients_equal_the_plain_model_in_as_many_micro_batches_as_asked_for(
    given: dict[str, Any], rows: int
) -> None:
    """`split_size` is a number of rows, and `num_microbatches` a count of at most one a row; batches may differ."""
    size = given.get("split_size")
    with beside_plain(on_lanes(layers()), **given) as (pipe, plain):
        for num_rows in (rows, 8, rows):
            assert_same(pipe, plain, torch.randn(num_rows, 6))
            assert pipe.schedule == gpipe(2, -(-num_rows // size) if size else min(num_rows, given["num_microbatches"]))


@pytest.mark.parametrize("lanes", [[0], [0, 1, 2], [0, 1, 2, 3], [0, 1, 0, 1], [0, 0, 1]])
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("frozen", [(), (0, 2)])
def test_any_lanes_with_and_without_recompute_run_the_rows_of_a_legal_schedule(
    lanes: list[int], recompute: bool, frozen: tuple[int, ...]
) -> None:
    """A lane may hold two stages, which go breadth-first; R stands before its B; frozen stages stop no gradient."""
    partitions, devices = [nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in lanes], [f"cpu:{lane}" for lane in lanes]
    for index in frozen:
        partitions[index % len(lanes)].requires_grad_(False)
    plain = copy.deepcopy(nn.Sequential(*partitions))
    with Pipe.from_partitions(partitions, devices, num_microbatches=3, recompute=recompute, timeout_s=20) as pipe:
        schedule = pipe.schedule
        check(schedule)
        assert schedule == breadth_first(lanes, 3)
        for _ in range(3):
            assert_same(pipe, plain, torch.randn(7, 6))
        assert pipe.schedule == schedule
        timeline = pipe.last_timeline
    assert timeline.engine == "real" and timeline.start == 0.0
    for rank, row in enumerate(schedule.rows):
        again = [(a._replace(kind=Kind.R), a) if recompute and a.kind is Kind.B else (a,) for a in row]
        assert [span.action for span in timeline.of_rank(rank)] == [part for parts in again for part in parts]
    assert_in_order(schedule, timeline)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"split_size": 2, "num_microbatches": 4}, "split_size 2 is .*num_microbatches 4 their count; give one"),
        ({"split_size": 0}, "split_size is 0; give a whole number of at least 1"),
        ({"num_microbatches": 2.5}, "num_microbatches is 2.5; give a whole number of at least 1"),
        ({"timeout_s": 0}, "timeout_s is 0; give the longest wait in seconds"),
        ({"sequential": on_lanes([nn.Linear(6, 6)] * 2)}, "same module"),
    ],
)
def test_what_makes_no_pipe_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Pipe(**{"sequential": on_lanes(layers())} | given)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_later_stage_works_with_a_shadow_so_that_two_workers_never_add_to_one_gradient(engine: str) -> None:
    saw_the_parameter = set()

    class Watched(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            saw_the_parameter.add((threading.current_thread().name, self.weight is weight))
            return super().forward(x)

    first, second = Watched(6, 6), Watched(6, 6)
    weight = second.weight = first.weight
    step_on(engine, [first, second], *torch.randn(2, 6, 6))
    assert saw_the_parameter == {("pllab-cpu:0", True), ("pllab-cpu:1", False)}


def test_input_without_gradient_and_grad_mode_off() -> None:
    with Pipe(on_lanes(layers()), 2) as pipe:
        assert pipe(torch.randn(4, 6)).requires_grad
        with torch.no_grad():
            assert not pipe(torch.randn(4, 6)).requires_grad
        pipe.requires_grad_(False)
        assert not pipe(torch.randn(4, 6)).requires_grad


def test_autocast_reaches_the_workers_with_its_type_which_is_not_the_usual_one() -> None:
    with Pipe(on_lanes([nn.Linear(6, 6), nn.Linear(6, 6)]), 2, recompute=True) as pipe:
        with torch.autocast("cpu", dtype=torch.float16):
            y = pipe(torch.randn(4, 6))
        y.sum().backward()  # outside, and what is computed again is the same
    assert y.dtype == torch.float16


def test_two_batches_in_flight_keep_their_own_activations() -> None:
    x, z = torch.randn(2, 4, 6)
    with beside_plain(on_lanes(layers()), split_size=2) as (pipe, plain):
        (pipe(x) * pipe(z)).sum().backward()
    (plain(x) * plain(z)).sum().backward()
    assert_close(gradients_of(pipe), gradients_of(plain))


def test_backward_twice_is_refused() -> None:
    with Pipe(on_lanes(layers()), 2) as pipe:
        loss = pipe(torch.randn(4, 6)).sum()
        loss.backward(retain_graph=True)
        with pytest.raises(RuntimeError, match="went backward before"):
            loss.backward()


def test_a_question_for_some_gradients_is_refused_and_adds_to_none() -> None:
    """The workers would add to those of all parameters, where the plain model adds to none."""
    with Pipe(on_lanes(layers()), 2) as pipe:
        x = torch.randn(4, 6, requires_grad=True)
        with pytest.raises(RuntimeError, match=r"call loss.backward\(\) and read .grad"):
            torch.autograd.grad(pipe(x).sum(), x)
        assert all(parameter.grad is None for parameter in pipe.parameters())


def test_a_tied_weight_that_was_replaced_is_refused() -> None:
    """The stages would go on with the old one."""
    first, last = nn.Linear(6, 6), nn.Linear(6, 6)
    last.weight = first.weight
    with Pipe(on_lanes([first, last])) as pipe:
        pipe.load_state_dict(pipe.state_dict(), assign=True)
        with pytest.raises(ValueError, match=r"weight of stage 1 is no longer .*load the state without assign"):
            pipe(torch.randn(4, 6))


@pytest.mark.parametrize("kind", [Kind.F, Kind.B])
@pytest.mark.parametrize("stage", [0, 1, 2])
def test_an_exception_travels_with_its_action_and_the_workers_survive(kind: Kind, stage: int) -> None:
    """Also one that says that a wait was too long: it is the stage's own, and no deadline of the pipe."""
    fails = True

    def fail(_: torch.Tensor) -> None:
        raise TimeoutError("by design")

    def forward(x: torch.Tensor) -> torch.Tensor:
        if fails and kind is Kind.B:
            x.register_hook(fail)
        elif fails:
            fail(x)
        return x * 1.0

    parts: list[nn.Module] = [nn.Linear(6, 6) for _ in range(3)]
    parts[stage] = nn.Sequential(parts[stage], Apply(forward))
    with Pipe(on_lanes(parts, [0, 1, 2]), 1, timeout_s=20) as pipe:
        with pytest.raises(TimeoutError, match="by design") as caught:
            pipe(torch.randn(4, 6)).sum().backward()
        assert f"{Action(stage, kind, 0)}: stage {stage}, micro-batch 0" in caught.value.__notes__[0]
        threads, fails = set(threading.enumerate()), False
        pipe(torch.randn(4, 6)).sum().backward()
        assert set(threading.enumerate()) == threads


def test_a_stage_that_hangs_ends_in_a_sentence_and_the_pipe_works_again() -> None:
    release = threading.Event()
    hang = Apply(lambda x: x if release.wait(20) else None)
    with Pipe(on_lanes([nn.Linear(6, 6), hang]), 1, timeout_s=20) as pipe:
        release.set()
        pipe(torch.randn(4, 6))  # the first call makes what the later ones use
        release.clear()
        pipe.timeout_s = 1.0
        late = "stage 1 has not finished micro-batch 0 after 1 s; allow more time with timeout_s="
        with pytest.raises(TimeoutError, match=late):
            pipe(torch.randn(4, 6))
        pipe.timeout_s = 20
        release.set()
        assert pipe(torch.randn(4, 6)).shape == (4, 6)


_INTERRUPTED = """
import os, signal, sys, torch
from torch import nn
from pllab.pipeline import Pipe

class Works(nn.Module):
    def forward(self, x):
        if not calm:
            os.kill(os.getpid(), signal.SIGINT)
        for _ in range(2000):
            torch.mm(x, x)
        return x

pipe = Pipe(nn.Sequential(Works()), 200)
for calm in (False, True, False):
    try:
        print(len(pipe(torch.ones(200, 200))), "torch._dynamo" in sys.modules)
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.exhaustive
def test_an_interrupted_pipe_works_again_and_a_program_that_ends_waits_for_what_its_lanes_still_compute() -> None:
    """Python aborted ("terminate called without an active exception"), because it ends threads inside torch.

    And the first batch imports no compiler, which takes seconds.
    """
    done = subprocess.run([sys.executable, "-c", _INTERRUPTED], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n200 False\ninterrupted\n", "")


def test_no_thread_outlives_the_pipe(threads_left: Callable[[], set[threading.Thread]]) -> None:
    """A backward after `close` has workers of its own."""
    with beside_plain(on_lanes(layers()), split_size=2) as (pipe, plain):
        y, expected = pipe(torch.ones(4, 6)), plain(torch.ones(4, 6))
    assert not threads_left()
    y.sum().backward()
    expected.sum().backward()
    assert_close(gradients_of(pipe), gradients_of(plain))
    pipe.close()
    assert not threads_left()
    forgotten = Pipe(on_lanes(layers()), 2)
    forgotten(torch.randn(4, 6))
    gone = weakref.ref(forgotten)
    del forgotten
    gc.collect()
    assert gone() is None and not threads_left()


def test_dropout_masks_differ_between_batches_micro_batches_and_stages_and_keep_the_mean() -> None:
    parts: list[nn.Module] = [nn.Dropout(0.5), nn.Dropout(0.5)]
    with Pipe(on_lanes(parts), 100) as pipe:
        torch.manual_seed(0)
        both, again = pipe(torch.ones(200, 100)), pipe(torch.ones(200, 100))
        parts[1].eval()
        torch.manual_seed(0)
        first = pipe(torch.ones(200, 100))
        parts[0].p = 1.0
        assert not pipe(torch.ones(200, 100)).any()
    assert not torch.equal(both, again) and not torch.equal(first[:100], first[100:])
    assert set(first.unique().tolist()) == {0.0, 2.0} and set(both.unique().tolist()) == {0.0, 4.0}
    assert abs(both.mean().item() - 1.0) < 0.05  # 20,000 draws: five standard deviations are 0.06


@pytest.mark.parametrize(
    ("stage", "sentence"),
    [
        (lambda x: x.sum(), r"the last stage made a tensor of shape \(\) from 2 rows; return one value per row"),
        (lambda x: x.mean(0, keepdim=True), r"the last stage made a tensor of shape \(1, 6\) from 2 rows"),
        (lambda x: {"x": x}, "stage 1 has dict"),
    ],
)
def test_results_that_cannot_be_passed_on_are_refused(stage: Callable[[torch.Tensor], Any], sentence: str) -> None:
    with Pipe(on_lanes([nn.Linear(6, 6), Apply(stage)]), 2) as pipe, pytest.raises(ValueError, match=sentence):
        pipe(torch.randn(4, 6))


def test_a_pipe_used_from_two_threads_at_once_refuses() -> None:
    """It returned the rows of the other thread, without an error, in one call of six."""
    inside, gate = threading.Event(), threading.Event()

    def wait(x: torch.Tensor) -> torch.Tensor:
        inside.set()
        gate.wait(20)
        return x

    with Pipe(on_lanes([nn.Linear(6, 6), Apply(wait)]), 2, timeout_s=30) as pipe, ThreadPoolExecutor(1) as pool:
        first = pool.submit(pipe, torch.zeros(4, 6))
        assert inside.wait(20)
        with pytest.raises(RuntimeError, match="at work on another thread; make a pipe or executor for each thread"):
            pipe(torch.ones(4, 6))
        gate.set()
        assert first.result(20).shape == (4, 6)


def test_a_used_pipe_can_be_copied_and_the_copy_has_workers_of_its_own() -> None:
    x = torch.randn(4, 6)
    with beside_plain(on_lanes(layers()), split_size=2) as (pipe, plain):
        pipe(x).sum().backward()
        with copy.deepcopy(pipe) as other:
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
