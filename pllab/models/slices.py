"""GPT-2 cut into slices: tensor parallelism.

Every rank has its own heads, features of the MLP and words of the vocabulary; norms, positions and
the biases of row-parallel layers are whole. Drawn, a block and what it sends:

    forward                            all-reduce                                    all-reduce
    x -> ln_1 -> c_attn -> heads -> c_proj -> dropout -> + -> ln_2 -> c_fc -> gelu -> c_proj -> dropout -> +
    backward   all-reduce                                         all-reduce

Under sequence parallelism the work outside the pairs of split layers is split too, along the time: an all-gather
before each pair and a reduce-scatter after it replace the all-reduces. The names and the layout of all
parameters stay those of transformers.
"""

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import GPT2LMHeadModel
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention
from transformers.pytorch_utils import Conv1D

from pllab.comm import Group, Mesh, group_of, rank, world_size
from pllab.data import IGNORED
from pllab.parallel.tensor import (
    ColumnParallelLinear,
    RowParallelLinear,
    SlicedLayerNorm,
    VocabParallelEmbedding,
    check_even,
    gather_in,
    scatter_out,
    to_slice,
    token_losses,
)
from pllab.pipeline.randomness import Draws, draw_seed

_TIME = 1  # the dim of the sequence in (rows, time, width)


def tensor_parallel(
    model: GPT2LMHeadModel, *, mesh: Mesh | None = None, loss_parallel: bool = False, sequence_parallel: bool = False
) -> GPT2LMHeadModel:
    """Split a GPT-2, which every rank has with the same weights, over the tp axis of the mesh; in place.

    Example, on each of four ranks, two of which share a model:

        mesh = make_mesh(dp=2, tp=2)
        model = tensor_parallel(GPT2LMHeadModel(config), mesh=mesh, loss_parallel=True)
        model(input_ids, labels=labels).loss.backward()    # the same rows on both ranks of a tp group
        join(model.lm_head.weight, model.lm_head.weight, mesh)    # of `pllab.parallel.shards`: the whole, on every rank

    Ranks of a group must be seeded equally: dropout draws equal masks where values are whole, and masks of each rank's
    own where they are split.

    Args:
        model: a GPT-2 of transformers, or a `GPT2LMHeadModelParallel` before `parallelize`.
        mesh: as `make_mesh` makes it; without one, all ranks share the model, and alone a rank has all of it.
        loss_parallel: leave logits (rows, time, vocabulary) split and compute the loss on the slices. Then `.logits` is
            this rank's slice; `model.lm_head.gather_output = True` makes it whole again, for `generate`.
        sequence_parallel: also split norms, dropout and the residual stream along the time, which saves their memory.

    Raises:
        ValueError: the model is split already or runs on lanes, or the ranks cannot share its heads; under sequence
            parallelism, attention is eager, or (in forward) the ranks cannot share the time.

    Source: Shoeybi et al., Megatron-LM, 2019; Korthikanti et al. 2022 for the sequence. Lesson 12.
    """
    group = group_of(mesh, "tp")
    _check_can_be_split(model, group, sequence_parallel)
    body: Any = model.transformer
    for block in body.h:
        _split_block(block, group)
    is_tied = model.lm_head.weight is body.wte.weight
    body.wte = VocabParallelEmbedding.from_whole(body.wte.weight, group=group)
    model.lm_head = ColumnParallelLinear.from_whole(model.lm_head.weight, group=group)
    if is_tied:
        model.lm_head.weight = body.wte.weight
    model.lm_head.gather_output = not loss_parallel
    if loss_parallel:
        model.loss_function = partial(_loss, model.lm_head)
    if sequence_parallel:
        _split_sequence(model, group)
    return model


def _check_can_be_split(model: GPT2LMHeadModel, group: Group | None, sequence_parallel: bool) -> None:
    """Refuse a model that cannot be split, before any rank sends a message."""
    name = type(model).__name__
    blocks: Any = model.transformer.h
    if not all(isinstance(block.attn.c_attn, Conv1D) for block in blocks):
        raise ValueError(f"this {name} is tensor parallel already; make a new one and split that")
    if getattr(model, "pipe", None) is not None:
        raise ValueError(f"this {name} runs on lanes, which hold its layers; call close() first")
    if sequence_parallel and model.config._attn_implementation != "sdpa":
        raise ValueError(
            f"attention is {model.config._attn_implementation!r}, whose mask is made for a slice of the sequence; "
            "make the model with attn_implementation='sdpa', or leave sequence_parallel out"
        )
    check_even("the number of heads", model.config.n_head, group)


