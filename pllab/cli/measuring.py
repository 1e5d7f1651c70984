"""`pllab bench NAME`, `compare`, `equivalence` and `scale`: measure, print the table, write the numbers.

The flags are the parameters of the measuring function, so each setting is written once.
"""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from pllab.arguments import plain_file, require
from pllab.cli.flags import bind

_BENCHES = {
    "data-parallel": "pllab.bench.rivals:bench_data_parallel",
    "fsdp": "pllab.bench.rivals:bench_fsdp",
    "fidelity": "pllab.bench.fidelity:bench_fidelity",
    "pipeline": "pllab.bench.pipeline_steps:bench_pipeline",
    "tensor": "pllab.bench.rivals:bench_tensor",
}


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """The file for the numbers, checked before the measurement so that it can be written after it.

    Raises:
        ValueError: the path is a folder, is in a folder that does not exist, or cannot be written.
    """

    json: Path | None = None
    """File for the numbers, the machine and the command."""

    def __post_init__(self) -> None:
        check_file("--json", self.json)


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """The file for the picture.

    Raises:
        ValueError: as for `Numbers`, or the kind of picture is unknown.
    """

    picture: Path | None = None
    """File for the picture, .png or .svg."""

    def __post_init__(self) -> None:
        check_file("--picture", self.picture)
        if self.picture is not None and self.picture.suffix.lower() not in (".png", ".svg"):
            raise ValueError(f"--picture {str(self.picture)!r} is no picture; end the name in .png or .svg")


def check_file(flag: str, path: Path | None) -> None:
    """Refuse a file that cannot be written once the numbers are there.

    Raises:
        ValueError: the path is a folder, a pipe or a device, is in a folder that does not exist, or cannot be written.
    """
    if path is None:
        return
    name = f"{flag} {str(path)!r}"
    if plain_file(path).is_dir():
        raise ValueError(f"{name} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise ValueError(f"{name} lies in a folder that does not exist; make it first")
    try:
        tempfile.TemporaryFile(dir=path.parent).close()  # in /proc even root may not, whatever access says
        can_write = not path.exists() or os.access(path, os.W_OK)
    except OSError:
        can_write = False
    require(can_write, f"{name} cannot be written; name a file in a folder of your own")


def run(words: Sequence[str]) -> int:
    """Measure as the flags say; returns 0.

    Raises:
        ValueError: an unknown bench or flag, an implausible measurement, or no place for a file.
    """
    if not words or words[0] in ("-h", "--help"):
        print(f"usage: python -m pllab bench {{{','.join(_BENCHES)}}} [options]; each has its own --help")
        return 0 if words else 2
    if words[0] not in _BENCHES:
        raise ValueError(f"{words[0]!r} is no bench; choose one of {', '.join(_BENCHES)}")
    command = f"bench {words[0]}"
    measure, numbers = bind((resolve_name(_BENCHES[words[0]]), Numbers), words[1:], command)
    json = numbers().json
    _report(measure(), json, command, words[1:])
    return 0


def run_compare(words: Sequence[str]) -> int:
    """Compare all strategies as the flags say; returns 0.

    Raises:
        ValueError: as for `run`.
    """
    measure, numbers, drawing = bind(
        (resolve_name("pllab.train.comparing:compare_strategies"), Numbers, Drawing), words, "compare"
    )
    json, picture = numbers().json, drawing().picture
    result = measure()
    _report(result, json, "compare", words)
    if picture is not None:
        print(f"picture in {result.picture().save(picture)}")
    return 0


def run_scale(words: Sequence[str]) -> int:
    """Count a layout as the flags say and print its table; returns 0.

    Raises:
        ValueError: an unknown flag, or axes that contradict each other.
    """
    (count,) = bind((resolve_name("pllab.train.scale:scale"),), words, "scale")
    print(count().table())
    return 0


def run_equivalence(words: Sequence[str]) -> int:
    """Compare all layouts in small; return 0 if all rows are equal and 1 if one is not.

    Raises:
        ValueError: an unknown flag, or no place for a file.
    """
    measure, numbers = bind((resolve_name("pllab.train.comparing:equivalence"), Numbers), words, "equivalence")
    json, result = numbers().json, measure()
    _report(result, json, "equivalence", words)
    return 0 if result.is_equal else 1


def _report(result: Any, path: Path | None, command: str, words: Sequence[str]) -> None:
    """Print the table, and write the numbers if there is a path."""
    print(result.table())
    if path is not None:
        _write(path, command, words, result.to_json())


def _write(path: Path, command: str, words: Sequence[str], numbers: dict[str, Any]) -> None:
    from pllab.train.results import write_json  # with all of the trainer, which --help does not need

    write_json(path, {"command": _command(command, words), **numbers})
    print(f"numbers in {path}")


def _command(command: str, words: Sequence[str]) -> str:
    """The command to repeat the measurement, without its files, whose paths are for this machine only."""
    rest = iter(words)
    flags = [word for word in rest if not (word in ("--json", "--picture") and next(rest, ""))]
    return " ".join([f"python -m pllab {command}", *(w for w in flags if not w.startswith(("--json=", "--picture=")))])
