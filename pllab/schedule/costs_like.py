"""What a generator needs to know of costs; `pllab.simulate.Costs` is the one in use.

The generators stand below the simulator, so they name the questions they ask instead of importing the answer.
"""

from typing import Protocol

from pllab.schedule.action import Kind


class CostsLike(Protocol):
    """Seconds (or any one unit) of work and of messages, per stage."""

    def duration(self, stage: int, kind: Kind) -> float:
        """How long one action occupies its device; B is I and W together."""

    def message(self, sender: int, receiver: int) -> float:
        """How long a result of stage `sender` travels to stage `receiver` on another rank."""

    def check_stages(self, num_stages: int) -> None:
        """Raise a ValueError where the costs are for another number of stages."""
