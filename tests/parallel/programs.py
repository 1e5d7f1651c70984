"""What the ranks of these tests run; in a module, because a new process imports functions by name."""

import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pllab import comm
from pllab.parallel import (
    DataParallel,
    average_gradients,
    broadcast_parameters,
    check_same_parameters_used,
    global_sum,
    num_target_tokens,
    token_weighted,
)
from pllab.parallel.averaging import check_same_model
from pllab.parallel.tensor import split_of, whole_of

NUM_STEPS = 3
STRATEGIES = ("flat", "overlapped", *(["shared"] if sys.platform == "linux" else []))
HOWS = ("average", *STRATEGIES, "ddp")
SMALL = 400  # bytes of a bucket: several buckets even for a tiny model


def by(how: Any, model: nn.Module) -> DataParallel:
    """The model under a strategy; memory is shared by default, where it can be."""
    shared = DataParallel(model, None if how == "shared" else how, bucket_bytes=SMALL)
    assert shared.strategy == how
    return shared


class Odd(nn.Module):
    """Everything that trips data parallelism: a tied, a frozen and an unused parameter, and a buffer."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(11, 6)
        self.body = nn.Linear(6, 6)
        self.frozen = nn.Linear(6, 6)
        self.frozen.requires_grad_(False)
        self.unused = nn.Linear(6, 6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("scale", torch.full((), 1.0 + seed))
        self.double()

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.body(self.embedding(tokens)))
        return self.head(torch.tanh(self.frozen(hidden)) * self.scale)


class Branches(nn.Module):
    """A parameter of each kind: used by all, by rank 0 only, by nobody."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.shared, self.sometimes, self.never = (nn.Linear(3, 3).double() for _ in range(3))

    def forward(self, x: torch.Tensor, use: bool) -> torch.Tensor:
        hidden = self.shared(x)
        return self.sometimes(hidden) if use else hidden


