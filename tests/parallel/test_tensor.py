"""The split layers against the whole ones, on 2 and on 4 ranks."""

import copy
from functools import cache

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional
from torch.testing import assert_close

from pllab import comm
from pllab.parallel import clip_grad_norm
from pllab.parallel.tensor import (
    ColumnParallelLinear,
    RowParallelLinear,
    SlicedLayerNorm,
    Split,
    VocabParallelEmbedding,
    bounds,
    reduce_out,
    scatter_out,
    split_of,
    to_slice,
    to_whole,
    token_losses,
    vocab_parallel_cross_entropy,
)
from tests.parallel.on_ranks import Programs, run_on, sentence

IN, HIDDEN, OUT, VOCABULARY, TIME = 6, 7, 5, 11, 8  # no number of ranks divides the hidden features and the vocabulary


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Whole(nn.Module):
    """One of everything, in double: a pair with nn.Linear's layout, one with Conv1D's, fused columns, a tied head."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(IN, HIDDEN), nn.Linear(HIDDEN, OUT)
        self.turned_up, self.turned_down = nn.Linear(IN, HIDDEN), nn.Linear(HIDDEN, OUT)  # split as (in, out)
        self.fused = nn.Linear(OUT, 3 * 4)
        self.embedding = nn.Embedding(VOCABULARY, IN)
        self.head = nn.Linear(IN, VOCABULARY, bias=False)
        self.norm = nn.LayerNorm(IN, eps=0.1)
        self.double()
        for number, parameter in enumerate(self.parameters()):
            parameter.data = numbers(*parameter.shape, seed=number)
        self.up.weight.requires_grad_(False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden = self.norm(self.embedding(ids))
        out = self.down(torch.tanh(self.up(hidden)))
        turned = functional.linear(hidden, self.turned_up.weight, self.turned_up.bias)
        return {
            "out": out,
            "turned": functional.linear(torch.tanh(turned), self.turned_down.weight, self.turned_down.bias),
            "fused": self.fused(out),
            "logits": self.head(hidden),
        }


class Parallel(nn.Module):
    """The same, split."""

    def __init__(self, whole: Whole) -> None:
        super().__init__()
        self.up = ColumnParallelLinear.from_whole(whole.up.weight, whole.up.bias)
        self.down = RowParallelLinear.from_whole(whole.down.weight, whole.down.bias)
        self.turned_up = ColumnParallelLinear.from_whole(whole.turned_up.weight.t(), whole.turned_up.bias, out_dim=1)
        self.turned_down = RowParallelLinear.from_whole(whole.turned_down.weight.t(), whole.turned_down.bias, out_dim=1)
        self.fused = ColumnParallelLinear.from_whole(whole.fused.weight, whole.fused.bias, parts=3)
        self.fused.gather_output = True
        self.embedding = VocabParallelEmbedding.from_whole(whole.embedding.weight)
        self.head = ColumnParallelLinear.from_whole(whole.head.weight)
        self.head.weight = self.embedding.weight
        self.head.gather_output = True
        self.norm = SlicedLayerNorm.from_whole(whole.norm)

    def forward(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden = to_whole(self.norm(to_slice(self.embedding(ids), 1)), 1)
        out = self.down(torch.tanh(self.up(hidden)))
        return {
            "out": out,
            "turned": self.turned_down(torch.tanh(self.turned_up(hidden))),
            "fused": self.fused(out),
            "logits": self.head(hidden),
        }


def batch() -> torch.Tensor:
    return torch.randint(VOCABULARY, (3, TIME), generator=torch.Generator().manual_seed(1))


def weighted(outputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """A loss in which every output counts differently."""
    return sum((y * numbers(*y.shape, seed=len(name))).sum() for name, y in outputs.items())


TURNED = ("turned_up.weight", "turned_down.weight")  # split as (in, out)


@cache
def whole_run() -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor | None]]:
    """Outputs and gradients of the whole layers; gradients in the layout of the split ones."""
    model = Whole()
    outputs = model(batch())
    weighted(outputs).backward()
    grads = {n: p.grad.t() if n in TURNED and p.grad is not None else p.grad for n, p in model.named_parameters()}
    return {name: y.detach() for name, y in outputs.items()}, grads


def joined(mine: torch.Tensor, split: Split | None) -> torch.Tensor:
    """The whole of the ranks' slices, put together part by part; what is whole must be equal on all ranks, in bits."""
    slices = comm.all_gather_object(mine)
    if split is None:
        assert all(torch.equal(slices[0], other) for other in slices)
        return slices[0]
    by_rank = [mine.chunk(split.parts, split.dim) for mine in slices]
    return torch.cat([torch.cat(pieces, split.dim) for pieces in zip(*by_rank, strict=True)], split.dim)


