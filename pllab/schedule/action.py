"""The smallest word of a schedule: one stage does one kind of work on one micro-batch.

An action is a value with a text form, so that the same object can be printed, compared, stored in a CSV file,
drawn, simulated and run. The text form is the one torch.distributed.pipelining writes.
"""

import re
from enum import StrEnum
from typing import NamedTuple, Self


class Kind(StrEnum):
    """What an action does.

    F forward, B whole backward, I gradient of the input, W gradient of the weights: the four of a pipeline.
    C communication, U optimizer update, R recomputed forward: also drawn, never scheduled.
    """

    F = "F"
    B = "B"
    I = "I"  # noqa: E741 - the field's letter for the input gradient
    W = "W"
    C = "C"
    U = "U"
    R = "R"


_TEXT = re.compile(r"(\d+)([FBIWCUR])(\d+)")


class Action(NamedTuple):
    """One kind of work by one stage on one micro-batch, written `2F0`.

    Example: `str(Action(2, Kind.F, 0))` is `"2F0"`, and `Action.parse("2F0")` gives it back.

    Source: `_Action` in torch.distributed.pipelining.schedules.
    """

    stage: int
    kind: Kind
    microbatch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.microbatch}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text form: `"2F0"` -> `Action(2, Kind.F, 0)`.

        Raises:
            ValueError: the text is not a stage number, one of FBIWCUR and a micro-batch number.
        """
        match = _TEXT.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is no action; write stage, kind and micro-batch, for example 2F0")
        stage, kind, microbatch = match.groups()
        return cls(int(stage), Kind(kind), int(microbatch))
