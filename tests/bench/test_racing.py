"""The race: all entrants learn the same, a cheat is refused, and the reasons follow from seconds and processor time."""

from functools import partial

import pytest
import torch

from pllab.bench.entrants import Entrant, Track, one_lane, package_entrants, stepped
from pllab.bench.measure import Comparison, Implausible
from pllab.bench.racing import RaceResult, race
from pllab.show import Race
from tests.lesson.variants_05 import by_hand
from tests.lesson.variants_09 import clock_there_and_back


def track(num_rows=22):  # of which 8 micro-batches are not all of one size
    rows = torch.randint(50, (num_rows, 9), generator=torch.Generator().manual_seed(1))
    return Track(dataset=[(row[:-1], row[1:]) for row in rows], vocab_size=50, num_layers=2, width=16)


def forgets_to_step(rank, world_size, model, dataset, num_steps, batch_size, lr):
    return one_lane(rank, world_size, model, dataset, num_steps, batch_size, 0.0)


def test_all_entrants_learn_the_same_and_the_learners_own_run_beside_them():
    entrants = package_entrants(track()) | {
        "your data parallel": Entrant(by_hand, num_ranks=2),
        "your pipe": Entrant(partial(stepped, clock_there_and_back, track().sizes, 3)),
    }
    board = Race(list(entrants), num_devices=2)
    result = race(entrants, track(), num_rounds=2, board=board)
    assert result.names == list(entrants)
    first, *_, last = result.losses["one lane"]
    assert len(result.losses["one lane"]) == track().num_steps
    assert last < first
    assert all(len(result.cpu_s[name]) == len(result.speedups(name)) == 2 for name in entrants)
    judged = ["baseline", *(f"{result.speedup(name):.2f}x" for name in result.names[1:])]
    assert [runner.verdict for runner in board.runners.values()] == judged
    assert result.winner().split(" ")[0] in {"No", "This", *(name.split(" ")[0] for name in entrants)}
    assert result.picture().alt.count("busy") == len(entrants)


def test_an_entrant_that_learns_something_else_is_refused():
    entrants = {"one lane": Entrant(one_lane), "fast": Entrant(forgets_to_step)}
    with pytest.raises(Implausible, match="no race: the loss of step 2 is .* for fast and .* for one lane"):
        race(entrants, track(), num_rounds=1)


def result(**seconds_and_cpu):
    seconds = {name: tuple(pairs[0]) for name, pairs in seconds_and_cpu.items()}
    comparison = Comparison(seconds, "lane", num_devices=2, tokens=100)
    two_steps = dict.fromkeys(seconds, [2.0, 1.0])
    return RaceResult(comparison, two_steps, {name: pairs[1] for name, pairs in seconds_and_cpu.items()})


LANE = ([2.0, 2.0, 3.0], [2.0, 2.0, 3.0])


def test_a_winner_has_won_every_round_and_its_reason_follows():
    shown = result(lane=LANE, data=([1.0, 1.0, 1.5], [1.8, 1.8, 2.7]), turns=([2.0, 2.1, 3.0], [2.0, 2.0, 3.0]))
    assert shown.winner() == (
        "data won: it was faster than each of the others in all 3 rounds. data: 2 devices, 90% busy, with 0.90 times "
        "the processor time of lane, which was 100% busy; that makes 2.00x."
    )
    assert shown.reason("turns").startswith("turns: 2 devices, 50% busy, with 1.00 times")
    assert shown.reason("lane") == (
        "lane has one device and idles 0% of its time; its slowest round took 1.50 times as long as its fastest."
    )
    assert "lane   " in shown.table()
    assert "turns 1.00 busy and 1.00 idle" in shown.picture().alt


@pytest.mark.parametrize("num_rounds", [1, 4, 5])
def test_table_picture_and_reasons_are_of_the_round_with_the_median_speedup(num_rounds):
    lane = [1.0, 2.0, 0.8, 1.2, 3.0][:num_rounds], [0.9, 1.1, 0.8, 1.1, 1.0][:num_rounds]
    data = [0.6, 3.0, 0.5, 0.7, 1.0][:num_rounds], [1.1, 1.3, 0.9, 1.2, 1.2][:num_rounds]
    shown = result(lane=lane, data=data)
    number = shown.typical_round("data")
    assert sorted(shown.speedups("data"))[(num_rounds - 1) // 2] == shown.speedup("data")
    base_busy = lane[1][number] / lane[0][number]
    assert 2 * (1 - shown.idle("data")) / shown.work("data") / base_busy == pytest.approx(shown.speedup("data"))
    idle = shown.work("data") * shown.idle("data") / (1 - shown.idle("data"))
    assert f"data {shown.work('data'):.2f} busy and {idle:.2f} idle" in shown.picture().alt
    assert f"{shown.idle('data'):4.0%}  {shown.work('data'):.2f}x" in shown.table()


@pytest.mark.parametrize(
    ("seconds", "cpu", "said"),
    [
        ([1.0, 1.4, 1.2], [1.0, 1.4, 1.2], ""),
        ([1.0, 1.6, 1.2], [1.0, 1.6, 1.2], "idled 0% of its time, and its slowest round took 1.60 times"),
        ([1.0, 1.4, 1.2], [0.9, 1.2, 1.0], "idled 17% of its time, and its slowest round took 1.40 times"),
    ],
)
def test_a_race_whose_baseline_was_disturbed_has_no_verdict_but_that(seconds, cpu, said):
    shown = result(lane=(seconds, cpu), data=([0.7, 0.8, 0.7], [1.0, 1.0, 1.0]))
    assert said in shown.disturbed()
    assert bool(said) == bool(shown.disturbed()) == shown.winner().startswith("This run cannot be used")


def test_without_a_winner_the_level_ones_are_named():
    shown = result(lane=LANE, one=([1.0, 1.1, 1.5], [2.0] * 3), two=([1.1, 1.0, 1.7], [2.0] * 3))
    assert shown.winner().startswith("No single winner: two won some of the 3 rounds against one, or drew level.")
    assert "two: 2 devices" in shown.winner()


@pytest.mark.parametrize(
    ("seconds", "cpu", "base_cpu", "said"),
    [
        ([0.9, 1.2, 1.425], [1.7, 1.7, 2.55], LANE[1], "reach down to 1.67x"),
        ([0.95, 0.95, 1.425], [1.7, 1.7, 2.55], LANE[1], "0.85 of the processor time"),
        ([0.95, 0.95, 1.425], [1.6, 1.6, 2.4], [1.7, 1.7, 2.55], "lane idled 15% of its time"),
    ],
)
def test_a_speedup_above_the_devices_is_explained(seconds, cpu, base_cpu, said):
    shown = result(lane=(LANE[0], base_cpu), data=(seconds, cpu))
    shown.comparison.check()
    (sentence,) = shown.above_devices()
    assert said in sentence
