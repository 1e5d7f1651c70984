"""What messages cost, and how long a collective made of them takes on the virtual clock."""

from collections.abc import Sequence
from dataclasses import dataclass

from pllab.schedule import Action, Kind
from pllab.timeline import Span, Timeline
from pllab.transfers import Collective, check


@dataclass(frozen=True)
class MessageCost:
    """A message of n bytes takes `alpha_s + beta_s * n` seconds: the latency, and the time of a byte.

    Example: with 100 us and 1 ns per byte, 148 messages of 2.5 MB in all take 17.3 ms and one takes 2.6 ms.
    """

    alpha_s: float
    beta_s: float

    def seconds(self, num_messages: float, num_bytes: float) -> float:
        """Predict the time of some messages, one after another, that carry this many bytes together."""
        return self.alpha_s * num_messages + self.beta_s * num_bytes


def leave_when_ready(
    ready_s: Sequence[float], num_bytes: Sequence[float], cost: MessageCost
) -> list[tuple[float, float]]:
    """Start and end of messages on one link, in seconds: each leaves when it is ready and earlier ones are through.

    Drawn, three messages of a second each that are ready at 0, 0.5 and 4, as buckets that fill during backward:

        seconds   0   1   2   3   4   5
        link      [ a ][ b ]      [ c ]
    """
    messages: list[tuple[float, float]] = []
    for ready, size in zip(ready_s, num_bytes, strict=True):
        start = max(ready, messages[-1][1]) if messages else ready
        messages.append((start, start + cost.seconds(1, size)))
    return messages


def simulate_transfers(collective: Collective, num_bytes: float, cost: MessageCost) -> Timeline:
    """Run a collective on a tensor of this many bytes on the virtual clock, in seconds.

    Drawn, `tree_broadcast(3)`; every message takes `alpha_s + beta_s * num_bytes`, here a second:

        rank 0   >1 >2 |    a span is a message, in the row of its sender: 0C0 is chunk 0 (a) in round 0
        rank 1         |    makespan 2 s

    A rank sends one message and receives one at the same time, goes on when both are through, and adds in no time.
    Chunks have equal sizes, also where a run cuts the last one shorter. A ring of w ranks takes
    2 (w - 1) (alpha + beta n / w), a tree down ceil(log2 w) (alpha + beta n).

    Returns:
        A timeline of the engine "simulated" with a span of kind C for each message; its clock starts at 0.

    Raises:
        ValueError: the collective does not reach its goal.

    Source: Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH (2005).
    """
    check(collective)
    seconds = cost.seconds(1, num_bytes / collective.num_chunks)
    ready, spans = [0.0] * collective.num_ranks, []
    for number, transfers in enumerate(collective.rounds):
        before = list(ready)
        for source, to, chunk, _ in transfers:
            start = max(before[source], before[to])
            spans.append(Span(source, Action(chunk, Kind.C, number), start, start + seconds))
            ready[source], ready[to] = max(ready[source], start + seconds), max(ready[to], start + seconds)
    return Timeline.of(spans, "simulated", collective.num_ranks)
