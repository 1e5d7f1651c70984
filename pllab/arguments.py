"""Check the values that callers pass in: numbers, names of files, and text that others wrote."""

import os
from numbers import Real
from operator import index
from pathlib import Path

_LONGEST_S = 2_000_000  # torch counts a deadline in milliseconds, in 32 bits


def whole_number(name: str, value: int, least: int = 1, most: int | None = None) -> int:
    """The value as a Python int, also from other libraries: `whole_number("rank", numpy.int64(4))` -> 4.

    Raises:
        ValueError: it is not a whole number within the limits.
    """
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None or number < least or (most is not None and number > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} is {value!r}; give a whole number {limits}")
    return number


def thread_count(num_threads: int) -> int:
    """The compute threads of one rank: up to 8 for each core, and up to 64 on any machine.

    Threads beyond the cores only wait for each other, and beyond what the system allows torch crashes. The limit is
    far above what helps, so that a script for a large machine still starts on a small one.

    Raises:
        ValueError: it is no whole number from 1 to that limit.
    """
    return whole_number("num_threads", num_threads, most=_most_of_a_host())


def rank_count(world_size: int) -> int:
    """The ranks that one host starts, with the limit of `thread_count`: each is a process, and they fill its memory.

    Raises:
        ValueError: it is no whole number from 1 to that limit.
    """
    return whole_number("world_size", world_size, most=_most_of_a_host())


def _most_of_a_host() -> int:
    return max(64, 8 * (os.cpu_count() or 1))


def is_number(value: object) -> bool:
    """Whether a value can be compared with numbers: True for 2 and `numpy.float32(0.5)`, False for "2" and True."""
    return isinstance(value, Real) and not isinstance(value, bool)


def deadline(timeout_s: float, name: str = "timeout_s") -> float:
    """The longest wait, in seconds: `deadline(60)` -> 60.0.

    Raises:
        ValueError: it is not a number above 0, or it is longer than torch can wait (23 days).
    """
    if not is_number(timeout_s) or not 0 < timeout_s <= _LONGEST_S:
        raise ValueError(
            f"{name} is {timeout_s!r}; give the longest wait in seconds, a number above 0 and up to {_LONGEST_S:,}"
        )
    return float(timeout_s)


def plain_file(path: Path) -> Path:
    """The path, unless reading it may never end or replacing it would remove a device: `plain_file(path).open()`.

    A missing file and a folder pass, because the code that opens them has a better message.

    Raises:
        ValueError: it is a pipe, a device or a socket.
    """
    is_fine = not path.exists() or path.is_file() or path.is_dir()
    require(is_fine, f"{str(path)!r} is a pipe or a device; give the name of a plain file")
    return path


def printable(text: str, keep: str = "") -> str:
    """The text with control characters as Python writes them, so that it moves no cursor and reads in one direction.

    Args:
        text: text that somebody else wrote.
        keep: characters to leave as they are, such as the ends of lines.
    """
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def require(is_fine: bool, message: str) -> None:
    """Refuse a caller's value, with a sentence that names it and the way out.

    Raises:
        ValueError: it is not fine.
    """
    if not is_fine:
        raise ValueError(message)
