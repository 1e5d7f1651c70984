"""What a program writes into a text that people write: a section between two marks, and a Markdown table for it.

What stands between `<!-- lessons -->` and `<!-- end -->` is written again.
"""

import re
from collections.abc import Callable, Iterable, Sequence


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
