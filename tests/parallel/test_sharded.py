"""FullyShardedDataParallel against the plain model with the whole batch, against FSDP2, and by counted messages."""

import copy
import gc
import io
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.profiler import ProfilerActivity, profile
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

from pllab import comm
from pllab.parallel import FullyShardedDataParallel
from tests.parallel.on_ranks import Programs, failures, run_on, sentence
from tests.parallel.programs import (
    NUM_BLOCKS,
    NUM_STEPS,
    Chain,
    batch,
    gathered,
    loss_of,
    one_process,
    sgd,
    share,
    step_used_by_the_first,
    weights,
)

PROGRAMS = Programs()
EVERYWHERE = {"share_memory": (True, False)}  # ranks of one host reduce in shared memory, or send messages


@cache
def one_step(*steps: int, rows: int = 8) -> dict[str, torch.Tensor]:
    """The weights after one step on the sum of the gradients of some batches."""
    chain = Chain()
    for step in steps:
        loss_of(chain, *batch(step, rows)).backward()
    sgd(chain).step()
    return weights(chain)


def assert_stepped(model: FullyShardedDataParallel, *steps: int, rows: int = 8) -> None:
    """A step of a new optimizer ends where one process does, with the gradients of these batches."""
    sgd(model).step()
    assert_close(gathered(model), one_step(*steps, rows=rows))


def train(
    model: FullyShardedDataParallel, optimizer: torch.optim.Optimizer, rank: int, world_size: int
) -> Iterator[dict[str, int]]:
    """Three steps; the messages of each."""
    for step in range(NUM_STEPS):
        with comm.record_messages() as ledger:
            loss_of(model, *share(step, rank, world_size)).backward()
        yield {name: ledger.count(name) for name in ("all_gather", "reduce_scatter", "all_reduce")}
        optimizer.step()
        optimizer.zero_grad()


@PROGRAMS.add(zero=(1, 2, 3), freeze=(False, True), **EVERYWHERE)
def three_steps_equal_one_process(rank: int, world_size: int, zero: int, freeze: bool, share_memory: bool) -> None:
    """From weights that differ between ranks until rank 0's are taken; tied, unused and frozen parameters included.

    ZeRO 3 gathers a block twice and the root once; the last block stays for its backward. A frozen block sends nothing.
    """
    chain = Chain(rank, freeze)
    total = sum(parameter.numel() for parameter in chain.parameters())
    model = FullyShardedDataParallel(chain, zero=zero, share_memory=share_memory)
    sent = list(train(model, sgd(model), rank, world_size))
    gathers = NUM_BLOCKS + 1 if zero < 3 else 2 * NUM_BLOCKS
    assert sent == [{"all_gather": gathers, "reduce_scatter": NUM_BLOCKS + 1 - freeze, "all_reduce": 1}] * NUM_STEPS
    most = model.most_gathered
    assert most == NUM_BLOCKS if zero < 3 else most <= 2
    assert most >= 2 or share_memory  # by messages, the next one is under way
    assert_close(gathered(model), one_process(freeze))
    kept = comm.all_gather_object(sum(parameter.numel() for parameter in model.parameters()))
    assert sum(kept) == total


@PROGRAMS.add(**EVERYWHERE)
def units_may_be_named_by_class_and_an_optimizer_made_before(rank: int, world_size: int, share_memory: bool) -> None:
    chain = Chain(rank)
    optimizer = sgd(chain)
    model = FullyShardedDataParallel(chain, units=[nn.Linear], share_memory=share_memory)
    assert len(list(train(model, optimizer, rank, world_size))) == NUM_STEPS
    assert_close(gathered(model), one_process())


@PROGRAMS.add(zero=(1, 2, 3), **EVERYWHERE)
def accumulation_reduces_once(rank: int, world_size: int, zero: int, share_memory: bool) -> None:
    """One step of two micro-batches and one reduction."""
    model = FullyShardedDataParallel(Chain(), zero=zero, share_memory=share_memory)
    with comm.record_messages() as ledger:
        with model.no_sync():
            loss_of(model, *share(0, rank, world_size)).backward()
        silent = ledger.count("reduce_scatter") + ledger.count("all_reduce")
        loss_of(model, *share(1, rank, world_size)).backward()
    assert (silent, ledger.count("reduce_scatter")) == (0, NUM_BLOCKS + 1)
    assert zero == 3 or ledger.count("all_gather") == NUM_BLOCKS + 1  # for both forwards
    assert_stepped(model, 0, 1)


