"""Numbers a caller gives, checked where they come in: one sentence with the value, and an int or float of Python."""

from numbers import Real
from operator import index

_LONGEST_S = 2_000_000  # torch counts a deadline in milliseconds, in 32 bits


def whole_number(name: str, value: int, least: int = 1, most: int | None = None) -> int:
    """The value as an int, whichever library's whole number it is: `whole_number("rank", numpy.int64(4))` -> 4.

    Raises:
        ValueError: naming the number, its value and its limits.
    """
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None or number < least or (most is not None and number > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} is {value!r}; give a whole number {limits}")
    return number


def deadline(timeout_s: float) -> float:
    """The longest wait, in seconds: `deadline(60)` -> 60.0.

    Raises:
        ValueError: it is no number, not above 0, or longer than torch can wait (23 days).
    """
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, Real) or not 0 < timeout_s <= _LONGEST_S:
        raise ValueError(
            f"timeout_s is {timeout_s!r}; give the longest wait in seconds, a number above 0 and up to {_LONGEST_S:,}"
        )
    return float(timeout_s)
