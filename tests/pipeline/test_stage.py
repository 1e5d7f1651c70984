"""What a stage does: layers that work in place, draw at random, are computed again, or mix rows."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

from pllab.pipeline import LaneExecutor, Pipe, WithDevice
from pllab.pipeline.randomness import _drops_nothing, _SeededDispatch
from pllab.pipeline.stage import overwrites_input
from pllab.schedule import Schedule, gpipe, one_f_one_b, zb_h1
from tests.pipeline import programs
from tests.pipeline.programs import IN_PLACE

mse = nn.functional.mse_loss


def expected(stages: list[nn.Sequential], x: torch.Tensor, y: torch.Tensor) -> tuple[float, list[torch.Tensor]]:
    """Loss and gradients of a plain chain in which nothing works in place."""
    plain = copy.deepcopy(nn.Sequential(*stages))
    for part in plain.modules():
        if hasattr(part, "inplace"):
            part.inplace = False
    loss = mse(plain(x), y)
    loss.backward()
    return loss.item(), [parameter.grad for parameter in plain.parameters()]


def assert_gradients(stages: list[nn.Sequential], gradients: list[torch.Tensor]) -> None:
    for parameter, gradient in zip(nn.Sequential(*stages).parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


@pytest.mark.parametrize("make", [gpipe, one_f_one_b, zb_h1])
@pytest.mark.parametrize("first", IN_PLACE)
def test_lanes_give_the_plain_models_loss_and_gradients_and_leave_the_batch(
    first: str, make: Callable[[int, int], Schedule]
) -> None:
    stages, (x, y) = programs.stages_in_place(first, 3), programs.batch_in_place()
    loss, gradients = expected(stages, x, y)
    before = x.clone()
    with LaneExecutor(make(3, 3), stages, mse, timeout_s=20) as executor:
        assert executor.step(x, y).loss == pytest.approx(loss, abs=1e-6)
    assert torch.equal(x, before)
    assert_gradients(stages, gradients)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("first", IN_PLACE)
def test_a_pipe_gives_the_plain_models_loss_and_gradients(first: str, recompute: bool) -> None:
    """With recompute the layers run twice, and both times from what came in."""
    stages, (x, y) = programs.stages_in_place(first, 3), programs.batch_in_place()
    loss, gradients = expected(stages, x, y)
    lanes = ["cpu:0", "cpu:1", "cpu:2"]
    with Pipe.from_partitions(stages, lanes, num_microbatches=3, recompute=recompute, timeout_s=20) as pipe:
        found = mse(pipe(x), y)
        found.backward()
    assert found.item() == pytest.approx(loss, abs=1e-6)
    assert_gradients(stages, gradients)


def dropped(inplace: bool, recompute: bool) -> list[torch.Tensor]:
    torch.manual_seed(0)
    stages = [nn.Sequential(nn.Dropout(0.5, inplace), nn.Linear(4, 4)) for _ in range(2)]
    x = torch.randn(6, 4)
    with Pipe.from_partitions(stages, ["cpu:0", "cpu:1"], num_microbatches=3, recompute=recompute) as pipe:
        pipe(x).square().sum().backward()
    return [parameter.grad for parameter in nn.Sequential(*stages).parameters()]


def test_dropout_in_place_drops_what_dropout_drops() -> None:
    wanted = dropped(False, False)
    for recompute in (False, True):
        for ours, theirs in zip(dropped(True, recompute), wanted, strict=True):
            torch.testing.assert_close(ours, theirs)


class AddsOne(nn.Module):
    """Overwrites its input, and does not say so."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x += 1
        return x


def test_a_stage_that_overwrites_its_input_unannounced_is_named() -> None:
    stages = [nn.Sequential(nn.Linear(4, 4)), nn.Sequential(AddsOne(), nn.Linear(4, 4))]
    x = torch.randn(4, 4)
    with LaneExecutor(gpipe(2, 2), stages, mse, timeout_s=20) as executor:
        with pytest.raises(RuntimeError, match="in-place operation") as caught:
            executor.step(x, x)
    assert "stage 1, micro-batch 0" in caught.value.__notes__[0]
    lanes = ["cpu:0", "cpu:1"]
    with Pipe.from_partitions(stages, lanes, num_microbatches=2, recompute=True, timeout_s=20) as pipe:
        with pytest.raises(RuntimeError, match="in-place operation") as caught:
            pipe(x).sum().backward()
    assert "stage 1, micro-batch 0" in caught.value.__notes__[0]


