"""Tensor parallelism: every rank has a slice of each large weight, and all ranks work on the same rows.

A pair of layers needs one sum. The first keeps some of the columns of its weight and computes some of the features; the
second keeps the rows for those features and computes one term of all outputs. Between the two nothing is sent:

    rank 0    x  ->  A[:, :half]  ->  gelu  ->  B[:half, :]  ->  term 0  ->
                                                                             all-reduce  ->  y
    rank 1    x  ->  A[:, half:]  ->  gelu  ->  B[half:, :]  ->  term 1  ->

The file knows no model. In order: the six steps between whole and split values, how a parameter is split, the layers,
the loss on split logits. `pllab/models/slices.py` puts them into a GPT-2.

Source: Shoeybi et al., Megatron-LM, 2019; Korthikanti et al., Reducing Activation Recomputation in Large Transformer
Models, 2022, for slices of the sequence. Lesson 12.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import torch
from torch import nn
from torch.nn import functional

from pllab import comm
from pllab.data import IGNORED

Step = Callable[[torch.Tensor], torch.Tensor]


def bounds(size: int, number: int, count: int) -> tuple[int, int]:
    """Start and length of slice `number` of `count`: 50257 over 2 is (0, 25129) and (25129, 25128)."""
    length, more = divmod(size, count)
    return number * length + min(number, more), length + (number < more)


def copy_in(x: torch.Tensor, group: comm.Group | None = None) -> torch.Tensor:
    """Give a whole value to layers that are split; it is one of six steps, each of which is another's backward.

    Drawn, forward and backward, for values of which each rank has the whole, a slice, or a term of the sum:

        step          forward           backward          from     to
        copy_in       -                 all-reduce        whole    whole, into split layers
        reduce_out    all-reduce        -                 terms    whole, out of split layers
        gather_in     all-gather        reduce-scatter    slices   whole, into split layers
        scatter_out   reduce-scatter    all-gather        terms    slices, out of split layers
        to_slice      own slice         all-gather        whole    slices
        to_whole      all-gather        own slice         slices   whole

    A value on its way into split layers gets a term of its gradient from each rank, so backward adds them up. The first
    two steps are f and g of Megatron-LM, the next two take their place under sequence parallelism.
    """
    return _step(x, group, _same, partial(_summed, group=group))


def reduce_out(x: torch.Tensor, group: comm.Group | None = None) -> torch.Tensor:
    """Add up the terms of all ranks, [1, 2] and [10, 20] to [11, 22]; see `copy_in`."""
    return _step(x, group, partial(_summed, group=group), _same)


def gather_in(x: torch.Tensor, dim: int, group: comm.Group | None = None) -> torch.Tensor:
    """Join the ranks' equal slices, [1] and [2] to [1, 2], for split layers; see `copy_in`."""
    return _step(x, group, partial(_gathered, dim=dim, group=group), partial(_scattered, dim=dim, group=group))


def scatter_out(x: torch.Tensor, dim: int, group: comm.Group | None = None) -> torch.Tensor:
    """Add up the terms and keep a slice, [1, 2] and [10, 20] to [11] and [22]; see `copy_in`.

    Raises:
        ValueError: the ranks cannot have equal slices.
    """
    check_even(f"dim {dim} of {list(x.shape)}", x.shape[dim], group)
    return _step(x, group, partial(_scattered, dim=dim, group=group), partial(_gathered, dim=dim, group=group))


def to_slice(x: torch.Tensor, dim: int, group: comm.Group | None = None) -> torch.Tensor:
    """Keep this rank's slice of a value that is whole, [1, 2] to [1] and [2]; see `copy_in`."""
    size = x.shape[dim]
    return _step(x, group, partial(_sliced, dim=dim, group=group), partial(_gathered, dim=dim, group=group, size=size))


