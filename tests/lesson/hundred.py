"""A hundred submissions: ninety made of the right and wrong solutions of all lessons, and ten hostile ones.

python -m tests.lesson.hundred         prints the time, what stayed undecided, false passes and false refusals
python -m tests.lesson.hundred 20      with twenty in place of ninety
python -m tests.lesson.hundred 90 04 08      of these lessons alone
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import cycle, islice, product
from pathlib import Path

from pllab.lesson import Outcome
from pllab.lesson.grading import Sheet, grade
from pllab.lesson.sandbox import Limits
from tests.lesson.handed_in import generated, hand_in_hostile
from tests.lesson.hostile import HOSTILE

LESSONS = sorted(path.stem[-2:] for path in Path(__file__).parent.glob("mutants_*.py"))


def submissions(folder: Path, count: int, lessons: Sequence[str]) -> dict[Path, dict[str, str] | None]:
    """Each notebook with the hint ids that are expected, empty for a right solution; None for a hostile one."""
    found: dict[Path, dict[str, str] | None] = {}
    kinds = product(range(100), lessons)
    for number, (which, lesson), kind in zip(range(count), kinds, cycle(["RIGHT", "RIGHT", "WRONG"]), strict=False):
        path, hints = generated(folder / f"{number:03}-{lesson}.ipynb", lesson, kind, which)
        found[path] = hints
    for number, (_, cell, words) in enumerate(HOSTILE[:10]):
        path = hand_in_hostile(folder / f"{number * count // 10:03}-hostile.ipynb", cell)
        found[path] = {"00.1": ""} if words == {"right"} else None
    return dict(sorted(found.items()))


def faults(sheet: Sheet, expected: dict[str, str] | None) -> list[tuple[str, str]]:
    """Each exercise whose outcome is not as expected: (what is wrong with it, which one and how)."""
    found = []
    for one in sheet.grades:
        verdict = one.verdict
        where = f"{Path(sheet.notebook).name} {verdict.exercise.id} {verdict.outcome} {verdict.hint_id}"
        where += f" {one.note or verdict.first.hint}"
        is_right = expected is not None and not expected[verdict.exercise.id]
        if verdict.outcome is Outcome.UNDECIDED:
            found.append(("undecided", where))
        elif verdict.outcome is Outcome.RIGHT and not is_right:
            found.append(("false pass", where))
        elif verdict.outcome is not Outcome.RIGHT and is_right:
            found.append(("false refusal", where))
        elif expected is not None and verdict.hint_id != expected[verdict.exercise.id]:
            found.append(("other hint", f"{where}, expected {expected[verdict.exercise.id]}"))
    return found + ([("unread", sheet.notebook)] if sheet.problem else [])


def main(count: int, lessons: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        expected = submissions(Path(name), count, lessons)
        start = time.monotonic()

        def tell(sheet: Sheet) -> None:
            sys.stderr.write(f"{time.monotonic() - start:6.0f} s  {Path(sheet.notebook).name}\n")

        sheets = grade(list(expected), Limits(memory_bytes=2 << 30), jobs=2, on_sheet=tell)
        seconds = time.monotonic() - start
        assert (Path(name) / "victim" / "grades.csv").read_text() == "all"
        found = [fault for sheet in sheets for fault in faults(sheet, expected[Path(sheet.notebook)])]
    lines = [f"{len(sheets)} submissions, {sum(len(sheet.grades) for sheet in sheets)} exercises, {seconds:.0f} s"]
    for kind in ("undecided", "false pass", "false refusal", "other hint", "unread"):
        places = [where for what, where in found if what == kind]
        lines += [f"{kind}: {len(places)}", *(f"    {where}" for where in places)]
    sys.stdout.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    main(int(next(islice(sys.argv, 1, None), "90")), sys.argv[2:] or LESSONS)
