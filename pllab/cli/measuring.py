"""`pllab bench NAME`, `compare`, `equivalence` and `scale`: measure, print the table, write the numbers.

The flags are the parameters of the measuring function, so each setting is written once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from pllab.arguments import require
from pllab.cli.flags import bind, check_file
from pllab.files import write_whole

_BENCHES = {
    "data-parallel": "pllab.bench.rivals:bench_data_parallel",
    "fsdp": "pllab.bench.rivals:bench_fsdp",
    "fidelity": "pllab.bench.fidelity:bench_fidelity",
    "pipeline": "pllab.bench.rivals:bench_pipeline",
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

    def write(self, result: Any, command: str) -> None:
        """Write them if there is a file, and say where they are."""
        if self.json is not None:
            write_whole(self.json, dumps({"command": command, **result.to_json()}, indent=1) + "\n")
            print(f"numbers in {self.json}")


@dataclass(frozen=True, kw_only=True)
class Picture:
    """The file for a picture, checked as that of `Numbers` is.

    Raises:
        ValueError: as for `Numbers`, or the kind of picture is unknown.
    """

    picture: Path | None = None
    """File for the picture, .png or .svg."""

    def __post_init__(self) -> None:
        check_file("--picture", self.picture, "picture", ".png", ".svg")

    def write(self, result: Any, _command: str) -> None:
        """Draw it if there is a file, and say where it is."""
        if self.picture is not None:
            print(f"picture in {result.picture().save(self.picture)}")


def run(words: Sequence[str]) -> int:
    """Run the bench that the first word names; returns 0.

    Raises:
        ValueError: an unknown bench or flag, an implausible measurement, or no place for a file.
    """
    if not words or words[0] in ("-h", "--help"):
        print(f"usage: python -m pllab bench {{{','.join(_BENCHES)}}} [options]; each has its own --help")
        return 0 if words else 2
    require(words[0] in _BENCHES, f"{words[0]!r} is no bench; choose one of {', '.join(_BENCHES)}")
    _measured(_BENCHES[words[0]], words[1:], f"bench {words[0]}")
    return 0


def run_compare(words: Sequence[str]) -> None:
    """Compare all strategies as the flags say; raises as `run` does."""
    _measured("pllab.train.comparing:compare_strategies", words, "compare", Picture)


def run_scale(words: Sequence[str]) -> None:
    """Count a layout as the flags say and print its table.

    Raises:
        ValueError: an unknown flag, or axes that contradict each other.
    """
    (count,) = bind((resolve_name("pllab.train.scale:scale"),), words, "scale")
    print(count().table())


def run_equivalence(words: Sequence[str]) -> int:
    """Compare all layouts in small; returns 0 if all rows are equal and 1 if one is not, and raises as `run` does."""
    result = _measured("pllab.train.comparing:equivalence", words, "equivalence")
    return 0 if result.is_equal else 1


def _measured(target: str, words: Sequence[str], command: str, *more: type[Picture]) -> Any:
    """Measure as the flags say, print the table, write the files, and return the result."""
    measure, *makers = bind((resolve_name(target), Numbers, *more), words, command)
    files = [make() for make in makers]
    result = measure()
    print(result.table())
    for file in files:
        file.write(result, _command(command, words))
    return result


def _command(command: str, words: Sequence[str]) -> str:
    """The command to repeat the measurement, without its files, whose paths are for this machine only."""
    rest = iter(words)
    flags = [word for word in rest if not (word in ("--json", "--picture") and next(rest, ""))]
    return " ".join([f"python -m pllab {command}", *(w for w in flags if not w.startswith(("--json=", "--picture=")))])