@PROGRAMS.add(zero=(1, 3))
def a_model_that_is_held_stays_whole_over_backwards(rank: int, world_size: int, zero: int) -> None:
    """Also where a block has all its gradients after the first."""
    chain = Chain()
    for block in chain.blocks:
        block.uses_extra = True
    plain, model = copy.deepcopy(chain), FullyShardedDataParallel(chain, zero=zero)
    with model.held():
        for step in range(2):
            loss_of(chain, *share(step, rank, world_size)).backward()
            loss_of(plain, *batch(step)).backward()
    model.average_now()
    sgd(plain).step()
    sgd(model).step()
    assert_close(gathered(model), weights(plain))


@PROGRAMS.add(**EVERYWHERE)
def gradients_of_two_batches_add_up(rank: int, world_size: int, share_memory: bool) -> None:
    """Of two backwards that both reduce, and of one backward of two forwards."""
    twice, at_once = (FullyShardedDataParallel(Chain(), share_memory=share_memory) for _ in range(2))
    for step in range(2):
        loss_of(twice, *share(step, rank, world_size)).backward()
    assert_stepped(twice, 0, 1)
    sum(loss_of(at_once, *share(step, rank, world_size)) for step in range(2)).backward()
    assert_stepped(at_once, 0, 1)


@PROGRAMS.add(**EVERYWHERE)
def gradients_stay_when_the_whole_model_is_computed_again(rank: int, world_size: int, share_memory: bool) -> None:
    """A forward in the middle of a backward does not mean that the backward has failed."""
    model = FullyShardedDataParallel(Chain(), share_memory=share_memory)
    with model.no_sync():
        loss_of(model, *share(0, rank, world_size)).backward()
    tokens, targets = share(1, rank, world_size)
    nn.functional.cross_entropy(checkpoint(model, tokens, use_reentrant=False).flatten(0, 1), targets).backward()
    assert_stepped(model, 0, 1)


@PROGRAMS.add(zero=(1, 3), inside=(False, True), **EVERYWHERE)
def a_checkpointed_model_steps_as_one_process(
    rank: int, world_size: int, zero: int, inside: bool, share_memory: bool
) -> None:
    """Its blocks and the norm of the root, around them or inside, as transformers does, where no hook runs again."""
    chain = Chain()
    chain.checkpointed = not inside
    for layer in (*chain.blocks, chain.norm) if inside else ():
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)
    model = FullyShardedDataParallel(chain, zero=zero, share_memory=share_memory)
    loss_of(model, *share(0, rank, world_size)).backward()
    assert zero < 3 or model.most_gathered <= 2
    assert_stepped(model, 0)


@PROGRAMS.add(**EVERYWHERE)
def a_parameter_may_be_used_by_one_rank_or_by_none(rank: int, world_size: int, share_memory: bool) -> None:
    chain = Chain()
    model = FullyShardedDataParallel(chain, share_memory=share_memory)
    expected = step_used_by_the_first(model, chain, rank, world_size)
    assert_close(gathered(model), expected)


def _reduced_early() -> Chain:
    """Blocks whose gradients are all there in the middle of backward: those that nobody uses are frozen."""
    chain = Chain()
    for block in chain.blocks:
        block.extra.requires_grad_(False)
    return chain


@PROGRAMS.add(**EVERYWHERE)
def a_slow_rank_adds_up_what_the_others_have_written(rank: int, world_size: int, share_memory: bool) -> None:
    """It reads a sum when the others have gone on to the next one."""
    chain = _reduced_early()
    model = FullyShardedDataParallel(chain, share_memory=share_memory)
    for block in chain.blocks if rank == 1 else ():
        block.register_forward_hook(lambda *words: words[-1].register_hook(lambda _: time.sleep(0.02)) and None)
    loss_of(model, *share(0, rank, world_size)).backward()
    assert_stepped(model, 0)


