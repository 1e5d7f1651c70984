"""Comparisons on a clock that the runs move themselves, so that no test depends on a real second."""

import socket
from collections.abc import Callable

import pytest

from pllab.bench.measure import Comparison, Implausible, Spread, check_same_losses, check_speedup, compare, speedup
from pllab.comm import launch


class Weather:
    """A clock, and runs that take a given time, slowed by a factor that drifts from call to call."""

    def __init__(self, drift: float = 0.0) -> None:
        self.now, self.calls, self.drift = 0.0, [], drift

    def clock(self) -> float:
        return self.now

    def run(self, name: str, seconds: float) -> Callable[[], None]:
        def step() -> None:
            self.now += seconds * (1 + self.drift * len(self.calls))
            self.calls.append(name)

        return step


def test_runs_alternate_and_neither_the_warm_up_nor_what_is_done_before_a_run_is_timed() -> None:
    weather = Weather(drift=1.0)
    runs, before = ({name: weather.run(each + name, 1.0) for name in "ab"} for each in ("", "before "))
    result = compare(runs, repeats=2, warmup=1, before=before, clock=weather.clock)
    assert weather.calls == ["before a", "a", "before b", "b"] * 3
    assert result.seconds == {"a": (6.0, 10.0), "b": (8.0, 12.0)}


@pytest.mark.parametrize(
    ("values", "expected"),
    [([5.0], (5, 5, 5)), ([1.0, 2.0, 3.0, 4.0, 5.0], (3, 2, 4)), ([1.0, 3.0], (2, 1.5, 2.5))],
)
def test_spread(values: list[float], expected: tuple[float, ...]) -> None:
    assert Spread.of(values) == expected


@pytest.mark.parametrize(
    ("baseline_s", "contender_s", "expected"),
    [
        ((2.0, 4.0, 6.0), (1.0, 1.0, 5.0), 2.0),  # medians of the times would say 4
        ((1.0, 1.0), (2.0, 4.0), 0.375),  # a loss is a result
        ((1.0, 1.0), (0.9, 1.1), None),
        ((1.0, 1.0), (0.5, 1.0), None),  # a draw is not a win
    ],
)
def test_a_speed_up_is_a_median_of_rounds_or_nothing(
    baseline_s: tuple[float, ...], contender_s: tuple[float, ...], expected: float | None
) -> None:
    assert speedup(baseline_s, contender_s) == expected
    assert speedup(baseline_s, baseline_s) is None


def test_more_speed_than_devices_is_refused() -> None:
    weather = Weather()
    runs = {"plain": weather.run("plain", 14.4), "pipe": weather.run("pipe", 1.0)}
    with pytest.raises(Implausible, match=r"speed-up failed: pipe is 14\.40x as fast on 2 devices"):
        compare(runs, repeats=3, num_devices=2, clock=weather.clock)
    check_speedup(2.1, 2)  # noise
    with pytest.raises(Implausible):
        check_speedup(2.3, 2)


@pytest.mark.parametrize("losses", [[3.0, 2.0, 1.0], [3.0], [3.0, float("nan")], [3.0, 2.1]])
def test_losses_must_agree_at_every_step(losses: list[float]) -> None:
    check_same_losses({"one lane": [3.0, 2.0], "other": [3.0002, 2.0]})
    with pytest.raises(Implausible, match="no race: "):
        check_same_losses({"one lane": [3.0, 2.0], "other": losses})


@pytest.mark.parametrize(("repeats", "warmup"), [(0, 1), (1, -1)])
def test_what_would_count_no_round_is_refused(repeats: int, warmup: int) -> None:
    with pytest.raises(ValueError, match=f"repeats={repeats}, warmup={warmup} measure nothing; give at least one"):
        compare({"a": list}, repeats, warmup)


def test_a_baseline_that_is_no_run_is_refused_before_anything_runs() -> None:
    with pytest.raises(ValueError, match="baseline 'b' is not among the runs; choose one of a, 125"):
        compare({"a": pytest.fail, 125: pytest.fail}, baseline="b")


def test_the_table_has_the_ratio_of_each_round_total_over_total_and_who_is_level() -> None:
    # The mean of the rates would be (100 + 25) / 2.
    result = Comparison({"a": (2.0, 8.0), "shorter": (1.0, 4.0), "level": (1.0, 12.0)}, "a", tokens=100)
    _, _, shorter, _, note = result.table().splitlines()
    assert shorter.split() == ["shorter", "2.5000", "1.7500-3.2500", "0.500", "0.500-0.500", "40", "tokens/s"]
    assert note == "level and a cannot be told apart: half of the ratios lie from 0.750 to 1.250, on both sides of 1"
    assert result.ratio("a", to="shorter").median == 2.0
    assert Comparison({"a": (1.0,)}, "a").tokens_per_s("a") is None


def test_the_machine_has_no_host_name() -> None:
    described = compare({"a": Weather().run("a", 1.0)}, engine="emulated", clock=iter(range(99)).__next__).machine
    assert {"cpu", "cores", "device", "threads_per_rank", "torch"} <= described.keys()
    assert described["engine"] == "emulated"
    assert socket.gethostname() not in map(str, described.values())


def measure_together(rank: int, world_size: int) -> Comparison:
    """Rank 0 is slow at a, rank 1 at b."""
    weather = Weather()
    runs = {"a": weather.run("a", 3.0 - rank), "b": weather.run("b", 1.0 + rank)}
    return compare(runs, repeats=2, in_step=True, clock=weather.clock)


def test_ranks_in_step_agree_on_the_slowest() -> None:
    results = launch(measure_together, 2, backend="gloo", timeout_s=60.0)
    for result in results:
        assert result.seconds == {"a": (3.0, 3.0), "b": (2.0, 2.0)}
