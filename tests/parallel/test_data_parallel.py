"""DataParallel, and the loop over gradients, against one process, against torch's DDP, and by counted messages."""

import gc
import sys
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

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
from tests.parallel.on_ranks import Programs, failures, run_on, sentence
from tests.parallel.programs import (
    NUM_STEPS,
    Chain,
    batch,
    gradients,
    loss_of,
    one_process,
    sgd,
    share,
    step_used_by_the_first,
    weights,
)

SHARED = ("shared",) if sys.platform == "linux" else ()  # through /proc and /dev/shm
STRATEGIES = ("flat", "overlapped", *SHARED)
HOWS = ("average", *STRATEGIES, "ddp")
SMALL = 400  # bytes of a bucket: several buckets even for a tiny model


def odd(seed: int = 0) -> Chain:
    """Everything that trips data parallelism: a tied, a frozen and an unused parameter, and a buffer."""
    return Chain(seed, freeze=True)


def by(how: Any, model: nn.Module) -> DataParallel:
    """The model under a strategy; memory is shared by default, where it can be."""
    shared = DataParallel(model, None if how == "shared" else how, bucket_bytes=SMALL)
    assert shared.strategy == how
    return shared


@cache
def one_gradient(*steps: int) -> dict[str, torch.Tensor | None]:
    """The sum of the gradients of some batches at rank 0's weights."""
    model = odd()
    for step in steps:
        loss_of(model, *batch(step)).backward()
    return gradients(model)


def trained(rank: int, world_size: int, how: str) -> dict[str, torch.Tensor]:
    """Three steps from weights that differ between ranks until they are broadcast; each sends what it has to."""
    inner = odd(rank)
    if how == "average":
        with comm.record_messages() as ledger:
            broadcast_parameters(inner)
        assert ledger.count("broadcast") == len(list(inner.parameters())) + 1, "the tied embedding once, and the buffer"
        model, num_messages = inner, 8  # of what is trained and used
    elif how == "ddp":
        model = DistributedDataParallel(inner, find_unused_parameters=True, gradient_as_bucket_view=True)
        num_messages = 0  # of ours
    else:
        model = by(how, inner)
        num_messages = len(model.buckets)
        assert (num_messages > 1) == (how == "overlapped")
    optimizer = sgd(inner)
    for step in range(NUM_STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, *share(step, rank, world_size))
        with comm.record_messages() as ledger:
            loss.backward()
            if how == "average":
                average_gradients(inner)
        check_same_parameters_used(inner)
        optimizer.step()
        assert (ledger.count("all_reduce"), ledger.count()) == (num_messages, num_messages)
    return weights(inner)


# What ranks run, each with its own checks.

PROGRAMS = Programs()


@PROGRAMS.add(how=HOWS)
def three_steps_equal_one_process(rank: int, world_size: int, how: str) -> None:
    """Torch's DDP, the last way, included: so all are equal to it."""
    assert_close(trained(rank, world_size, how), one_process(freeze=True))


@PROGRAMS.add(how=STRATEGIES)
def parameters_may_be_used_by_some_ranks_or_none(rank: int, world_size: int, how: str) -> None:
    inner = Chain()
    expected = step_used_by_the_first(by(how, inner), inner, rank, world_size)
    assert_close(weights(inner), expected)


@PROGRAMS.add(how=STRATEGIES)
def accumulation_sends_once_and_sums(rank: int, world_size: int, how: str) -> None:
    """Two micro-batches under no_sync and a third outside, twice, then the same by average_now."""
    inner = odd()
    model = by(how, inner)
    for set_to_none, sends_last in ((True, True), (False, True), (True, False)):
        model.zero_grad(set_to_none=set_to_none)
        with comm.record_messages() as quiet, model.no_sync():
            with model.no_sync():  # of a part, whose end is not that of the whole
                loss_of(model, *share(0, rank, world_size)).backward()
            for step in range(1, 2 if sends_last else 3):
                loss_of(model, *share(step, rank, world_size)).backward()
        with comm.record_messages() as loud:
            if sends_last:
                loss_of(model, *share(2, rank, world_size)).backward()
            else:
                model.average_now()
        assert (quiet.count(), loud.count()) == (0, len(model.buckets))
        assert_close(gradients(inner), one_gradient(0, 1, 2))


