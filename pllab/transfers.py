"""A collective is a value: rounds of transfers between ranks. The same value is checked, drawn, simulated and run.

`pllab.simulate.simulate_transfers` gives it a clock, `pllab.show.draw_ring` draws it, and
`pllab.comm.run_transfers` runs it with send and receive. Standard library only.
"""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

from pllab.arguments import require, whole_number

Goal = Literal["all_reduce", "reduce", "broadcast"]
Holdings = Sequence[Sequence[tuple[int, ...]]]
"""By rank and chunk, the ranks whose numbers are summed there: `(0, 2)`."""


class Transfer(NamedTuple):
    """A chunk on its way to another rank, which adds it to its own chunk or replaces its own.

    Example: `str(Transfer(0, 2, 1, adds=True))` is `"0>2+b"`, and `"0>2=b"` without adding; chunks are a, b, c, ...
    """

    source: int
    to: int
    chunk: int
    adds: bool

    def __str__(self) -> str:
        return f"{self.source}>{self.to}{'+' if self.adds else '='}{chunk_name(self.chunk)}"


@dataclass(frozen=True)
class Collective:
    """Rounds of transfers that together reach a goal; a rank goes on when its own transfers of a round are complete.

    Drawn, the ring of three ranks: after two rounds each rank has the sum of one chunk, after four of all.

        >>> print(ring_all_reduce(3))
        round 1  0>2+b  1>0+c  2>1+a
        round 2  0>2+c  1>0+a  2>1+b
        round 3  0>2=a  1>0=b  2>1=c
        round 4  0>2=b  1>0=c  2>1=a

    The goal is the sum on all ranks (all_reduce), the sum on rank `root` (reduce), or the numbers of rank `root` on all
    ranks (broadcast).
    """

    name: str
    goal: Goal
    num_ranks: int
    rounds: tuple[tuple[Transfer, ...], ...]
    num_chunks: int = 1
    root: int = 0

    def __str__(self) -> str:
        return "\n".join(f"round {number}  {'  '.join(map(str, each))}" for number, each in enumerate(self.rounds, 1))


def chunk_name(chunk: int) -> str:
    """A letter for each of the first 26 chunks, then numbers: `a`, `b`, ..., `z`, `#26`."""
    return chr(ord("a") + chunk) if chunk < 26 else f"#{chunk}"


@cache
def ring_all_reduce(num_ranks: int) -> Collective:
    """Sum on all ranks in 2 (w - 1) rounds, in each of which every rank sends one of w chunks to the rank before it.

    A chunk collects the numbers of all ranks on one way around the ring, then the sums go around. Drawn in
    `Collective`. Rank r ends the first half with the sum of chunk r. The direction and the chunk that each rank sends
    first are gloo's, so that each sum is added up in the same order.

    Raises:
        ValueError: there is no rank.

    Source: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms (2009); `ring` in gloo's allreduce.cc.
    """
    num_ranks = whole_number("num_ranks", num_ranks)
    ranks = range(num_ranks)

    def round_of(step: int, first: int, adds: bool) -> tuple[Transfer, ...]:
        return tuple(Transfer(r, (r - 1) % num_ranks, (r + first + step) % num_ranks, adds) for r in ranks)

    rounds = [round_of(step, first, adds) for first, adds in ((1, True), (0, False)) for step in ranks[:-1]]
    return Collective("ring all-reduce", "all_reduce", num_ranks, tuple(rounds), num_ranks)


@cache
def tree_broadcast(num_ranks: int, root: int = 0) -> Collective:
    """The root's numbers on all ranks in ceil(log2 w) rounds, after each of which twice as many ranks have them.

        >>> print(tree_broadcast(5))
        round 1  0>1=a
        round 2  0>2=a  1>3=a
        round 3  0>4=a

    Raises:
        ValueError: there is no rank, or no rank `root`.

    Source: the binomial tree; Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in
    MPICH (2005).
    """
    num_ranks = whole_number("num_ranks", num_ranks)
    root = whole_number("root", root, 0, num_ranks - 1)
    rounds = []
    for have in (2**power for power in range((num_ranks - 1).bit_length())):
        pairs = [(near, near + have) for near in range(min(have, num_ranks - have))]
        rounds.append(tuple(Transfer((s + root) % num_ranks, (t + root) % num_ranks, 0, False) for s, t in pairs))
    return Collective("tree broadcast", "broadcast", num_ranks, tuple(rounds), root=root)


