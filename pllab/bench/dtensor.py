"""PyTorch's tensor parallelism for a GPT-2, by DTensors: the rival of `tensor_parallel`, and its oracle in tests."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)
from torch.distributed.tensor.parallel import loss_parallel as sharded_loss
from transformers import GPT2LMHeadModel
from transformers.pytorch_utils import Conv1D

from pllab import comm
from pllab.models.slices import check_can_be_split


def tensor_parallel_by_pytorch(
    model: GPT2LMHeadModel, *, mesh: comm.Mesh, loss_parallel: bool = False
) -> GPT2LMHeadModel:
    """Split a GPT-2 over the tp axis of the mesh with PyTorch's own classes; in place, and called like ours.

    Example; with `loss_parallel`, and only then, backward has to be inside PyTorch's context of that name:

        from torch.distributed.tensor.parallel import loss_parallel

        model = tensor_parallel_by_pytorch(model, mesh=mesh, loss_parallel=True)
        loss = model(input_ids, labels=labels).loss
        with loss_parallel():
            loss.backward()

    Parameters are DTensors. PyTorch splits `nn.Linear` alone, so every `Conv1D` becomes one, with its weight
    transposed, and `c_attn` becomes three, `c_attn.q`, `.k` and `.v`. Ranks that are seeded equally draw equal masks
    for their heads, so give attention no dropout.

    Raises:
        ValueError: as `tensor_parallel`.

    Source: torch.distributed.tensor.parallel.
    """
    group = comm.group_of(mesh, "tp")
    check_can_be_split(model, group)
    body: Any = model.transformer
    is_tied = model.lm_head.weight is body.wte.weight
    plan: dict[str, ParallelStyle] = {
        "transformer.wte": RowwiseParallel(input_layouts=Replicate()),
        "lm_head": ColwiseParallel(
            output_layouts=Shard(-1) if loss_parallel else Replicate(), use_local_output=not loss_parallel
        ),
    }
    for number, block in enumerate(body.h):
        _use_linears(block, group)
        plan |= {f"transformer.h.{number}.{name}": style for name, style in _block_plan().items()}
    parallelize_module(model, mesh["tp"], plan)
    if is_tied:
        model.lm_head.weight = body.wte.weight
    if loss_parallel:
        model.loss_function = partial(_sharded_loss, model.loss_function)
    return model


def _block_plan() -> dict[str, ParallelStyle]:
    # The input of c_attn becomes one DTensor, so that the gradients of q, k and v are added up in one message.
    whole = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate())
    columns = {f"attn.c_attn.{name}": ColwiseParallel() for name in "qkv"} | {"mlp.c_fc": ColwiseParallel()}
    return {"attn.c_attn": whole, "attn.c_proj": RowwiseParallel(), "mlp.c_proj": RowwiseParallel(), **columns}


class _QueryKeyValue(nn.Module):
    """The three linear layers in a `c_attn`, whose outputs stand side by side."""

    def __init__(self, whole: Conv1D) -> None:
        super().__init__()
        parts = zip(whole.weight.chunk(3, 1), whole.bias.chunk(3), strict=True)
        self.q, self.k, self.v = (_linear(weight, bias) for weight, bias in parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.q(x), self.k(x), self.v(x)], -1)


def _use_linears(block: Any, group: comm.Group | None) -> None:
    attention, mlp = block.attn, block.mlp
    attention.c_attn = _QueryKeyValue(attention.c_attn)
    attention.c_proj, mlp.c_fc, mlp.c_proj = (
        _linear(whole.weight, whole.bias) for whole in (attention.c_proj, mlp.c_fc, mlp.c_proj)
    )
    attention.num_heads //= comm.world_size(group)
    attention.split_size //= comm.world_size(group)


def _linear(weight: torch.Tensor, bias: torch.Tensor) -> nn.Linear:
    """A linear layer with the weight of a `Conv1D`, which is (in, out)."""
    linear = nn.Linear(weight.shape[0], weight.shape[1], device="meta")
    linear.weight = nn.Parameter(
        weight.detach().t().clone(memory_format=torch.contiguous_format), requires_grad=weight.requires_grad
    )
    linear.bias = nn.Parameter(bias.detach().clone(), requires_grad=bias.requires_grad)
    return linear


def _sharded_loss(loss: Callable[..., Any], logits: torch.Tensor, labels: torch.Tensor, **options: Any) -> torch.Tensor:
    """The model's own loss, from logits that are a DTensor split over the vocabulary."""
    with sharded_loss():
        return loss(logits, labels, **options).to_local()
