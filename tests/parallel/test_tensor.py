"""The split layers against the whole ones, on 2 and on 4 ranks; each number of ranks is started once."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional

from pllab import comm
from pllab.parallel.tensor import (
    ColumnParallelLinear,
    RowParallelLinear,
    SlicedLayerNorm,
    Split,
    VocabParallelEmbedding,
    bounds,
    copy_in,
    gather_in,
    reduce_out,
    scatter_out,
    split_of,
    to_slice,
    to_whole,
    vocab_parallel_cross_entropy,
)
from tests.parallel.programs import whole_state

Results = list[dict[str, Any]]
IN, HIDDEN, OUT, VOCABULARY, TIME = 6, 7, 5, 11, 8  # no number of ranks divides the hidden features and the vocabulary
STEPS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "copy_in": copy_in,
    "reduce_out": reduce_out,
    "gather_in": lambda x: gather_in(x, 0),
    "scatter_out": lambda x: scatter_out(x, 0),
    "to_slice": lambda x: to_slice(x, 0),
    "to_whole": lambda x: to_whole(x, 0),
}


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
        self.norm = nn.LayerNorm(IN)
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


def layers(rank: int, world_size: int) -> dict[str, Any]:
    model = Parallel(Whole())
    outputs = model(batch())
    weighted(outputs).backward()
    with comm.record_messages() as ledger:
        state = whole_state(model)
    return {
        "outputs": {name: y.detach() for name, y in outputs.items()},
        "grads": {name: p.grad for name, p in model.named_parameters()},
        "splits": {name: split_of(p) for name, p in model.named_parameters()},
        "shapes": {name: tuple(p.shape) for name, p in model.named_parameters()},
        "holds": {name: p.untyped_storage().nbytes() // p.element_size() for name, p in model.named_parameters()},
        "state": state,
        "num_messages": ledger.count(),
        "is_tied": state["head.weight"] is state["embedding.weight"],
    }


def steps(rank: int, world_size: int) -> dict[str, Any]:
    """Value and gradient of each step: rank r has (1, ..., n) times 10 to the r, and ones as the gradient."""
    results = {}
    for name, step in STEPS.items():
        x = (torch.arange(1.0, 5.0) * 10**rank).requires_grad_()
        y = step(x)
        y.backward(torch.arange(1.0, len(y) + 1) * 10**rank)
        assert x.grad is not None
        results[name] = (y.tolist(), x.grad.tolist(), x.tolist())
    return results


def pair_messages(rank: int, world_size: int) -> dict[str, Any]:
    up, down = ColumnParallelLinear(IN, HIDDEN), RowParallelLinear(HIDDEN, OUT)
    x = torch.ones(3, TIME, IN, requires_grad=True)
    with comm.record_messages() as forward:
        y = down(up(x))
    with comm.record_messages() as backward:
        y.sum().backward()
    return {"forward": [m[:2] for m in seen(forward)], "backward": [m[:2] for m in seen(backward)]}


def norm_messages(rank: int, world_size: int) -> list[tuple[str, tuple[int, ...]]]:
    norm = SlicedLayerNorm.from_whole(nn.LayerNorm(IN))
    y = norm(torch.ones(3, 2, IN))
    with comm.record_messages() as ledger:
        y.sum().backward()
    return seen(ledger)


def seen(ledger: comm.Ledger) -> list[tuple[str, tuple[int, ...]]]:
    return [(message.name, message.shape) for message in ledger.messages]


def logits_and_targets(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    logits = (numbers(4, 5, VOCABULARY) * 3).to(dtype)
    logits[0] += 1e4  # the exponential of which is infinite
    targets = torch.randint(VOCABULARY, (4, 5), generator=torch.Generator().manual_seed(2))
    targets[1, 2:] = -100
    targets[2] = -100
    return logits, targets


def cross_entropy(rank: int, world_size: int, dtype: torch.dtype) -> dict[str, Any]:
    logits, targets = logits_and_targets(dtype)
    mine = logits.tensor_split(world_size, -1)[rank].clone().requires_grad_()
    saved: list[tuple[int, ...]] = []
    keep = torch.autograd.graph.saved_tensors_hooks(lambda t: (saved.append(tuple(t.shape)), t)[1], lambda t: t)
    with comm.record_messages() as ledger, keep:
        losses = vocab_parallel_cross_entropy(mine, targets, VOCABULARY)
        (losses * numbers(4, 5, seed=3)).sum().backward()
    return {"losses": losses.detach(), "grad": mine.grad, "messages": seen(ledger), "saved": saved}


def refusals(rank: int, world_size: int) -> dict[str, str]:
    """The sentences, which every rank says before it sends anything."""
    said = {}
    actions: dict[str, Callable[[], object]] = {
        "parts": lambda: ColumnParallelLinear.from_whole(torch.zeros(4, 2), parts=3),
        "scatter": lambda: scatter_out(torch.zeros(2, 7), 1),
        "id too large": lambda: VocabParallelEmbedding(VOCABULARY, 2)(torch.tensor([0, VOCABULARY])),
        "id below 0": lambda: VocabParallelEmbedding(VOCABULARY, 2)(torch.tensor([0, -1])),
        "target": lambda: vocab_parallel_cross_entropy(
            torch.zeros(2, bounds(VOCABULARY, rank, world_size)[1]), torch.tensor([0, VOCABULARY]), VOCABULARY
        ),
    }
    for name, action in actions.items():
        try:
            action()
        except (ValueError, IndexError, RuntimeError) as error:
            said[name] = str(error)
    return said


def everything(rank: int, world_size: int) -> dict[str, Any]:
    results = {
        "layers": layers(rank, world_size),
        "steps": steps(rank, world_size),
        "pair messages": pair_messages(rank, world_size),
        "norm messages": norm_messages(rank, world_size),
    }
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        results[f"loss {dtype}"] = cross_entropy(rank, world_size, dtype)
    return results | {"refusals": refusals(rank, world_size)}  # last: a message may be left under way


@pytest.fixture(scope="module", params=[2, 4])
def ranks(request: pytest.FixtureRequest, launch_quickly: Any) -> Results:
    return launch_quickly(everything, request.param)


def whole_run() -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor | None], Whole]:
    """Outputs and gradients of the whole layers; gradients in the layout of the split ones."""
    model = Whole()
    outputs = model(batch())
    weighted(outputs).backward()
    turned = {f"turned_{name}.weight" for name in ("up", "down")}
    grads = {n: p.grad.t() if n in turned and p.grad is not None else p.grad for n, p in model.named_parameters()}
    return outputs, grads, model


def joined(slices: list[torch.Tensor], split: Split | None) -> torch.Tensor:
    """The whole of the ranks' slices, put together part by part; what is whole must be equal on all ranks, in bits."""
    if split is None:
        assert all(torch.equal(slices[0], other) for other in slices)
        return slices[0]
    by_rank = [mine.chunk(split.parts, split.dim) for mine in slices]
    return torch.cat([torch.cat(pieces, split.dim) for pieces in zip(*by_rank, strict=True)], split.dim)


