"""The ring player: messages that hop around a ring of ranks, step by step, as a real run recorded them.

What is drawn comes from the ledgers of all ranks. A send is drawn only when the ledger of the other rank has its
receive, so a picture of a ring is also the proof that the messages fit together.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from pllab.show.figure import Figure
from pllab.show.ring_picture import draw_ring
from pllab.show.widget import Widget, read_source

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

    _esm = read_source("ring.js")
    _css = read_source("ring.css")

    view = traitlets.Dict(help="moments, words and numbers of the run").tag(sync=True)
    step = traitlets.Int(0, help="number of the step shown; 0 is before the first message").tag(sync=True)

    def __init__(self, records: Sequence[Mapping[str, Any]], *, projector: bool = False) -> None:
        super().__init__(view=view_of(records), projector=projector)

    def state(self) -> dict[str, Any]:
        """The number of ranks and of steps, the step shown, what each rank holds there, and the sentence."""
        moment = self.view["moments"][self.step]
        return {
            "num_ranks": len(moment["held"]),
            "num_steps": len(self.view["moments"]) - 1,
            "step": self.step,
            "held": moment["held"],
            "sentence": moment["sentence"],
        }

    def static(self) -> Figure:
        """All steps side by side: a row for each rank, an arrow for each message."""
        return draw_ring(self.view)

    @traitlets.validate("step")
    def _step_exists(self, proposal: Any) -> int:
        step, last = int(proposal["value"]), len(self.view.get("moments", (0,))) - 1
        if not 0 <= step <= last:
            raise traitlets.TraitError(f"step {step} does not exist; choose 0 to {last}")
        return step


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
        moments.append({"held": held, "hops": hops, "sentence": _say(step, hops, held)})
    num_messages = sum(len(moment["hops"]) for moment in moments)
    num_bytes = sum(hop["num_bytes"] for moment in moments for hop in moment["hops"])
    return {
        "moments": moments,
        "title": f"{len(records)} ranks in a ring, {num_steps} step{'' if num_steps == 1 else 's'}",
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
    """The message that a rank sent in a step, held against the ledger of the rank that received it."""
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


def _say(step: int, hops: Sequence[Mapping[str, Any]], held: Sequence[str]) -> str:
    if not step:
        return "start: " + ", ".join(f"rank {rank} holds {text}" for rank, text in enumerate(held))
    told = ", ".join(f"rank {hop['source']} sends {hop['text']} to rank {hop['to']}" for hop in hops)
    return f"step {step}: {told}; then they hold {', '.join(held)}"
