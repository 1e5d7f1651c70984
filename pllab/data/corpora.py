"""Texts to train on: embedded ones that every machine has, local files, and data sets from the Hugging Face hub.

English prose comes with CPython: `pydoc_data.topics`, the text behind `help("topics")`. A translation task comes from
`num2words`: German number words and the same number in English, where BLEU means something. So lessons and tests need
no network.

Whatever the origin, a set has splits of rows, and a split becomes a list of `Example`, so one trainer and one `Collate`
serve them all.
"""

import glob
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pllab.arguments import plain_file

Fields = Mapping[str, Any]  # a row of a set, by column
Splits = Mapping[str, Iterable[Fields]]

_MARKUP = re.compile(r"::=|>>>|->|^\s*[+|#]|[=*~^-]{4,}|\.\.\. ", re.MULTILINE)
_BULLET = re.compile(r"^(?:\*|\d+\.|-|\[\d+\])\s+")


@dataclass(frozen=True)
class Example:
    """A text to predict, after a source text if there is one.

    Example: `Example("sieben", "seven")` translates; `Example("", "Call me Ishmael.")` is plain text.
    """

    source: str
    target: str


class DatasetError(ValueError):
    """A data set is missing, cannot be reached, or does not have the expected columns or splits."""


def texts_of(examples: Iterable[Example]) -> list[str]:
    """All texts a tokenizer should be trained on: `[Example("sieben", "seven")]` -> `["sieben", "seven"]`."""
    return [text for example in examples for text in (example.source, example.target) if text]


def _docs() -> Splits:
    """English prose from CPython's own documentation: each paragraph once, every tenth for validation.

    The text differs slightly between Python versions; with the same version it is the same on every machine.
    """
    from pydoc_data.topics import topics  # here, because it is half a megabyte of text

    blocks = (block for name in sorted(topics) for block in topics[name].split("\n\n"))
    rows = [{"text": text} for text in dict.fromkeys(_joined(block) for block in blocks if _is_prose(block))]
    return {"train": [row for number, row in enumerate(rows) if number % 10], "validation": rows[::10]}


def _numbers() -> Splits:
    """Ten thousand numbers below a million in words, including all below a thousand, each in one split."""
    from num2words import num2words  # here, so that a GPU node without num2words can use the rest of the room

    rng = random.Random(1234)
    numbers = list(range(1_000)) + rng.sample(range(1_000, 1_000_000), 9_000)
    rng.shuffle(numbers)
    parts = {"train": numbers[:8_000], "validation": numbers[8_000:9_000], "test": numbers[9_000:]}

    def in_words(part: list[int]) -> Iterator[Fields]:
        return ({lang: num2words(number, lang=lang) for lang in ("de", "en")} for number in part)

    return {split: in_words(part) for split, part in parts.items()}


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


_EMBEDDED = {"docs": _docs, "numbers": _numbers}
_ONLINE = {  # where each is: on the hub, or a page of text
    "iwslt14-de-en": "bbaaaa/iwslt14-de-en-preprocess",
    "tinyshakespeare": "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
    "openwebtext": "Skylion007/openwebtext",
}
_FILES: dict[str, dict[str, Any]] = {
    ".json": {"path": "json"},
    ".jsonl": {"path": "json"},
    # Converters by place, so that pandas takes no cell for a number, a truth value or a missing one.
    ".csv": {"path": "csv", "keep_default_na": False, "converters": dict.fromkeys(range(1_000), str)},
    ".parquet": {"path": "parquet"},
    ".txt": {"path": "text", "sample_by": "paragraph"},
}
_USE_EMBEDDED = "or use the embedded 'docs' or 'numbers'"


