"""What a receiver must know before a packet comes: shapes, dtypes, and which tensors want a gradient.

Sent as a small message of fixed size, and only with the first batch of a shape; after that both sides remember.
"""

import pickle
from collections.abc import Sequence
from typing import NamedTuple

import torch

from pllab.pipeline.stream import Packet

HEADER_BYTES = 2048


class Outline(NamedTuple):
    """A tensor without its values."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    needs_grad: bool


Header = tuple[Outline | None, ...]  # None where a packet of gradients has no tensor


def header_of(packet: Packet) -> Header:
    """The outlines of a packet's tensors."""
    flags = packet.needs_grad or [False] * len(packet.tensors)
    pairs = zip(packet.tensors, flags, strict=True)
    return tuple(None if tensor is None else Outline(tuple(tensor.shape), tensor.dtype, flag) for tensor, flag in pairs)


def pack_header(header: Header, device: torch.device) -> torch.Tensor:
    """A header as bytes: uint8 of shape (HEADER_BYTES,).

    Raises:
        ValueError: a stage passes on more tensors than fit.
    """
    packed = pickle.dumps(header)
    if len(packed) > HEADER_BYTES:
        raise ValueError(f"a stage passes on {len(header)} tensors, too many to describe; pass on fewer")
    return torch.frombuffer(bytearray(packed.ljust(HEADER_BYTES, b"\0")), dtype=torch.uint8).to(device)


def unpack_header(message: torch.Tensor) -> Header:
    """The header in a message from a rank of this group."""
    header: Header = pickle.loads(message.cpu().numpy().tobytes())
    return header


def empty_header(device: torch.device) -> torch.Tensor:
    """Room for a header to come."""
    return torch.empty(HEADER_BYTES, dtype=torch.uint8, device=device)


def empty_tensors(header: Header, device: torch.device) -> list[torch.Tensor]:
    """Room for the tensors that a header announces."""
    return [torch.empty(one.shape, dtype=one.dtype, device=device) for one in header if one is not None]


def filled(header: Header, tensors: Sequence[torch.Tensor]) -> Packet:
    """The packet, once its tensors are there."""
    arrived = iter(tensors)
    values = [None if one is None else next(arrived) for one in header]
    return Packet(values, [one is not None and one.needs_grad for one in header])
