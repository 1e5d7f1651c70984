"""Write the measured figures of docs/measured.md from the recorded results, so that nobody types a number.

    python -m pllab.bench.document docs/measured.md assets/results

The text between `<!-- measured: pipeline -->` and `<!-- end -->` is made from `pipeline_cpu2.json`. Run this again
after recording a bench with `--json assets/results/pipeline_cpu2.json`; a test compares document and results.
The table of lessons in README is written between marks, too (`pllab.lesson.course`).
"""

import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pllab.bench.measure import Comparison, Spread

Record = Mapping[str, Any]


def fill(text: str, results: Path) -> str:
    """The text with the results between its marks.

    Example: `fill(page, Path("assets/results"))` is the page again, if it is up to date.

    Raises:
        ValueError: a mark names a bench that is not recorded.
    """
    return between_marks(text, r"measured: (\w+)", lambda mark: _section(mark[2], results))


def main(arguments: Sequence[str]) -> int:
    """Fill a file from a folder of results; 0 when done."""
    if len(arguments) != 2:
        sys.stderr.write("name the file and the folder of results: docs/measured.md assets/results\n")
        return 2
    file, results = map(Path, arguments)
    file.write_text(fill(file.read_text(), results))
    return 0


def between_marks(text: str, mark: str, write: Callable[[re.Match[str]], str]) -> str:
    """The text with what `write` returns between each mark and its end, a blank line around it.

    Example: `between_marks(readme, "lessons", lambda mark: table(head, rows))`.

    Args:
        text: where the marks are.
        mark: a regular expression for what stands in the opening mark; its groups are those of the match from 2 on.
        write: makes the new section from the match of its marks.
    """
    section = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- end -->)", re.DOTALL)
    return section.sub(lambda found: f"{found[1]}\n{write(found)}\n\n{found[found.re.groups]}", text)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], num_right: int | None = None) -> str:
    """A Markdown table; of the columns after the first, `num_right` are aligned to the right, by default all."""
    num_right = len(head) - 1 if num_right is None else num_right
    rule = ["---", *["---:"] * num_right, *["---"] * (len(head) - 1 - num_right)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))


def _section(name: str, results: Path) -> str:
    """The results of one bench under its command."""
    path = results / f"{name}_cpu2.json"
    if not path.exists():
        raise ValueError(f"{name!r} is not recorded; run its bench with --json {path}, or take the mark out")
    record = json.loads(path.read_text())
    write = _faults if "tries" in record else _fidelity if "cases" in record else _rivals
    about, *tables = write(record)
    sentence = textwrap.fill(f"`{record['command']}`: {about}", 120, break_on_hyphens=False, break_long_words=False)
    return "\n\n".join([sentence, *tables])


def _rivals(record: Record) -> tuple[str, str]:
    """Every way's seconds, over those of PyTorch's class, as they were measured round by round."""
    comparison = Comparison(**record["comparison"])
    ours, theirs = record["ours"], record["theirs"]
    figures = [f"{name}: {Spread(*spread).text(3)}." for name, spread in record["figures"].items()]
    rows = [
        (f"**`{way}`**" if way == ours else way, comparison.time(way).text(3), comparison.ratio(way, theirs).text(3))
        for way in comparison.seconds
    ]
    return " ".join([record["about"], *figures]), table(("Way", "Seconds", f"Over {theirs}"), rows)


def _fidelity(record: Record) -> tuple[str]:
    figures = "; ".join(record["figures"])
    return (f"a step predicted from costs calibrated on the machine, against the step as it ran: {figures}.",)


def _faults(record: Record) -> tuple[str, str]:
    tries: list[dict[str, Any]] = record["tries"]
    rows = []
    for moment in dict.fromkeys(each["moment"] for each in tries):
        those = [each for each in tries if each["moment"] == moment]
        off = max(abs(each["goodput_counted"] / each["goodput_injected"] - 1) for each in those)
        waits = [each["recovery_s"] for each in those]
        lost = sum(not each["is_complete"] for each in those)
        sums = [sum(each[name] for each in those) for name in ("repeated_steps", "orphans")]
        hangs = sum(wait > _HANG_S for wait in waits)
        rows.append((moment, *map(str, (len(those), lost, *sums, hangs)), f"{max(waits):.1f}", f"{off:.2%}"))
    counts = ("Tries", "With other losses", "Steps repeated", "Orphans", "Hangs")
    about = (
        "training under torchrun on one agent with 2 ranks or two agents with one each, a checkpoint every 3 steps; a "
        "rank or an agent is killed once. Goodput is compared with a log that the ranks write of begin, steps and end. "
        "In set-up, a rank that waits for one of another agent goes on at its deadline, here 60 s."
    )
    return about, table(("Killed in", *counts, "Longest s to go on", "Goodput off"), rows)


_HANG_S = 70.0  # the ranks' deadline and ten seconds


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
