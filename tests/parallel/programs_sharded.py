"""What the ranks of the tests of sharding run; in a module, because a new process imports functions by name."""

import weakref
from collections.abc import Callable
from itertools import accumulate as accumulate_
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from pllab import comm
from pllab.parallel import FullyShardedDataParallel
from tests.parallel.programs import _sentence, batch, gradients, loss_of, share

NUM_STEPS = 3
NUM_BLOCKS = 4
DEFAULTS = FullyShardedDataParallel.__init__.__kwdefaults__ or {}


class Block(nn.Module):
    """13 numbers that no number of ranks divides, and a parameter that its forward may leave out."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.extra = nn.Parameter(torch.randn(7))
        self.uses_extra = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + torch.tanh(self.linear(x))
        return x * self.extra[0] if self.uses_extra else x


class Chain(nn.Module):
    """Blocks between a tied embedding and head; block 1 and most of 2 may be frozen."""

    def __init__(self, seed: int = 0, freeze: bool = False, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(11, 6)
        self.blocks = nn.ModuleList(Block() for _ in range(NUM_BLOCKS))
        self.norm = nn.LayerNorm(6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("scale", torch.full((), 1.0 + seed))
        self.checkpointed = False
        self.to(dtype)
        if freeze:
            self.blocks[1].requires_grad_(False)
            self.blocks[2].linear.requires_grad_(False)
            self.blocks[2].uses_extra = True  # its gradient is there before the frozen weight has done its work

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return self.head(self.norm(x) * self.scale)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    """Fused, it writes to the pieces without a trace in their version counters."""
    return torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9, weight_decay=0.1, fused=True)


def whole(model: FullyShardedDataParallel) -> dict[str, torch.Tensor]:
    with model.gathered() as inner:
        return {name: tensor.detach().clone() for name, tensor in inner.state_dict().items()}


def train(rank: int, world_size: int, zero: int, freeze: bool = False, **options: Any) -> dict[str, Any]:
    """Three steps from weights that differ between ranks until rank 0's are taken; what each step sent."""
    model = FullyShardedDataParallel(Chain(rank, freeze), zero=zero, **options)
    optimizer = sgd(model)
    counts, losses = [], []
    for step in range(NUM_STEPS):
        with comm.record_messages() as ledger:
            loss = loss_of(model, *share(step, rank, world_size))
            loss.backward()
        counts.append({name: ledger.count(name) for name in ("all_gather", "reduce_scatter", "all_reduce")})
        losses.append(float(loss))
        optimizer.step()
        optimizer.zero_grad()
    sizes = sum(parameter.numel() for parameter in model.parameters())
    return {"weights": whole(model), "counts": counts, "gathered": model.most_gathered, "numel": sizes}


def accumulate(rank: int, world_size: int, zero: int) -> dict[str, Any]:
    """One step of two micro-batches and one reduction."""
    model = FullyShardedDataParallel(Chain(), zero=zero)
    with comm.record_messages() as ledger:
        with model.no_sync():
            loss_of(model, *share(0, rank, world_size)).backward()
        silent = ledger.count("reduce_scatter") + ledger.count("all_reduce")
        loss_of(model, *share(1, rank, world_size)).backward()
    sgd(model).step()
    return {
        "silent": silent,
        "reductions": ledger.count("reduce_scatter"),
        "gathers": ledger.count("all_gather"),
        "weights": whole(model),
    }


def twice_with_messages(rank: int, world_size: int) -> dict[str, torch.Tensor]:
    """Two backwards that both reduce; their gradients add up."""
    model = FullyShardedDataParallel(Chain())
    for step in range(2):
        loss_of(model, *share(step, rank, world_size)).backward()
    sgd(model).step()
    return whole(model)


def two_forwards(rank: int, world_size: int) -> dict[str, torch.Tensor]:
    model = FullyShardedDataParallel(Chain())
    losses = [loss_of(model, *share(step, rank, world_size)) for step in range(2)]
    sum(losses).backward()
    sgd(model).step()
    return whole(model)


def recomputed(rank: int, world_size: int) -> dict[str, Any]:
    chain = Chain()
    chain.checkpointed = True
    model = FullyShardedDataParallel(chain)
    loss_of(model, *share(0, rank, world_size)).backward()
    assert model.most_gathered <= 2
    sgd(model).step()
    return whole(model)


