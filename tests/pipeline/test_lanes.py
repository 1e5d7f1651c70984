import copy
import gc
import threading
import weakref

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from pllab.parallel import num_target_tokens
from pllab.pipeline import LaneExecutor
from pllab.schedule import Schedule, ScheduleError, gpipe, one_f_one_b, split_backwards, zb_h1
from tests.pipeline import programs
from tests.pipeline.families import (
    GENERATORS,
    any_legal,
    next_token_loss,
    plain_copy,
    stages_of,
    tiny_gpt2,
    tokens,
    worst,
)
from tests.tiers import exhaustive

mse = nn.functional.mse_loss


def linears(num_stages: int) -> list[nn.Module]:
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(num_stages)]


def gradients(stages: list[nn.Module]) -> list[torch.Tensor]:
    return [parameter.grad for stage in stages for parameter in stage.parameters()]


@pytest.mark.parametrize(
    ("num_ranks", "num_microbatches"),
    [(2, 5), *exhaustive((1, 1), (1, 2), (1, 5), (2, 1), (2, 2), (3, 1), (3, 2), (3, 5))],
)
@pytest.mark.parametrize("family", GENERATORS)
def test_every_family_gives_the_plain_models_loss_and_gradients(
    family: str, num_ranks: int, num_microbatches: int
) -> None:
    """7 rows, so that micro-batches differ in size; two steps, so that nothing is left over from the first."""
    schedule = GENERATORS[family](num_ranks, num_microbatches)
    model, batches = tiny_gpt2(), [tokens(7, 1), tokens(7, 2)]
    plain, losses = plain_copy(model, *batches)
    with LaneExecutor(schedule, stages_of(model, schedule.num_stages), next_token_loss, timeout_s=20) as executor:
        steps = [executor.step(ids, ids) for ids in batches]
    assert [step.loss for step in steps] == pytest.approx(losses, abs=1e-5)
    assert worst(model, plain) < 1e-6
    ran = [[span.action for span in steps[1].timeline.of_rank(rank)] for rank in range(num_ranks)]
    assert ran == [list(row) for row in schedule.rows]
    assert steps[1].timeline.engine == "real"


@pytest.mark.parametrize("family", ["1f1b", "zb_h1"])
@pytest.mark.parametrize("num_microbatches", [2, 4])
def test_a_mean_over_tokens_is_the_plain_models_where_micro_batches_have_more_or_fewer(
    family: str, num_microbatches: int
) -> None:
    """4 micro-batches: one has no token to predict, and its own mean would be no number."""
    model, (ids, labels) = tiny_gpt2(), programs.few_targets()
    plain = copy.deepcopy(model)
    loss = next_token_loss(plain(ids).logits, labels)
    loss.backward()
    schedule = GENERATORS[family](2, num_microbatches)
    given = {"mean_over": num_target_tokens, "timeout_s": 20}
    with LaneExecutor(schedule, stages_of(model, 2), next_token_loss, **given) as executor:
        step = executor.step(ids, labels)
    assert step.loss == pytest.approx(loss.item(), abs=1e-6)
    assert worst(model, plain) < 1e-6


@pytest.mark.parametrize(("count", "seen"), [(lambda _: 0, "[0.0, 0.0]"), (lambda y: float(y[0, 0]) - 0.5, "-0.5")])
def test_a_mean_over_nothing_or_less_is_refused(count, seen: str) -> None:
    x = torch.tensor([[0.0] * 6, [1.0] * 6])
    with (
        LaneExecutor(one_f_one_b(1, 2), linears(1), mse, mean_over=count) as executor,
        pytest.raises(ValueError, match="mean_over counts .* a mean needs at least one") as caught,
    ):
        executor.step(x, x)
    assert seen in str(caught.value)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3), st.integers(0, 2), st.integers(1, 4), st.integers(0, 10**6))
