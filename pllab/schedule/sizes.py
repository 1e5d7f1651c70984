"""One check of the sizes every generator takes, so that they all refuse with the same sentence."""


def check_sizes(**sizes: int) -> None:
    """Refuse a size that is no whole number of at least 1.

    Example: `check_sizes(num_stages=0)` says "num_stages is 0; it is a whole number from 1".

    Raises:
        ValueError: naming the size and its value.
    """
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} is {value!r}; it is a whole number from 1")
