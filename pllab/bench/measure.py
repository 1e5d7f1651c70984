"""Compare runs honestly: alternate them, report medians with their spread, and refuse the impossible.

A machine gets slower and faster by itself, so two times taken one after the other say little. Runs that
alternate A B C A B C see the same weather, and their ratios within a round are steady. Not here: what is run.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from pllab import comm
from pllab.bench.machine import machine
from pllab.show import Figure, figure
from pllab.timeline import Engine

__all__ = [
    "Comparison",
    "Implausible",
    "Spread",
    "check_same_gradients",
    "check_speedup",
    "compare",
    "machine",
    "speedup",
    "write_spread",
]

Run = Callable[[], object]
Clock = Callable[[], float]


class Implausible(ValueError):
    """A result that cannot be right; the sentence names the failed check, `.comparison` holds the times."""

    comparison: "Comparison | None" = None


class Spread(NamedTuple):
    """The middle of some values and the quartiles around it: half of the values lie from low to high."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Median and quartiles: `Spread.of([1, 2, 3, 4, 5])` is `Spread(median=3, low=2.0, high=4.0)`."""
        enough = values if len(values) > 1 else [*values, *values]
        low, _, high = statistics.quantiles(enough, n=4, method="inclusive")
        return cls(statistics.median(values), low, high)


def write_spread(spread: Spread, digits: int, unit: str = "") -> str:
    """Median and quartiles as text: `write_spread(Spread(1.5, 1.4, 1.6), 2, "x")` is `1.50x (1.40-1.60)`."""
    return f"{spread.median:.{digits}f}{unit} ({spread.low:.{digits}f}-{spread.high:.{digits}f})"


@dataclass(frozen=True)
class Comparison:
    """The seconds of several runs, round by round, and what may be concluded from them.

    Example, three rounds of two runs:

        seconds            {"ddp": (0.8, 0.6, 0.9), "flat": (0.6, 0.45, 0.7)}
        ratio("flat")      of 0.75, 0.75, 0.78: median 0.75, although the times differ by half
    """

    seconds: Mapping[str, tuple[float, ...]]
    baseline: str
    num_devices: int | None = None
    tokens: int | None = None
    machine: Mapping[str, str | int] = field(default_factory=dict)

    def time(self, name: str) -> Spread:
        """Seconds of one run."""
        return Spread.of(self.seconds[name])

    def ratio(self, name: str, to: str | None = None) -> Spread:
        """Time of a run over that of another (the baseline), taken round by round; below 1 is faster."""
        others = self.seconds[to or self.baseline]
        return Spread.of([mine / other for mine, other in zip(self.seconds[name], others, strict=True)])

    def speedup(self, name: str) -> float | None:
        """How many times as fast as the baseline, None when each of the two won some rounds."""
        return speedup(self.seconds[self.baseline], self.seconds[name])

    def tokens_per_s(self, name: str) -> float | None:
        """All tokens over all seconds, never a mean of rates; None when runs have no tokens."""
        return self.tokens and self.tokens * len(self.seconds[name]) / sum(self.seconds[name])

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each run that cannot be told from the baseline."""
        return tuple(
            f"{name} and {self.baseline} cannot be told apart: half of the ratios lie from {ratio.low:.3f} "
            f"to {ratio.high:.3f}, on both sides of 1"
            for name in self.seconds
            if name != self.baseline and (ratio := self.ratio(name)).low <= 1 <= ratio.high
        )

    def check(self) -> None:
        """Refuse what cannot be.

        Raises:
            Implausible: a run took no time, or is faster than the baseline by more than there are devices.
        """
        try:
            for name, seconds in self.seconds.items():
                if min(seconds) <= 0:
                    raise Implausible(f"{name} took {min(seconds)} s, which no clock can tell from nothing")
            for name in self.seconds:
                if self.num_devices is not None and name != self.baseline:
                    check_speedup(1 / self.ratio(name).median, self.num_devices, name=name)
        except Implausible as error:
            error.comparison = self
            raise

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`: machine, baseline, notes, and per run its times, ratio and rate."""
        runs = {
            name: {
                "seconds": list(seconds),
                "median_s": self.time(name).median,
                "quartiles_s": list(self.time(name)[1:]),
                "ratio": self.ratio(name).median,
                "ratio_quartiles": list(self.ratio(name)[1:]),
                "speedup": self.speedup(name),
                "tokens_per_s": self.tokens_per_s(name),
            }
            for name, seconds in self.seconds.items()
        }
        return {
            "machine": dict(self.machine),
            "baseline": self.baseline,
            "num_devices": self.num_devices,
            "tokens": self.tokens,
            "runs": runs,
            "notes": list(self.notes),
        }

    def picture(self, title: str) -> Figure:
        """Median seconds as bars, with the quartiles as whiskers; the sentence names every run."""
        from matplotlib.figure import Figure as Canvas

        names = list(self.seconds)
        times = [self.time(name) for name in names]
        fig = Canvas(figsize=(8.0, 0.5 * len(names) + 1.4), layout="constrained")
        axes = fig.add_subplot()
        spread = [[time.median - time.low for time in times], [time.high - time.median for time in times]]
        axes.barh(names, [time.median for time in times], xerr=spread, color="#0072B2", edgecolor="black", capsize=4)
        axes.invert_yaxis()
        axes.set_xlabel("seconds (median, quartiles)")
        axes.set_title(f"{title} ({self.machine.get('engine', 'real')})", loc="left")
        told = ", ".join(f"{name} {time.median:.3f} s" for name, time in zip(names, times, strict=True))
        return figure(fig, f"{title}: {told}")

    def table(self) -> str:
        """The comparison as text, one line per run and one per note."""
        width = max(len("run"), *map(len, self.seconds))
        lines = [f"{'run':{width}}  median s  quartiles      ratio  quartiles      (to {self.baseline})"]
        for name in self.seconds:
            took, ratio = self.time(name), self.ratio(name)
            rate = f"  {self.tokens_per_s(name):.0f} tokens/s" if self.tokens else ""
            lines.append(
                f"{name:{width}}  {took.median:8.4f}  {took.low:.4f}-{took.high:.4f}  {ratio.median:.3f}  "
                f"{ratio.low:.3f}-{ratio.high:.3f}{rate}"
            )
        return "\n".join([*lines, *self.notes])