def optimizer_first(rank: int, world_size: int) -> dict[str, torch.Tensor]:
    """An optimizer made before sharding trains the pieces."""
    chain = Chain()
    optimizer = sgd(chain)
    model = FullyShardedDataParallel(chain)
    loss_of(model, *share(0, rank, world_size)).backward()
    optimizer.step()
    return whole(model)


def used_by_one(rank: int, world_size: int) -> dict[str, Any]:
    """Block 0's extra parameter is used by rank 0 only, block 1's by nobody."""
    chain = Chain()
    model = FullyShardedDataParallel(chain)
    for first in (
        True,
        False,
    ):  # the first backward leaves numbers in all memory that the second could take for its own
        chain.zero_grad()
        chain.blocks[0].uses_extra = first or rank == 0
        chain.blocks[1].uses_extra = first
        loss_of(model, *share(0, rank, world_size)).backward()
    found = {name: gradient is not None for name, gradient in gradients(chain).items()}
    sgd(model).step()
    return {"found": found, "weights": whole(model)}


def after_error(rank: int, world_size: int) -> dict[str, torch.Tensor]:
    """A forward and a backward that fail leave nothing behind."""
    model = FullyShardedDataParallel(Chain())
    with pytest.raises(IndexError):
        model(torch.full((1, 2), 99))
    loss = loss_of(model, *share(0, rank, world_size))
    hook = model.module.norm.weight.register_hook(_fail) if model.module.norm.weight.requires_grad else None
    with pytest.raises(ZeroDivisionError):
        (loss * _Failing.apply(torch.ones((), requires_grad=True))).backward()
    del hook
    model.zero_grad()
    loss_of(model, *share(1, rank, world_size)).backward()
    sgd(model).step()
    return whole(model)


class _Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        raise ZeroDivisionError("by design")


def _fail(_: torch.Tensor) -> None:
    raise AssertionError("a hook on a piece never runs")


def evaluated(rank: int, world_size: int) -> dict[str, Any]:
    """Without autograd a forward leaves nothing gathered, and sees what the optimizer wrote."""
    model = FullyShardedDataParallel(Chain())
    optimizer = sgd(model)
    tokens, targets = batch(0)
    loss_of(model, *share(0, rank, world_size)).backward()
    optimizer.step()
    with torch.no_grad():
        loss = float(loss_of(model, tokens, targets))
    left = [unit.is_allocated for unit in model._all]
    return {"loss": loss, "left": left}


def whole_until_an_error(rank: int, world_size: int) -> list[bool]:
    """Whether all parameters have one dim, as pieces do: while the model is whole, and after an error there."""
    model = FullyShardedDataParallel(Chain())
    with pytest.raises(KeyError), model.gathered() as inner:
        seen = [all(parameter.dim() == 1 for parameter in inner.parameters())]
        raise KeyError
    return [*seen, all(parameter.dim() == 1 for parameter in model.parameters())]


def deferred(rank: int, world_size: int) -> dict[str, Any]:
    """A model that is made on the meta device has the weights of one that is not, ties included."""
    with torch.device("meta"):
        chain = Chain()
    chain.register_buffer("scale", torch.ones((), dtype=torch.float64))
    chain.norm.weight.mark = "kept"
    model = FullyShardedDataParallel(chain, initialise=initialise)
    assert chain.norm.weight.mark == "kept"
    optimizer = sgd(model)
    loss_of(model, *share(0, rank, world_size)).backward()
    optimizer.step()
    return whole(model)


