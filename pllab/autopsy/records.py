"""What a rank left behind: the calls it made, in order, how far each got, and where its program is.

A record is a value: it is written by `pllab.comm.record_flight` while a rank runs, or read from a dump of torch's own
flight recorder; after that the rank is no longer needed to say what happened.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pllab.arguments import require, whole_number

Kind = tuple[Any, ...]
"""What must be the same on all ranks that take part in a call: name, shape, dtype, root and group."""
MARK = "pllab_flight"  # the first key of a record of ours
VERSION = 1
_MOST_RANKS = 1 << 20  # what asks for every rank would not end with the number of a damaged file
# The ranks of one such call may have tensors of different shapes: the root has all of them, the others one.
_SHAPE_IS_OWN = frozenset({"scatter", "gather", "all_to_all"})
_POINT_TO_POINT = frozenset({"send", "receive"})


@dataclass(frozen=True)
class Call:
    """One call of a collective, or of send and receive, as a rank made it.

    Example: `str(call)` is `all_reduce(768)`, `barrier` or `send(8, 16) to rank 1`.
    """

    number: int
    """Which call of this rank it is."""
    name: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    peer: int | None = None
    """The other end of a message, or the root of a broadcast; None for all ranks."""
    finished: bool = False
    """Whether the rank has the result."""
    started_s: float = 0.0
    """When the rank reached it, in seconds on one clock for all ranks."""
    finished_s: float | None = None
    has_nan: bool = False
    """Whether a value that this rank put in is not a number."""
    where: str = ""
    """The line of the program that made it."""
    group: str = ""
    order: int = 0
    """Its place among the collectives of its group; the ranks' calls with one place belong together."""

    @property
    def is_collective(self) -> bool:
        """Whether all ranks of its group make it."""
        return self.name not in _POINT_TO_POINT

    @property
    def kind(self) -> Kind:
        """What must be the same on all ranks that take part: name, shape, dtype, root and group."""
        own = self.name in _SHAPE_IS_OWN
        return (self.name, () if own else self.shape, "" if own else self.dtype, self.peer, self.group)

    def __str__(self) -> str:
        shape = f"({', '.join(map(str, self.shape))})" if self.shape else ""
        way = {"send": " to", "receive": " from"}.get(self.name, " with root")
        return f"{self.name}{shape}{'' if self.peer is None else f'{way} rank {self.peer}'}"


@dataclass(frozen=True)
class Caught:
    """An exception that did not end the rank: what, where, and which call the rank would have made next."""

    text: str
    where: str
    before_call: int


@dataclass(frozen=True)
class Record:
    """The flight record of one rank.

    Example: `record.last` is the last call it made, `record.standing` the first that is not finished.
    """

    rank: int
    world_size: int
    calls: tuple[Call, ...]
    state: str = "running"
    """`running`, `returned`, or the exception that ended it."""
    caught: tuple[Caught, ...] = ()
    stack: tuple[str, ...] = ()
    """The lines that its program is in, innermost first."""

    @property
    def last(self) -> Call | None:
        """The last call that the rank made."""
        return self.calls[-1] if self.calls else None

    @property
    def standing(self) -> Call | None:
        """The first call that is not finished; None if the rank waits for no other."""
        return next((call for call in self.calls if not call.finished), None)

    @property
    def next_number(self) -> int:
        """The number that its next call would have."""
        return self.calls[-1].number + 1 if self.calls else 0

    def collectives(self, group: str) -> dict[int, Call]:
        """Its collectives of one group by their place there."""
        in_order = sorted(self.calls, key=lambda call: call.number)  # a file may list them in another one
        return {call.order: call for call in in_order if call.is_collective and call.group == group}

    def to_json(self) -> dict[str, Any]:
        """The record as plain values, for `json.dumps`."""
        return {MARK: VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "Record":
        """The record from the output of `to_json`; whoever reads a file of strangers catches all it may raise.

        Raises:
            ValueError: it is of another version, or says that its job has more ranks than any job.
        """
        if found[MARK] != VERSION:
            raise ValueError(f"it is a record of version {found[MARK]!r}, and this pllab reads version {VERSION}")
        return cls(
            rank=whole_number("rank", found["rank"], least=0),
            world_size=whole_number("world_size", found["world_size"], most=_MOST_RANKS),
            calls=tuple(checked(Call(**{**call, "shape": tuple(call["shape"])})) for call in found["calls"]),
            state=found["state"],
            caught=tuple(Caught(**one) for one in found["caught"]),
            stack=tuple(found["stack"]),
        )


def checked(call: Call) -> Call:
    """The call of a foreign record, if what is compared and sorted is numbers.

    Raises:
        ValueError: its number or its place is no whole number, or a time is not finite.
    """
    whole_number("the number of a call", call.number, least=0)
    whole_number("the order of a call", call.order, least=0)
    require(math.isfinite(call.started_s) and math.isfinite(call.finished_s or 0), "a time is not finite")
    return call
