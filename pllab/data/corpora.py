"""Texts to train on: embedded ones that every machine has, local files, and sets of the Hugging Face hub.

English prose comes with CPython: `pydoc_data.topics`, the text behind `help("topics")`. A translation task comes from
`num2words`: German number words and the same number in English, where BLEU means something. So lessons and tests need
no network.

Whatever the origin, a set becomes a list of `Example`, so one trainer and one `Collate` serve them all.
"""

import glob
import logging
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pllab.arguments import plain_file

_log = logging.getLogger(__name__)

Row = Mapping[str, Any]
Splits = Mapping[str, Iterable[Row]]

# Every tenth paragraph of the prose is for validation.
_HELD_OUT = 10

# All numbers below a thousand, and this many above; then 80 % train, 10 % validation, 10 % test.
_SMALL, _LARGE, _LIMIT = 1_000, 9_000, 1_000_000
_NUMBER_SPLITS = {"train": slice(0, 8_000), "validation": slice(8_000, 9_000), "test": slice(9_000, 10_000)}

_MARKUP = re.compile(r"::=|>>>|->|^\s*[+|#]|[=*~^-]{4,}|\.\.\. ", re.MULTILINE)
_BULLET = re.compile(r"^(?:\*|\d+\.|-|\[\d+\])\s+")
_USE_EMBEDDED = "or use the embedded 'docs' or 'numbers'"


@dataclass(frozen=True)
class Example:
    """A text to predict, after a source text when there is one.

    Example: `Example("sieben", "seven")` translates; `Example("", "Call me Ishmael.")` is plain text.
    """

    source: str
    target: str


class DatasetError(ValueError):
    """A data set is missing, cannot be reached, or does not have the expected columns or splits."""


def texts_of(examples: Iterable[Example]) -> list[str]:
    """All texts a tokenizer should be trained on: `[Example("sieben", "seven")]` -> `["sieben", "seven"]`."""
    return [text for example in examples for text in (example.source, example.target) if text]


def docs_examples(split: str = "train") -> list[Example]:
    """English prose from CPython's own documentation, one paragraph per example, without a source.

    The text differs a little between Python versions and is the same on every machine with the same one. No
    paragraph occurs twice; nine of ten are for training, one for validation.

    Raises:
        DatasetError: the split is not train or validation.
    """
    _require_split("data set 'docs'", split, ("train", "validation"))
    held_out = split == "validation"
    return [
        Example("", paragraph)
        for number, paragraph in enumerate(_paragraphs())
        if (number % _HELD_OUT == 0) == held_out
    ]


def number_examples(split: str = "train", limit: int | None = None) -> list[Example]:
    """Number words in German and in English, for numbers from 0 to 999,999.

    Example: `Example("dreiundzwanzig", "twenty-three")`. Train has 8,000 numbers, validation and test 1,000
    each; no number is in two of them. All 1,000 numbers below a thousand are among the 10,000.

    Raises:
        DatasetError: the split is not train, validation or test.
    """
    from num2words import num2words  # here, so that a GPU node without num2words can use the rest of the room

    _require_split("data set 'numbers'", split, tuple(_NUMBER_SPLITS))
    rng = random.Random(1234)
    numbers = list(range(_SMALL)) + rng.sample(range(_SMALL, _LIMIT), _LARGE)
    rng.shuffle(numbers)
    chosen = numbers[_NUMBER_SPLITS[split]][:limit]
    return [Example(num2words(number, lang="de"), num2words(number, lang="en")) for number in chosen]


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


_HUB_SETS = {  # where each is on the hub, and its columns
    "iwslt14-de-en": ("bbaaaa/iwslt14-de-en-preprocess", ("de", "en")),
    "tinyshakespeare": ("karpathy/tiny_shakespeare", ("text",)),
    "openwebtext": ("Skylion007/openwebtext", ("text",)),
}
_READERS = {".json": "json", ".jsonl": "json", ".csv": "csv", ".parquet": "parquet", ".txt": "text"}
FILE_TYPES = tuple(_READERS)
"""The endings by which a file says what it is."""
NAMES = ("docs", "numbers", *_HUB_SETS)
"""The data sets that are known by name."""


def load_examples(
    name: str = "docs",
    split: str = "train",
    path: str | Path | None = None,
    columns: Sequence[str] | str | None = None,
    limit: int | None = None,
) -> list[Example]:
    """Load one split of a data set as examples, at most `limit` of them.

    Example: `load_examples("numbers", "validation", limit=1)[0].target` is
    `"seven hundred and four thousand, nine hundred and thirty-two"`.

        name               what                                        needs
        docs               English prose of CPython                    nothing
        numbers            German number words to English              nothing
        iwslt14-de-en      talks, German to English                    network or path
        tinyshakespeare    plays, one example per speech               network or path
        openwebtext        web pages                                   network or path
        owner/set          any set of the hub; owner/set:config too    network

    `path` is a local .jsonl, .json, .csv, .parquet or .txt file, or a folder of such files. `columns` names one column
    of text, or source and target, where they are not `text` or `de` and `en`. A set without a validation split gives
    every twentieth example of train to validation.

    Raises:
        DatasetError: the set cannot be found or reached, or does not have this split or these columns.
        ValueError: the path is a pipe or a device.
    """
    if limit is not None and limit < 1:
        raise DatasetError(f"limit {limit} asks for no examples; use at least 1, or None for all")
    if path is None and name == "docs":
        return docs_examples(split)[:limit]
    if path is None and name == "numbers":
        return number_examples(split, limit)
    place = None if path is None else Path(path)
    label = f"data set {name if place is None else str(place)!r}"
    columns = (columns,) if isinstance(columns, str) else columns
    _check_origin(name, place, label)
    _log.info("reading %s, split %r", label, split)
    try:
        examples = _load(name, split, place, columns, limit, label)
    except DatasetError:
        raise
    except Exception as error:  # of datasets and all its readers
        reason = " ".join(str(error).split())[:200] or "no reason given"
        raise DatasetError(
            f"{label} could not be loaded ({type(error).__name__}: {reason}); check the name and the network, "
            f"give a local copy with path=..., {_USE_EMBEDDED}"
        ) from error
    if not examples:
        raise DatasetError(f"{label} has no text for split {split!r}; give a larger set, {_USE_EMBEDDED}")
    return examples


