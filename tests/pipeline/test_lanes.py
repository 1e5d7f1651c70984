import threading
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import nn

from pllab.parallel import num_target_tokens
from pllab.pipeline import LaneExecutor
from pllab.schedule import Schedule, gpipe, one_f_one_b
from tests.pipeline.families import GENERATORS, next_token_loss, plain_copy, stages_of, tiny_gpt2, tokens, worst
from tests.pipeline.programs import Sleeps, few_targets
from tests.pipeline.steps import Apply, assert_close, gradients_of, mse, plain_step, step_on
from tests.simulate.legal import schedules
from tests.tiers import exhaustive


def linears(num_stages: int) -> list[nn.Module]:
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(num_stages)]


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
    model, batches = tiny_gpt2(), [(ids, ids) for ids in (tokens(7, 1), tokens(7, 2))]
    plain, losses = plain_copy(model, *batches)
    with LaneExecutor(schedule, stages_of(model, schedule.num_stages), next_token_loss, timeout_s=20) as executor:
        steps = [executor.step(*batch) for batch in batches]
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
    model, batch = tiny_gpt2(), few_targets()
    plain, (loss,) = plain_copy(model, batch)
    schedule = GENERATORS[family](2, num_microbatches)
    given = {"mean_over": num_target_tokens, "timeout_s": 20}
    with LaneExecutor(schedule, stages_of(model, 2), next_token_loss, **given) as executor:
        step = executor.step(*batch)
    assert step.loss == pytest.approx(loss, abs=1e-6)
    assert worst(model, plain) < 1e-6


@settings(max_examples=40, deadline=None)
@given(schedules())
def test_any_legal_schedule_runs_to_its_end(schedule: Schedule) -> None:
    stages = linears(schedule.num_stages)
    x, y = torch.randn(2, 5, 6)
    expected, gradients = plain_step(stages, x, y)
    with LaneExecutor(schedule, stages, mse, timeout_s=10) as executor:
        assert executor.step(x, y).loss == pytest.approx(expected, abs=1e-5)
    assert_close(gradients_of(*stages), gradients)


def test_a_lane_waits_as_long_as_actions_end_elsewhere() -> None:
    """Lane 0 waits for 30 actions of other lanes, 1.8 s, and no action takes longer than 0.06 s."""
    stages = [Sleeps(6, 0.06, 0.06) for _ in range(16)]
    with LaneExecutor(gpipe(16, 1), stages, mse, timeout_s=1.2) as executor:
        timeline = executor.step(torch.randn(2, 6), torch.randn(2, 6)).timeline
    assert timeline.makespan > 1.2 and len(timeline.spans) == 32


def test_lanes_are_not_kept_in_step() -> None:
    """Rank 1 stays in its first forward until rank 0 is in its last, which on a common clock would not begin."""
    calls, ran_ahead = [], threading.Event()

    def quick(x: torch.Tensor) -> torch.Tensor:
        calls.append(len(x))
        if len(calls) == 4:
            ran_ahead.set()
        return x

    stages = [nn.Sequential(Apply(quick), *linears(1)), Apply(lambda x: x if ran_ahead.wait(20) else None)]
    with LaneExecutor(gpipe(2, 4), stages, mse, timeout_s=20) as executor:
        assert len(executor.step(torch.randn(4, 6), torch.randn(4, 6)).timeline.spans) == 16


X = torch.arange(12.0).view(2, 6)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"schedule": Schedule.of([["0F0"]]), "stages": linears(1)}, "0B0"),
        ({"stages": linears(3)}, "2 stages, not 3"),
        ({"timeout_s": -1}, "timeout_s is -1; give the longest wait"),
        ({"schedule": gpipe(2, 3)}, "2 rows cannot be cut into the schedule's 3 micro-batches"),
        ({"batch": X[:1].expand(7, 6)}, "the batch has 7 rows and the targets 2"),  # which would be stretched
        ({"batch": None}, "batch has NoneType; a pipeline passes a tensor"),
        ({"batch": (X, 1)}, "batch has a tuple with int in it"),
        ({"targets": [X]}, "targets has list; a pipeline passes a tensor"),
        ({"targets": ()}, "targets has a tuple with nothing in it"),
        ({"loss": lambda out, _: out.mean() * 1j}, "the loss is complex; return a real number"),
        # The plain model says so in backward; here there would be no gradient, and no word.
        ({"loss": lambda out, y: torch.tensor(mse(out, y).item())}, "leads back to no output; compute it with torch"),
        ({"loss": lambda *_: torch.tensor(1)}, "leads back to no output; compute it with torch"),
        ({"mean_over": lambda _: 0}, r"mean_over counts \[0.0, 0.0\] in the micro-batches; a mean needs at least one"),
        ({"mean_over": lambda y: y[0, 0] - 0.5}, r"mean_over counts \[-0.5, 5.5\] .* and none below 0"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(given: dict[str, Any], sentence: str) -> None:
    usual = {"schedule": gpipe(2, 2), "stages": linears(2), "loss": mse, "batch": X, "targets": X, "timeout_s": 20}
    options = usual | given
    batch, targets = options.pop("batch"), options.pop("targets")
    with pytest.raises(ValueError, match=sentence), LaneExecutor(**options) as executor:
        executor.step(batch, targets)


def test_gradients_of_float64_are_as_exact_where_a_micro_batch_is_a_third_of_the_batch() -> None:
    stages, (x, y) = [stage.double() for stage in linears(2)], torch.randn(2, 6, 6, dtype=torch.float64)
    _, gradients = plain_step(stages, x, y)
    step_on("lanes", stages, x, y)
    assert_close(gradients_of(*stages), gradients, rtol=1e-12, atol=0)


def test_a_step_that_fails_leaves_the_earlier_gradient_of_a_tied_weight() -> None:
    first, last = nn.Linear(6, 6), nn.Linear(6, 6)
    last.weight, first.weight.grad = first.weight, torch.ones(6, 6)
    with pytest.raises(AttributeError, match="NoneType"):
        step_on("lanes", [first, last], *torch.randn(2, 6, 6), lambda *_: None, make=gpipe)
    assert torch.equal(first.weight.grad, torch.ones(6, 6))


def test_a_stage_that_wakes_after_the_step_was_given_up_adds_nothing() -> None:
    gate, before, last = threading.Event(), set(threading.enumerate()), nn.Linear(6, 6)
    stuck = nn.Sequential(last, Apply(lambda x: x if gate.wait(20) else None))
    with LaneExecutor(one_f_one_b(2, 3), [*linears(1), stuck], mse, timeout_s=0.2) as executor:
        with pytest.raises(TimeoutError):
            executor.step(torch.randn(3, 6), torch.randn(3, 6))
        late = set(threading.enumerate()) - before
        gate.set()
        for thread in late:
            thread.join(10)
    assert late and last.weight.grad is None  # a last stage's backward waits for no packet