@pytest.mark.ranks
def test_outputs_are_those_of_the_whole_layers_on_every_rank(ranks: Results) -> None:
    outputs, _, _ = whole_run()
    for result in ranks:
        for name, y in outputs.items():
            torch.testing.assert_close(result["layers"]["outputs"][name], y, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.ranks
def test_gradients_are_slices_of_the_whole_ones(ranks: Results) -> None:
    _, grads, _ = whole_run()
    splits = ranks[0]["layers"]["splits"]
    assert grads.keys() == splits.keys()
    for name, expected in grads.items():
        mine = [result["layers"]["grads"][name] for result in ranks]
        if expected is None:
            assert name == "up.weight" and mine == [None] * len(ranks)  # frozen
        else:
            torch.testing.assert_close(
                joined(mine, splits[name]), expected, msg=lambda text, name=name: f"{name}: {text}"
            )


@pytest.mark.ranks
def test_slices_differ_by_one_at_most_and_say_how_they_are_split(ranks: Results) -> None:
    splits = ranks[0]["layers"]["splits"]
    assert splits["turned_up.weight"] == Split("tp", dim=1, parts=1, size=HIDDEN)
    assert splits["fused.weight"] == Split("tp", dim=0, parts=3, size=12)
    assert splits["down.bias"] is None and splits["norm.weight"] is None
    for name, split in splits.items():
        if split is not None:
            sizes = [result["layers"]["shapes"][name][split.dim] for result in ranks]
            assert sum(sizes) == split.size and max(sizes) - min(sizes) <= split.parts
            for result in ranks:  # the whole is not kept alive behind the slice
                assert result["layers"]["holds"][name] == math.prod(result["layers"]["shapes"][name])


@pytest.mark.ranks
def test_the_whole_state_is_the_one_before_bit_for_bit_and_a_tied_weight_travels_once(ranks: Results) -> None:
    before = Whole().state_dict()
    num_split = sum(split is not None for split in ranks[0]["layers"]["splits"].values())
    for result in ranks:
        layers = result["layers"]
        assert layers["is_tied"] and layers["num_messages"] == num_split
        assert layers["state"].keys() == before.keys()
        for name, value in layers["state"].items():
            expected = before[name].t() if name in ("turned_down.weight", "turned_up.weight") else before[name]
            assert torch.equal(value, expected), name


@pytest.mark.ranks
def test_each_step_is_the_backward_of_its_partner(ranks: Results) -> None:
    count = len(ranks)
    total, x = float(sum(10**rank for rank in range(count))), [1.0, 2.0, 3.0, 4.0]
    share = 4 // count

    def by(factor: float, values: list[float]) -> list[float]:
        return [factor * value for value in values]

    for rank, result in enumerate(ranks):
        own, mine = float(10**rank), slice(rank * share, (rank + 1) * share)
        side_by_side = [value for other in range(count) for value in by(10.0**other, x)]
        long = [float(number) for number in range(1, 4 * count + 1)]
        short = [float(number) for number in range(1, share + 1)]
        shorts = [value for other in range(count) for value in by(10.0**other, short)]
        expected = {
            "copy_in": (by(own, x), by(total, x)),
            "reduce_out": (by(total, x), by(own, x)),
            "gather_in": (side_by_side, by(total, long[4 * rank : 4 * rank + 4])),
            "scatter_out": (by(total, x[mine]), shorts),
            "to_slice": (by(own, x[mine]), shorts),
            "to_whole": (side_by_side, by(own, long[4 * rank : 4 * rank + 4])),
        }
        for name, (value, gradient) in expected.items():
            assert result["steps"][name] == (value, gradient, by(own, x)), name  # and the input is as it was


@pytest.mark.ranks
def test_a_pair_of_layers_sends_one_sum_forward_and_one_backward(ranks: Results) -> None:
    for result in ranks:
        assert result["pair messages"] == {
            "forward": [("all_reduce", (3, TIME, OUT))],
            "backward": [("all_reduce", (3, TIME, IN))],
        }
        assert result["norm messages"] == [("all_reduce", (2, IN))]


@pytest.mark.ranks
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_losses_on_split_logits_are_those_on_whole_ones(ranks: Results, dtype: torch.dtype) -> None:
    logits, targets = logits_and_targets(dtype)
    logits.requires_grad_()
    wide = logits.to(torch.promote_types(dtype, torch.float32))
    losses = functional.cross_entropy(wide.flatten(0, 1), targets.flatten(), reduction="none").view(4, 5)
    (losses * numbers(4, 5, seed=3)).sum().backward()
    grad = torch.cat([result[f"loss {dtype}"]["grad"] for result in ranks], -1)
    assert grad.dtype == dtype
    torch.testing.assert_close(grad, logits.grad)
    for result in ranks:
        torch.testing.assert_close(result[f"loss {dtype}"]["losses"], losses.detach())
        assert torch.equal(result[f"loss {dtype}"]["losses"], ranks[0][f"loss {dtype}"]["losses"])


@pytest.mark.ranks
def test_the_loss_sends_numbers_of_tokens_only_and_keeps_one_softmax(ranks: Results) -> None:
    for rank, result in enumerate(ranks):
        loss = result[f"loss {torch.float32}"]
        assert loss["messages"] == [("all_reduce", (4, 5)), ("all_reduce", (2, 4, 5))]
        assert loss["saved"].count((4, 5, bounds(VOCABULARY, rank, len(ranks))[1])) == 1
        assert all(shape[2:] in ((), (bounds(VOCABULARY, rank, len(ranks))[1],)) for shape in loss["saved"])


@pytest.mark.ranks
def test_refusals_come_on_every_rank(ranks: Results) -> None:
    count = len(ranks)
    for result in ranks:
        said = result["refusals"]
        assert said["parts"] == "dim 0 of [4, 2] has no 3 equal parts; give parts that divide it"
        assert said["scatter"] == (
            f"dim 1 of [2, 7] is 7, which {count} ranks cannot share equally; give a multiple of {count}"
        )
        assert all(said[name] for name in ("id too large", "id below 0", "target"))


def test_alone_layers_are_whole_and_send_nothing() -> None:
    whole = Whole()
    model = Parallel(whole)
    with comm.record_messages() as ledger:
        outputs = model(batch())
        weighted(outputs).backward()
    expected, grads, _ = whole_run()
    assert ledger.count() == 0
    for name, y in expected.items():
        torch.testing.assert_close(outputs[name], y)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, grads[name])


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
        assert "4, 6" in repr(mine) or isinstance(mine, VocabParallelEmbedding)


def test_layers_work_with_a_weight_put_in_their_place() -> None:
    """As a pipeline does with tied weights, and sharding with gathered ones."""
    ids, layers = batch(), Parallel(Whole())
    for layer, x in ((layers.embedding, ids), (layers.head, numbers(3, IN)), (layers.down, numbers(3, HIDDEN))):
        other = {"weight": 2 * layer.weight.detach()}
        bias = 0 if getattr(layer, "bias", None) is None else layer.bias
        torch.testing.assert_close(functional_call(layer, other, (x,)) + bias, 2 * layer(x))
