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

from pllab.bench.measure import Comparison


def fill(text: str, results: Path) -> str:
    """The text with the results between its marks.

    Example: `fill(page, Path("assets/results"))` is the page again, if it is up to date.
    """
    return between_marks(text, r"measured: (\w+)", lambda mark: _section(mark[2], results))


def main(file: Path, results: Path) -> None:
    """Fill a file from a folder of results."""
    file.write_text(fill(file.read_text(), results))


def between_marks(text: str, mark: str, write: Callable[[re.Match[str]], str]) -> str:
    """The text with the result of `write` between each mark and its end, surrounded by blank lines.

    Example: `between_marks(readme, "lessons", lambda mark: table(head, rows))`.

    Args:
        text: where the marks are.
        mark: a regular expression for the opening mark; its groups are numbered from 2 in the match.
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
    record = json.loads((results / f"{name}_cpu2.json").read_text())
    tables = [table(record["head"], record["rows"])] if "rows" in record else []
    if "comparison" in record:
        tables = [_rivals(record)]
    sentence = f"`{record['command']}`: {record['about']}"
    return "\n\n".join([textwrap.fill(sentence, 120, break_on_hyphens=False, break_long_words=False), *tables])


def _rivals(record: Mapping[str, Any]) -> str:
    """Every way's seconds over those of PyTorch's class, measured round by round."""
    comparison = Comparison(**record["comparison"])
    ours, theirs = record["ours"], record["theirs"]
    rows = [
        (f"**`{way}`**" if way == ours else way, comparison.time(way).text(3), comparison.ratio(way, theirs).text(3))
        for way in comparison.seconds
    ]
    return table(("Way", "Seconds", f"Over {theirs}"), rows)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
