"""What every data set becomes: a list of source and target texts.

Translation and plain text share one record, so one trainer and one `Collate` serve both.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """A text to predict, after a source text when there is one.

    Example: `Example("sieben", "seven")` translates; `Example("", "Call me Ishmael.")` is plain text.
    """

    source: str
    target: str


def texts_of(examples: Iterable[Example]) -> list[str]:
    """All texts a tokenizer should be trained on: `[Example("sieben", "seven")]` -> `["sieben", "seven"]`."""
    return [text for example in examples for text in (example.source, example.target) if text]


class DatasetError(ValueError):
    """A data set is missing, cannot be reached, or has not the expected columns or splits."""
