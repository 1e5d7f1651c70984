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
_MOST_RANKS = 1 << 20
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
        return {call.order: call for call in self.calls if call.is_collective and call.group == group}

    def to_json(self) -> dict[str, Any]:
        """The record as plain values, for `json.dumps`."""
        return {MARK: VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "Record":
        """The record from the output of `to_json`.

        Raises:
            ValueError: a part is missing or is no such value.
        """
        if found.get(MARK) != VERSION:
            raise ValueError(f"it is a record of version {found.get(MARK)!r}, and this pllab reads version {VERSION}")
        try:
            return cls(
                rank=whole(found["rank"]),
                world_size=whole_number("world_size", whole(found["world_size"]), most=_MOST_RANKS),
                calls=tuple(_call(call) for call in found["calls"]),
                state=str(found["state"]),
                caught=tuple(Caught(str(c["text"]), str(c["where"]), whole(c["before_call"])) for c in found["caught"]),
                stack=tuple(map(str, found["stack"])),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ValueError(f"a part of the record is missing or has another form ({error!r})") from None


def _call(found: Mapping[str, Any]) -> Call:
    made = Call(**{**found, "shape": tuple(whole(size) for size in found["shape"])})
    whole(made.number), whole(made.order)
    require(math.isfinite(made.started_s) and math.isfinite(made.finished_s or 0), "a time is not finite")
    if not isinstance(made.name, str) or not isinstance(made.group, str) or not isinstance(made.dtype, str):
        raise TypeError(made.name)
    if made.peer is not None:
        whole(made.peer)
    return made


def whole(value: Any) -> int:
    """The value, if it is a whole number of 64 bits.

    Raises:
        TypeError: it is not.
    """
    if type(value) is not int or abs(value) >= 1 << 63:
        raise TypeError(f"{str(value)[:40]!r} is no whole number of 64 bits")
    return value