def test_any_legal_schedule_runs_to_its_end(ranks: int, more_stages: int, microbatches: int, seed: int) -> None:
    schedule = any_legal(ranks, ranks + more_stages, microbatches, seed)
    stages = linears(schedule.num_stages)
    x, y = torch.randn(5, 6), torch.randn(5, 6)
    loss = mse(nn.Sequential(*stages)(x), y)
    loss.backward()
    expected = [grad.clone() for grad in gradients(stages)]
    nn.Sequential(*stages).zero_grad()
    with LaneExecutor(schedule, stages, mse, timeout_s=10) as executor:
        assert executor.step(x, y).loss == pytest.approx(loss.item(), abs=1e-5)
    for ours, theirs in zip(gradients(stages), expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_tuples_travel_between_stages() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.full((3,), 2.0))

        def forward(self, value: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
            x, index = value
            return x * self.weight, index

    def loss(output: tuple[torch.Tensor, torch.Tensor], _: object) -> torch.Tensor:
        return (output[0] * output[1][:, None]).mean()

    stages: list[nn.Module] = [Pair(), Pair(), Pair()]
    x, index = torch.randn(4, 3), torch.arange(4)
    with LaneExecutor(split_backwards(one_f_one_b(3, 2)), stages, loss) as executor:
        step = executor.step((x, index), x)
    assert step.loss == pytest.approx((8 * x * index[:, None]).mean().item(), abs=1e-6)
    for grad in gradients(stages):  # of w1 w2 w3 x index / 12 by one weight of 2: 4 x index / 12
        torch.testing.assert_close(grad, (4 * x * index[:, None]).sum(0) / 12)


class Fails(nn.Module):
    """Fails on its third micro-batch."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls == 3:
            raise KeyError("third")
        return x


def test_the_first_failure_ends_all_lanes_and_names_its_action() -> None:
    stages = [*linears(2), Fails(), *linears(1)]
    x = torch.randn(6, 6)
    with LaneExecutor(one_f_one_b(4, 6), stages, mse, timeout_s=20) as executor:
        with pytest.raises(KeyError, match="third") as caught:
            executor.step(x, x)
        assert "2F2" in caught.value.__notes__[0]
        assert executor.step(x, x).loss > 0  # the lanes are ready for the next step


def test_a_stage_that_is_too_slow_is_an_error_and_not_a_wait() -> None:
    gate = threading.Event()

    class Stuck(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            gate.wait(20)
            return x

    try:
        for stages in ([Stuck()], [*linears(1), Stuck()], [Stuck(), *linears(1)]):
            with LaneExecutor(gpipe(len(stages), 2), stages, mse, timeout_s=0.2) as executor:
                with pytest.raises(TimeoutError, match=r"timeout_s="):
                    executor.step(torch.randn(2, 6), torch.randn(2, 6))
    finally:
        gate.set()


def test_a_lane_waits_as_long_as_actions_end_elsewhere() -> None:
    """Lane 0 waits for 30 actions of other lanes, 1.8 s, and no action takes longer than 0.06 s."""
    stages = [programs.Sleeps(6, 0.06, 0.06) for _ in range(16)]
    with LaneExecutor(gpipe(16, 1), stages, mse, timeout_s=1.2) as executor:
        timeline = executor.step(torch.randn(2, 6), torch.randn(2, 6)).timeline
    assert timeline.makespan > 1.2 and len(timeline.spans) == 32


def test_nothing_is_left_after_close() -> None:
    before = set(threading.enumerate())  # others may end meanwhile, so a count would not do

    def of_ours() -> int:
        return len(set(threading.enumerate()) - before)

    executor = LaneExecutor(gpipe(3, 2), linears(3), mse)
    executor.step(torch.randn(2, 6), torch.randn(2, 6))
    assert of_ours() == 3
    executor.close()
    assert of_ours() == 0
    executor.step(torch.randn(2, 6), torch.randn(2, 6))
    del executor
    gc.collect()
    assert of_ours() == 0


class Watched(nn.Module):
    """Counts its activations that are alive, by weak references to a tensor that only the graph keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.made: list[weakref.ref[torch.UntypedStorage]] = []
        self.most = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = _Kept.apply(self.linear(x), self.made)
        self.most = max(self.most, sum(ref() is not None for ref in self.made))
        return y


class _Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, made):
        ctx.kept = Thing()
        made.append(weakref.ref(ctx.kept))
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2, None


class Thing:
    """Something a weak reference can point to."""


@pytest.mark.parametrize(("make", "most"), [(gpipe, (5, 5)), (one_f_one_b, (2, 1))])
def test_activations_live_as_long_as_the_schedule_holds_them(make, most) -> None:
    stages = [Watched(), Watched()]
    with LaneExecutor(make(2, 5), stages, mse) as executor:
        executor.step(torch.randn(5, 6), torch.randn(5, 6))
        assert (stages[0].most, stages[1].most) == most
        assert not any(ref() for stage in stages for ref in stage.made)