@PROGRAMS.add(how=STRATEGIES)
def gradients_live_in_the_buckets(rank: int, world_size: int, how: str) -> None:
    """After each kind of zero_grad; and the buckets hold nothing else but a number for each parameter."""
    inner = odd()
    model = by(how, inner)
    for set_to_none in (True, False, True):
        model.zero_grad(set_to_none=set_to_none)
        loss_of(model, *share(0, rank, world_size)).backward()
        storages = {bucket.flat.untyped_storage().data_ptr() for bucket in model.buckets}
        assert {p.grad.untyped_storage().data_ptr() for p in inner.parameters() if p.grad is not None} <= storages
    numbers = [parameter.numel() + 1 for parameter in inner.parameters() if parameter.requires_grad]
    assert sum(bucket.flat.nbytes for bucket in model.buckets) == 8 * sum(numbers)


@PROGRAMS.add(how=SHARED)
def without_memory_to_share_all_send(rank: int, world_size: int, how: str) -> None:
    assert DataParallel(odd()).reason == f"{how}: one sum in the memory of this host after backward, gloo"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comm, "shared_buffer", lambda *_: None)  # as on all ranks where one has none
        model = DataParallel(odd())
    assert (model.strategy, model.reason) == ("flat", "flat: one flat message after backward, gloo")
    loss_of(model, *share(0, rank, world_size)).backward()
    assert_close(gradients(model.module), one_gradient(0))


@PROGRAMS.add(how=STRATEGIES)
def a_step_after_a_failed_backward_is_right(rank: int, world_size: int, how: str) -> None:
    """A backward that raises half way, on every rank, within no_sync and outside, with messages still under way."""
    inner = odd()
    model = by(how, inner)
    handle = inner.embedding.weight.register_hook(_fail)
    with comm.slow_link(latency_s=0.02):
        for context in (model.no_sync, torch.enable_grad):
            with pytest.raises(ArithmeticError), context():
                loss_of(model, *share(0, rank, world_size)).backward()
        handle.remove()
        model.zero_grad()
        with comm.record_messages() as ledger:
            loss_of(model, *share(0, rank, world_size)).backward()
    assert ledger.count() == len(model.buckets)
    assert_close(gradients(inner), one_gradient(0))


def _fail(_: torch.Tensor) -> None:
    raise ArithmeticError


@PROGRAMS.add(how=STRATEGIES)
def gradients_are_averaged_once_when_the_whole_model_is_computed_again(rank: int, world_size: int, how: str) -> None:
    """The gradient of a parameter that the loss uses by itself is there before."""
    inner = odd()
    extra = inner.blocks[0].extra
    tokens, targets = share(0, rank, world_size)
    loss = nn.functional.cross_entropy(checkpoint(by(how, inner), tokens, use_reentrant=False).flatten(0, 1), targets)
    (loss + extra.sum()).backward()
    assert_close(gradients(inner), one_gradient(0) | {"blocks.0.extra": torch.ones_like(extra)})


@PROGRAMS.add()
def overlapped_buckets_leave_during_backward_last_layer_first(rank: int, world_size: int) -> None:
    inner = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))
    sent_before = []
    model = DataParallel(inner, "overlapped", bucket_bytes=80)
    inner[0].weight.register_hook(lambda _: sent_before.append(ledger.count("all_reduce")))
    loss = model(torch.ones(1, 4)).sum()
    with comm.record_messages() as ledger:
        loss.backward()
    assert sent_before == [3]  # three layers were sent when the first layer's gradient appeared
    assert [message.num_bytes for message in ledger.messages] == [bucket.flat.nbytes for bucket in model.buckets]
    assert len(model.buckets) == 4


@PROGRAMS.add()
def parameters_may_be_transposed_and_buffers_of_any_type(rank: int, world_size: int) -> None:
    torch.manual_seed(rank)
    inner = nn.Linear(3, 2)
    inner.weight = nn.Parameter(torch.randn(3, 2).t())
    inner.register_buffer("mask", torch.tensor([rank == 0, False]))
    inner.register_buffer("count", torch.tensor(rank))
    model = DataParallel(inner)
    model(torch.full((1, 3), rank + 1.0)).sum().backward()
    through_views = inner.weight.grad.clone()
    inner.zero_grad()
    del model
    inner(torch.full((1, 3), rank + 1.0)).sum().backward()
    average_gradients(inner)
    assert through_views.eq(1.5).all() and inner.weight.grad.eq(1.5).all()
    assert inner.count == 0 and inner.mask.tolist() == [True, False]
    assert_close(*comm.all_gather_object(weights(inner)), rtol=0, atol=0)


