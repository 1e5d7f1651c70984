"""What the cases of lesson 15 ask about: records of rehearsed wards, and changed ones."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pllab.autopsy import Call, Record
from pllab.lesson.exercise import Wrong
from pllab.lesson.faults import Truth, rehearse
from pllab.lesson.mistakes import Mistake, compare


class Shown(list[Record]):
    """Records whose text is their ends; with dtypes where they are not all one."""

    def __deepcopy__(self, _: Any) -> "Shown":
        return Shown(self)  # records do not change

    def __str__(self) -> str:
        has_dtypes = len({call.dtype for one in self for call in one.calls if call.dtype}) > 1
        lines = ["records that end so (... not finished):"]
        for one in sorted(self, key=lambda record: record.rank):
            calls = []
            for call in one.calls[-6:]:
                marks = (call.dtype * has_dtypes, "NaN" * call.has_nan, "..." * (not call.finished))
                calls.append(" ".join([str(call.number), str(call), *filter(None, marks)]))
            state = "" if one.state in ("running", "returned") else f"; {one.state}"
            lines.append(f"  rank {one.rank}: {', '.join(calls) or 'no call'}{state}")
        return "\n".join([*lines, ""])


def judge(
    solution: Callable[[list[Record]], Any],
    questions: Iterable[tuple[Sequence[Record], Any]],
    read: Callable[..., Any],
    mistakes: Sequence[Mistake],
    hint_id: str = "wrong",
) -> None:
    """Compare the answers for records with the right ones, which stand beside them."""
    compare(
        lambda records, _: solution(list(records)),
        [(Shown(records), right) for records, right in questions],
        lambda _, right: right,
        mistakes,
        asked="{0}",
        read=read,
        hint_id=hint_id,
    )


def parts_of(answer: Any, *_: Any, kinds: tuple[type, ...], form: str) -> tuple[Any, ...] | None:
    """The answer, which is None or a tuple of parts of these kinds."""
    if answer is None:
        return None
    if not isinstance(answer, list | tuple) or tuple(map(type, answer)) != kinds:
        raise Wrong("wrong_form", f"Return {form}; your function gave {answer!r}.")
    return tuple(answer)


def of_ward(ward: str, num_seeds: int = 8) -> Iterator[tuple[list[Record], Truth]]:
    """Records of a ward under several seeds, with the ranks in any order."""
    draw = random.Random(ward)
    for seed in range(1000, 1000 + num_seeds):
        records, truth = rehearse(ward, seed)
        yield draw.sample(records, len(records)), truth


def healthy(num_ranks: int, num_calls: int) -> list[Record]:
    """Ranks that all made the same calls; the last one is not finished."""
    kinds = [("all_reduce", (768,)), ("all_gather", (1,)), ("all_reduce", (2,)), ("barrier", ())]
    last = num_calls - 1
    calls = tuple(
        Call(n, *kinds[n % 4], "float32" if kinds[n % 4][1] else "", finished=n < last, started_s=n * 0.01, order=n)
        for n in range(num_calls)
    )
    return [Record(rank, num_ranks, calls) for rank in range(num_ranks)]


def changed(record: Record, number: int, **parts: Any) -> Record:
    """The record with another call of this number."""
    calls = tuple(replace(call, **parts) if call.number == number else call for call in record.calls)
    return replace(record, calls=calls)
