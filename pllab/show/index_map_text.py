"""Who loads which sample, counted and in words: what the index map shows, without a browser.

One epoch of a world of ranks is dealt as nested lists: rank, step, numbers of the samples. Everything said about it
follows from counting those numbers.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

Dealt = Sequence[Sequence[Sequence[int]]]  # rank, step, numbers of the samples
Deal = Callable[[int, int, str], Dealt]  # (world_size, epoch, remainder) -> one epoch


def owners_of(dealt: Dealt, num_samples: int) -> list[list[list[int]]]:
    """For each sample, the [rank, step] pairs that load it; steps count from 1, as people count them.

    Example: `owners_of([[[0, 2]], [[1, 0]]], 3)` -> `[[[0, 1], [1, 1]], [[1, 1]], [[0, 1]]]`.

    Raises:
        ValueError: a number is no sample of the data set.
    """
    owners: list[list[list[int]]] = [[] for _ in range(num_samples)]
    for rank, steps in enumerate(dealt):
        for step, samples in enumerate(steps, start=1):
            for sample in samples:
                if not 0 <= sample < num_samples:
                    raise ValueError(
                        f"rank {rank} loads sample {sample}, and the data set has {num_samples}; "
                        "deal the numbers of the samples, from 0"
                    )
                owners[sample].append([rank, step])
    return owners


def say_sample(sample: int, owners: Sequence[Sequence[int]], num_visits: int, epoch: int) -> str:
    """One sample: `sample 7: rank 1 in step 2; loaded 3 times in epochs 0 to 2`."""
    who = " and ".join(f"rank {rank} in step {step}" for rank, step in owners) or "loaded by nobody"
    return f"sample {sample}: {who}; {_times(num_visits)} in {_epochs(epoch)}"


def say_epoch(dealt: Dealt, num_samples: int, epoch: int, remainder: str, visits: Counter[int]) -> str:
    """The epoch in two sentences: `29 samples, 4 ranks, epoch 0, pad: 2 steps on every rank, ...`."""
    seen = Counter(sample for steps in dealt for samples in steps for sample in samples)
    ranks = "1 rank" if len(dealt) == 1 else f"{len(dealt)} ranks"
    again = sum(count > 1 for count in seen.values())
    extra = f"{again} {'sample' if again == 1 else 'samples'} loaded again, {num_samples - len(seen)} left out"
    spread = f"In {_epochs(epoch)} a sample was {_range([visits[sample] for sample in range(num_samples)])}."
    return f"{num_samples} samples, {ranks}, epoch {epoch}, {remainder}: {_steps(dealt)}, {extra}. {spread}"


def step_rows(dealt: Dealt) -> list[list[str]]:
    """The table: a row for each rank and step with its samples, `["rank 0", "step 1", "5 2 6 0"]`."""
    return [
        [f"rank {rank}", f"step {step}", " ".join(map(str, samples))]
        for rank, steps in enumerate(dealt)
        for step, samples in enumerate(steps, start=1)
    ]


def map_of(deal: Deal, num_samples: int, world_size: int, num_epochs: int, remainder: str) -> list[dict[str, Any]]:
    """All epochs of one world, in order: owners, table and words of each.

    Raises:
        ValueError: the function dealt to another number of ranks, or samples that do not exist.
    """
    visits: Counter[int] = Counter()
    epochs = []
    for epoch in range(num_epochs):
        dealt = deal(world_size, epoch, remainder)
        if len(dealt) != world_size:
            raise ValueError(f"{world_size} ranks were asked for and {len(dealt)} dealt; return one list for each rank")
        owners = owners_of(dealt, num_samples)
        visits.update({sample: len(who) for sample, who in enumerate(owners)})
        epochs.append(
            {
                "owners": owners,
                "rows": step_rows(dealt),
                "summary": say_epoch(dealt, num_samples, epoch, remainder, visits),
                "sentences": [say_sample(i, who, visits[i], epoch) for i, who in enumerate(owners)],
                "num_steps": [len(steps) for steps in dealt],
            }
        )
    return epochs


def _steps(dealt: Dealt) -> str:
    steps = [len(one) for one in dealt]
    if len(set(steps)) == 1:
        every = "" if len(steps) == 1 else " on every rank"
        return f"{steps[0]} {'step' if steps[0] == 1 else 'steps'}{every}"
    longest = [str(rank) for rank, one in enumerate(steps) if one == max(steps)]
    who = f"rank {longest[0]} waits" if len(longest) == 1 else f"ranks {', '.join(longest)} wait"
    listed = f"{', '.join(map(str, steps[:-1]))} and {steps[-1]}"
    return f"{listed} steps, so {who} for ever in step {max(steps)}"


def _range(counts: Sequence[int]) -> str:
    fewest, most = min(counts), max(counts)
    return _times(most) if fewest == most else f"loaded {fewest} to {most} times"


def _times(number: int) -> str:
    return {0: "never loaded", 1: "loaded once", 2: "loaded twice"}.get(number, f"loaded {number} times")


def _epochs(last: int) -> str:
    return "epoch 0" if last == 0 else f"epochs 0 to {last}"