@PROGRAMS.add(**EVERYWHERE)
def a_step_after_an_error_is_right(rank: int, world_size: int, share_memory: bool) -> None:
    """A forward and a backward that fail leave nothing behind."""
    model = FullyShardedDataParallel(_reduced_early(), share_memory=share_memory)
    with pytest.raises(IndexError):
        model(torch.full((1, 2), 99))
    loss = loss_of(model, *share(0, rank, world_size))
    with pytest.raises(ZeroDivisionError):
        (loss * _Failing.apply(torch.ones((), requires_grad=True))).backward()
    in_the_middle = model.module.blocks[0].register_forward_hook(lambda *words: _Failing.apply(words[-1]))
    with pytest.raises(ZeroDivisionError), comm.record_messages() as ledger:
        loss_of(model, *share(0, rank, world_size)).backward()
    assert ledger.count("reduce_scatter") == NUM_BLOCKS - 1, "the last of them is under way"
    in_the_middle.remove()
    sgd(model).zero_grad()
    with model.no_sync():
        loss_of(model, *share(0, rank, world_size)).backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    with pytest.raises(IndexError):
        model(torch.full((1, 2), 99))
    model.zero_grad()
    loss_of(model, *share(1, rank, world_size)).backward()
    assert_stepped(model, 1)


class _Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        raise ZeroDivisionError("by design")


@PROGRAMS.add(zero=(1, 2, 3))
def weights_swapped_in_for_an_evaluation_leave_no_trace(rank: int, world_size: int, zero: int) -> None:
    """As a running average of the weights is, through `.data`, which no version counter shows."""
    model = FullyShardedDataParallel(Chain(), zero=zero)
    kept = [parameter.detach().clone() for parameter in model.parameters()]
    for factor in (0, 1):
        for parameter, value in zip(model.parameters(), kept, strict=True):
            parameter.data.copy_(factor * value)
        with torch.no_grad():
            assert model(batch(0)[0]).any() == bool(factor)
        assert zero < 3 or not any(unit.is_allocated for unit in model._all)
    with model.no_sync():
        loss_of(model, *share(0, rank, world_size)).backward()
    with torch.no_grad():  # as a checkpoint that is loaded after an accumulation that was given up
        for parameter in model.parameters():
            parameter.zero_()
    assert not model(batch(0)[0]).any()


@PROGRAMS.add(zero=(1, 3))
def parameters_may_be_frozen_afterwards(rank: int, world_size: int, zero: int) -> None:
    plain, chain = Chain(), Chain()
    model = FullyShardedDataParallel(chain, zero=zero)
    for each in (plain, chain):
        each.blocks[1].requires_grad_(False)
    loss_of(model, *share(0, rank, world_size)).backward()
    loss_of(plain, *batch(0)).backward()
    sgd(plain).step()
    sgd(model).step()
    assert_close(gathered(model), weights(plain))


@dataclass
class _Answer:
    logits: torch.Tensor


@dataclass
class _Outer:
    inner: _Answer


class _Told(Chain):
    """A model whose result is put into something."""

    def forward(self, tokens: torch.Tensor, wrap: Callable[..., Any] = _Outer) -> Any:
        return wrap(inner=_Answer(super().forward(tokens)))


@PROGRAMS.add(zero=(1, 3))
def a_model_may_return_a_dataclass(rank: int, world_size: int, zero: int) -> None:
    model = FullyShardedDataParallel(_Told(), zero=zero)
    for step in range(2):
        tokens, targets = share(step, rank, world_size)
        nn.functional.cross_entropy(model(tokens).inner.logits.flatten(0, 1), targets).backward()
    assert_stepped(model, 0, 1)
    assert "a SimpleNamespace hides its tensors" in sentence(lambda: model(tokens, SimpleNamespace))
    frozen = FullyShardedDataParallel(_Told().requires_grad_(False), zero=zero)
    frozen(tokens, lambda inner: (inner.logits, SimpleNamespace()))  # a cache beside the tensor


@PROGRAMS.add()
def an_error_while_the_model_is_whole_leaves_pieces(rank: int, world_size: int) -> None:
    """Pieces have one dim."""
    model = FullyShardedDataParallel(Chain())
    with pytest.raises(KeyError), model.gathered() as inner:
        assert any(parameter.dim() > 1 for parameter in inner.parameters())
        raise KeyError
    assert all(parameter.dim() == 1 for parameter in model.parameters())


