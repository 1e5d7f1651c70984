"""The ring: messages between ranks, step by step, of a real run or of a collective.

The picture of a run comes from the ledgers of all ranks. A send is drawn only if the ledger of the other rank has its
receive, so the picture of a ring also proves that the messages match. A collective is drawn as it is checked.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pllab.arguments import require
from pllab.show.figures import TITLE, Axes, Figure, draw_cell, drawing, figure
from pllab.show.theme import INK, LIGHT, count_of
from pllab.transfers import Collective, Holdings, check, chunk_name, holdings

_WIDTH_IN = 10.4  # steps that need more go on in a second band
_NAME_IN = 0.75  # room for the name of a rank
_LETTER_IN = 0.095  # width of a letter of what is held or sent
_LINE_IN = 0.24  # height of a chunk
_ARROW_IN = 0.6  # room for arrows between a message and its receiver
_HEAD_IN = 0.4  # room for the names of the steps


@dataclass(frozen=True)
class _Hop:
    """A message: who sends it, who receives it, and what it carries."""

    source: int
    to: int
    text: str
    num_bytes: int = 0


@dataclass(frozen=True)
class _Moment:
    """What each rank holds after a step, a text for each chunk, and the messages of the step."""

    held: Sequence[Sequence[str]]
    hops: Sequence[_Hop]


def draw_ring(run: Sequence[Mapping[str, Any]] | Collective) -> Figure:
    """Draw the messages of a ring, or of any collective, and what each rank holds before and after each step.

    Example, one step of two ranks that add up what they receive:

        draw_ring([
            {"messages": [("send", 1, 4), ("receive", 1, 4)], "held": [1, 11], "sent": [1]},
            {"messages": [("send", 0, 4), ("receive", 0, 4)], "held": [10, 11], "sent": [10]},
        ])

    There is one record for each rank: the name, the peer and the bytes of its messages, in the order of its ledger;
    the number it held before the first step and after each one; the number it sent in each step.

    With a collective, `draw_ring(pllab.transfers.tree_broadcast(8))`, a rank has a box for each chunk: `b02` is chunk b
    with the sum of ranks 0 and 2.

    Raises:
        ValueError: a send has no receive, or the collective misses its goal.
    """
    moments = _moments_of_collective(run) if isinstance(run, Collective) else _moments_of_ring(run)
    titles = _titles_of(run, moments)
    sentences = [_sentence_of(step, moment) for step, moment in enumerate(moments)]
    return figure(_draw("\n".join(titles), moments), ". ".join([*titles, *sentences]))


def _titles_of(run: Sequence[Mapping[str, Any]] | Collective, moments: Sequence[_Moment]) -> tuple[str, str]:
    """What runs and how much, and what it sends: `3 ranks in a ring, 2 steps`, `6 messages, 24 bytes, engine: real`."""
    hops = [hop for moment in moments for hop in moment.hops]
    steps = count_of(len(moments) - 1, "step")
    if isinstance(run, Collective):
        key = "a01 is chunk a with the sum of ranks 0 and 1"
        return f"{run.name}, {run.num_ranks} ranks, {steps}", f"{count_of(len(hops), 'message')}, {key}, calculated"
    num_bytes = sum(hop.num_bytes for hop in hops)
    return f"{len(run)} ranks in a ring, {steps}", f"{count_of(len(hops), 'message')}, {num_bytes} bytes, engine: real"


def _moments_of_ring(records: Sequence[Mapping[str, Any]]) -> list[_Moment]:
    """What ranks hold before and after each step, in numbers."""
    held = zip(*(record["held"] for record in records), strict=True)
    hops = zip(*(_hops_of(records, rank) for rank in range(len(records))), strict=True)
    return [
        _Moment([[f"{number:g}"] for number in numbers], sent) for numbers, sent in zip(held, [(), *hops], strict=True)
    ]


def _hops_of(records: Sequence[Mapping[str, Any]], rank: int) -> Iterator[_Hop]:
    """What a rank sent, step by step, each message checked against the ledger of its receiver."""
    sends, numbers = _named(records[rank], "send"), records[rank]["sent"]
    for step, ((_, peer, num_bytes), number) in enumerate(zip(sends, numbers, strict=True)):
        received = tuple(_named(records[peer], "receive")[step])
        require(
            received == ("receive", rank, num_bytes),
            f"rank {rank} sent {num_bytes} bytes to rank {peer} in step {step + 1}, and no rank {peer} received "
            "them from it in that step",
        )
        yield _Hop(rank, peer, f"{number:g}", num_bytes)


def _named(record: Mapping[str, Any], name: str) -> list[Sequence[Any]]:
    return [message for message in record["messages"] if message[0] == name]


def _moments_of_collective(collective: Collective) -> list[_Moment]:
    """What ranks hold in names of ranks, chunk by chunk."""
    check(collective)
    moments: list[_Moment] = []
    before: Holdings = ()
    for holding, transfers in zip(holdings(collective), [(), *collective.rounds], strict=True):
        hops = [_Hop(one.source, one.to, _content(one.chunk, before[one.source][one.chunk])) for one in transfers]
        moments.append(_Moment([[_content(*each) for each in enumerate(chunks)] for chunks in holding], hops))
        before = holding
    return moments


def _content(chunk: int, ranks: Sequence[int]) -> str:
    return chunk_name(chunk) + "".join(map(str, ranks))


def _sentence_of(step: int, moment: _Moment) -> str:
    """`step 1: rank 0 sends 1 to rank 1, rank 1 sends 10 to rank 0; then they hold 11, 11`."""
    held = [" ".join(chunks) for chunks in moment.held]
    if not step:
        return "start: " + ", ".join(f"rank {rank} holds {text}" for rank, text in enumerate(held))
    sent = ", ".join(f"rank {hop.source} sends {hop.text} to rank {hop.to}" for hop in moment.hops)
    return f"step {step}: {sent}; then they hold {', '.join(held)}"


@dataclass(frozen=True)
class _Places:
    """Where things are, in inches: time runs to the right and, where it is long, goes on in a second band.

    That begins with what the first one ends with. A message stands beside its sender, and arrows are to the right of
    all messages of their step: nothing hides another.
    """

    columns: int
    lines: int
    cell: float
    num_ranks: int
    steps_in_band: int

    @classmethod
    def of(cls, moments: Sequence[_Moment]) -> "_Places":
        num_chunks, num_steps = len(moments[0].held[0]), len(moments) - 1
        longest = max(len(text) for moment in moments for chunks in moment.held for text in chunks)
        columns = math.isqrt(num_chunks - 1) + 1
        lines, cell = -(-num_chunks // columns), _LETTER_IN * longest + 0.16
        wide = cls(columns, lines, cell, len(moments[0].held), num_steps)
        return wide if wide.width <= _WIDTH_IN else replace(wide, steps_in_band=-(-num_steps // 2))

    @property
    def held(self) -> float:
        """Width of what a rank holds."""
        return self.columns * self.cell

    @property
    def step(self) -> float:
        """Width from one moment to the next."""
        return self.held + self.cell + 0.2 + _ARROW_IN

    @property
    def rank(self) -> float:
        """Height of the row of a rank."""
        return self.lines * _LINE_IN + 0.22

    @property
    def band(self) -> float:
        """Height of a band."""
        return _HEAD_IN + self.num_ranks * self.rank

    @property
    def width(self) -> float:
        """Width of everything."""
        return _NAME_IN + self.steps_in_band * self.step + self.held + 0.15

    def middle(self, band: int, rank: int) -> float:
        """The height of a rank's middle."""
        return band * self.band + _HEAD_IN + (rank + 0.5) * self.rank