def batch(step: int, rows: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens (rows, 5) and targets (rows * 5), the same in every process."""
    generator = torch.Generator().manual_seed(step)
    return (
        torch.randint(0, 11, (rows, 5), generator=generator),
        torch.randint(0, 11, (rows * 5,), generator=generator),
    )


def share(step: int, rank: int, world_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    tokens, targets = batch(step)
    return tokens.chunk(world_size)[rank], targets.chunk(world_size)[rank]


def loss_of(model: nn.Module, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets)


def wrap(model: nn.Module, how: str) -> nn.Module:
    if how == "average":
        broadcast_parameters(model)
        return model
    if how == "ddp":
        return DistributedDataParallel(model, find_unused_parameters=True, gradient_as_bucket_view=True)
    return by(how, model)


def whole_state(model: nn.Module, group: comm.Group | None = None) -> dict[str, torch.Tensor]:
    """The state dict of the whole of a split model, on every rank; one message for each parameter, tied ones once."""
    state, wholes = model.state_dict(keep_vars=True), dict[int, torch.Tensor]()
    for value in state.values():
        if id(value) not in wholes:
            split = split_of(value)
            wholes[id(value)] = whole_of(value.detach(), split, group) if split else value.detach()
    return {name: wholes[id(value)] for name, value in state.items()}


def weights(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def gradients(model: nn.Module) -> dict[str, torch.Tensor | None]:
    return {n: None if p.grad is None else p.grad.clone() for n, p in model.named_parameters()}


def assert_same(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    assert actual.keys() == expected.keys()
    for name in expected:
        if expected[name] is None:
            assert actual[name] is None, name
        else:
            torch.testing.assert_close(actual[name], expected[name], msg=lambda text, name=name: f"{name}: {text}")


def train(rank: int, world_size: int, how: str) -> dict[str, Any]:
    """Three steps from weights that differ between ranks until they are broadcast."""
    inner = Odd(seed=rank)
    model = wrap(inner, how)
    optimizer = torch.optim.SGD(inner.parameters(), lr=0.5, momentum=0.9, weight_decay=0.1)
    counts = []
    for step in range(NUM_STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, *share(step, rank, world_size))
        with comm.record_messages() as ledger:
            loss.backward()
            if how == "average":
                average_gradients(model)
        counts.append((ledger.count("all_reduce"), ledger.count()))
        optimizer.step()
    return {
        "weights": weights(inner),
        "counts": counts,
        "num_buckets": len(model.buckets) if isinstance(model, DataParallel) else None,
    }


def branches(rank: int, world_size: int, how: str) -> dict[str, Any]:
    inner = Branches()
    model = by(how, inner)
    x = torch.arange(6.0, dtype=torch.float64).view(2, 3) + rank
    model(x, rank == 1).square().mean().backward()  # leaves numbers in rank 1's bucket that must not count
    model.zero_grad()
    model(x, rank == 0).square().mean().backward()
    return gradients(inner)


def accumulate(rank: int, world_size: int, how: str) -> dict[str, Any]:
    """Two micro-batches under no_sync and a third outside, twice, then the same by average_now."""
    inner = Odd()
    model = by(how, inner)
    counts, results = [], []
    for set_to_none in (True, False):
        model.zero_grad(set_to_none=set_to_none)
        with comm.record_messages() as quiet, model.no_sync():
            loss_of(model, *share(0, rank, world_size)).backward()
            loss_of(model, *share(1, rank, world_size)).backward()
        with comm.record_messages() as loud:
            loss_of(model, *share(2, rank, world_size)).backward()
        counts.append((quiet.count(), loud.count()))
        results.append(gradients(inner))
    model.zero_grad()
    with comm.record_messages() as ledger:
        with model.no_sync():
            for step in range(3):
                loss_of(model, *share(step, rank, world_size)).backward()
        model.average_now()
    counts.append((0, ledger.count()))
    results.append(gradients(inner))
    return {"counts": counts, "gradients": results, "num_buckets": len(model.buckets)}


def touched_before_no_sync(rank: int, world_size: int) -> dict[str, Any]:
    """A parameter used only in the quiet backward must still be averaged by the loud one."""
    inner = Branches()
    model = DataParallel(inner)
    x = torch.ones(2, 3, dtype=torch.float64) * (rank + 1)
    with model.no_sync():
        model(x, True).sum().backward()
    model(x, False).sum().backward()
    return gradients(inner)


def views(rank: int, world_size: int, how: str) -> dict[str, Any]:
    """Whether gradients lie in the buckets after each kind of zero_grad, and how many bytes those have."""
    inner = Odd()
    model = by(how, inner)
    inside = []
    for set_to_none in (True, False, True):
        model.zero_grad(set_to_none=set_to_none)
        loss_of(model, *share(0, rank, world_size)).backward()
        storages = {bucket.flat.untyped_storage().data_ptr() for bucket in model.buckets}
        grads = [p.grad for p in inner.parameters() if p.grad is not None]
        inside.append(all(grad.untyped_storage().data_ptr() in storages for grad in grads))
    return {"inside": inside, "num_bytes": sum(bucket.flat.nbytes for bucket in model.buckets)}


def tokens(rank: int, world_size: int, how: str) -> dict[str, Any]:
    """Rank 0 has 10 targets and rank 1 has 100; the loss is token weighted, or each rank's own mean."""
    inner = Odd()
    model = DataParallel(inner)
    ids, labels = unequal(rank)
    logits = model(ids)[:, :-1].flatten(0, 1)
    targets = labels[:, 1:].flatten()
    if how == "token_weighted":
        loss = token_weighted(nn.functional.cross_entropy(logits, targets, reduction="sum"), num_target_tokens(labels))
    else:
        loss = nn.functional.cross_entropy(logits, targets)
    loss.backward()
    return {"gradients": gradients(inner), "total": global_sum(num_target_tokens(labels))}


def unequal(rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch (10, 11) with 10 targets on rank 0 and 100 on rank 1."""
    generator = torch.Generator().manual_seed(rank)
    ids = torch.randint(0, 11, (10, 11), generator=generator)
    labels = ids.clone()
    if rank == 0:
        labels[:, 2:] = -100
    return ids, labels


def mixed_types(rank: int, world_size: int) -> dict[str, Any]:
    torch.manual_seed(0)
    inner = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2).double(), nn.Linear(2, 2).bfloat16()])
    model = DataParallel(inner)
    with comm.record_messages() as ledger:
        sum(layer(torch.full((1, 2), rank + 1.0, dtype=layer.weight.dtype)).float().sum() for layer in inner).backward()
    return {"count": ledger.count(), "gradients": gradients(inner), "types": len(model.buckets)}


def unfreeze(rank: int, world_size: int) -> dict[str, Any]:
    """Freeze, unfreeze and cast after wrapping; gradients must be averaged all the same."""
    inner = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    inner[0].requires_grad_(False)
    model = DataParallel(inner)
    model(torch.ones(1, 2) * (rank + 1)).sum().backward()
    inner[0].requires_grad_(True)
    inner.double()
    model.zero_grad()
    model(torch.ones(1, 2, dtype=torch.float64) * (rank + 1)).sum().backward()
    return gradients(inner)


def after_error(rank: int, world_size: int) -> dict[str, Any]:
    """A backward that raises half way, on every rank, and then a good step; and no_sync left by an error."""
    inner = Odd()
    model = DataParallel(inner)
    handle = inner.embedding.weight.register_hook(_fail)
    raised = []
    for context in (model.no_sync, torch.enable_grad):
        try:
            with context():
                loss_of(model, *share(0, rank, world_size)).backward()
        except ArithmeticError:
            raised.append(True)
    handle.remove()
    model.zero_grad()
    with comm.record_messages() as ledger:
        loss_of(model, *share(0, rank, world_size)).backward()
    return {"raised": raised, "gradients": gradients(inner), "count": ledger.count()}


def _fail(_: torch.Tensor) -> None:
    raise ArithmeticError


def overlap(rank: int, world_size: int) -> dict[str, Any]:
    """How many messages were under way when the first layer's gradient was ready."""
    torch.manual_seed(0)
    inner = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))
    seen = []
    model = DataParallel(inner, "overlapped", bucket_bytes=80)
    inner[0].weight.register_hook(lambda _: seen.append(ledger.count("all_reduce")))
    loss = model(torch.ones(1, 4)).sum()
    with comm.record_messages() as ledger:
        loss.backward()
    sent = [message.num_bytes for message in ledger.messages]
    return {"seen": seen, "sent": sent, "buckets": [bucket.flat.nbytes for bucket in model.buckets]}