@PROGRAMS.add(**EVERYWHERE)
def a_model_may_be_made_on_the_meta_device(rank: int, world_size: int, share_memory: bool) -> None:
    """It has the weights of one that is not, ties included."""
    with torch.device("meta"):
        chain = Chain()
    chain.register_buffer("scale", torch.ones((), dtype=torch.float64))
    chain.norm.weight.mark = "kept"
    model, plain = FullyShardedDataParallel(chain, share_memory=share_memory, initialise=initialise), Chain()
    for part in reversed(list(plain.modules())):
        initialise(part)
    loss_of(model, *share(0, rank, world_size)).backward()
    loss_of(plain, *batch(0)).backward()
    sgd(plain).step()
    sgd(model).step()
    assert chain.norm.weight.mark == "kept"
    assert_close(gathered(model), weights(plain))


def initialise(module: nn.Module) -> None:
    """The same numbers for the same module wherever and whenever it is made."""
    for number, parameter in enumerate(module.parameters(recurse=False)):
        values = torch.arange(parameter.numel(), dtype=torch.float64).view(parameter.shape)
        with torch.no_grad():
            parameter.copy_(torch.sin(values + number))


@PROGRAMS.add()
def no_rank_ever_holds_a_model_that_is_made_on_the_meta_device(rank: int, world_size: int) -> None:
    """Half of 32 layers, and of one at a time the real one, the one that is cut, and what messages need."""
    with torch.device("meta"):
        layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(32))
    gc.collect()  # what it freed meanwhile would be taken off
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        FullyShardedDataParallel(layers, share_memory=False, initialise=_reset)
    events = [event for event in recorded.profiler.kineto_results.events() if event.name() == "[memory]"]
    peak = max(accumulate(event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())))
    of_whole = 4 * sum(64 * 64 + 64 for _ in layers)
    assert of_whole / 2 <= peak <= of_whole * (1 / 2 + 4 / 32)


def _reset(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        module.reset_parameters()


@PROGRAMS.add(**EVERYWHERE)
def nothing_keeps_a_model_alive_that_nobody_holds(rank: int, world_size: int, share_memory: bool) -> None:
    model = FullyShardedDataParallel(Chain(), share_memory=share_memory)
    loss_of(model, *share(0, rank, world_size)).backward()
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


@PROGRAMS.add(dtype=(None, torch.bfloat16))
def losses_equal_those_of_fsdp2(rank: int, world_size: int, dtype: torch.dtype | None) -> None:
    """Ten steps, ours and torch's, from the same weights on the same batches."""
    losses: list[list[float]] = []
    for wrap in (_ours, _by_torch):
        model = wrap(Chain(dtype=torch.float32), dtype)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        losses.append([])
        for step in range(10):
            tokens, targets = share(step, rank, world_size)
            loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1).float(), targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses[-1].append(float(loss))
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert losses[0][-1] < losses[0][0]


def _ours(chain: Chain, dtype: torch.dtype | None) -> nn.Module:
    return FullyShardedDataParallel(chain, mixed_precision=dtype)


def _by_torch(chain: Chain, dtype: torch.dtype | None) -> nn.Module:
    mesh = init_device_mesh("cpu", (comm.world_size(),))
    policy = MixedPrecisionPolicy(param_dtype=dtype)
    for block in chain.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    return fully_shard(chain, mesh=mesh, mp_policy=policy)


