import pytest
import torch
from torch import nn

from pllab.comm import RankError, launch
from pllab.pipeline import RankExecutor, tied_weights
from pllab.pipeline.wires import crossings
from pllab.schedule import gpipe, one_f_one_b
from tests.pipeline import programs
from tests.pipeline.families import next_token_loss, plain_copy, stages_of, tiny_gpt2, tokens, worst


def assert_equal_to_the_plain_model(per_rank: list[dict[str, tuple[float, float, bool]]]) -> None:
    for seen in per_rank:
        wrong = {name: found for name, found in seen.items() if not (found[0] < 1e-5 and found[1] < 1e-6 and found[2])}
        assert not wrong


@pytest.mark.ranks
@pytest.mark.parametrize("num_ranks", [2, 3])
def test_every_family_gives_the_plain_models_loss_and_gradients(num_ranks: int) -> None:
    sizes = [1, 4] if num_ranks == 2 else [3]
    assert_equal_to_the_plain_model(launch(programs.every_family, num_ranks, sizes, backend="gloo", timeout_s=200))


@pytest.mark.ranks
def test_any_legal_schedule_runs_to_its_end() -> None:
    """Messages of schedules with no plan: stages anywhere, taken in another order than they were sent."""
    assert_equal_to_the_plain_model(launch(programs.any_schedules, 2, list(range(12)), backend="gloo", timeout_s=200))


def test_a_world_of_one_needs_no_group() -> None:
    schedule, model = one_f_one_b(1, 3), tiny_gpt2()
    plain, (loss,) = plain_copy(model, tokens(5))
    step = RankExecutor(schedule, {0: stages_of(model, 1)[0]}, next_token_loss).step(tokens(5), tokens(5))
    assert step.loss == pytest.approx(loss, abs=1e-5)
    assert worst(model, plain) < 1e-6


@pytest.mark.ranks
@pytest.mark.parametrize(("shares", "packet"), [(True, 1), (False, 8 * 16 * 4)])
def test_a_step_sends_each_packet_once_and_two_small_messages(shares: bool, packet: int) -> None:
    """4 micro-batches: 4 packets each way, behind a header in the first step, one byte each in shared memory later.

    Besides: the shape of the batch, from rank 0 to rank 1, and one sum of the times of the 16 actions and the loss.
    """
    first, second = launch(programs.messages, 2, shares, backend="gloo", timeout_s=100)
    headers, shape, times = 4 * 2048, 2 * 8, ("all_reduce", 1, (16 + 1) * 2 * 8)
    by_message, later = 4 * 8 * 16 * 4, 4 * packet
    assert first[0] == [("send", 9, headers + by_message + shape), ("receive", 8, headers + by_message), times]
    assert second[0] == [("send", 8, headers + by_message), ("receive", 9, headers + by_message + shape), times]
    assert first[2] == [("send", 5, later + shape), ("receive", 4, later), times]
    assert second[2] == [("send", 4, later), ("receive", 5, later + shape), times]
    assert (first[3], second[3]) == (first[0], second[0])  # behind a slow link no memory is shared


@pytest.mark.ranks
def test_ranks_train_as_lanes_do() -> None:
    for on_ranks, on_lanes in launch(programs.lanes_and_ranks, 2, backend="gloo", timeout_s=100):
        assert on_ranks == pytest.approx(on_lanes, abs=1e-5)
        assert on_ranks[2] < on_ranks[0]


@pytest.mark.ranks
def test_sleeping_stages_on_ranks_send_real_messages() -> None:
    for loss, engine, order, waited in launch(programs.sleeping, 2, backend="gloo", timeout_s=100):
        assert (loss, engine) == (0.0, "emulated")
        assert order == "1F0 1F1 1F2 1B2 1B1 1B0".split() or order == "1F0 1F1 1F2 1B0 1B1 1B2".split()
        assert waited > 0.0


@pytest.mark.ranks
def test_a_failing_rank_ends_the_others_and_is_the_cause() -> None:
    with pytest.raises(RankError, match="no such luck") as caught:
        launch(programs.one_rank_fails, 2, backend="gloo", timeout_s=60)
    assert caught.value.rank == 1


@pytest.mark.ranks
@pytest.mark.parametrize("late", [0, 1])
def test_a_rank_that_does_not_come_is_an_error_within_the_deadline(late: int) -> None:
    words = launch(programs.one_rank_is_late, 2, late, backend="gloo", timeout_s=60)
    assert words[late] == "late"
    assert f"receive from rank {late}" in words[1 - late] or f"send to rank {late}" in words[1 - late]


@pytest.mark.ranks
def test_what_does_not_fit_is_refused_in_a_sentence() -> None:
    for words in launch(programs.what_does_not_fit, 2, backend="gloo", timeout_s=60):
        assert "3 ranks and the group 2" in words[0]
        assert "runs stages" in words[1] and "runs stages" in words[2]


def test_tied_weights_are_found_by_their_places() -> None:
    (places,) = tied_weights(stages_of(tiny_gpt2(), 4))
    assert [stage for stage, _ in places] == [0, 3]
    assert places[0][1].endswith("wte.weight") and places[1][1].endswith("lm_head.weight")
    assert tied_weights([nn.Linear(2, 2), nn.Linear(2, 2)]) == ()


