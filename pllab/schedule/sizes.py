"""One check of the sizes every generator takes, so that they all refuse with the same sentence."""

from numbers import Integral


def check_sizes(**sizes: int) -> None:
    """Refuse a size that is no int of at least 1.

    Example: `check_sizes(num_stages=0)` says "num_stages is 0; it is a whole number from 1".

    A whole number of another library, as numpy's, is told apart: sizes become the stages and micro-batches of actions,
    and those are ints, so that they are written and compared as such everywhere.

    Raises:
        ValueError: naming the size and its value.
    """
    for name, value in sizes.items():
        if isinstance(value, Integral) and not isinstance(value, int) and value >= 1:
            raise ValueError(f"{name} is {value!r}, a whole number but no int of Python; write int({name})")
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} is {value!r}; it is a whole number from 1")
