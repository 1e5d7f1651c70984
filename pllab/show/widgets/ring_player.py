"""The ring player: messages between ranks on a circle, step by step, of a real run or of a collective.

The picture of a run comes from the ledgers of all ranks. A send is drawn only if the ledger of the other rank has its
receive, so the picture of a ring also proves that the messages match. A collective is drawn as it is checked.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import traitlets

from pllab.show.figures import Figure, drawing, figure
from pllab.show.theme import INK, LIGHT, count_of
from pllab.show.widget import Widget, check_place, sources_of
from pllab.transfers import Collective, Holdings, Transfer, check, chunk_name, holdings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_RANKS = 8


class RingPlayer(Widget):
    """Step through the messages of a ring, or of any collective; each rank shows what it holds.

    Keys while the ring has the focus: left and right step, Home and End jump, space plays.

    Example, one step of two ranks that add up what they receive:

        RingPlayer([
            {"messages": [("send", 1, 4), ("receive", 1, 4)], "held": [1, 11], "sent": [1]},
            {"messages": [("send", 0, 4), ("receive", 0, 4)], "held": [10, 11], "sent": [10]},
        ])

    There is one record for each rank: the name, the peer and the bytes of its messages, in the order of its ledger;
    the number it held before the first step and after each one; the number it sent in each step.

    With a collective, `RingPlayer(pllab.transfers.tree_broadcast(8))`, a rank shows a line for each chunk: `b02` is
    chunk b with the sum of ranks 0 and 2.

    Raises:
        ValueError: the records are not those of a ring, a send has no receive, the collective misses its goal, or there
            are more ranks than a circle has room for.
    """

    _esm, _css = sources_of(__file__, "view.js", "stepping.js")

    view = traitlets.Dict(help="moments, words and numbers of the run").tag(sync=True)
    step = traitlets.Int(0, help="number of the step shown; 0 is before the first message").tag(sync=True)

    def __init__(self, run: Sequence[Mapping[str, Any]] | Collective, *, projector: bool = False) -> None:
        super().__init__(view=view_of(run), projector=projector)

    def static(self) -> Figure:
        """All steps side by side: a row for each rank, an arrow for each message."""
        return _draw_ring(self.view)

    @traitlets.validate("step")
    def _step_exists(self, proposal: Any) -> int:
        return check_place("step", proposal["value"], len(self.view.get("moments", ())))


def view_of(run: Sequence[Mapping[str, Any]] | Collective) -> dict[str, Any]:
    """Everything the browser shows, as plain data: a moment before the first step, and one after each.

    Example of a sentence: `step 1: rank 0 sends 1 to rank 1, rank 1 sends 10 to rank 0; then they hold 11, 11`.
    """
    num_ranks = run.num_ranks if isinstance(run, Collective) else len(run)
    if not 2 <= num_ranks <= MOST_RANKS:
        raise ValueError(f"the player shows 2 to {MOST_RANKS} ranks; here are those of {num_ranks}")
    moments = _moments_of_collective(run) if isinstance(run, Collective) else _moments_of_ring(run)
    hops = [hop for moment in moments for hop in moment["hops"]]
    steps = count_of(len(moments) - 1, "step")
    if isinstance(run, Collective):
        key = "a01 is chunk a with the sum of ranks 0 and 1"
        title, summary = f"{run.name}, {num_ranks} ranks, {steps}", f"{len(hops)} messages, {key}, engine: simulated"
    else:
        num_bytes = sum(hop["num_bytes"] for hop in hops)
        title, summary = (
            f"{num_ranks} ranks in a ring, {steps}",
            f"{len(hops)} messages, {num_bytes} bytes, engine: real",
        )
    return {"moments": moments, "title": title, "summary": summary}


def _moments_of_ring(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    num_steps = len(records[0]["sent"])
    for rank, record in enumerate(records):
        _check_lengths(rank, record, num_steps)
    moments: list[dict[str, Any]] = []
    for step in range(num_steps + 1):
        hops = [_hop(records, rank, step - 1) for rank in range(len(records))] if step else []
        held = [f"{record['held'][step]:g}" for record in records]
        moments.append({"held": held, "hops": hops, "sentence": _sentence_of(step, hops, held)})
    return moments


def _moments_of_collective(collective: Collective) -> list[dict[str, Any]]:
    """What ranks hold in names of ranks, a line for each chunk; a sentence says who sends what."""
    check(collective)
    moments: list[dict[str, Any]] = []
    before: Holdings = ()
    for step, holding in enumerate(holdings(collective)):
        hops = [_hop_of(transfer, before) for transfer in collective.rounds[step - 1]] if step else []
        held = ["\n".join(_content(*each) for each in enumerate(chunks)) for chunks in holding]
        moments.append({"held": held, "hops": hops, "sentence": _sentence_of(step, hops, held)})
        before = holding
    return moments


def _hop_of(transfer: Transfer, before: Holdings) -> dict[str, Any]:
    content = _content(transfer.chunk, before[transfer.source][transfer.chunk])
    return {"source": transfer.source, "to": transfer.to, "text": content}


def _content(chunk: int, ranks: Sequence[int]) -> str:
    return chunk_name(chunk) + "".join(map(str, ranks))


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
    held = [text.replace("\n", " ") for text in held]
    if not step:
        return "start: " + ", ".join(f"rank {rank} holds {text}" for rank, text in enumerate(held))
    sent = ", ".join(f"rank {hop['source']} sends {hop['text']} to rank {hop['to']}" for hop in hops)
    return f"step {step}: {sent}; then they hold {', '.join(held)}"


def _draw_ring(view: Mapping[str, Any]) -> Figure:
    """Time from left to right, a row for each rank, an arrow for each message; the sentences are the text."""
    moments = view["moments"]
    num_ranks, num_lines = len(moments[0]["held"]), moments[0]["held"][0].count("\n") + 1
    height = 0.8 + max(0.75, 0.22 * num_lines + 0.3) * num_ranks
    widest = 0.9 + 0.11 * max(map(len, moments[-1]["held"][0].split("\n")))
    width = max(min(10.0, 1.6 + 2.2 * len(moments)), widest * len(moments) if num_lines > 1 else 0.0)
    with drawing(width, height, layout="constrained") as fig:
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
    box = {"boxstyle": "round,pad=0.45", "facecolor": LIGHT.fill_of("F"), "edgecolor": LIGHT.outline_of("F")}
    for rank, text in enumerate(held):
        axes.text(step, rank, text, ha="center", va="center", color=LIGHT.ink, fontweight="bold", bbox=box, zorder=3)


def _draw_hop(axes: "Axes", step: int, hop: Mapping[str, Any]) -> None:
    """An arrow from the sender before the step to the receiver after it, with the number that it carries.

    The number is near the start of an arrow down and near the end of an arrow up, where no other number is.
    """
    start, end = (step - 1, hop["source"]), (step, hop["to"])
    arrow = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.3, "shrinkA": 18, "shrinkB": 18}
    axes.annotate("", end, start, arrowprops=arrow, zorder=1)
    share = 0.25 if hop["to"] > hop["source"] else 0.78
    at = start[0] + share, start[1] + share * (end[1] - start[1])
    look: dict[str, Any] = {"facecolor": LIGHT.fill_of("C"), "edgecolor": LIGHT.outline_of("C"), "linewidth": 0.8}
    box = {"boxstyle": "square,pad=0.25", **look}
    axes.text(*at, hop["text"], ha="center", va="center", color=LIGHT.ink, fontsize=9, bbox=box, zorder=2)