def test_lanes_are_not_kept_in_step() -> None:
    """Rank 1 stays in its first forward until rank 0 is in its last, which on a common clock would not begin."""
    calls, ran_ahead = [], threading.Event()

    class Quick(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            calls.append(len(x))
            if len(calls) == 4:
                ran_ahead.set()
            return super().forward(x)

    class Slow(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert ran_ahead.wait(20)
            return super().forward(x)

    with LaneExecutor(gpipe(2, 4), [Quick(6, 6), Slow(6, 6)], mse, timeout_s=20) as executor:
        assert len(executor.step(torch.randn(4, 6), torch.randn(4, 6)).timeline.spans) == 16


def test_what_does_not_fit_is_refused_in_a_sentence() -> None:
    x = torch.randn(2, 6)
    with pytest.raises(ScheduleError, match="0B0"):
        LaneExecutor(Schedule.of([["0F0"]]), linears(1), mse)
    with pytest.raises(ValueError, match="2 stages, not 3"):
        LaneExecutor(gpipe(2, 2), linears(3), mse)
    with pytest.raises(ValueError, match="2 ranks, not 1"):
        LaneExecutor(gpipe(2, 2), linears(2), mse, devices=["cpu:0"])
    with pytest.raises(ValueError, match="loss is None"):
        LaneExecutor(gpipe(2, 2), linears(2), None)  # type: ignore[arg-type]
    with LaneExecutor(gpipe(2, 3), linears(2), mse) as executor:
        with pytest.raises(ValueError, match="2 rows cannot be cut into the schedule's 3 micro-batches"):
            executor.step(x, x)
    with LaneExecutor(gpipe(2, 2), linears(2), lambda out, _: out) as executor:
        with pytest.raises(ValueError, match="one real number"):
            executor.step(x, x)


@pytest.mark.parametrize("make", [gpipe, zb_h1])
def test_a_weight_tied_twice_within_a_later_stage_has_one_gradient(make) -> None:
    torch.manual_seed(0)
    first, last = nn.Linear(6, 6), nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    last[0].weight = last[2].weight = first.weight
    x = torch.randn(5, 6)
    mse(last(first(x)), x).backward()
    expected, first.weight.grad = first.weight.grad, None
    with LaneExecutor(make(2, 2), [first, last], mse) as executor:
        executor.step(x, x)
    torch.testing.assert_close(first.weight.grad, expected)


def test_a_step_that_fails_leaves_the_earlier_gradient_of_a_tied_weight() -> None:
    first, last = nn.Linear(6, 6), nn.Sequential(nn.Linear(6, 6), Fails())
    last[0].weight, first.weight.grad, x = first.weight, torch.ones(6, 6), torch.randn(3, 6)
    with LaneExecutor(gpipe(2, 3), [first, last], mse, timeout_s=20) as executor:
        with pytest.raises(KeyError, match="third"):
            executor.step(x, x)
    assert torch.equal(first.weight.grad, torch.ones(6, 6))


def test_a_stage_that_wakes_after_the_step_was_given_up_adds_nothing() -> None:
    gate = threading.Event()

    class Stuck(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = super().forward(x)
            gate.wait(20)
            return y

    before, last = set(threading.enumerate()), Stuck(6, 6)
    with LaneExecutor(one_f_one_b(2, 3), [*linears(1), last], mse, timeout_s=0.2) as executor:
        with pytest.raises(TimeoutError):
            executor.step(torch.randn(3, 6), torch.randn(3, 6))
        late = set(threading.enumerate()) - before
        gate.set()
        for thread in late:
            thread.join(10)
    assert late and last.weight.grad is None  # a last stage's backward waits for no packet


@pytest.mark.parametrize("cut_off", [lambda out, y: torch.tensor(mse(out, y).item()), lambda *_: torch.tensor(1)])
def test_a_loss_that_leads_back_to_no_output_is_refused(cut_off) -> None:
    """The plain model says so in backward; here there would be no gradient, and no word."""
    x = torch.randn(2, 6)
    with LaneExecutor(gpipe(2, 2), linears(2), cut_off, timeout_s=20) as executor:
        with pytest.raises(ValueError, match="leads back to no output; compute it with torch from the output"):
            executor.step(x, x)


def test_what_is_missing_or_of_a_wrong_type_is_named() -> None:
    x = torch.randn(2, 6)
    with LaneExecutor(gpipe(2, 2), linears(2), mse, timeout_s=20) as executor:
        for given, sentence in [
            ((x[:1].expand(7, 6), x), "the batch has 7 rows and the targets 2"),  # which would be stretched
            ((x, None), "targets has NoneType; a pipeline passes a tensor"),
            ((None, x), "batch has NoneType; a pipeline passes a tensor"),
            ((x, [x]), "targets has list; a pipeline passes a tensor"),
            ((x, ()), "targets has a tuple with nothing in it"),
            (((x, 1), x), "batch has a tuple with int in it"),
        ]:
            with pytest.raises(ValueError, match=sentence):
                executor.step(*given)  # type: ignore[arg-type]
    with LaneExecutor(gpipe(1, 1), linears(1), lambda *_: None) as executor:
        with pytest.raises(ValueError, match="the loss is None; return a tensor"):
            executor.step(x, x)
    with LaneExecutor(gpipe(1, 2), linears(1), mse, mean_over=lambda _: None, timeout_s=20) as executor:  # type: ignore
        with pytest.raises(ValueError, match="mean_over gives None for a micro-batch; return how many"):
            executor.step(x, x)
    with pytest.raises(ValueError, match="timeout_s is -1; give the longest wait"):
        LaneExecutor(gpipe(2, 2), linears(2), mse, timeout_s=-1)
