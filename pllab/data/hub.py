"""Load a data set by name: embedded, from a local file or folder, or from the Hugging Face hub.

Local files are read in place and copied nowhere; a set from the hub goes to the hub's own cache, or is
streamed when only its first examples are asked for.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pllab.data.columns import Row, read_examples, split_paragraphs, use_embedded
from pllab.data.corpus import docs_examples, number_examples, require_split
from pllab.data.example import DatasetError, Example

Splits = Mapping[str, Iterable[Row]]


@dataclass(frozen=True)
class HubSet:
    """Where a set lives on the hub, its text columns, and whether a row is a whole book."""

    repository: str
    columns: tuple[str, ...] | None = None
    paragraphs: bool = False


HUB_SETS: Mapping[str, HubSet] = {
    "iwslt14-de-en": HubSet("bbaaaa/iwslt14-de-en-preprocess", ("de", "en")),
    "tinyshakespeare": HubSet("karpathy/tiny_shakespeare", ("text",), paragraphs=True),
    "openwebtext": HubSet("Skylion007/openwebtext", ("text",)),
}

# Where a set has no validation split, one example in twenty of its train split is kept for validation.
_HELD_OUT = 20

_BUILDERS = {".json": "json", ".jsonl": "json", ".csv": "csv", ".parquet": "parquet", ".arrow": "arrow"}
_NETWORK_TIMEOUT_S = 10.0
_CONVERTED = "refs/convert/parquet"  # the hub's own conversion of sets that are still a Python script


def load_examples(
    name: str = "docs",
    split: str = "train",
    path: str | Path | None = None,
    columns: Sequence[str] | str | None = None,
    limit: int | None = None,
) -> list[Example]:
    """Load one split of a data set as examples, at most `limit` of them.

    Example: `load_examples("numbers", "validation", limit=1)` ->
    `[Example("siebenhundertviertausendneunhundertzweiunddreißig",
    "seven hundred and four thousand, nine hundred and thirty-two")]`.

        name               what                                        needs
        docs               English prose of CPython                    nothing
        numbers            German number words to English              nothing
        iwslt14-de-en      talks, German to English                    network or path
        tinyshakespeare    plays, one example per speech               network or path
        openwebtext        web pages                                   network or path
        owner/set          any set of the hub; owner/set:config too    network

    `path` is a local .jsonl, .json, .csv, .parquet, .arrow or .txt file, a folder of them, or a folder made
    by `save_to_disk`. `columns` names one column of text, or source and target, where they are not `text` or
    `de` and `en`. A set without a validation split gives every twentieth example of train to validation.

    Raises:
        DatasetError: the set cannot be found or reached, or has not this split or these columns.
    """
    if limit is not None and limit < 1:
        raise DatasetError(f"limit {limit} asks for no examples; use at least 1, or None for all")
    if path is None and name == "docs":
        return docs_examples(split)[:limit]
    if path is None and name == "numbers":
        return number_examples(split, limit)
    known = HUB_SETS.get(name, HubSet(name))
    wanted = (columns,) if isinstance(columns, str) else columns or known.columns
    label = f"data set {name!r}" if path is None else f"data set {str(path)!r}"
    paragraphs = known.paragraphs or (path is not None and Path(path).suffix == ".txt")
    with TemporaryDirectory(prefix="pllab-") as scratch:  # datasets leaves lock files even for what it streams
        try:
            if path is None:
                splits = _hub_splits(known.repository, label, limit)
            else:
                splits = _local_splits(Path(path), label, scratch)
            found = list(islice(_read_split(splits, split, wanted, paragraphs, label), limit))
        except DatasetError:
            raise
        except Exception as error:  # datasets and its readers raise whatever their libraries raise
            raise _unusable(label, error) from error
    if not found:
        raise DatasetError(f"{label} has no text for split {split!r}; give a larger set, {use_embedded()}")
    return found


def _read_split(
    splits: Splits, split: str, columns: Sequence[str] | None, paragraphs: bool, label: str
) -> Iterator[Example]:
    """The examples of one split; every twentieth of train is validation where a set has none."""
    held_out: bool | None = split == "validation"
    if "validation" in splits or "train" not in splits or split not in ("train", "validation"):
        require_split(label, split, tuple(splits))
        held_out = None
    examples = read_examples(splits["train" if held_out else split], columns, label)
    if paragraphs:
        examples = split_paragraphs(examples)
    for number, example in enumerate(examples, start=1):
        if held_out is None or (number % _HELD_OUT == 0) == held_out:
            yield example


def _unusable(label: str, error: Exception) -> DatasetError:
    """One sentence from another library's exception."""
    reason = " ".join(str(error).split())[:200] or "no reason given"
    return DatasetError(
        f"{label} could not be loaded ({type(error).__name__}: {reason}); check the name and the network, "
        f"give a local copy with path=..., {use_embedded()}"
    )


def _local_splits(path: Path, label: str, scratch: str) -> Splits:
    """The splits of a local file or folder; a single file is a train split."""
    if not path.exists():
        raise DatasetError(f"{label} does not exist; check the path, {use_embedded()}")
    if path.suffix == ".txt":
        return {"train": [{"text": path.read_text(encoding="utf-8")}]}

    import datasets  # here: a GPU node with torch and transformers runs this room without datasets

    if path.is_dir():
        return _folder_splits(path, scratch)
    builder = _BUILDERS.get(path.suffix)
    if builder is None:
        known = ", ".join([*_BUILDERS, ".txt"])
        raise DatasetError(f"{label} is of no known kind; give a file ending in {known}, {use_embedded()}")
    files = {"train": str(path)}
    return dict(datasets.load_dataset(builder, data_files=files, streaming=True, cache_dir=scratch))


def _folder_splits(path: Path, scratch: str) -> Splits:
    """A folder made by `save_to_disk`, or one of files named after their splits."""
    import datasets

    if (path / "dataset_dict.json").exists():
        return dict(datasets.load_from_disk(str(path)))
    if (path / "state.json").exists():
        return {"train": datasets.load_from_disk(str(path))}
    return dict(datasets.load_dataset(str(path), streaming=True, cache_dir=scratch))


def _hub_splits(repository: str, label: str, limit: int | None) -> Splits:
    """The splits of a set on the hub, streamed when only some examples are wanted."""
    import datasets

    repository, _, config = repository.partition(":")
    _require_reachable(repository, label)
    options: dict[str, Any] = {"name": config or None, "streaming": limit is not None}
    try:
        return dict(datasets.load_dataset(repository, **options))
    except RuntimeError as error:
        if "script" not in str(error):
            raise
        return dict(datasets.load_dataset(repository, revision=_CONVERTED, **options))


def _require_reachable(repository: str, label: str) -> None:
    """Ask the hub once; datasets itself would try for twenty seconds and fill the screen.

    Raises:
        DatasetError: no answer, or no such set. In the hub's offline mode nothing is asked: see its cache.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import OfflineModeIsEnabled

    try:
        HfApi().dataset_info(repository, timeout=_NETWORK_TIMEOUT_S)
    except OfflineModeIsEnabled:
        return
    except Exception as error:
        raise _unusable(label, error) from error
