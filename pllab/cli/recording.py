"""`pllab record FOLDER`: run the moments of the instructor's guide, and write what they showed into files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pllab.cli.flags import check_file, parse
from pllab.lesson.recordings import MOMENTS


@dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """Record the moments of the instructor's guide, as a safety net for a class; do it on a quiet machine."""

    folder: Path | None = None
    """Folder for the recordings, a file for each moment."""
    moments: tuple[str, ...] = MOMENTS
    """Which moments to record; by default all."""

    def __post_init__(self) -> None:
        if self.folder is None:
            raise ValueError("no folder is given; write python -m pllab record notebooks/recorded")
        if self.folder.is_file():
            raise ValueError(f"{str(self.folder)!r} is a file; name the folder for the recordings")
        for moment in self.moments:
            if moment not in MOMENTS:
                raise ValueError(f"{moment!r} is no moment of the guide; choose one of {', '.join(MOMENTS)}")
            if self.folder.is_dir():
                check_file("the recording", self.folder / f"{moment}.json")


def run(words: Sequence[str]) -> int:
    """Record the moments one after the other, and print what each saw; returns 0.

    Raises:
        ValueError: there is no folder or no such moment.
        OSError: a file cannot be written.
    """
    options = parse(RecordOptions, words, "record", alone="folder")
    from pllab.lesson.moments import record  # with torch and the trainer's rooms, which --help does not need

    assert options.folder is not None, "refused above"
    options.folder.mkdir(parents=True, exist_ok=True)
    for moment in options.moments:
        print(f"{record(moment, options.folder)} is written", flush=True)
    return 0
