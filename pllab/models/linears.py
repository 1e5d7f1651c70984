"""From the layout of transformers' GPT-2 to that of `tensor_parallel_by_pytorch`, and back, for checkpoints.

PyTorch splits `nn.Linear` alone: each `Conv1D` became one, with its weight turned, and `c_attn` became three. Both
directions work for weights and for whatever has their shape.
"""

import re
from collections.abc import Iterable, Mapping

import torch

_THIRDS = (".c_attn.q", ".c_attn.k", ".c_attn.v")
_TURNED = (*_THIRDS, ".c_proj", ".c_fc")


def are_linears(names: Iterable[str]) -> bool:
    """Whether these are the names of `tensor_parallel_by_pytorch`."""
    return any(".c_attn.q." in name for name in names)


def whole_name(name: str) -> str:
    """The name in transformers of a parameter of `tensor_parallel_by_pytorch`: `c_attn.bias` has `c_attn.q.bias`."""
    return re.sub(r"\.c_attn\.[qkv]\.", ".c_attn.", name)


def of_linears(name: str, whole: torch.Tensor) -> torch.Tensor:
    """What `tensor_parallel_by_pytorch` has under a name, of transformers' tensor under `whole_name(name)`."""
    where, _, last = name.rpartition(".")
    if where.endswith(_THIRDS):
        whole = whole.chunk(3, -1)["qkv".index(where[-1])]
    return whole.t() if last == "weight" and where.endswith(_TURNED) else whole


def of_conv1ds(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The whole tensors of `tensor_parallel_by_pytorch` under transformers' names, in its layout."""
    wholes: dict[str, list[torch.Tensor]] = {}
    for name in sorted(state):  # of c_attn: k, q, v
        where, _, last = name.rpartition(".")
        is_turned = last == "weight" and where.endswith(_TURNED)
        wholes.setdefault(whole_name(name), []).append(state[name].t() if is_turned else state[name])
    return {
        name: parts[0] if len(parts) == 1 or not parts[0].ndim else torch.cat([parts[1], parts[0], parts[2]], -1)
        for name, parts in wholes.items()
    }