def load_examples(
    name: str = "docs", split: str = "train", columns: Sequence[str] | str | None = None, limit: int | None = None
) -> list[Example]:
    """Load one split of a data set as examples, at most `limit` of them.

    Example: `load_examples("numbers", "validation", limit=1)[0].target` is
    `"seven hundred and four thousand, nine hundred and thirty-two"`.

        name               what                                        needs
        docs               English prose of CPython                    nothing
        numbers            German number words to English              nothing
        iwslt14-de-en      talks, German to English                    network
        tinyshakespeare    plays, one example per speech               network
        openwebtext        web pages                                   network
        owner/set          any set of the hub; owner/set:config too    network
        a path             a .json, .jsonl, .csv, .parquet or .txt     nothing
                           file, or a folder of such files

    A file of text has an example for each paragraph, in a folder for each line. `columns` names one column of text, or
    source and target, where they are not `text` or `de` and `en`. A set without a validation split gives every
    twentieth example of train to validation.

    Raises:
        DatasetError: the set cannot be found or reached, or does not have this split or these columns.
        ValueError: the path is a pipe or a device.
    """
    columns = (columns,) if isinstance(columns, str) else columns
    label = f"data set {name!r}"
    if name in _EMBEDDED:
        return list(islice(_read_split(_EMBEDDED[name](), split, columns, label), limit))
    place = _place_of(name, label)
    try:
        with TemporaryDirectory(prefix="pllab-") as scratch:  # for the lock files of what is read in place
            splits = _load(name, place, limit, scratch)
            examples = list(islice(_read_split(splits, split, columns, label), limit))
    except DatasetError:
        raise
    except Exception as error:  # of datasets and all its readers
        reason = " ".join(str(error).split())[:200] or "no reason given"
        raise DatasetError(
            f"{label} could not be loaded ({type(error).__name__}: {reason}); check the name and the network, "
            f"give a local copy in its place, {_USE_EMBEDDED}"
        ) from error
    if not examples:
        raise DatasetError(f"{label} has no text for split {split!r}; give a larger set, {_USE_EMBEDDED}")
    return examples


def _place_of(name: str, label: str) -> Path | None:
    """The file or folder that a name means, None for a set elsewhere."""
    path = plain_file(Path(name))
    if name in _ONLINE:
        return None
    if path.exists():
        return path.resolve() if path.is_dir() else path  # `datasets` finds no name for "."
    is_path = path.is_absolute() or path.suffix in _FILES
    if is_path or "/" not in name:
        known = ", ".join([*_EMBEDDED, *_ONLINE])
        raise DatasetError(f"{label} is not known; give one of {known}, a set of the hub as owner/set, or a path")
    return None


def _load(name: str, place: Path | None, limit: int | None, scratch: str) -> Splits:
    """The splits of a set by `datasets`: local files are read in place, those of the hub streamed up to a limit."""
    if name == "tinyshakespeare":
        return _speeches(_ONLINE[name])
    import datasets  # here: a GPU node with torch and transformers runs this room without datasets

    if place is None:
        repository, _, config = _ONLINE.get(name, name).partition(":")
        return datasets.load_dataset(repository, name=config or None, streaming=limit is not None)
    if place.is_dir():
        kinds = {file.suffix for file in place.rglob("*")} & set(_FILES)
        of_files = _FILES[kinds.pop()] if len(kinds) == 1 else {}  # a folder of one kind is read as its files are
        where = {"path": str(place)}
    else:
        of_files, where = _FILES[place.suffix], {"data_files": glob.escape(name)}
    return datasets.load_dataset(**of_files | where, streaming=True, cache_dir=scratch)


def _speeches(address: str) -> Splits:
    """A row for each paragraph of a page of text; for a page `datasets` would need aiohttp."""
    from huggingface_hub import get_session  # which asks nobody in the hub's offline mode

    page = get_session().get(address, timeout=60)
    return {"train": [{"text": paragraph} for paragraph in page.raise_for_status().text.split("\n\n")]}


def _read_split(splits: Splits, split: str, columns: Sequence[str] | None, label: str) -> Iterator[Example]:
    """The examples of one split; if a set has no validation split, it is every twentieth example of train."""
    is_shared = "validation" not in splits and "train" in splits and split in ("train", "validation")
    if not is_shared and split not in splits:
        raise DatasetError(f"{label} has no split {split!r}; it has {', '.join(splits)}")
    examples = _examples_of(splits["train" if is_shared else split], columns, label)
    for number, example in enumerate(examples, start=1):
        if not is_shared or (number % 20 == 0) == (split == "validation"):
            yield example


def _examples_of(rows: Iterable[Fields], columns: Sequence[str] | None, label: str) -> Iterator[Example]:
    """Take the text columns of each row: `{"translation": {"de": "drei", "en": "three"}}` -> drei, three.

    Two columns are source and target, one is plain text. Rows without a target are left out.
    """
    chosen: Sequence[str] | None = None
    for row in rows:
        inner = row.get("translation")
        fields = inner if isinstance(inner, Mapping) else row
        chosen = chosen or _choose_columns(list(fields), columns, label)
        texts = [fields.get(column) for column in chosen]
        *source, target = ("" if text is None else str(text).removeprefix("\ufeff").strip() for text in texts)
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
