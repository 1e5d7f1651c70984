"""The ring: messages between ranks, step by step, of a real run or of a collective.

The picture of a run comes from the ledgers of all ranks. A send is drawn only if the ledger of the other rank has its
receive, so the picture of a ring also proves that the messages match. A collective is drawn as it is checked.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    if isinstance(run, Collective):
        moments, name = _moments_of_collective(run), f"{run.name}, {count_of(run.num_ranks, 'rank')}"
        what = "a01 is chunk a with the sum of ranks 0 and 1, calculated"
    else:
        moments, name = _moments_of_ring(run), f"{len(run)} ranks in a ring"
        what = f"{sum(sent[2] for record in run for sent in _named(record, 'send'))} bytes, engine: real"
    messages = count_of(sum(len(moment.hops) for moment in moments), "message")
    titles = f"{name}, {count_of(len(moments) - 1, 'step')}", f"{messages}, {what}"
    sentences = [_sentence_of(step, moment) for step, moment in enumerate(moments)]
    return figure(_draw("\n".join(titles), moments), ". ".join([*titles, *sentences]))


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
        sent = f"rank {rank} sent {num_bytes} bytes to rank {peer} in step {step + 1}"
        require(received == ("receive", rank, num_bytes), f"{sent}, and rank {peer} did not receive them then")
        yield _Hop(rank, peer, f"{number:g}")


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
    """Where things are in a band, in inches.

    A message stands beside its sender, and arrows are right of all messages of their step: nothing hides another.
    """

    columns: int
    lines: int
    cell: float

    @classmethod
    def of(cls, moments: Sequence[_Moment]) -> "_Places":
        num_chunks = len(moments[0].held[0])
        longest = max(len(text) for moment in moments for chunks in moment.held for text in chunks)
        columns = math.isqrt(num_chunks - 1) + 1
        return cls(columns, -(-num_chunks // columns), _LETTER_IN * longest + 0.16)

    @property
    def held(self) -> float:
        """Width of what a rank holds."""
        return self.columns * self.cell

    @property
    def step(self) -> float:
        """Width from one moment to the next."""
        return self.held + self.cell + 0.2 + _ARROW_IN

    def width(self, num_steps: int) -> float:
        """Width of a band."""
        return _NAME_IN + num_steps * self.step + self.held + 0.15

    def middle(self, rank: float) -> float:
        """The height of a rank's middle."""
        return _HEAD_IN + (rank + 0.5) * (self.lines * _LINE_IN + 0.22)


def _draw(title: str, moments: Sequence[_Moment]) -> Any:
    """Time runs to the right; where it is long, it goes on in a second band, which begins as the first one ends."""
    places, last, num_ranks = _Places.of(moments), len(moments) - 1, len(moments[0].held)
    in_band = last if places.width(last) <= _WIDTH_IN else -(-last // 2)
    starts = range(0, last, in_band) if last else range(1)  # a rank alone has no step
    width, height = places.width(in_band), places.middle(num_ranks - 0.5)
    with drawing(width, height * len(starts)) as fig:
        for number, first in enumerate(starts, start=1):
            axes = fig.add_axes((0, 1 - number / len(starts), 1, 1 / len(starts)))
            axes.set_xlim(0, width)
            axes.set_ylim(height, 0)
            axes.axis("off")
            for rank in range(num_ranks):
                axes.text(0.05, places.middle(rank), f"rank {rank}", va="center")
            for step in range(first, min(first + in_band, last) + 1):
                left = _NAME_IN + (step - first) * places.step
                name = f"step {step}" if step else "start"
                axes.text(left + places.held / 2, 0.2, name, ha="center", va="center")
                for rank, chunks in enumerate(moments[step].held):
                    before = moments[max(0, step - 1)].held[rank]
                    _draw_held(axes, places, (left, places.middle(rank)), chunks, before)
                if step > first:
                    _draw_hops(axes, places, left, moments[step].hops)
        fig.axes[0].set_title(title, **TITLE)
    return fig


def _draw_held(
    axes: Axes, places: _Places, at: tuple[float, float], chunks: Sequence[str], before: Sequence[str]
) -> None:
    """A box for each chunk; what came in this step has the colour of a message and a thick edge."""
    top = at[1] - places.lines * _LINE_IN / 2
    for number, (text, earlier) in enumerate(zip(chunks, before, strict=True)):
        line, column = divmod(number, places.columns)
        x, y = at[0] + column * places.cell, top + line * _LINE_IN
        kind, width, order = ("F", 0.9, 1.0) if text == earlier else ("C", 2.4, 1.5)
        look = {"facecolor": LIGHT.fill_of(kind, text == earlier), "edgecolor": LIGHT.outline_of("F")}
        draw_cell(axes, (x, y), places.cell, _LINE_IN, **look, linewidth=width, zorder=order)
        middle = x + places.cell / 2, y + _LINE_IN / 2
        axes.text(*middle, text, ha="center", va="center_baseline", size=10, weight="bold", color=LIGHT.ink)


def _draw_hops(axes: Axes, places: _Places, right: float, hops: Sequence[_Hop]) -> None:
    """A label beside each sender, and an arrow from it to the receiver; a rank sends once in a step."""
    box = {"boxstyle": "square,pad=0.25", **LIGHT.paint_of("C"), "linewidth": 0.9}
    arrow = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 2}
    x = right - _ARROW_IN - 0.1
    for hop in hops:
        y = places.middle(hop.source)
        axes.text(x, y, hop.text, ha="right", va="center", size=9, color=LIGHT.ink, bbox=box)
        axes.annotate("", (right, places.middle(hop.to)), (x + 0.04, y), arrowprops=arrow)