@PROGRAMS.add()
def refusals_name_the_value_and_the_way_out(rank: int, world_size: int) -> None:
    uneven, sparse, thawed = Chain(), DataParallel(nn.Embedding(4, 2, sparse=True)), DataParallel(odd())
    thawed.requires_grad_(True)
    uneven.blocks[0].uses_extra = rank == 0
    loss_of(uneven, *batch(0)).backward()
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: check_same_model(nn.Linear(4, 2 + rank)), "rank 1 has parameter weight float32[3, 4]"),
        (lambda: check_same_model(nn.Linear(4, 2).requires_grad_(not rank)), "float32[2, 4] frozen, rank 0 has"),
        (lambda: check_same_parameters_used(uneven), "blocks.0.extra has a gradient on rank 0 and none on rank 1;"),
        (lambda: sparse(torch.tensor([1])).sum().backward(), "sparse=False"),
        (lambda: thawed(batch(0)[0]), "parameters were frozen, unfrozen, cast or moved after wrapping"),
        (lambda: token_weighted(torch.zeros(()), 0), "0 target tokens on all ranks"),
    ]
    for action, words in refused:
        assert words in sentence(action)


failed, test_ranks = run_on(PROGRAMS, 2)


@pytest.mark.parametrize("size", [1, 4])
def test_any_number_of_ranks_equals_one_process(size: int) -> None:
    wanted = [f"three_steps_equal_one_process how={how}" for how in HOWS if how != "shared" or size > 1]
    programs = {name: PROGRAMS[name] for name in wanted}
    assert comm.launch(failures, size, programs, backend="gloo", timeout_s=120) == [{}] * size


# One process alone.


def test_alone_it_changes_nothing() -> None:
    model = odd()
    wrapped = DataParallel(model)
    loss_of(wrapped, *batch(0)).backward()
    assert_close(gradients(model), one_gradient(0))
    assert wrapped.module is model
    assert (wrapped.strategy, "no group" in wrapped.reason) == ("flat", True)


@pytest.mark.parametrize(("backend", "strategy"), [("gloo", "flat"), ("nccl", "overlapped")])
def test_the_backend_chooses_and_the_reason_names_it(
    monkeypatch: pytest.MonkeyPatch, backend: str, strategy: str
) -> None:
    monkeypatch.setattr(comm, "backend_name", lambda: backend)
    model = DataParallel(nn.Linear(1, 1))
    assert model.strategy == strategy
    assert backend in model.reason and strategy in model.reason


def test_evaluation_sends_nothing_and_a_dropped_wrapper_frees_its_buckets_and_stops_sending() -> None:
    model = odd()
    wrapped = DataParallel(model)
    flat = weakref.ref(wrapped.buckets[0].flat)
    with comm.record_messages() as ledger:
        with torch.no_grad():
            wrapped(batch(0)[0])
        del wrapped
        gc.collect()
        assert flat() is None
        loss_of(model, *batch(0)).backward()
    assert ledger.count() == 0


@pytest.mark.parametrize(
    ("module", "given", "sentence"),
    [
        (nn.Linear(1, 1), {"strategy": "eager"}, "strategy 'eager' is unknown; choose flat or overlapped, or leave"),
        (DataParallel(nn.Linear(1, 1)), {}, "a DataParallel averages its gradients already; use it as it is"),
    ],
)
def test_bad_arguments(module: nn.Module, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        DataParallel(module, **given)


def test_targets_are_counted_after_the_shift() -> None:
    assert num_target_tokens(torch.tensor([[5, 6, -100], [7, 8, 9]])) == 3
    assert num_target_tokens(torch.tensor([[5], [6]])) == 0


def test_alone_a_token_weighted_loss_is_the_mean_and_a_known_total_covers_accumulation() -> None:
    assert global_sum(3) == 3.0
    assert token_weighted(torch.tensor(6.0), 3).item() == 2.0
    parts = [token_weighted(torch.tensor(loss), tokens, total=4) for loss, tokens in ((1.0, 1), (6.0, 3))]
    assert sum(parts).item() == 1.75
