"""The ranks arranged along axes, one for each way to share work."""

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from pllab.arguments import whole_number
from pllab.comm.collectives import Group, readable_device, world_size

Mesh = DeviceMesh

AXES = ("pp", "dp", "tp")
"""The axes from the outermost to the innermost."""


def make_mesh(dp: int = 1, tp: int = 1, pp: int = 1) -> Mesh:
    """Arrange all ranks by data-parallel (dp), tensor-parallel (tp) and pipeline (pp) coordinates.

    Drawn, for `make_mesh(dp=2, tp=2, pp=2)` on eight ranks:

        pp 0        tp 0  tp 1         pp 1        tp 0  tp 1
            dp 0      0     1              dp 0      4     5
            dp 1      2     3              dp 1      6     7

    tp is innermost: its ranks exchange the most, and neighbours are on one host. pp is outermost, as in Megatron-LM.
    `mesh["dp"].get_group()` is this rank's group along an axis, of ranks 0 and 2 for rank 0 above.

    Raises:
        ValueError: the sizes do not multiply to the number of ranks, or there is no process group.

    Source: Megatron-LM's order of ranks (Narayanan et al. 2021, section 3). Lesson 14.
    """
    sizes = {"pp": whole_number("pp", pp), "dp": whole_number("dp", dp), "tp": whole_number("tp", tp)}
    product = sizes["pp"] * sizes["dp"] * sizes["tp"]
    if not dist.is_initialized():
        raise ValueError("a mesh arranges the ranks of a group, and there is none; call pllab.comm.setup first")
    if product != world_size():
        raise ValueError(
            f"dp {dp} x tp {tp} x pp {pp} is {product}, and there are {world_size()} ranks; give sizes whose product "
            f"is {world_size()}"
        )
    return init_device_mesh(readable_device().type, tuple(sizes[axis] for axis in AXES), mesh_dim_names=AXES)


def group_of(mesh: Mesh | None, axis: str) -> Group | None:
    """This rank's group along an axis of the mesh; without a mesh, the group of all ranks."""
    return None if mesh is None else mesh.get_group(axis)