def compare(
    runs: Mapping[str, Run],
    repeats: int = 9,
    warmup: int = 1,
    *,
    baseline: str | None = None,
    num_devices: int | None = None,
    tokens: int | None = None,
    in_step: bool = False,
    settle: bool = False,
    engine: Engine = "real",
    clock: Clock = time.perf_counter,
) -> Comparison:
    """Time some runs against each other, one of each per round.

    Example: `compare({"plain": step, "pipe": pipe_step}, baseline="plain", num_devices=2).ratio("pipe")`.

    With `in_step`, each rank of a group calls it with runs of the same names; all wait for each other before
    each run, and a run takes as long as its slowest rank. Every rank gets the same comparison.

    Args:
        runs: what to time, by name; the order is kept.
        repeats: rounds that count.
        warmup: rounds before, which do not count.
        baseline: the run that ratios are taken to; by default the first.
        num_devices: the most a run can be faster than the baseline; None when both use the same devices.
        tokens: tokens that one call of a run works through (on all ranks together), for rates.
        in_step: whether several ranks measure together.
        settle: whether each run is done twice in a row and the second is timed. A run that needs much memory after one
            that needed little pays for getting it, and so would whichever comes first.
        engine: what kind of run this is, for the description of the machine.
        clock: seconds, rising.

    Raises:
        ValueError: there are no runs, no rounds, or no such baseline.
        Implausible: `Comparison.check` failed.
    """
    name = _checked_baseline(runs, repeats, warmup, baseline)
    seconds: dict[str, list[float]] = {run: [] for run in runs}
    for _ in range(warmup + repeats):
        for run, function in runs.items():
            if settle:
                function()
            seconds[run].append(_timed(function, clock, in_step))
    if in_step:
        seconds = _slowest(comm.all_gather_object(seconds))
    kept = {run: tuple(times[warmup:]) for run, times in seconds.items()}
    comparison = Comparison(kept, name, num_devices, tokens, machine(engine))
    comparison.check()
    return comparison


def speedup(baseline_s: Sequence[float], contender_s: Sequence[float]) -> float | None:
    """Median of the speed-ups of all rounds, or None when each side won some: then there is nothing to report.

    Example: `speedup([1.0, 2.0, 1.0], [0.5, 1.0, 0.9])` is 2.0, and `speedup([1.0, 1.0], [0.9, 1.1])` is None.

    Round k timed both sides, one right after the other, so its ratio does not depend on how fast the machine was.
    Lesson 16.
    """
    ratios = [before / now for before, now in zip(baseline_s, contender_s, strict=True)]
    return None if min(ratios) <= 1 <= max(ratios) else statistics.median(ratios)


def check_speedup(speedup: float, num_devices: int, tolerance: float = 0.1, name: str = "this run") -> None:
    """Refuse a speed-up beyond the number of devices, for example 14.4 on 2 GPUs.

    Raises:
        Implausible: the speed-up exceeds the number of devices by more than the tolerance.
    """
    if speedup > num_devices * (1 + tolerance):
        raise Implausible(
            f"check of the speed-up failed: {name} is {speedup:.2f}x as fast on {num_devices} devices, and "
            f"more than {num_devices}x means that the two did not do the same work"
        )


def check_same_gradients(found: Mapping[str, torch.Tensor], baseline: str, rtol: float, atol: float) -> None:
    """Refuse to compare ways whose gradients differ; `found` holds what each way left, for example the norms.

    Raises:
        Implausible: a way did not compute the baseline's gradients.
    """
    for name, gradients in found.items():
        if not torch.allclose(gradients, found[baseline], rtol=rtol, atol=atol):
            raise Implausible(f"check of the gradients failed: {name} and {baseline} did not compute the same")


def _checked_baseline(runs: Mapping[str, Run], repeats: int, warmup: int, baseline: str | None) -> str:
    """The baseline's name, once the request makes sense."""
    if not runs or repeats < 1 or warmup < 0:
        raise ValueError(
            f"{len(runs)} runs, repeats={repeats}, warmup={warmup} measure nothing; give at least one run, "
            "one repeat and no negative warm-up"
        )
    name = next(iter(runs)) if baseline is None else baseline
    if name not in runs:
        raise ValueError(f"baseline {name!r} is not among the runs; choose one of {', '.join(runs)}")
    return name


def _timed(function: Run, clock: Clock, in_step: bool) -> float:
    """Seconds of one call; on a GPU, until its work is done and not until it is queued."""
    _synchronize()
    if in_step:
        comm.barrier()
    start = clock()
    function()
    _synchronize()
    return clock() - start


def _synchronize() -> None:
    """Wait for the GPU if one is in use; torch refuses the question on a build without CUDA."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _slowest(by_rank: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, list[float]]:
    """Per run and round, the time of the slowest rank."""
    return {run: [max(times) for times in zip(*(rank[run] for rank in by_rank), strict=True)] for run in by_rank[0]}
