"""Which samples a training of exercise 05.4 took: equal parts, whole batches, every sample once an epoch."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from pllab.lesson.exercise import Wrong
from pllab.lesson.exercises.lesson_05_watch import WORLD_SIZE, listed

Steps = list[list[int]]  # the numbers of the samples in each forward


@dataclass(frozen=True)
class Setting:
    """What one training is asked for; samples, their length, steps and global batch."""

    number: int
    length: int | None
    num_steps: int
    batch_size: int


def judge_count(steps: Steps, setting: Setting) -> None:
    """One forward for each step."""
    if len(steps) != setting.num_steps:
        raise Wrong(
            "number_of_steps",
            f"num_steps={setting.num_steps} with {setting.number} samples and batch_size={setting.batch_size}: a rank "
            f"called the model {len(steps)} times. One call a step; after the last sample a new epoch begins.",
        )


def judge_step(parts: Sequence[list[int]], number: int, setting: Setting) -> None:
    """The parts of all ranks in one step."""
    sizes = [len(part) for part in parts]
    what = f"Step {number}, batch_size={setting.batch_size} on {WORLD_SIZE} ranks"
    if len(set(sizes)) > 1:
        raise Wrong(
            "uneven_batches",
            f"{what}: the ranks took {listed(sizes)} samples. The mean over ranks is no mean over samples then.",
        )
    if sizes[0] >= setting.batch_size:
        raise Wrong("global_batch", f"{what}: each rank took {sizes[0]}, so the step has {sum(sizes)} samples.")
    if all(sorted(part) == sorted(parts[0]) for part in parts):
        raise Wrong("same_share", f"{what}: all ranks took the same samples, and do the work of one.")
    last = setting.number % setting.batch_size
    if sum(sizes) != setting.batch_size and not (last and 0 < sum(sizes) < setting.batch_size):
        raise Wrong("rank_batch", f"{what}: together they took {sum(sizes)} samples.")


def judge_epoch(steps: Sequence[Steps], setting: Setting) -> None:
    """The first epoch: the steps until the number of samples is used up, less or more than a world of them."""
    taken, size = Counter[int](), 0
    for step in zip(*steps, strict=False):
        batch = list(chain(*step))
        if size + len(batch) > setting.number + WORLD_SIZE - 1 or size > setting.number - WORLD_SIZE:
            break
        taken.update(batch)
        size += len(batch)
    doubled = size - len(taken)
    if doubled >= WORLD_SIZE:
        missing = setting.number - len(taken)
        raise Wrong(
            "doubled",
            f"In the first {size} samples of {setting.number} {doubled} had been taken before, and {missing} were "
            "never taken: the ranks do not share one order, or it starts again too soon.",
        )


def judge_epochs(steps: Sequence[Steps], setting: Setting) -> None:
    """All steps: some cut into epochs leaves out or repeats fewer than a world of samples in each."""
    batches = [list(chain(*step)) for step in zip(*steps, strict=False)]
    reached = _cut(batches, Counter(), setting.number)
    if reached < len(batches):
        raise Wrong(
            "later_epoch",
            f"Up to step {reached + 1} of {len(batches)}, with {setting.number} samples and batch_size="
            f"{setting.batch_size}, {WORLD_SIZE} or more samples of an epoch came twice or never. The last step of an "
            "epoch is smaller instead, and the next epoch begins with its first.",
        )


def _cut(batches: Steps, taken: Counter[int], number: int) -> int:
    """How many of these steps fit into epochs, the first of which has taken some samples already."""
    if not batches or taken.total() - len(taken) >= WORLD_SIZE:
        return 0 if not batches else -1
    first, rest = batches[0], batches[1:]
    longer, ends = taken + Counter(first), [0]
    if longer.total() - len(longer) < WORLD_SIZE:
        ends.append(1 + _cut(rest, longer, number))
    if taken and number - len(taken) < WORLD_SIZE:  # a new epoch begins with this step
        ends.append(1 + _cut(rest, Counter(first), number))
    fresh = [sample for sample in first if not taken[sample]]
    if taken and fresh and number - len(taken) - len(fresh) < WORLD_SIZE:  # or within it
        ends.append(1 + _cut(rest, Counter(first) - Counter(fresh), number))
    return max(ends)
