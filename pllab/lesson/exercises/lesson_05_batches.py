"""Which samples a training of exercise 05.4 took: equal parts, whole batches, every sample once an epoch."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from pllab.lesson.exercise import Wrong

Steps = list[list[int]]  # the numbers of the samples in each forward


@dataclass(frozen=True)
class Setting:
    """What one training is asked for; samples, their length, steps and global batch."""

    number: int
    length: int | None
    num_steps: int
    batch_size: int

    def __str__(self) -> str:
        return f"{self.number} samples, num_steps={self.num_steps} and batch_size={self.batch_size}"


def judge_samples(steps: Sequence[Steps], setting: Setting) -> None:
    """The samples of all ranks in all steps.

    Raises:
        Wrong: they are too many, too few, or not those that the exercise asks for.
    """
    for rank, of_rank in enumerate(steps):
        if len(of_rank) != setting.num_steps:
            raise Wrong(
                "number_of_steps",
                f"With {setting}, rank {rank} called the model {len(of_rank)} times; right is {setting.num_steps}, one "
                "call a step. After the last sample a new epoch begins.",
            )
    for number, parts in enumerate(zip(*steps, strict=True), start=1):
        _judge_step(parts, number, setting)
    _judge_epochs([list(chain(*parts)) for parts in zip(*steps, strict=True)], setting, len(steps))


def _judge_step(parts: Sequence[list[int]], number: int, setting: Setting) -> None:
    sizes, last = [len(part) for part in parts], setting.number % setting.batch_size
    is_equal = len(set(sizes)) == 1
    is_whole = sum(sizes) == setting.batch_size or (last and 0 < sum(sizes) < setting.batch_size)
    has_shares = not all(sorted(part) == sorted(parts[0]) for part in parts)
    if not (is_equal and is_whole and has_shares):
        took = ", ".join(f"rank {rank} took {len(part)} samples {part[:3]}" for rank, part in enumerate(parts))
        raise Wrong(
            "shares",
            f"With {setting}, in step {number} {took} (the first three of each). Right is a third of the global batch "
            "on each rank, and other samples on each.",
        )


def _judge_epochs(batches: Steps, setting: Setting, world_size: int) -> None:
    """Some cut into epochs leaves out or repeats fewer than a world of samples in each."""
    reached = _cut(batches, Counter(), setting.number, world_size)
    if reached < len(batches):
        times = Counter(chain(*batches[: reached + 1]))
        most, fewest = (
            max(range(setting.number), key=times.__getitem__),
            min(range(setting.number), key=times.__getitem__),
        )
        raise Wrong(
            "epochs",
            f"With {setting}, up to step {reached + 1} sample {most} came {times[most]} times and sample {fewest} "
            f"came {times[fewest]} times. An epoch takes every sample once, but for "
            f"fewer than {world_size}; then the next one begins.",
        )


def _cut(batches: Steps, taken: Counter[int], number: int, world_size: int) -> int:
    """How many of these steps fit into epochs, the first of which has taken some samples already."""
    if not batches or taken.total() - len(taken) >= world_size:
        return 0 if not batches else -1
    first, rest = batches[0], batches[1:]
    longer, ends = taken + Counter(first), [0]
    if longer.total() - len(longer) < world_size:
        ends.append(1 + _cut(rest, longer, number, world_size))
    if taken and number - len(taken) < world_size:  # a new epoch begins with this step
        ends.append(1 + _cut(rest, Counter(first), number, world_size))
    fresh = [sample for sample in first if not taken[sample]]
    if taken and fresh and number - len(taken) - len(fresh) < world_size:  # or within it
        ends.append(1 + _cut(rest, Counter(first) - Counter(fresh), number, world_size))
    return max(ends)