@cache
def tree_reduce(num_ranks: int, root: int = 0) -> Collective:
    """The sum on the root in ceil(log2 w) rounds: the tree of a broadcast backwards, in which ranks add what arrives.

    Raises:
        ValueError: there is no rank, or no rank `root`.
    """
    down = tree_broadcast(num_ranks, root)
    rounds = tuple(tuple(Transfer(to, source, 0, True) for source, to, *_ in each) for each in reversed(down.rounds))
    return Collective("tree reduce", "reduce", down.num_ranks, rounds, root=down.root)


@cache
def tree_all_reduce(num_ranks: int) -> Collective:
    """The sum on all ranks in 2 ceil(log2 w) rounds of whole tensors: a tree to rank 0, and one from it.

    It has fewer messages in sequence than a ring, but more bytes: it suits small tensors and many ranks.

    Raises:
        ValueError: there is no rank.
    """
    up, down = tree_reduce(num_ranks), tree_broadcast(num_ranks)
    return Collective("tree all-reduce", "all_reduce", down.num_ranks, up.rounds + down.rounds)


def holdings(collective: Collective) -> Iterator[Holdings]:
    """What every rank holds before the first round and after each, in names of ranks instead of numbers.

    Example: `list(holdings(tree_reduce(2)))` is `[[[(0,)], [(1,)]], [[(0, 1)], [(1,)]]]`.

    Raises:
        ValueError: a transfer names a rank or chunk that does not exist, or a rank has two of a kind in a round.
    """
    held: list[list[tuple[int, ...]]] = [[(rank,)] * collective.num_chunks for rank in range(collective.num_ranks)]
    yield held
    for number, transfers in enumerate(collective.rounds, 1):
        _check_round(collective, number, transfers)
        before, held = held, list(held)
        for source, to, chunk, adds in transfers:
            own = before[to][chunk] if adds else ()
            held[to] = list(before[to])
            held[to][chunk] = tuple(sorted(own + before[source][chunk]))
        yield held


@cache
def check(collective: Collective) -> None:
    """Refuse a collective that does not reach its goal: every number once, on every rank that must have it.

    Raises:
        ValueError: a rank ends with other numbers, or a round is impossible; the sentence says where.
    """
    wanted = (collective.root,) if collective.goal == "broadcast" else tuple(range(collective.num_ranks))
    last = deque(holdings(collective), maxlen=1)[0]
    for rank in [collective.root] if collective.goal == "reduce" else range(collective.num_ranks):
        for chunk, found in enumerate(last[rank]):
            if found != wanted:
                raise ValueError(
                    f"{collective.name} leaves rank {rank} with the numbers of ranks {found} in chunk "
                    f"{chunk_name(chunk)}, and {collective.goal} needs {wanted}; each has to arrive there exactly once"
                )


def _check_round(collective: Collective, number: int, transfers: tuple[Transfer, ...]) -> None:
    for transfer in transfers:
        source, to, chunk, _ = transfer
        exist = 0 <= min(source, to) < max(source, to) < collective.num_ranks and 0 <= chunk < collective.num_chunks
        if not exist:
            raise ValueError(
                f"{transfer} in round {number} of {collective.name} is no transfer between two of "
                f"{collective.num_ranks} ranks with {collective.num_chunks} chunks; both count from 0"
            )
    for verb, ends in (("sends", [t.source for t in transfers]), ("receives", [t.to for t in transfers])):
        rank, times = Counter(ends).most_common(1)[0] if ends else (0, 1)
        require(
            times == 1, f"rank {rank} {verb} {times} messages in round {number} of {collective.name}; give each a round"
        )
