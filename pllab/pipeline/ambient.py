"""Carry the caller's torch settings into a worker: grad mode and autocast belong to a thread, not to the process."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple, Self

import torch


class Ambient(NamedTuple):
    """The grad mode and autocast of the thread that called `here()`, for another thread to enter."""

    grad: bool
    autocast: tuple[tuple[str, torch.dtype], ...]

    @classmethod
    def here(cls) -> Self:
        """Note the settings of this thread."""
        kinds = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
        return cls(torch.is_grad_enabled(), tuple((kind, torch.get_autocast_dtype(kind)) for kind in kinds))

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Work under these settings, on any thread."""
        with ExitStack() as stack:
            stack.enter_context(torch.set_grad_enabled(self.grad))
            for kind, dtype in self.autocast:
                stack.enter_context(torch.autocast(kind, dtype=dtype))
            yield