def deferred_bytes(rank: int, world_size: int) -> tuple[int, int]:
    """The most bytes that torch held while a model was made from the meta device, and the bytes of the model."""
    with torch.device("meta"):
        layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(32))
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        FullyShardedDataParallel(layers, share_memory=False, initialise=reset)
    events = [event for event in recorded.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = accumulate_(event.nbytes() for event in sorted(events, key=lambda event: event.start_ns()))
    return max(held), 4 * sum(64 * 64 + 64 for _ in layers)


def reset(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        module.reset_parameters()


def initialise(module: nn.Module) -> None:
    """The same numbers for the same module wherever and whenever it is made."""
    for number, parameter in enumerate(module.parameters(recurse=False)):
        values = torch.arange(parameter.numel(), dtype=torch.float64).view(parameter.shape)
        with torch.no_grad():
            parameter.copy_(torch.sin(values + number))


def forgotten(rank: int, world_size: int) -> bool:
    """Nothing keeps a model alive that nobody holds."""
    import gc

    model = FullyShardedDataParallel(Chain())
    loss_of(model, *share(0, rank, world_size)).backward()
    gone = weakref.ref(model)
    del model
    gc.collect()
    return gone() is None


def beside_fsdp2(rank: int, world_size: int, dtype: torch.dtype | None) -> dict[str, list[float]]:
    """Losses of ten AdamW steps, ours and torch's, from the same weights on the same batches."""
    losses: dict[str, list[float]] = {}
    for name, wrap in {"ours": _ours, "torch": _by_torch}.items():
        model = wrap(Chain(dtype=torch.float32), dtype)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        losses[name] = []
        for step in range(10):
            tokens, targets = share(step, rank, world_size)
            loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1).float(), targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses[name].append(float(loss))
    return losses


def _ours(chain: Chain, dtype: torch.dtype | None) -> nn.Module:
    return FullyShardedDataParallel(chain, mixed_precision=dtype)


def _by_torch(chain: Chain, dtype: torch.dtype | None) -> nn.Module:
    mesh = init_device_mesh("cpu", (comm.world_size(),))
    policy = MixedPrecisionPolicy(param_dtype=dtype)
    for block in chain.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    return fully_shard(chain, mesh=mesh, mp_policy=policy)


def refusals(rank: int, world_size: int) -> list[str]:
    with torch.device("meta"):
        on_meta = Chain()
    cases: list[Callable[[], Any]] = [
        lambda: FullyShardedDataParallel(Chain(), zero=4),
        lambda: FullyShardedDataParallel(Chain(), units=[nn.Conv2d]),
        lambda: FullyShardedDataParallel(Chain() if rank else nn.Linear(2, 2)),
        lambda: FullyShardedDataParallel(on_meta),
        lambda: FullyShardedDataParallel(nn.Sequential(nn.Embedding(2, 2), _Plain()).to("meta")),
    ]
    return [_sentence(case) for case in cases]


def beside_another(rank: int, world_size: int) -> bool:
    """A step of rank 0's optimizer of another model is no step of this one, for which ranks would wait."""
    model, other = FullyShardedDataParallel(Chain()), nn.Linear(2, 2)
    if rank == 0:
        other(torch.ones(2)).sum().backward()
        torch.optim.SGD(other.parameters(), lr=0.1).step()
    with comm.record_messages() as ledger:
        loss_of(model, *share(0, rank, world_size)).backward()
    alike = comm.all_gather_object([message.name for message in ledger.messages])
    return alike[0] == alike[-1]


class _Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))


PROGRAMS = (
    twice_with_messages,
    two_forwards,
    recomputed,
    optimizer_first,
    used_by_one,
    after_error,
    evaluated,
    whole_until_an_error,
    deferred,
    forgotten,
    beside_another,
    refusals,
)


def run_all(rank: int, world_size: int) -> dict[str, Any]:
    """Every program once, in one group."""
    results: dict[str, Any] = {}
    for sharing in (True, False) if world_size > 1 else (False,):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(FullyShardedDataParallel.__init__, "__kwdefaults__", DEFAULTS | {"share_memory": sharing})
            where = "memory" if sharing else "messages"
            for zero in (1, 2, 3):
                for freeze in (False, True):
                    results[f"train {where} {zero} {freeze}"] = train(rank, world_size, zero, freeze)
                results[f"accumulate {where} {zero}"] = accumulate(rank, world_size, zero)
            results[f"units {where}"] = train(rank, world_size, 3, units=[nn.Linear])
            for program in PROGRAMS:
                results[f"{program.__name__} {where}"] = program(rank, world_size)
    results["bytes"] = deferred_bytes(rank, world_size)
    for name, dtype in {"float32": None, "bfloat16": torch.bfloat16}.items():
        results[f"fsdp2 {name}"] = beside_fsdp2(rank, world_size, dtype)
    return results


def one_step_of_nine_rows(rank: int, world_size: int) -> dict[str, torch.Tensor]:
    """A number of ranks that divides neither parameters nor two."""
    tokens, targets = (part.chunk(world_size)[rank] for part in batch(0, 9))
    model = FullyShardedDataParallel(Chain())
    loss_of(model, tokens, targets).backward()
    sgd(model).step()
    return whole(model)
