"""Find the texts in the rows of a data set, whatever shape it has.

Three shapes are known by themselves: `{"translation": {"de": ..., "en": ...}}`, flat `de` and `en`, and
`text`. Any other is named by its columns.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pllab.data.corpus import EMBEDDED
from pllab.data.example import DatasetError, Example

Row = Mapping[str, Any]

_KNOWN = (("de", "en"), ("text",))
_BLANK_LINES = re.compile(r"\n\s*\n")


def use_embedded() -> str:
    """The end of every sentence about a data set that cannot be used."""
    return "or use the embedded " + " or ".join(repr(name) for name in EMBEDDED)


def read_examples(rows: Iterable[Row], columns: Sequence[str] | None, label: str) -> Iterator[Example]:
    """Take the text columns of each row: `{"translation": {"de": "drei", "en": "three"}}` -> drei, three.

    Two columns are source and target, one is plain text. Rows without a target are left out.

    Raises:
        DatasetError: the first row has not the expected columns.
    """
    chosen: Sequence[str] | None = None
    for row in rows:
        flat = _flat(row)
        chosen = chosen or _choose(list(flat), columns, label)
        *source, target = (_text(flat.get(column)) for column in chosen)
        if target:
            yield Example("".join(source), target)


def split_paragraphs(examples: Iterable[Example]) -> Iterator[Example]:
    """Cut plain texts at blank lines, so that a whole play in one row becomes its speeches."""
    for example in examples:
        for paragraph in _BLANK_LINES.split(example.target):
            if paragraph.strip():
                yield Example(example.source, paragraph.strip())


def _flat(row: Row) -> dict[str, Any]:
    """The columns of a row, those inside `translation` among them."""
    inner = row.get("translation")
    rest = {name: value for name, value in row.items() if name != "translation"}
    return {**rest, **inner} if isinstance(inner, Mapping) else dict(row)


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _choose(found: Sequence[str], wanted: Sequence[str] | None, label: str) -> Sequence[str]:
    """The columns to read: those wanted, else the first known shape that is there."""
    if wanted is not None and len(wanted) not in (1, 2):
        raise DatasetError(f"columns {tuple(wanted)} are not one column of text nor a source and a target column")
    for shape in _KNOWN if wanted is None else [wanted]:
        if set(shape) <= set(found):
            return shape
    expected = "de and en, nor text" if wanted is None else " and ".join(wanted)
    raise DatasetError(
        f"{label} has the columns {', '.join(found)} but not {expected}; name its text columns, "
        f'for example columns=("question", "answer") or columns=("text",), {use_embedded()}'
    )
