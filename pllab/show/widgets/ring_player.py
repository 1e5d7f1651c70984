"""The ring player: messages that hop around a ring of ranks, step by step, as a real run recorded them.

The picture comes from the ledgers of all ranks. A send is drawn only if the ledger of the other rank has its receive,
so the picture of a ring also proves that the messages match.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import traitlets

from pllab.show.figures import Figure, drawing, figure
from pllab.show.theme import INK, PAINTS, count_of
from pllab.show.widget import Widget, check_place, sources_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_RANKS = 6


class RingPlayer(Widget):
    """Step through the messages of a ring; each rank shows the number that it holds.

    Keys while the ring has the focus: left and right step, Home and End jump, space plays.

    Example, one step of two ranks that add up what they receive:

        RingPlayer([
            {"messages": [("send", 1, 4), ("receive", 1, 4)], "held": [1, 11], "sent": [1]},
            {"messages": [("send", 0, 4), ("receive", 0, 4)], "held": [10, 11], "sent": [10]},
        ])

    There is one record for each rank: the name, the peer and the bytes of its messages, in the order of its ledger;
    the number it held before the first step and after each one; the number it sent in each step.

    Raises:
        ValueError: the records are not those of a ring, or a send has no receive.
    """

    _esm, _css = sources_of(__file__, "view.js", "stepping.js")

    view = traitlets.Dict(help="moments, words and numbers of the run").tag(sync=True)
    step = traitlets.Int(0, help="number of the step shown; 0 is before the first message").tag(sync=True)

    def __init__(self, records: Sequence[Mapping[str, Any]], *, projector: bool = False) -> None:
        super().__init__(view=view_of(records), projector=projector)

    def static(self) -> Figure:
        """All steps side by side: a row for each rank, an arrow for each message."""
        return _draw_ring(self.view)

    @traitlets.validate("step")
    def _step_exists(self, proposal: Any) -> int:
        return check_place("step", proposal["value"], len(self.view.get("moments", ())))


def view_of(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Everything the browser shows, as plain data: a moment before the first step, and one after each.

    Example of a sentence: `step 1: rank 0 sends 1 to rank 1, rank 1 sends 10 to rank 0; then they hold 11, 11`.
    """
    if not 2 <= len(records) <= MOST_RANKS:
        raise ValueError(f"a ring has 2 to {MOST_RANKS} ranks; here are the records of {len(records)}")
    num_steps = len(records[0]["sent"])
    for rank, record in enumerate(records):
        _check_lengths(rank, record, num_steps)
    moments: list[dict[str, Any]] = []
    for step in range(num_steps + 1):
        hops = [_hop(records, rank, step - 1) for rank in range(len(records))] if step else []
        held = [f"{record['held'][step]:g}" for record in records]
        moments.append({"held": held, "hops": hops, "sentence": _sentence_of(step, hops, held)})
    num_messages = sum(len(moment["hops"]) for moment in moments)
    num_bytes = sum(hop["num_bytes"] for moment in moments for hop in moment["hops"])
    return {
        "moments": moments,
        "title": f"{len(records)} ranks in a ring, {count_of(num_steps, 'step')}",
        "summary": f"{num_messages} messages, {num_bytes} bytes, engine: real",
    }


def _check_lengths(rank: int, record: Mapping[str, Any], num_steps: int) -> None:
    """A send, a receive and a number for every step."""
    counts = [len(_named(record, "send")), len(_named(record, "receive")), len(record["sent"]), len(record["held"]) - 1]
    if set(counts) != {num_steps} or num_steps < 1:
        raise ValueError(
            f"rank {rank} has {counts[0]} sends, {counts[1]} receives, {counts[2]} numbers sent and {counts[3] + 1} "
            f"held; rank 0 made {num_steps} steps, and each step needs one send and one receive of every rank"
        )


def _hop(records: Sequence[Mapping[str, Any]], rank: int, step: int) -> dict[str, Any]:
    """The message that a rank sent in a step, checked against the ledger of its receiver."""
    _, peer, num_bytes = _named(records[rank], "send")[step]
    received = tuple(_named(records[peer], "receive")[step]) if 0 <= peer < len(records) else None
    if received != ("receive", rank, num_bytes):
        raise ValueError(
            f"rank {rank} sent {num_bytes} bytes to rank {peer} in step {step + 1}, and no rank {peer} received "
            "them from it in that step"
        )
    return {"source": rank, "to": peer, "num_bytes": num_bytes, "text": f"{records[rank]['sent'][step]:g}"}


def _named(record: Mapping[str, Any], name: str) -> list[Sequence[Any]]:
    return [message for message in record["messages"] if message[0] == name]


def _sentence_of(step: int, hops: Sequence[Mapping[str, Any]], held: Sequence[str]) -> str:
    if not step:
        return "start: " + ", ".join(f"rank {rank} holds {text}" for rank, text in enumerate(held))
    sent = ", ".join(f"rank {hop['source']} sends {hop['text']} to rank {hop['to']}" for hop in hops)
    return f"step {step}: {sent}; then they hold {', '.join(held)}"


def _draw_ring(view: Mapping[str, Any]) -> Figure:
    """Time from left to right, a row for each rank, an arrow for each message; the sentences are the text."""
    moments = view["moments"]
    num_ranks = len(moments[0]["held"])
    with drawing(min(10.0, 1.6 + 2.2 * len(moments)), 0.8 + 0.75 * num_ranks, layout="constrained") as fig:
        axes = fig.add_subplot()
        axes.set_title(f"{view['title']}: {view['summary']}", loc="left", fontsize=11.5, fontweight="bold")
        for step, moment in enumerate(moments):
            _draw_held(axes, step, moment["held"])
            for hop in moment["hops"]:
                _draw_hop(axes, step, hop)
        axes.set_xlim(-0.35, len(moments) - 0.65)
        axes.set_ylim(num_ranks - 0.5, -0.5)
        axes.set_xticks(range(len(moments)), ["start", *(f"step {step}" for step in range(1, len(moments)))])
        axes.set_yticks(range(num_ranks), [f"rank {rank}" for rank in range(num_ranks)])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        return figure(fig, ". ".join([view["title"], view["summary"], *(one["sentence"] for one in moments)]))


def _draw_held(axes: "Axes", step: int, held: list[str]) -> None:
    paint = PAINTS["F"]
    box = {"boxstyle": "round,pad=0.45", "facecolor": paint.fill, "edgecolor": INK}
    for rank, text in enumerate(held):
        axes.text(step, rank, text, ha="center", va="center", color=paint.text, fontweight="bold", bbox=box, zorder=3)


def _draw_hop(axes: "Axes", step: int, hop: Mapping[str, Any]) -> None:
    """An arrow from the sender before the step to the receiver after it, with the number that it carries.

    The number is near the start of an arrow down and near the end of an arrow up, where no other number is.
    """
    start, end = (step - 1, hop["source"]), (step, hop["to"])
    arrow = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.3, "shrinkA": 18, "shrinkB": 18}
    axes.annotate("", end, start, arrowprops=arrow, zorder=1)
    share = 0.25 if hop["to"] > hop["source"] else 0.78
    at = start[0] + share, start[1] + share * (end[1] - start[1])
    box = {"boxstyle": "square,pad=0.25", "facecolor": PAINTS["C"].fill, "edgecolor": INK, "linewidth": 0.8}
    axes.text(*at, hop["text"], ha="center", va="center", color=PAINTS["C"].text, fontsize=9, bbox=box, zorder=2)