@PROGRAMS.add()
def refusals(rank: int, world_size: int) -> None:
    mixed = nn.Linear(2, 2)
    mixed.bias = nn.Parameter(torch.zeros(2, dtype=torch.bfloat16))
    half = FullyShardedDataParallel(Chain()).bfloat16()
    sharded, thawed, grown, assigned, replaced = (FullyShardedDataParallel(Chain(freeze=True)) for _ in range(5))
    for piece in replaced.parameters():
        piece.data = piece.data - 1
    thawed.requires_grad_(True)
    grown.module.norm = nn.Sequential(grown.module.norm, nn.Linear(6, 6).double())
    assigned.load_state_dict(assigned.state_dict(), assign=True)
    with sharded.gathered() as whole:
        copied = sentence(lambda: copy.deepcopy(whole))
    even = FullyShardedDataParallel(nn.Linear(2, 2, bias=False))
    sparse = FullyShardedDataParallel(nn.Embedding(4, 2, sparse=True))
    twice, silent = FullyShardedDataParallel(Chain()), FullyShardedDataParallel(_Silent())
    refused: list[tuple[Callable[[], Any], str]] = [
        (lambda: copy.deepcopy(sharded), "a sharded model cannot be copied"),
        (lambda: copy.deepcopy(sharded.module), copied),
        (lambda: torch.save(sharded, io.BytesIO()), "load gathered().state_dict() into a plain model"),
        (lambda: thawed(batch(0)[0]), "parameter blocks.1.extra was added, replaced or unfrozen after sharding"),
        (lambda: grown(batch(0)[0]), "parameter norm.1.weight was added, replaced"),
        (lambda: assigned(batch(0)[0]), "parameter embedding.weight was added, replaced"),
        (
            lambda: FullyShardedDataParallel(sharded),
            "a FullyShardedDataParallel averages its gradients already; use it",
        ),
        (lambda: FullyShardedDataParallel(even.module), "a Linear is sharded already; use the model as it is"),
        (lambda: sparse(torch.tensor([1])).sum().backward(), "build the Embedding with sparse=False"),
        (
            lambda: loss_of(twice, *batch(0)).backward(create_graph=True),
            "zero=3 frees weights that a double backward needs; take zero=1",
        ),
        (lambda: silent(batch(0)[0]), "a NoneType hides its tensors"),
        (lambda: half(batch(0)[0]), "a piece was cast, moved or replaced through .data"),
        (lambda: replaced(batch(0)[0]), "write into pieces in place"),
        (lambda: FullyShardedDataParallel(Chain(), zero=4), "zero is 4; give 1"),
        (lambda: FullyShardedDataParallel(Chain(), units=[nn.Conv2d]), "Chain has no layer of class Conv2d"),
        (lambda: FullyShardedDataParallel(Chain() if rank else nn.Linear(2, 2)), "build the same model on every rank"),
        (lambda: FullyShardedDataParallel(mixed), "a Linear has parameters of bfloat16 and float32, a flat tensor one"),
    ]
    for action, words in refused:
        assert words in sentence(action)


class _Silent(Chain):
    """A model that keeps its result to itself."""

    def forward(self, tokens: torch.Tensor) -> None:
        self.logits = super().forward(tokens)


def nine_rows_on_any_number_of_ranks(rank: int, world_size: int) -> None:
    """A number of ranks that divides neither parameters nor two."""
    model = FullyShardedDataParallel(Chain())
    loss_of(model, *share(0, rank, world_size, 9)).backward()
    assert_stepped(model, 0, rows=9)


failed, test_ranks = run_on(PROGRAMS, 2)


@pytest.mark.parametrize("size", [1, 3])
def test_any_number_of_ranks(size: int) -> None:
    programs = {"step": nine_rows_on_any_number_of_ranks}
    assert comm.launch(failures, size, programs, backend="gloo", timeout_s=120) == [{}] * size


# One process alone.


class _Experts(nn.Module):
    """A block that calls one of many layers."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.experts[3](x)


class _Nested(nn.Module):
    """A list of lists, none of which is called itself."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.ModuleList(
            [nn.ModuleList([nn.Linear(4, 4), nn.LayerNorm(4)]), nn.ModuleDict({"block": _Experts()})]
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for step in self.steps:
            for layer in step.children():
                x = x + layer(x)
        return x


@pytest.mark.parametrize("zero", [1, 3])
def test_units_are_what_is_called_of_the_outermost_list(zero: int) -> None:
    """Not its own lists, nor a longer one inside a block."""
    model = _Nested()
    plain = copy.deepcopy(model)
    sharded = FullyShardedDataParallel(model, zero=zero)
    for each in (plain, sharded):
        each(torch.ones(2, 4)).square().sum().backward()
        torch.optim.SGD(each.parameters(), lr=0.1).step()
    assert "3 units" in sharded.reason
    assert_close(gathered(sharded), weights(plain))
