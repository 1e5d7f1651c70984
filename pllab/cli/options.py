"""Flags from a dataclass or function by tyro, with tyro's boxed complaints turned into one sentence."""

import contextlib
import io
import re
import sys
from collections.abc import Callable, Sequence
from itertools import dropwhile, takewhile
from typing import TypeVar

import tyro

T = TypeVar("T")


def parse(target: Callable[..., T], words: Sequence[str], prog: str) -> T:
    """Call `target` with the values of the flags; `--help` prints the flags and exits.

    The fields of a record inside `target` are flags without a prefix.

    Example: `parse(TrainConfig, ["--batch-size", "8"], "pllab train")` -> `TrainConfig(batch_size=8)`.

    Raises:
        ValueError: a flag is unknown or has a value that `target` refuses.
    """
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(target, args=list(words), prog=f"python -m {prog}", config=(tyro.conf.OmitArgPrefixes,))
    except SystemExit as error:
        if not error.code:
            raise
        raise _refusal(error, _unboxed(complaint.getvalue()), prog) from None


def _refusal(error: BaseException, text: str, prog: str) -> ValueError:
    """The target's own sentence where it refused the values, else tyro's complaint about the flags."""
    innermost = error
    while innermost.__context__ is not None:
        innermost = innermost.__context__
    if isinstance(innermost, ValueError) and not text.startswith("Error parsing --"):
        return innermost
    return ValueError(f"{text or 'the flags are wrong'}; python -m {prog} --help lists them")


def _unboxed(box: str) -> str:
    """The complaint without its frame: below the title, the first lines up to a rule."""
    lines = [line.strip().strip("│|").strip() for line in box.splitlines()[1:]]
    words = dropwhile(lambda line: not re.search(r"\w", line), lines)
    return " ".join(takewhile(lambda line: re.search(r"\w", line), words)).rstrip(".")


def is_terminal() -> bool:
    """Whether a person watches stderr."""
    return sys.stderr.isatty()