def test_recomputation_refuses_a_stage_that_overwrites_what_needs_no_gradient() -> None:
    """Autograd does not mind, and the second forward would begin where the first one ended."""
    with Pipe.from_partitions([nn.Sequential(AddsOne(), nn.Linear(4, 4))], ["cpu:0"], 2, recompute=True) as pipe:
        with pytest.raises(ValueError, match="stage 0 computed micro-batch . again .*; let its layers .*overwrite no"):
            pipe(torch.randn(4, 4)).sum().backward()


@pytest.mark.parametrize(
    ("stage", "answer"),
    [
        (nn.ReLU(inplace=True), True),
        (nn.Sequential(nn.Flatten(), nn.Sequential(WithDevice(nn.ReLU(inplace=True), "cpu:0"))), True),
        (nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True)), False),
        (nn.Sequential(WithDevice(nn.Sequential(nn.Linear(2, 2)), "cpu:0"), nn.ReLU(inplace=True)), False),
        (nn.Sequential(nn.ReLU(), nn.Tanh()), False),
    ],
)
def test_only_stages_that_need_a_copy_get_one(stage: nn.Module, answer: bool) -> None:
    assert overwrites_input(stage) is answer


class ToComplex(nn.Linear):
    """Real features in, complex ones out; their conjugates, which torch leaves as a note on the tensor."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        return torch.complex(y, y.square()).conj()


class FromComplex(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.abs() + x.angle())


class Turns(nn.Module):
    """Turns complex numbers by another angle at every call; their absolute values stay."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * torch.exp(torch.tensor(1j * self.calls))


def distance(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output - target).abs().square().mean()


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("num_stages", [2, 3])
def test_complex_outputs_have_the_plain_models_gradients(num_stages: int, recompute: bool) -> None:
    """Two of three stages end in complex numbers, or the last of two; a pipe's loss, unlike a lane's, is outside."""
    torch.manual_seed(0)
    layers = [ToComplex(4, 4), nn.Linear(4, 4, dtype=torch.complex64), FromComplex(4, 4)][:num_stages]
    stages, x = [nn.Sequential(layer) for layer in layers], torch.randn(6, 4)
    plain = nn.Sequential(*copy.deepcopy(layers))
    distance(plain(x), x).backward()
    lanes = [f"cpu:{number}" for number in range(num_stages)]
    for engine in ("pipe", "lanes"):
        nn.Sequential(*stages).zero_grad()
        if engine == "pipe":
            with Pipe.from_partitions(stages, lanes, num_microbatches=3, recompute=recompute, timeout_s=20) as pipe:
                distance(pipe(x), x).backward()
        else:
            with LaneExecutor(zb_h1(num_stages, 3), stages, distance, recompute=recompute, timeout_s=20) as executor:
                executor.step(x, x)
        assert_gradients(stages, [parameter.grad for parameter in plain.parameters()])


def test_complex_outputs_are_compared_when_they_are_computed_again_and_a_complex_loss_is_refused() -> None:
    stages, x = [nn.Sequential(ToComplex(4, 4), Turns()), nn.Sequential(FromComplex(4, 4))], torch.randn(4, 4)
    with LaneExecutor(gpipe(2, 2), stages, mse, recompute=True, timeout_s=20) as executor:
        with pytest.raises(ValueError, match="stage 0 computed micro-batch . again and got another result"):
            executor.step(x, x)
    with LaneExecutor(gpipe(1, 2), [ToComplex(4, 4)], lambda out, _: out.mean(), timeout_s=20) as executor:
        with pytest.raises(ValueError, match=r"the loss is torch.complex64 \[\]; return a tensor of one real number"):
            executor.step(x, x)