def _draw(title: str, moments: Sequence[_Moment]) -> Any:
    places = _Places.of(moments)
    starts = range(0, len(moments) - 1, places.steps_in_band)
    height = len(starts) * places.band
    with drawing(places.width, height) as fig:
        axes = fig.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, places.width)
        axes.set_ylim(height, 0)
        axes.axis("off")
        axes.set_title(title, **TITLE)
        for band, first in enumerate(starts):
            for rank in range(places.num_ranks):
                axes.text(0.05, places.middle(band, rank), f"rank {rank}", va="center")
            _draw_band(axes, places, band, moments, range(first, min(first + places.steps_in_band + 1, len(moments))))
    return fig


def _draw_band(axes: Axes, places: _Places, band: int, moments: Sequence[_Moment], steps: range) -> None:
    """What each rank holds after each of these steps, and between them the messages."""
    for number, step in enumerate(steps):
        left = _NAME_IN + number * places.step
        name = f"step {step}" if step else "start"
        axes.text(left + places.held / 2, band * places.band + 0.2, name, ha="center", va="center")
        for rank, chunks in enumerate(moments[step].held):
            before = moments[max(0, step - 1)].held[rank]
            _draw_held(axes, places, (left, places.middle(band, rank)), chunks, before)
        if number:
            _draw_hops(axes, places, band, left - places.step + places.held, moments[step].hops)


def _draw_held(
    axes: Axes, places: _Places, at: tuple[float, float], chunks: Sequence[str], before: Sequence[str]
) -> None:
    """A box for each chunk; what came in this step has the colour of a message and a thick edge."""
    top = at[1] - places.lines * _LINE_IN / 2
    for number, (text, earlier) in enumerate(zip(chunks, before, strict=True)):
        line, column = divmod(number, places.columns)
        x, y = at[0] + column * places.cell, top + line * _LINE_IN
        kind, is_pale = ("F", True) if text == earlier else ("C", False)
        look: dict[str, Any] = {"facecolor": LIGHT.fill_of(kind, is_pale), "edgecolor": LIGHT.outline_of("F")}
        look |= {"linewidth": 0.9, "zorder": 1} if is_pale else {"linewidth": 2.4, "zorder": 1.5}
        draw_cell(axes, (x, y), places.cell, _LINE_IN, **look)
        middle = x + places.cell / 2, y + _LINE_IN / 2
        axes.text(*middle, text, ha="center", va="center_baseline", size=10, weight="bold", color=LIGHT.ink)


def _draw_hops(axes: Axes, places: _Places, band: int, left: float, hops: Sequence[_Hop]) -> None:
    """A label beside each sender, and an arrow from it to the receiver; a rank sends once in a step."""
    box = {"boxstyle": "square,pad=0.25", **LIGHT.paint_of("C"), "linewidth": 0.9}
    arrow = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 2}
    x = left + places.cell + 0.1
    for hop in hops:
        y = places.middle(band, hop.source)
        axes.text(x, y, hop.text, ha="right", va="center", size=9, color=LIGHT.ink, bbox=box)
        end = left + places.step - places.held, places.middle(band, hop.to)
        axes.annotate("", end, (x + 0.04, y), arrowprops=arrow)