# What ranks run, each with its own checks.

PROGRAMS = Programs()


@PROGRAMS.add()
def outputs_and_gradients_are_those_of_the_whole_layers(rank: int, world_size: int) -> None:
    """On every rank; gradients are slices of the whole ones, of which those of frozen weights are none."""
    model, (expected, grads) = Parallel(Whole()), whole_run()
    outputs = model(batch())
    weighted(outputs).backward()
    assert_close({name: y.detach() for name, y in outputs.items()}, expected)
    frozen = {name for name, parameter in model.named_parameters() if parameter.grad is None}
    assert frozen == {name for name, gradient in grads.items() if gradient is None} == {"up.weight"}
    found = {n: None if p.grad is None else joined(p.grad, split_of(p)) for n, p in model.named_parameters()}
    assert_close(found, grads)


@PROGRAMS.add()
def slices_differ_by_one_at_most_and_say_how_they_are_split(rank: int, world_size: int) -> None:
    model = Parallel(Whole())
    assert split_of(model.turned_up.weight) == Split("tp", dim=1, parts=1, size=HIDDEN)
    assert split_of(model.fused.weight) == Split("tp", dim=0, parts=3, size=12)
    assert split_of(model.down.bias) is split_of(model.norm.weight) is None
    for parameter in model.parameters():
        if (split := split_of(parameter)) is not None:
            sizes = comm.all_gather_object(parameter.shape[split.dim])
            assert sum(sizes) == split.size and max(sizes) - min(sizes) <= split.parts
            assert parameter.untyped_storage().nbytes() == parameter.nbytes  # it does not keep the whole alive


@PROGRAMS.add()
def copies_and_weights_put_in_their_place_stay_marked(rank: int, world_size: int) -> None:
    """By which `clip_grad_norm` tells how much of a gradient each rank has."""
    model, assigned = Parallel(Whole()), Parallel(Whole())
    copied = copy.deepcopy(model)
    assigned.load_state_dict({name: tensor.clone() for name, tensor in model.state_dict().items()}, assign=True)
    marks = [
        [split_of(p) for _, p in each.named_parameters(remove_duplicate=False)] for each in (model, copied, assigned)
    ]
    assert marks[0] == marks[1] == marks[2]
    for each in (model, copied):
        weighted(each(batch())).backward()
    assert clip_grad_norm(model, 1e9) == clip_grad_norm(copied, 1e9)


@PROGRAMS.add()
def a_sum_leaves_its_terms_as_they_were(rank: int, world_size: int) -> None:
    terms = torch.arange(4.0)
    assert torch.equal(reduce_out(terms), world_size * torch.arange(4.0)) and torch.equal(terms, torch.arange(4.0))


@PROGRAMS.add()
def a_pair_of_layers_sends_one_sum_forward_and_one_backward(rank: int, world_size: int) -> None:
    up, down, norm = ColumnParallelLinear(IN, HIDDEN), RowParallelLinear(HIDDEN, OUT), nn.LayerNorm(OUT)
    x = torch.ones(3, TIME, IN, requires_grad=True)
    with comm.record_messages() as ledger:
        y = down(up(x))
        y.sum().backward()
        SlicedLayerNorm.from_whole(norm)(y.detach()).sum().backward()
    assert seen(ledger) == [("all_reduce", (3, TIME, OUT)), ("all_reduce", (3, TIME, IN)), ("all_reduce", (2, OUT))]


def seen(ledger: comm.Ledger) -> list[tuple[str, tuple[int, ...]]]:
    return [(message.name, message.shape) for message in ledger.messages]


