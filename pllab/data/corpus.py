"""Two corpora that every machine has, so that lessons and tests need no network.

English prose comes with CPython: `pydoc_data.topics`, the text behind `help("topics")`. A translation task
comes from `num2words`: German number words and the same number in English, where BLEU means something.
"""

import random
import re

from pllab.data.example import DatasetError, Example

EMBEDDED = ("docs", "numbers")

# Every tenth paragraph of the prose is kept for validation.
_HELD_OUT = 10

# All numbers below a thousand, and this many above; then 80 % train, 10 % validation, 10 % test.
_SMALL, _LARGE, _LIMIT = 1_000, 9_000, 1_000_000
_NUMBER_SPLITS = {"train": slice(0, 8_000), "validation": slice(8_000, 9_000), "test": slice(9_000, 10_000)}

_MARKUP = re.compile(r"::=|>>>|->|^\s*[+|#]|[=*~^-]{4,}|\.\.\. ", re.MULTILINE)
_BULLET = re.compile(r"^(?:\*|\d+\.|-|\[\d+\])\s+")


def docs_examples(split: str = "train") -> list[Example]:
    """English prose from CPython's own documentation, one paragraph per example, without a source.

    The text differs a little between Python versions and is the same on every machine with the same one. No
    paragraph occurs twice; nine of ten are for training, one for validation.

    Raises:
        DatasetError: the split is not train or validation.
    """
    require_split("data set 'docs'", split, ("train", "validation"))
    held_out = split == "validation"
    return [
        Example("", paragraph)
        for number, paragraph in enumerate(_paragraphs())
        if (number % _HELD_OUT == 0) == held_out
    ]


def number_examples(split: str = "train", limit: int | None = None, seed: int = 1234) -> list[Example]:
    """Number words in German and in English, for numbers from 0 to 999,999.

    Example: `Example("dreiundzwanzig", "twenty-three")`. Train has 8,000 numbers, validation and test 1,000
    each; no number is in two of them. All 1,000 numbers below a thousand are among the 10,000.

    Raises:
        DatasetError: the split is not train, validation or test.
    """
    from num2words import num2words  # here, so that a GPU node without num2words can use the rest of the room

    require_split("data set 'numbers'", split, tuple(_NUMBER_SPLITS))
    rng = random.Random(seed)
    numbers = list(range(_SMALL)) + rng.sample(range(_SMALL, _LIMIT), _LARGE)
    rng.shuffle(numbers)
    chosen = numbers[_NUMBER_SPLITS[split]][:limit]
    return [Example(num2words(number, lang="de"), num2words(number, lang="en")) for number in chosen]


def require_split(label: str, split: str, splits: tuple[str, ...]) -> None:
    """Refuse a split that the data set does not have.

    Raises:
        DatasetError: with the splits there are.
    """
    if split not in splits:
        raise DatasetError(f"{label} has no split {split!r}; it has {', '.join(splits)}")


def _paragraphs() -> list[str]:
    """The prose of all topics, each paragraph once, in the order of the topics' names."""
    from pydoc_data.topics import topics  # here, because it is half a megabyte of text

    blocks = (block for name in sorted(topics) for block in topics[name].split("\n\n"))
    return list(dict.fromkeys(_joined(block) for block in blocks if _is_prose(block)))


def _is_prose(block: str) -> bool:
    """Whether a block is sentences, not a heading, a table, a grammar rule, a signature or code."""
    text = _BULLET.sub("", block.strip())
    num_words = len(text.split())
    starts_well = text[:1].isupper() or text.startswith(("“", "‘", '"', "*"))
    ends_well = text.endswith((".", ":", ")", ";")) or num_words >= 20
    return starts_well and ends_well and num_words >= 8 and _MARKUP.search(block) is None


def _joined(block: str) -> str:
    """One line without the indent and the bullet; a word hyphenated at the end of a line is put together."""
    text = _BULLET.sub("", block.strip())
    return " ".join(re.sub(r"(?<=\w-)\n\s*", "", text).split())