def to_whole(x: torch.Tensor, dim: int, group: comm.Group | None = None, size: int | None = None) -> torch.Tensor:
    """Join the ranks' slices for a use that is the same on all ranks; see `copy_in`.

    Slices of unequal lengths need the `size` of the whole.
    """
    return _step(x, group, partial(_gathered, dim=dim, group=group, size=size), partial(_sliced, dim=dim, group=group))


def check_even(what: str, size: int, group: comm.Group | None) -> None:
    """Refuse a size that the ranks cannot share equally, such as 3 heads over 2 ranks.

    Raises:
        ValueError: the number of ranks does not divide it.
    """
    if size % (count := comm.world_size(group)):
        raise ValueError(f"{what} is {size}, which {count} ranks cannot share equally; give a multiple of {count}")


class _Step(torch.autograd.Function):
    """One function forward, another one backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, there: Step, back: Step) -> torch.Tensor:
        ctx.back = back
        return there(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return ctx.back(grad), None, None


def _step(x: torch.Tensor, group: comm.Group | None, there: Step, back: Step) -> torch.Tensor:
    """A rank alone has the whole already."""
    return x if comm.world_size(group) == 1 else _Step.apply(x, there, back)


def _same(x: torch.Tensor) -> torch.Tensor:
    return x.view_as(x)


def _summed(x: torch.Tensor, group: comm.Group | None) -> torch.Tensor:
    total = x.clone(memory_format=torch.contiguous_format)  # others may hold x, and the sum is made in place
    comm.all_reduce(total, group)
    return total


def _sliced(x: torch.Tensor, dim: int, group: comm.Group | None) -> torch.Tensor:
    return x.narrow(dim, *bounds(x.shape[dim], comm.rank(group), comm.world_size(group))).contiguous()


def _gathered(x: torch.Tensor, dim: int, group: comm.Group | None, size: int | None = None) -> torch.Tensor:
    count = comm.world_size(group)
    return gather_slices(x, [bounds(size or x.shape[dim] * count, n, count)[1] for n in range(count)], dim, group)


def gather_slices(x: torch.Tensor, lengths: Sequence[int], dim: int, group: comm.Group | None) -> torch.Tensor:
    """Join the ranks' slices along a dim: [1, 2] and [3] of `lengths` 2 and 1 are [1, 2, 3] on both."""
    if missing := max(lengths) - x.shape[dim]:  # a message has one length, so a shorter slice is filled up
        padding = list(x.shape)
        padding[dim] = missing
        x = torch.cat([x, x.new_zeros(padding)], dim)
    whole = x.new_empty(len(lengths) * len(x), *x.shape[1:])
    comm.all_gather_async(whole, x.contiguous(), group).wait()
    slices = zip(whole.chunk(len(lengths)), lengths, strict=True)
    return torch.cat([slice_.narrow(dim, 0, length) for slice_, length in slices], dim)


def _scattered(x: torch.Tensor, dim: int, group: comm.Group | None) -> torch.Tensor:
    slices = x.chunk(comm.world_size(group), dim)
    mine = torch.empty_like(slices[0], memory_format=torch.contiguous_format)
    comm.reduce_scatter_async(mine, torch.cat(slices), group).wait()
    return mine


class Split(NamedTuple):
    """How a parameter is split: along `dim`, which is `size` long in the whole and has `parts` parts, each split alone.

    Drawn, the columns of q, k and v in one weight, three parts over two ranks:

        whole    q0 q1 k0 k1 v0 v1        rank 0    q0 k0 v0        rank 1    q1 k1 v1
    """

    axis: str
    dim: int
    parts: int
    size: int


def split_of(parameter: torch.Tensor) -> Split | None:
    """How a parameter is split over the ranks; None if every rank has all of it."""
    return getattr(parameter, "split_over", None)  # not `split`, which is a method of every tensor


def slice_of(whole: torch.Tensor, split: Split, group: comm.Group | None = None) -> torch.Tensor:
    """This rank's slice of a tensor that every rank has, such as a weight or its moments in a checkpoint."""
    parts = whole.unflatten(split.dim, (split.parts, -1))
    return to_slice(parts, split.dim + 1, group).flatten(split.dim, split.dim + 1)