def _split_block(block: Any, group: Group | None) -> None:
    attention, mlp = block.attn, block.mlp
    attention.c_attn = _columns(attention.c_attn, group, parts=3)
    attention.c_proj = _rows(attention.c_proj, group)
    attention.num_heads //= world_size(group)
    attention.split_size //= world_size(group)
    attention.__class__ = _SplitAttention
    attention.last_dropout, attention.resid_dropout = attention.resid_dropout, nn.Identity()
    attention.own_draws = _OwnDraws(attention, attention.attn_dropout, group)
    mlp.c_fc = _columns(mlp.c_fc, group)
    mlp.c_proj = _rows(mlp.c_proj, group)


def _columns(whole: Conv1D, group: Group | None, parts: int = 1) -> ColumnParallelLinear:
    return ColumnParallelLinear.from_whole(whole.weight, whole.bias, out_dim=1, parts=parts, group=group)


def _rows(whole: Conv1D, group: Group | None) -> RowParallelLinear:
    return RowParallelLinear.from_whole(whole.weight, whole.bias, out_dim=1, group=group)


def _split_sequence(model: GPT2LMHeadModel, group: Group | None) -> None:
    """Split the time from the embedding's dropout to the last norm, which gathers it."""
    body: Any = model.transformer
    body.drop = _EnterSlice(body.drop.p, group)
    for block in body.h:
        block.ln_1, block.ln_2 = (SlicedLayerNorm.from_whole(norm, group) for norm in (block.ln_1, block.ln_2))
        for columns in (block.attn.c_attn, block.mlp.c_fc):
            columns.enter = partial(gather_in, dim=_TIME, group=group)
        for rows in (block.attn.c_proj, block.mlp.c_proj):
            rows.leave = partial(scatter_out, dim=_TIME, group=group)
        block.attn.last_dropout = _SlicedDropout(block.attn.last_dropout.p, group)
        block.mlp.dropout = _SlicedDropout(block.mlp.dropout.p, group)
    body.ln_f = _LeaveSlice.from_whole(body.ln_f, group)
    model.lm_head.enter = nn.Identity()  # the last norm gathers, and adds up the gradient


class _OwnDraws:
    """The random numbers of a module that drops split values: each rank draws its own, from a seed that all share.

    The seed comes from the generator that draws at this place: torch's own, or in a pipeline the stage's.
    """

    def __init__(self, module: nn.Module, dropout: nn.Dropout, group: Group | None) -> None:
        self._module, self._dropout, self._group = module, dropout, group
        self._by_device: dict[torch.device, Draws] = {}

    def on(self, device: torch.device) -> AbstractContextManager[None]:
        """A block in which this rank draws its own numbers; if nothing is dropped, nothing is drawn."""
        if not self._dropout.training or not self._dropout.p:
            return nullcontext()
        # The rank takes the place of the stage: what draws apart is numbered.
        draws = self._by_device.setdefault(device, Draws(rank(self._group), self._module, device))
        return draws.seeded(draw_seed(device), 0)


class _SplitAttention(GPT2Attention):
    """The attention of this rank's heads: each head has its own mask, their output one mask on all ranks."""

    own_draws: "_OwnDraws"
    last_dropout: nn.Module

    def forward(self, hidden_states: Any, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, Any]:
        with self.own_draws.on(hidden_states.device):
            output, weights = super().forward(hidden_states, *args, **kwargs)
        return self.last_dropout(output), weights


class _SlicedDropout(nn.Dropout):
    """Dropout of this rank's slice of the sequence."""

    def __init__(self, p: float, group: Group | None) -> None:
        super().__init__(p)
        self.group = group
        self.own_draws = _OwnDraws(self, self, group)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with self.own_draws.on(x.device):
            return super().forward(x)


class _EnterSlice(_SlicedDropout):
    """The embedding's dropout: first keeps this rank's slice of the time of (rows, time, width)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        check_even("the time of a row under sequence_parallel", x.shape[_TIME], self.group)
        return super().forward(to_slice(x, _TIME, self.group))


class _LeaveSlice(SlicedLayerNorm):
    """The last norm: gathers the whole time for the head."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return gather_in(super().forward(x), _TIME, self.group)


def _loss(
    head: nn.Module,
    logits: torch.Tensor,
    labels: torch.Tensor,
    vocab_size: int,  # noqa: ARG001  transformers gives it, and the head knows it
    num_items_in_batch: int | torch.Tensor | None = None,
) -> torch.Tensor:
    """What transformers' `ForCausalLMLoss` computes, from the logits that this head makes."""
    targets = functional.pad(labels, (0, 1), value=IGNORED)[..., 1:]
    total = token_losses(head, logits, targets).sum()
    return total / ((targets != IGNORED).sum() if num_items_in_batch is None else num_items_in_batch)
