"""A message to a rank that does not exist: torch crashes or waits, so a check refuses it in words.

gloo looks the other rank up in a list without asking how long the list is. Here the number is compared first.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch.distributed as dist
from torch.distributed import distributed_c10d


@contextmanager
def known_peers_only() -> Iterator[None]:
    """Have torch's send, recv, isend and irecv refuse, inside the block, a rank outside the world.

    Example: in a world of 2, `dist.send(x, 2)` raises `ValueError: there is no rank 2 in a world of 2`.
    """
    with ExitStack() as undo:
        for name in ("send", "recv", "isend", "irecv"):
            careful = _careful(getattr(dist, name))
            for module in (dist, distributed_c10d):  # torch compares with its own names in a batch of messages
                undo.enter_context(patch.object(module, name, careful))
        yield


def _careful(call: Callable[..., Any]) -> Callable[..., Any]:
    def careful(tensor: Any, *args: Any, **options: Any) -> Any:
        peer = args[0] if args else options.get("dst", options.get("src"))
        if peer is not None and not 0 <= peer < dist.get_world_size():
            raise ValueError(f"there is no rank {peer} in a world of {dist.get_world_size()}")
        return call(tensor, *args, **options)

    return careful