class Draws(nn.Module):
    """Draws at random in a way that is no `nn.Dropout`."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        match self.how:
            case "functional.dropout":
                return nn.functional.dropout(x, 0.5, self.training)
            case "attention":
                q = x.view(len(x), 2, 2, -1)
                return nn.functional.scaled_dot_product_attention(q, q, q, dropout_p=0.5).flatten(1)
            case "rrelu":
                return nn.functional.rrelu(x, training=True)
            case "randn_like":
                return x + torch.randn_like(x)
            case "rand":
                return x * torch.rand(x.shape[1])
            case "dropout1d":
                return nn.functional.dropout1d(x.unsqueeze(0), 0.5).squeeze(0)
        return x * torch.bernoulli(torch.full_like(x, 0.5))


HOW = ["functional.dropout", "attention", "rrelu", "randn_like", "rand", "dropout1d", "bernoulli"]


def drawn(how: str, recompute: bool, executor: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    stages = [nn.Sequential(nn.Linear(8, 8), Draws(how), nn.Linear(8, 8)) for _ in range(3)]
    x, lanes = torch.randn(6, 8), ["cpu:0", "cpu:1", "cpu:2"]
    torch.manual_seed(3)
    if executor == "pipe":
        with Pipe.from_partitions(stages, lanes, num_microbatches=3, recompute=recompute, timeout_s=20) as pipe:
            for _ in range(2):  # what draws is noticed in the first forward, and known in the second
                loss = mse(pipe(x), x)
                loss.backward()
    else:
        with LaneExecutor(zb_h1(3, 3), stages, mse, recompute=recompute, timeout_s=20) as lanes_of:
            for _ in range(2):
                loss = torch.tensor(lanes_of.step(x, x).loss)
    return [loss.detach(), *(parameter.grad for stage in stages for parameter in stage.parameters())]


@pytest.mark.parametrize("how", HOW)
def test_whatever_a_stage_draws_follows_the_seed_with_recomputation_and_on_every_engine(how: str) -> None:
    """The masks of the second forward were others, and on lanes they depended on which thread came first."""
    wanted = drawn(how, recompute=False, executor="pipe")
    others = [drawn(how, recompute, executor) for executor in ("pipe", "lanes") for recompute in (False, True)]
    for other in others:
        for ours, theirs in zip(other, wanted, strict=True):
            torch.testing.assert_close(ours, theirs)


def test_draws_differ_between_stages_micro_batches_and_batches() -> None:
    stages = [nn.Sequential(Draws("randn_like")) for _ in range(2)]
    with Pipe.from_partitions(stages, ["cpu:0", "cpu:1"], 1) as pipe, torch.no_grad():
        first, second = pipe(torch.zeros(2, 8)), pipe(torch.zeros(2, 8))
    rows = [*first, *second]
    assert len({tuple(row.tolist()) for row in rows}) == 4


def test_a_stage_that_begins_to_draw_when_it_trains_is_noticed() -> None:
    """Evaluating first, it draws nothing; what is known of one mode says nothing of the other."""
    torch.manual_seed(0)
    stages = [nn.Sequential(nn.Linear(8, 8), Draws("functional.dropout")) for _ in range(2)]
    seen = []
    with Pipe.from_partitions(stages, ["cpu:0", "cpu:1"], 1) as pipe, torch.no_grad():
        pipe.eval()
        pipe(torch.ones(4, 8))
        pipe.train()
        for _ in range(3):
            torch.manual_seed(1)
            seen.append(pipe(torch.ones(4, 8)))
    assert torch.equal(seen[0], seen[1]) and torch.equal(seen[0], seen[2]) and (seen[0] == 0).any()


def test_a_kernel_that_draws_without_a_generator_is_refused_by_name() -> None:
    attention = torch.ops.aten._scaled_dot_product_flash_attention.default
    mode = _SeededDispatch(torch.Generator(), "stage 1")
    with pytest.raises(ValueError, match="stage 1 calls _scaled_dot_product_flash_attention, which draws inside"):
        mode.__torch_dispatch__(attention, (), (), {"dropout_p": 0.1})
    assert _drops_nothing(attention, (), {"dropout_p": 0.0}) and not _drops_nothing(attention, (), {"dropout_p": 0.1})


def test_the_gpu_s_one_kernel_of_dropout_is_replaced_by_ours() -> None:
    x = torch.ones(100, 100, requires_grad=True)
    with _SeededDispatch(torch.Generator().manual_seed(1), "stage 0"):
        y, kept = torch.ops.aten.native_dropout(x, 0.25, True)
    y.sum().backward()
    assert y.unique().tolist() == pytest.approx([0.0, 4 / 3]) and abs(kept.float().mean() - 0.75) < 0.03
    assert torch.equal(x.grad != 0, kept)


def test_a_recomputation_with_another_result_is_refused() -> None:
    """Numbers that torch did not draw, or a state that the first forward changed: the gradients would be wrong."""

    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x * self.calls

    stages = [nn.Sequential(nn.Linear(4, 4)), nn.Sequential(Counts(), nn.Linear(4, 4))]
    with LaneExecutor(gpipe(2, 2), stages, mse, recompute=True, timeout_s=20) as executor:
        with pytest.raises(ValueError, match="stage 1 computed micro-batch 0 again and got another result"):
            executor.step(torch.ones(4, 4), torch.ones(4, 4))


def test_batch_normalisation_in_training_is_refused_by_name() -> None:
    stages = [nn.Sequential(nn.Linear(4, 4)), nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 4))]
    with Pipe.from_partitions(stages, ["cpu:0", "cpu:1"], 2) as pipe:
        with pytest.raises(ValueError, match=r"stage 1 has a BatchNorm1d in training mode, .*; use LayerNorm"):
            pipe(torch.randn(4, 4))
        pipe.eval()
        assert pipe(torch.randn(4, 4)).shape == (4, 4)


def test_batch_normalisation_that_always_takes_the_rows_at_hand_is_refused_in_eval_too() -> None:
    bare = nn.BatchNorm1d(4, track_running_stats=False).eval()
    with Pipe.from_partitions([nn.Sequential(bare)], ["cpu:0"], 2) as pipe:
        with pytest.raises(ValueError, match="without running statistics, .*; use LayerNorm or GroupNorm(?!,)"):
            pipe(torch.randn(4, 4))


def test_a_stage_with_a_sparse_buffer_and_one_made_under_inference_mode_is_recomputed() -> None:
    with torch.inference_mode():
        scale = torch.ones(4)
    kept = nn.Linear(4, 4)
    kept.register_buffer("scale", scale)
    kept.register_buffer("edges", torch.eye(4).to_sparse())
    with Pipe.from_partitions([nn.Sequential(kept)], ["cpu:0"], 2, recompute=True) as pipe:
        pipe(torch.randn(4, 4)).sum().backward()
    assert kept.weight.grad is not None


class CountsInABuffer(nn.Linear):
    """Counts its forwards in a buffer, which it changes, replaces or makes."""

    def __init__(self, how: str) -> None:
        super().__init__(4, 4)
        self.register_buffer("calls", None if how == "made" else torch.zeros(()))
        self.how = how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.how == "written":
            self.calls += 1
        else:
            self.calls = torch.ones(())
        return super().forward(x)


@pytest.mark.parametrize("how", ["written", "replaced", "made"])
def test_recomputation_refuses_a_stage_that_changes_a_buffer(how: str) -> None:
    """It would change it twice a batch, and the second forward would begin with another one."""
    with Pipe.from_partitions([nn.Sequential(CountsInABuffer(how))], ["cpu:0"], 2, recompute=True) as pipe:
        with pytest.raises(ValueError, match="stage 0 changes a buffer in its forward"):
            pipe(torch.randn(4, 4))
        with torch.no_grad():
            pipe(torch.randn(4, 4))  # nothing is computed again
    assert pipe.partitions[0].get_buffer("0.calls") >= 1


@pytest.mark.parametrize("make", [gpipe, one_f_one_b, zb_h1])
def test_recomputation_gives_the_same_gradients_in_an_executor_and_is_timed(
    make: Callable[[int, int], Schedule],
) -> None:
    torch.manual_seed(0)
    stages = [nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 4)) for _ in range(2)]
    x, seen = torch.randn(6, 4), []
    for recompute in (False, True):
        nn.Sequential(*stages).zero_grad()
        with LaneExecutor(make(2, 3), stages, mse, recompute=recompute, timeout_s=20) as executor:
            torch.manual_seed(5)
            step = executor.step(x, x)
        seen.append([step.loss, *(parameter.grad.clone() for stage in stages for parameter in stage.parameters())])
    assert seen[0][0] == seen[1][0] and all(map(torch.equal, seen[0][1:], seen[1][1:]))
    kinds = [span.action.kind for span in step.timeline.of_rank(0)]
    assert kinds.count("R") == 3 and all(kinds[at + 1] in "BI" for at, kind in enumerate(kinds) if kind == "R")
