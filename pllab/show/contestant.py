"""One lane of a race: how far it is, how fast it runs, and what its finished rates say.

The words and the verdicts are here, so that the live widget, its table and the printed figure agree.
"""

import statistics
from dataclasses import dataclass
from typing import Any

from pllab.show.theme import write_number


@dataclass(frozen=True)
class Contestant:
    """The state of one lane; `rates` is empty until it has finished."""

    name: str
    progress: float = 0.0
    rate: float = 0.0
    rates: tuple[float, ...] = ()
    note: str = ""

    @property
    def done(self) -> bool:
        """Whether the measured rates are in."""
        return bool(self.rates)

    @property
    def speed(self) -> float:
        """The median of the finished rates, or the present rate."""
        return statistics.median(self.rates) if self.rates else self.rate

    @property
    def low(self) -> float:
        """The slowest finished rate, or the present one."""
        return min(self.rates, default=self.rate)

    @property
    def high(self) -> float:
        """The fastest finished rate, or the present one."""
        return max(self.rates, default=self.rate)

    def speedup_over(self, first: "Contestant") -> float | None:
        """Ratio of the medians, once both have finished."""
        return self.speed / first.speed if self.done and first.done else None

    def ties_with(self, first: "Contestant") -> bool:
        """Whether both have finished and their rates overlap, so that the order proves nothing."""
        return self.done and first.done and self.low <= first.high and first.low <= self.high


def doubt(runner: Contestant, first: Contestant, num_devices: int) -> str:
    """What is wrong with a result, in one sentence; empty when it can be believed.

    Example: 14.4x on 2 devices: `pipeline: 14.40x is more than 2 devices can give; ...`.
    """
    speedup = runner.speedup_over(first)
    if speedup is None or runner is first:
        return ""
    if speedup > num_devices:
        devices = f"{num_devices} device{'s' if num_devices > 1 else ''}"
        return (
            f"{runner.name}: {speedup:.2f}x is more than {devices} can give; "
            "look for a mistake in the measurement before you believe it."
        )
    if runner.ties_with(first):
        return f"{runner.name}: the difference from {first.name} is smaller than the spread, so call it a tie."
    return ""


def lane_of(runner: Contestant, first: Contestant, num_devices: int, unit: str) -> dict[str, Any]:
    """A contestant as plain data for the browser, the table and `.state()`."""
    speedup = runner.speedup_over(first)
    return {
        "name": runner.name,
        "progress": runner.progress,
        "done": runner.done,
        "rate": runner.speed,
        "low": runner.low,
        "high": runner.high,
        "num_rates": len(runner.rates),
        "speedup": speedup,
        "note": runner.note,
        "doubt": doubt(runner, first, num_devices),
        "value": f"{write_number(runner.speed)} {unit}" if runner.speed else "waiting",
        "ratio": _say_ratio(runner, first, speedup),
        "spread": f"{write_number(runner.low)} to {write_number(runner.high)}" if runner.done else "",
    }


def _say_ratio(runner: Contestant, first: Contestant, speedup: float | None) -> str:
    if runner is first:
        return "baseline"
    return f"{speedup:.2f}x" if speedup is not None else ""
