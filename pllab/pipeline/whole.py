"""Whole numbers and deadlines that a caller gives: checked where they are given, and not where they first hurt."""

from operator import index


def whole(name: str, value: int) -> int:
    """A whole number of at least 1 as an int, whichever library it is of.

    Example: `whole("split_size", numpy.int64(4))` -> 4.

    Raises:
        ValueError: naming the number and its value.
    """
    try:
        found = 0 if isinstance(value, bool) else index(value)
    except TypeError:
        found = 0
    if found < 1:
        raise ValueError(f"{name} is {value!r}; give a whole number of at least 1")
    return found


def deadline(timeout_s: float) -> float:
    """The longest wait, in seconds.

    Raises:
        ValueError: it is no number, or no wait that could end.
    """
    if not isinstance(timeout_s, int | float) or not 0 < timeout_s < 1e9:
        raise ValueError(f"timeout_s is {timeout_s!r}; give the longest wait in seconds, a number above 0")
    return timeout_s
