"""A run as the widgets ask for it: with the costs on screen where it takes them, and on which clock it answers."""

import inspect
from collections.abc import Callable

from pllab.schedule import Schedule
from pllab.simulate import Costs
from pllab.timeline import Timeline

Run = Callable[..., Timeline]


def takes_costs(run: Run | None) -> bool:
    """Whether a run has a parameter named `costs`: then it is given them, and its timeline is in their unit.

    Example: true of `pllab.pipeline.run_emulated` and of `partial(run_emulated, unit_s=0.01)`, false of
    `lambda schedule: executor_of(schedule).step(x, y).timeline`, which answers in seconds.
    """
    if run is None:
        return False
    try:
        return "costs" in inspect.signature(run).parameters
    except (TypeError, ValueError):  # a callable that does not tell
        return False


def call_run(run: Run, schedule: Schedule, costs: Costs) -> Timeline:
    """Run a schedule, with its costs where the run takes them."""
    return run(schedule, costs=costs) if takes_costs(run) else run(schedule)


def check_scale(run: Run | None, unit_s: float | None) -> None:
    """Refuse seconds for a unit of cost where a run answers in units.

    Raises:
        ValueError: naming the number and where it belongs.
    """
    if unit_s is not None and takes_costs(run):
        told = f"unit_s is {unit_s} and run takes costs, so that it answers in their unit; leave unit_s out"
        raise ValueError(f"{told}, or give it to the run: partial(run, unit_s={unit_s})")