@PROGRAMS.add(dtype=(torch.float32, torch.bfloat16, torch.float64))
def losses_on_split_logits_are_those_on_whole_ones(rank: int, world_size: int, dtype: torch.dtype) -> None:
    """The loss sends numbers of tokens only and keeps one softmax; targets that are ignored count as 0."""
    logits = (numbers(4, 5, VOCABULARY) * 3).to(dtype)
    logits[0] += 1e4  # the exponential of which is infinite
    targets = torch.randint(VOCABULARY, (4, 5), generator=torch.Generator().manual_seed(2))
    targets[1, 2:] = targets[2] = -100
    mine = logits.tensor_split(world_size, -1)[rank].clone().requires_grad_()
    logits.requires_grad_()
    wide = logits.to(torch.promote_types(dtype, torch.float32))
    expected = functional.cross_entropy(wide.flatten(0, 1), targets.flatten(), reduction="none").view(4, 5)
    (expected * numbers(4, 5, seed=3)).sum().backward()
    saved: list[tuple[int, ...]] = []
    keep = torch.autograd.graph.saved_tensors_hooks(lambda t: (saved.append(tuple(t.shape)), t)[1], lambda t: t)
    with comm.record_messages() as ledger, keep:
        losses = vocab_parallel_cross_entropy(mine, targets, VOCABULARY)
        (losses * numbers(4, 5, seed=3)).sum().backward()
    assert seen(ledger) == [("all_reduce", (4, 5)), ("all_reduce", (2, 4, 5))]
    assert saved.count((4, 5, mine.shape[-1])) == 1
    assert all(shape[2:] in ((), mine.shape[-1:]) for shape in saved)
    assert_close(losses, expected)
    assert token_losses(nn.Identity(), logits, targets).dtype.itemsize >= 4
    assert_close(mine.grad, logits.grad.tensor_split(world_size, -1)[rank])
    assert_close(*comm.all_gather_object(losses.detach())[:2], rtol=0, atol=0)


@PROGRAMS.add()  # last: a message may be left under way
def refusals_come_on_every_rank_before_any_message(rank: int, world_size: int) -> None:
    logits = torch.zeros(2, bounds(VOCABULARY, rank, world_size)[1])
    share = f"dim 1 of [2, 7] is 7, which {world_size} ranks cannot share equally; give a multiple of {world_size}"
    assert sentence(lambda: scatter_out(torch.zeros(2, 7), 1)) == share
    for wrong in (VOCABULARY, -1):
        with pytest.raises(IndexError):
            VocabParallelEmbedding(VOCABULARY, 2)(torch.tensor([0, wrong]))
    with pytest.raises((IndexError, RuntimeError)):
        vocab_parallel_cross_entropy(logits, torch.tensor([0, VOCABULARY]), VOCABULARY)


failed, test_ranks = run_on(PROGRAMS, 2, 4)


def test_alone_layers_are_whole_and_send_nothing() -> None:
    with comm.record_messages() as ledger:
        outputs_and_gradients_are_those_of_the_whole_layers(0, 1)
    assert {message.name for message in ledger.messages} == {"all_gather_object"}, "the test's own"


def test_the_constructor_draws_what_a_linear_layer_draws() -> None:
    for layer, plain in (
        (lambda: ColumnParallelLinear(4, 6), lambda: nn.Linear(4, 6)),
        (lambda: RowParallelLinear(4, 6, bias=False), lambda: nn.Linear(4, 6, bias=False)),
        (lambda: VocabParallelEmbedding(4, 6), lambda: nn.Embedding(4, 6)),
    ):
        torch.manual_seed(0)
        mine = layer()
        torch.manual_seed(0)
        assert all(torch.equal(a, b) for a, b in zip(mine.parameters(), plain().parameters(), strict=True))


def test_layers_work_with_a_weight_put_in_their_place() -> None:
    """As a pipeline does with tied weights, and sharding with gathered ones."""
    ids, layers = batch(), Parallel(Whole())
    for layer, x in ((layers.embedding, ids), (layers.head, numbers(3, IN)), (layers.down, numbers(3, HIDDEN))):
        other = {"weight": 2 * layer.weight.detach()}
        bias = 0 if getattr(layer, "bias", None) is None else layer.bias
        torch.testing.assert_close(functional_call(layer, other, (x,)) + bias, 2 * layer(x))