def test_both_ends_of_a_wire_know_what_crosses_it() -> None:
    schedule = gpipe(2, 2)
    down, up = list(crossings(schedule, 0, 1)), list(crossings(schedule, 1, 0))
    assert [str(crossing.name) for crossing in down] == [
        "activations of micro-batch 0 for stage 1",
        "activations of micro-batch 1 for stage 1",
    ]
    assert [crossing.name.forward for crossing in up] == [False, False]
    assert [schedule.rows[1][crossing.taken_at].kind for crossing in down] == ["F", "F"]
    assert [str(schedule.rows[0][crossing.taken_at]) for crossing in up] == [
        str(schedule.rows[1][crossing.made_at]).replace("1", "0", 1) for crossing in up
    ]


def test_no_batch_is_refused_where_it_is_needed() -> None:
    executor = RankExecutor(gpipe(1, 2), {0: nn.Linear(2, 2)}, nn.functional.mse_loss)
    with pytest.raises(ValueError, match="targets is None"):
        executor.step(torch.ones(2, 2))
    with pytest.raises(ValueError, match="batch is None"):
        executor.step(None, torch.ones(2, 2))


def test_a_list_of_stages_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="the stages are a list; give this rank's by number"):
        RankExecutor(gpipe(1, 2), [nn.Linear(2, 2)], nn.functional.mse_loss)


def test_a_world_of_one_goes_on_after_a_failed_step() -> None:
    executor = RankExecutor(gpipe(1, 2), {0: nn.Linear(2, 2)}, nn.functional.mse_loss)
    with pytest.raises(ValueError, match="the batch has 3 rows and the targets 2"):
        executor.step(torch.ones(3, 2), torch.ones(2, 2))
    assert executor.step(torch.ones(2, 2), torch.ones(2, 2)).loss > 0


@pytest.mark.ranks
def test_a_frozen_tied_weight_gets_no_gradient() -> None:
    assert launch(programs.frozen_and_tied, 2, backend="gloo", timeout_s=60) == [(True, True)] * 2


@pytest.mark.ranks
def test_after_a_failed_step_the_ranks_are_to_be_started_again() -> None:
    """Messages of the failed step are under way, and the next step's would meet them; earlier gradients stay."""
    for first, second, gradient in launch(programs.step_after_a_failure, 2, backend="gloo", timeout_s=60):
        assert first in ("KeyError", "PeerError")
        assert "an earlier step failed" in second
        assert torch.equal(gradient, torch.ones(4, 4))


@pytest.mark.ranks
def test_rows_that_differ_from_rank_to_rank_are_refused() -> None:
    words = launch(programs.other_rows, 2, backend="gloo", timeout_s=60)
    assert "the batch has 6 rows and the targets 2" in words[1]


@pytest.mark.ranks
def test_sleeping_ranks_may_have_a_loss_and_no_batch() -> None:
    assert launch(programs.sleeping_with_a_loss, 2, backend="gloo", timeout_s=60) == [0.0, 0.0]


@pytest.mark.ranks
def test_a_tied_weight_that_is_used_again_in_backward_has_one_gradient() -> None:
    assert max(launch(programs.recomputed_and_tied, 2, backend="gloo", timeout_s=60)) < 1e-6


@pytest.mark.ranks
def test_a_mean_over_tokens_is_the_plain_models() -> None:
    seen = launch(programs.mean_over_tokens, 2, backend="gloo", timeout_s=60)
    assert max(max(loss, gradients) for loss, gradients, _ in seen) < 1e-6


@pytest.mark.ranks
@pytest.mark.parametrize("asleep", [(0,), (1,)])
def test_ranks_of_which_some_sleep_agree_that_it_was_real(asleep: tuple[int, ...]) -> None:
    assert launch(programs.some_sleep, 3, asleep, True, backend="gloo", timeout_s=60) == [("real", "")] * 3


@pytest.mark.ranks
def test_a_last_rank_that_sleeps_alone_is_refused() -> None:
    """Without a loss nothing goes back but a token, and a real stage took it for a gradient."""
    first, last = launch(programs.some_sleep, 2, (1,), True, backend="gloo", timeout_s=60)
    assert "if the last stage sleeps, let all sleep, or the last one not" in first[1]
    assert "PeerError" in last[1]


@pytest.mark.ranks
def test_a_first_rank_that_sleeps_without_a_batch_is_refused_by_those_awake() -> None:
    first, last = launch(programs.some_sleep, 2, (0,), False, backend="gloo", timeout_s=60)
    assert "stage 0 has no batch, and stage 1 does not sleep; give it one, or let all sleep" in last[1]
    assert "PeerError" in first[1]


@pytest.mark.ranks
def test_ranks_on_two_hosts_are_on_one_clock() -> None:
    one, other = launch(programs.on_two_hosts, 2, backend="gloo", timeout_s=100)
    assert one == other
    assert 0.02 < one < 100
