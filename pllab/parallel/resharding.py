"""From the parts that ranks have to a whole, and back, so that a checkpoint does not depend on how ranks share a model.

It works for a parameter and for whatever has its shape, such as its moments in an optimizer. The marks on a parameter
say how it was cut: `split_over` by tensor parallelism, `piece_of` by `FullyShardedDataParallel`; DTensors know it.
"""

from typing import NamedTuple

import torch
from torch import nn
from torch.distributed.tensor import DTensor, distribute_tensor

from pllab import comm
from pllab.parallel.tensor import slice_of, split_of, whole_of


class Piece(NamedTuple):
    """Where the pieces of a parameter are: it begins at `start` of a shard of which every rank has `part` numbers.

    Example: the weight drawn in `shards.py` is `Piece((5,), start=0, part=4)`; rank 1 has its numbers 4 to 5.
    """

    shape: torch.Size
    start: int
    part: int

    def range_of(self, number: int) -> tuple[int, int]:
        """The numbers of the parameter that a rank has, from and to."""
        edges = (number * self.part - self.start, (number + 1) * self.part - self.start)
        low, high = (min(max(edge, 0), self.shape.numel()) for edge in edges)
        return low, high


@torch.no_grad()
def join(parameter: nn.Parameter, part: torch.Tensor, mesh: comm.Mesh | None = None) -> torch.Tensor:
    """The whole tensor of which each rank has a part, cut as this parameter is; all ranks of the mesh call it.

    Example: with ZeRO on 2 ranks, the parts of a bias of 5 numbers are 4 and 1 long, and both ranks get 5.

    Raises:
        PeerError: another rank went away or did not come in time.
    """
    if isinstance(part, DTensor):
        return part.full_tensor()
    piece: Piece | None = getattr(parameter, "piece_of", None)
    if piece is not None:
        part = _gathered(part, piece, comm.group_of(mesh, "dp"))
    split = split_of(parameter)
    return part if split is None else whole_of(part, split, comm.group_of(mesh, "tp"))


@torch.no_grad()
def part_of(parameter: nn.Parameter, whole: torch.Tensor, mesh: comm.Mesh | None = None) -> torch.Tensor:
    """This rank's part of a whole tensor that it has, cut as this parameter is; nothing is sent.

    Raises:
        ValueError: the whole is not of the parameter's shape.
    """
    if isinstance(parameter, DTensor):
        return distribute_tensor(whole, parameter.device_mesh, parameter.placements, src_data_rank=None)
    split, piece = split_of(parameter), getattr(parameter, "piece_of", None)
    if split is not None:
        whole = slice_of(whole, split, comm.group_of(mesh, "tp"))
    expected = parameter.shape if piece is None else piece.shape
    if whole.shape != expected:
        raise ValueError(f"it has shape {tuple(whole.shape)}, not {tuple(expected)}")
    if piece is None:
        return whole
    low, high = piece.range_of(comm.rank(comm.group_of(mesh, "dp")))
    return whole.flatten()[low:high]


def _gathered(part: torch.Tensor, piece: Piece, group: comm.Group | None) -> torch.Tensor:
    """Pieces are of unequal length, and a message is not: the shorter ones are padded."""
    ranges = [piece.range_of(number) for number in range(comm.world_size(group))]
    most = max(high - low for low, high in ranges)
    padded = part.new_zeros(most)
    padded[: part.numel()] = part
    rows = part.new_empty(len(ranges) * most)
    comm.all_gather_async(rows, padded, group).wait()
    pairs = zip(rows.view(len(ranges), most), ranges, strict=True)
    return torch.cat([row[: high - low] for row, (low, high) in pairs]).view(piece.shape)