def whole_of(x: torch.Tensor, split: Split, group: comm.Group | None = None) -> torch.Tensor:
    """The whole of a tensor of which each rank has a slice; every rank of the group calls it."""
    parts = x.unflatten(split.dim, (split.parts, -1))
    return to_whole(parts, split.dim + 1, group, split.size // split.parts).flatten(split.dim, split.dim + 1)


def _parameter(whole: torch.Tensor, dim: int, parts: int, group: comm.Group | None) -> nn.Parameter:
    """This rank's slice of a parameter that all ranks have, marked with how it is split."""
    split = Split("tp", dim, parts, whole.shape[dim])
    parameter = nn.Parameter(slice_of(whole.detach(), split, group).clone(), requires_grad=whole.requires_grad)
    parameter.split_over = split  # type: ignore[attr-defined]
    return parameter


class _SplitLayer(nn.Module):
    """Marks its parameters with how they are split, also in copies and those that `load_state_dict` assigns to it."""

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        super().register_parameter(name, param)
        splits: dict[str, Split | None] = self.__dict__.setdefault("_splits", {})
        if param is not None and (split := splits.setdefault(name, split_of(param))) is not None:
            param.split_over = split  # type: ignore[attr-defined]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for name, parameter in self._parameters.items():
            self.register_parameter(name, parameter)


class _SplitLinear(_SplitLayer):
    """What both linear layers share: a slice of the weight, in the layout in which the whole came."""

    weight: nn.Parameter
    bias: nn.Parameter | None

    def __init__(self, in_features: int, out_features: int, bias: bool = True, group: comm.Group | None = None) -> None:
        super().__init__()
        whole = nn.Linear(in_features, out_features, bias)
        self._begin(whole.weight, whole.bias, 0, 1, group)

    @classmethod
    def from_whole(
        cls,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        *,
        out_dim: int = 0,
        parts: int = 1,
        group: comm.Group | None = None,
    ) -> Self:
        """Keep this rank's slice of a layer that all ranks have.

        Args:
            weight: (out, in) as in `nn.Linear`, or (in, out) as in transformers' `Conv1D`; the layout is kept.
            bias: (out,), or None.
            out_dim: the dim of the weight with the outputs, 0 or 1.
            parts: equal parts of the split features, each of which is split by itself.
            group: the ranks that share the layer; by default all.
        """
        layer = cls.__new__(cls)
        nn.Module.__init__(layer)
        layer._begin(weight, bias, out_dim, parts, group)
        return layer

    def _begin(
        self, weight: torch.Tensor, bias: torch.Tensor | None, out_dim: int, parts: int, group: comm.Group | None
    ) -> None:
        self.in_features, self.out_features = weight.shape[1 - out_dim], weight.shape[out_dim]
        self.out_dim, self.parts, self.group = out_dim, parts, group
        self._keep(weight, bias)

    def _keep(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        raise NotImplementedError

    def _product(self, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        return functional.linear(x, self.weight if self.out_dim == 0 else self.weight.t(), bias)


class ColumnParallelLinear(_SplitLinear):
    """A linear layer of which each rank computes some of the outputs, from the whole input.

    Example, on each of two ranks that seeded torch equally:

        up, down = ColumnParallelLinear(512, 2048), RowParallelLinear(2048, 512)
        y = down(gelu(up(x)))    # x and y are (rows, 512) and whole; between them are (rows, 1024) on each rank

    Backward sends one all-reduce of the input's gradient. Output features that ranks cannot share equally make slices
    whose lengths differ by one. `enter` is what happens to the input first, by default `copy_in`. With
    `gather_output` every rank gets all outputs.

    Source: Shoeybi et al. 2019, section 3.
    """

    def _keep(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self.weight = _parameter(weight, self.out_dim, self.parts, self.group)
        self.bias = None if bias is None else _parameter(bias, 0, self.parts, self.group)
        self.enter: Step = partial(copy_in, group=self.group)
        self.gather_output = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Make (..., outputs of this rank) from (..., in)."""
        y = self._product(self.enter(x), self.bias)
        outputs = Split("tp", y.dim() - 1, self.parts, self.out_features)
        return whole_of(y, outputs, self.group) if self.gather_output else y


class RowParallelLinear(_SplitLinear):
    """A linear layer of which each rank computes a term of every output, from some of the inputs; they are added up.

    It takes what a `ColumnParallelLinear` makes, see the example there. Forward sends one all-reduce of the output. The
    bias is whole on every rank. `leave` is what happens to the terms, by default `reduce_out`.

    Source: Shoeybi et al. 2019, section 3.
    """

    def _keep(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self.weight = _parameter(weight, 1 - self.out_dim, self.parts, self.group)
        self.bias = bias if bias is None or isinstance(bias, nn.Parameter) else nn.Parameter(bias)
        self.leave: Step = partial(reduce_out, group=self.group)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Make (..., out), the sum over the ranks, from (..., inputs of this rank)."""
        # Rank 0 adds the bias, before the sum. So every rank sees the gradient of all rows and tokens, also under
        # sequence parallelism, where after the sum it would see that of its own slice.
        bias = None if self.bias is None else _step(self.bias, self.group, partial(_once, group=self.group), _same)
        return self.leave(self._product(x, bias))


def _once(x: torch.Tensor, group: comm.Group | None) -> torch.Tensor:
    return torch.zeros_like(x) if comm.rank(group) else x.view_as(x)


class VocabParallelEmbedding(_SplitLayer):
    """An embedding of which each rank has some of the rows; other ranks' ids give zeros, and the sum is complete.

    Example, 5 rows of which rank 0 has 0 to 2: ids [1, 4] give [row 1, 0] and [0, row 4], together [row 1, row 4].

    Its weight can be that of a `ColumnParallelLinear` with as many outputs. Forward sends one all-reduce.

    Raises:
        IndexError: an id is not in the vocabulary.

    Source: Shoeybi et al. 2019, section 3.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, group: comm.Group | None = None) -> None:
        super().__init__()
        self._begin(nn.Embedding(num_embeddings, embedding_dim).weight, group)

    @classmethod
    def from_whole(cls, weight: torch.Tensor, *, group: comm.Group | None = None) -> Self:
        """Keep this rank's rows of a weight (vocabulary, width) that all ranks have."""
        layer = cls.__new__(cls)
        nn.Module.__init__(layer)
        layer._begin(weight, group)
        return layer

    def _begin(self, weight: torch.Tensor, group: comm.Group | None) -> None:
        self.num_embeddings, self.embedding_dim = weight.shape
        self.weight, self.group = _parameter(weight, 0, 1, group), group

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Look up ids (...) and return rows (..., width)."""
        index, is_elsewhere = _local(ids, self.num_embeddings, self.group)
        rows = functional.embedding(index, self.weight).masked_fill(is_elsewhere.unsqueeze(-1), 0.0)
        return reduce_out(rows, self.group)


def _local(ids: torch.Tensor, size: int, group: comm.Group | None) -> tuple[torch.Tensor, torch.Tensor]:
    """The ids counted from this rank's first one, and which ones another rank has; those become 0.

    An id that no rank has stays out of range, so that every rank raises an error, as it would with the whole.
    """
    start, length = bounds(size, comm.rank(group), comm.world_size(group))
    is_elsewhere = (ids >= 0) & (ids < size) & ((ids < start) | (ids >= start + length))
    return (ids - start).masked_fill(is_elsewhere, 0), is_elsewhere


class SlicedLayerNorm(nn.LayerNorm):
    """A LayerNorm on this rank's slice of the sequence; its weight and bias get the gradient of all slices.

    They are whole on every rank, and each rank has a term of their gradient: backward adds these up, in one message of
    twice the width.

    Source: Korthikanti et al. 2022, section 4.2.
    """

    @classmethod
    def from_whole(cls, norm: nn.LayerNorm, group: comm.Group | None = None) -> Self:
        """Use the parameters of a norm that has weight and bias."""
        layer = cls(list(norm.normalized_shape), norm.eps, device="meta")
        layer.weight, layer.bias, layer.group = norm.weight, norm.bias, group
        return layer

    group: comm.Group | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise (..., width)."""
        weight, bias = copy_in(torch.stack((self.weight, self.bias)), self.group)
        return functional.layer_norm(x, self.normalized_shape, weight, bias, self.eps)


def vocab_parallel_cross_entropy(
    logits: torch.Tensor, targets: torch.Tensor, size: int, group: comm.Group | None = None
) -> torch.Tensor:
    """The cross-entropy of each token from logits that are split over the vocabulary and never joined.

    Worked example, one token with target 2, logits [0, 1] on rank 0 and [2] on rank 1 (size 3):

        highest of each rank      1                2           one message, together 2
        sum of exponentials       e^-2 + e^-1      e^0         one message, together 1.503
        target, less the highest  0                0           with it, together 0
        loss                      log 1.503 - 0 = 0.408        on both

    Args:
        logits: (..., vocabulary of this rank), as a `ColumnParallelLinear` of `size` outputs makes them.
        targets: (...) int64, the same on every rank; -100 where nothing is to be predicted, which has loss 0.
        size: the whole vocabulary.
        group: the ranks that share it; by default all.

    Returns:
        Losses (...), at least float32, whole on every rank.

    Raises:
        IndexError or RuntimeError: a target is not in the vocabulary.

    Source: Shoeybi et al. 2019, section 3.
    """
    return _CrossEntropy.apply(logits, targets, size, group)


def token_losses(head: nn.Module, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The loss of each token (rows, time), at least float32, from logits that are whole or that the head left split."""
    if isinstance(head, ColumnParallelLinear) and not head.gather_output:
        return vocab_parallel_cross_entropy(logits, targets, head.out_features, head.group)
    logits, flat = logits.float().flatten(0, 1), targets.flatten()
    return functional.cross_entropy(logits, flat, ignore_index=IGNORED, reduction="none").view(targets.shape)


class _CrossEntropy(torch.autograd.Function):
    """Keeps the softmax of this rank's slice, and nothing else of that size."""

    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, targets: torch.Tensor, size: int, group: comm.Group | None
    ) -> torch.Tensor:
        is_ignored = targets == IGNORED
        index, is_elsewhere = _local(targets.masked_fill(is_ignored, 0), size, group)
        highest = logits.amax(-1).to(torch.promote_types(logits.dtype, torch.float32))
        comm.all_reduce(highest, group, comm.MAX)
        softmax = logits - highest.unsqueeze(-1)
        target = softmax.gather(-1, index.unsqueeze(-1)).squeeze(-1).masked_fill(is_elsewhere, 0.0)
        message = torch.stack([softmax.exp_().sum(-1), target])
        comm.all_reduce(message, group)
        total, target = message
        ctx.save_for_backward(softmax.div_(total.unsqueeze(-1)), index, is_elsewhere, is_ignored)
        ctx.dtype = logits.dtype
        return (total.log() - target).masked_fill(is_ignored, 0.0)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        softmax, index, is_elsewhere, is_ignored = ctx.saved_tensors
        grad = grad.masked_fill(is_ignored, 0.0)
        grad_logits = softmax * grad.unsqueeze(-1)
        grad_logits.scatter_add_(-1, index.unsqueeze(-1), -grad.masked_fill(is_elsewhere, 0.0).unsqueeze(-1))
        return grad_logits.to(ctx.dtype), None, None, None