def odd_memory(rank: int, world_size: int) -> dict[str, Any]:
    """Parameters that are transposed in memory, and a scalar and a boolean buffer."""
    torch.manual_seed(rank)
    inner = nn.Linear(3, 2)
    inner.weight = nn.Parameter(torch.randn(3, 2).t())
    inner.register_buffer("mask", torch.tensor([rank == 0, False]))
    inner.register_buffer("count", torch.tensor(rank))
    model = DataParallel(inner)
    model(torch.full((1, 3), rank + 1.0)).sum().backward()
    through_views = gradients(inner)
    inner.zero_grad()
    del model
    inner(torch.full((1, 3), rank + 1.0)).sum().backward()
    average_gradients(inner)
    return {"weights": weights(inner), "views": through_views, "average": gradients(inner)}


def sharing(rank: int, world_size: int) -> dict[str, Any]:
    """The choice where ranks share memory and where rank 0 has none to share, and what a dropped wrapper keeps."""
    first = DataParallel(Odd())
    seen: dict[str, Any] = {"default": (first.strategy, first.reason), "mapped": num_shared_mappings()}
    loss_of(first, *share(0, rank, world_size)).backward()
    del first
    gc.collect()
    seen["dropped"] = num_shared_mappings()
    with pytest.MonkeyPatch.context() as patch:
        if rank == 0:
            patch.setattr(os, "posix_fallocate", _no_space)
        second = DataParallel(Odd())
        seen["full"] = (second.strategy, second.reason, num_shared_mappings())
        loss_of(second, *share(0, rank, world_size)).backward()
        seen["gradients"] = gradients(second.module)
    second.module.frozen.requires_grad_(True)  # new buckets, and there is space by now
    second.zero_grad()
    loss_of(second, *share(0, rank, world_size)).backward()
    seen["later"] = (second.strategy, num_shared_mappings())
    return seen


def _no_space(descriptor: int, start: int, length: int) -> None:
    raise OSError(28, "No space left on device")


def num_shared_mappings() -> int:
    """How many pieces of shared memory this process sees."""
    return Path("/proc/self/maps").read_text().count(" /dev/shm/")


def refusals(rank: int, world_size: int) -> dict[str, str]:
    """The sentences for models and gradients that differ between ranks."""
    uneven = Branches()
    uneven(torch.ones(1, 3, dtype=torch.float64), rank == 0).sum().backward()
    sparse = DataParallel(nn.Embedding(4, 2, sparse=True))
    return {
        "model": _sentence(lambda: check_same_model(nn.Linear(4, 2 + rank))),
        "gradients": _sentence(lambda: check_same_parameters_used(uneven)),
        "sparse": _sentence(lambda: sparse(torch.tensor([1])).sum().backward()),
        "no targets": _sentence(lambda: token_weighted(torch.zeros(()), 0)),
    }


def _sentence(action: Callable[[], object]) -> str:
    try:
        action()
    except ValueError as error:
        return str(error)
    return ""


def run_all(rank: int, world_size: int) -> dict[str, Any]:
    """Every program once, in one group, because starting processes costs more than all of them together."""
    results: dict[str, Any] = {}
    for how in HOWS:
        results[f"train {how}"] = train(rank, world_size, how)
    for how in STRATEGIES:
        for program in (branches, accumulate, views):
            results[f"{program.__name__} {how}"] = program(rank, world_size, how)
    for how in ("token_weighted", "mean of means"):
        results[f"tokens {how}"] = tokens(rank, world_size, how)
    for plain in (touched_before_no_sync, mixed_types, unfreeze, after_error, overlap, odd_memory, refusals):
        results[plain.__name__] = plain(rank, world_size)
    if "shared" in STRATEGIES:
        results["sharing"] = sharing(rank, world_size)
    return results


def train_all(rank: int, world_size: int) -> dict[str, Any]:
    """The same training in each way that any world can take."""
    return {how: train(rank, world_size, how)["weights"] for how in HOWS if how != "shared" or world_size > 1}