def _check_origin(name: str, path: Path | None, label: str) -> None:
    """Refuse what is nowhere before anything is read: errors of other libraries do not say what to give instead."""
    if path is None and name not in NAMES and "/" not in name:
        known = ", ".join(NAMES)
        raise DatasetError(f"{label} is not known; give one of {known}, a set of the hub as owner/set, or a local file")
    if path is not None and not plain_file(path).exists():
        raise DatasetError(f"{label} does not exist; check the path, {_USE_EMBEDDED}")
    if path is not None and not path.is_dir() and path.suffix not in FILE_TYPES:
        known = ", ".join(FILE_TYPES)
        raise DatasetError(f"{label} is of no known kind; give a file ending in {known}, {_USE_EMBEDDED}")


def _load(
    name: str, split: str, path: Path | None, columns: Sequence[str] | None, limit: int | None, label: str
) -> list[Example]:
    """Read one split by `datasets`: local files in place, the hub streamed where there is a limit."""
    import datasets  # here: a GPU node with torch and transformers runs this room without datasets

    repository, usual_columns = _HUB_SETS.get(name, (name, None))
    is_book = name == "tinyshakespeare" or (path is not None and path.suffix == ".txt")
    with TemporaryDirectory(prefix="pllab-") as scratch:  # for the lock files of what is read in place
        if path is None:
            repository, _, config = repository.partition(":")
            splits = datasets.load_dataset(repository, name=config or None, streaming=limit is not None)
        elif path.is_dir():
            splits = datasets.load_dataset(str(path), streaming=True, cache_dir=scratch)
        else:
            options = {"sample_by": "document"} if path.suffix == ".txt" else {}
            files = {"train": glob.escape(str(path))}  # datasets reads a pattern
            splits = datasets.load_dataset(
                _READERS[path.suffix], data_files=files, streaming=True, cache_dir=scratch, **options
            )
        return list(islice(_read_split(splits, split, columns or usual_columns, is_book, label), limit))


def _read_split(
    splits: Splits, split: str, columns: Sequence[str] | None, is_book: bool, label: str
) -> Iterator[Example]:
    """The examples of one split; if a set has no validation split, it is every twentieth example of train."""
    is_shared = "validation" not in splits and "train" in splits and split in ("train", "validation")
    if not is_shared:
        _require_split(label, split, tuple(splits))
    examples = _examples_of(splits["train" if is_shared else split], columns, label)
    if is_book:
        examples = _split_paragraphs(examples)
    for number, example in enumerate(examples, start=1):
        if not is_shared or (number % 20 == 0) == (split == "validation"):
            yield example


def _require_split(label: str, split: str, splits: tuple[str, ...]) -> None:
    if split not in splits:
        raise DatasetError(f"{label} has no split {split!r}; it has {', '.join(splits)}")


def _examples_of(rows: Iterable[Row], columns: Sequence[str] | None, label: str) -> Iterator[Example]:
    """Take the text columns of each row: `{"translation": {"de": "drei", "en": "three"}}` -> drei, three.

    Two columns are source and target, one is plain text. Rows without a target are left out.
    """
    chosen: Sequence[str] | None = None
    for row in rows:
        inner = row.get("translation")
        fields = inner if isinstance(inner, Mapping) else row
        chosen = chosen or _choose_columns(list(fields), columns, label)
        texts = [fields.get(column) for column in chosen]
        *source, target = ("" if text is None else str(text).strip() for text in texts)
        if target:
            yield Example("".join(source), target)


def _choose_columns(present: Sequence[str], names: Sequence[str] | None, label: str) -> Sequence[str]:
    """The columns to read: the named ones, else German and English, else text."""
    if names is not None and len(names) not in (1, 2):
        raise DatasetError(f"columns {tuple(names)} are not one column of text nor a source and a target column")
    for shape in [("de", "en"), ("text",)] if names is None else [names]:
        if set(shape) <= set(present):
            return shape
    expected = "de and en, nor text" if names is None else " and ".join(names)
    raise DatasetError(
        f"{label} has the columns {', '.join(present)} but not {expected}; name its text columns, "
        f'for example columns=("question", "answer") or columns=("text",), {_USE_EMBEDDED}'
    )


def _split_paragraphs(examples: Iterable[Example]) -> Iterator[Example]:
    """Cut plain texts at blank lines, so that a whole play in one row becomes its speeches."""
    for example in examples:
        for paragraph in re.split(r"\n\s*\n", example.target):
            if paragraph.strip():
                yield Example(example.source, paragraph.strip())
