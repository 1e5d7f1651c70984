"""What a stage does: layers that work in place, draw at random, are computed again, or mix rows."""

import copy
from collections.abc import Callable
from itertools import count

import pytest
import torch
from torch import nn
from torch.nn import functional

from pllab.pipeline import Pipe
from pllab.pipeline.randomness import _drops_nothing, _SeededDispatch
from pllab.schedule import Schedule, gpipe, one_f_one_b, zb_h1
from tests.pipeline.steps import ENGINES, Apply, Loss, assert_close, gradients_of, mse, plain_step, step_on


@pytest.mark.parametrize(
    "first", [nn.ReLU(inplace=True), nn.Sequential(nn.Flatten(), nn.LeakyReLU(0.1, inplace=True))], ids=["", "view"]
)
@pytest.mark.parametrize(
    ("engine", "make", "recompute"),
    [*(("lanes", make, False) for make in (gpipe, one_f_one_b, zb_h1)), ("pipe", gpipe, False), ("pipe", gpipe, True)],
)
def test_stages_that_begin_in_place_give_the_plain_models_loss_and_gradients_and_leave_the_batch(
    first: nn.Module, engine: str, make: Callable[[int, int], Schedule], recompute: bool
) -> None:
    """Each ends with a result that its backward needs again; with recompute it begins twice from what came in."""
    torch.manual_seed(0)
    stages = [nn.Sequential(first, nn.Linear(4, 4), nn.Tanh()) for _ in range(3)]
    x, y = torch.randn(2, 6, 4)
    before, (expected, gradients) = x.clone(), plain_step(stages, x, y)
    loss, _ = step_on(engine, stages, x, y, make=make, recompute=recompute)
    assert loss == pytest.approx(expected, abs=1e-6) and torch.equal(x, before)
    assert_close(gradients_of(*stages), gradients)


class Scale(nn.Module):
    """Scales its rows by weights that an index picks, and passes the index on."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((3,), 2.0))

    def forward(self, value: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        x, index = value
        return x * self.weight[index], index


@pytest.mark.parametrize("engine", ENGINES)
def test_tuples_travel_and_whole_numbers_carry_no_gradient(engine: str) -> None:
    def loss(output: tuple[torch.Tensor, torch.Tensor], target: torch.Tensor) -> torch.Tensor:
        assert torch.equal(output[1], target) and not output[1].requires_grad
        return output[0].square().mean()

    stages = [Scale(), Scale(), Scale()]
    x, index = torch.randn(6, requires_grad=True), torch.tensor([0, 1, 2, 0, 1, 2])
    expected, gradients = plain_step(stages, (x, index), index, loss)
    of_x, x.grad = x.grad, None
    assert step_on(engine, stages, (x, index), index, loss)[0] == pytest.approx(expected, rel=1e-6)
    assert_close(gradients_of(*stages), gradients)
    if engine == "pipe":  # an executor's batch gets none
        assert_close([x.grad], [of_x])


def adds_one() -> nn.Module:
    """Overwrites its input, and does not say so."""
    return Apply(lambda x: x.add_(1))


@pytest.mark.parametrize(("engine", "recompute"), [("lanes", False), ("pipe", True)])
def test_a_stage_that_overwrites_its_input_unannounced_is_named(engine: str, recompute: bool) -> None:
    stages, x = [nn.Linear(4, 4), nn.Sequential(adds_one(), nn.Linear(4, 4))], torch.randn(6, 4)
    with pytest.raises(RuntimeError, match="in-place operation") as caught:
        step_on(engine, stages, x, x, make=gpipe, recompute=recompute)
    assert "stage 1, micro-batch 0" in caught.value.__notes__[0]


def to_complex() -> nn.Module:
    """Real features in, complex ones out; their conjugates, which torch leaves as a note on the tensor."""
    return nn.Sequential(nn.Linear(4, 4), Apply(lambda y: torch.complex(y, y.square()).conj()))


def distance(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output - target).abs().square().mean()


def tied_twice() -> list[nn.Module]:
    first, last = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    last[0].weight = last[2].weight = first.weight
    return [first, last]


CHAINS: dict[str, Callable[[], list[nn.Module]]] = {
    "complex numbers at the end": lambda: [to_complex(), nn.Linear(4, 4, dtype=torch.complex64)],
    "complex numbers between stages": lambda: [to_complex(), nn.Sequential(Apply(lambda x: x.abs() + x.angle()))],
    "no layers in the last stage": lambda: [nn.Linear(4, 4), nn.Identity()],  # what comes out is what came in
    "a weight tied twice within a later stage": tied_twice,
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("chain", CHAINS)
def test_whatever_the_stages_are_gradients_are_the_plain_models(chain: str, recompute: bool, engine: str) -> None:
    torch.manual_seed(0)
    stages, (x, y) = CHAINS[chain](), torch.randn(2, 6, 4)
    _, gradients = plain_step(stages, x, y, distance)
    step_on(engine, stages, x, y, distance, recompute=recompute)
    assert_close(gradients_of(*stages), gradients)


CALLS = count(1)


@pytest.mark.parametrize(
    ("engine", "layers", "loss"),
    [
        ("pipe", (adds_one(), nn.Linear(4, 4)), mse),  # autograd does not mind what needs no gradient
        ("lanes", (nn.Linear(4, 4), Apply(lambda x: x * next(CALLS))), mse),
        # absolute values stay
        ("pipe", (to_complex(), Apply(lambda x: x * torch.exp(torch.tensor(1j * next(CALLS))))), distance),
    ],
)
def test_another_result_of_a_recomputation_is_refused(engine: str, layers: tuple[nn.Module, ...], loss: Loss) -> None:
    """Numbers that torch did not draw, or a state that the first forward changed: the gradients would be wrong."""
    words = "stage 0 computed micro-batch . again and got another result; let its layers .*overwrite no"
    with pytest.raises(ValueError, match=words):
        step_on(engine, [nn.Sequential(*layers)], *torch.randn(2, 6, 4), loss, recompute=True)


@pytest.mark.parametrize("engine", ENGINES)
def test_kernels_that_need_no_graph_do_not_make_a_recomputation_another(engine: str) -> None:
    """Without a graph the layer would take a fast path, which rounds otherwise, in bfloat16 by more than is allowed."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).to(torch.bfloat16).eval()
    found, (x, y) = [], torch.randn(2, 6, 16, 64, dtype=torch.bfloat16)
    for recompute in (False, True):
        stages = [copy.deepcopy(layer)]
        step_on(engine, stages, x, y, recompute=recompute)
        found.append(gradients_of(*stages))
    assert all(map(torch.equal, *found))


DRAWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "functional.dropout": lambda x: functional.dropout(x, 0.5),
    "attention": lambda x: functional.scaled_dot_product_attention(*[x.view(len(x), 2, 2, -1)] * 3, dropout_p=0.5),
    "rrelu": lambda x: functional.rrelu(x, training=True),
    "randn_like": lambda x: x + torch.randn_like(x),
    "rand": lambda x: x * torch.rand(x.shape[1]),
    "dropout1d": lambda x: functional.dropout1d(x.unsqueeze(0), 0.5),
    "bernoulli": lambda x: x * torch.bernoulli(torch.full_like(x, 0.5)),
}


IN_PLACE = " in place"


class Draws(nn.Module):
    """Draws at random in training, in a way that is no `nn.Dropout`."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return DRAWS[self.how](x).view_as(x) if self.training else x


class InPlace(nn.Dropout):
    """Drops in what it is given, and looks at no result."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        functional.dropout(x, self.p, self.training, inplace=True)
        return x


def drawn(how: str, engine: str, recompute: bool) -> list[torch.Tensor]:
    torch.manual_seed(0)
    draws = {"nn.Dropout": nn.Dropout(), f"nn.Dropout{IN_PLACE}": InPlace()}.get(how) or Draws(how)
    stages = [nn.Sequential(nn.Linear(8, 8), copy.deepcopy(draws), nn.Linear(8, 8)) for _ in range(3)]
    x = torch.randn(6, 8)
    torch.manual_seed(3)
    loss, _ = step_on(engine, stages, x, x, recompute=recompute)
    return [torch.tensor(loss), *gradients_of(*stages)]


@pytest.mark.parametrize("how", ["nn.Dropout", f"nn.Dropout{IN_PLACE}", *DRAWS])
def test_whatever_a_stage_draws_follows_the_seed_with_recomputation_and_on_every_engine(how: str) -> None:
    """The masks of the second forward were others, and on lanes they depended on which thread came first."""
    wanted = drawn(how.removesuffix(IN_PLACE), "pipe", recompute=False)
    for engine in ENGINES:
        kept, again = (drawn(how, engine, recompute) for recompute in (False, True))
        assert all(map(torch.equal, again, kept)), "a second forward has the bits of the first"
        assert_close(kept, wanted)


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


@pytest.mark.parametrize(("dropout", "train", "answer"), [(0.0, True, True), (0.5, False, True), (0.5, True, False)])
def test_an_lstm_of_a_gpu_without_dropout_or_out_of_training_drops_nothing(
    dropout: float, train: bool, answer: bool
) -> None:
    for kernel in (torch.ops.aten._cudnn_rnn.default, torch.ops.aten.miopen_rnn.default):
        assert _drops_nothing(kernel, (), {"dropout": dropout, "train": train}) is answer


def test_the_gpu_s_one_kernel_of_dropout_is_replaced_by_ours() -> None:
    x = torch.ones(100, 100, requires_grad=True)
    with _SeededDispatch(torch.Generator().manual_seed(1), "stage 0"):
        y, kept = torch.ops.aten.native_dropout(x, 0.25, True)
    y.sum().backward()
    assert y.unique().tolist() == pytest.approx([0.0, 4 / 3]) and abs(kept.float().mean() - 0.75) < 0.03
    assert torch.equal(x.grad != 0, kept)


def test_batch_normalisation_by_the_rows_at_hand_is_refused_by_name() -> None:
    """In training, and always if it keeps no statistics."""
    stages = [nn.Sequential(nn.Linear(4, 4)), nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 4))]
    with Pipe.from_partitions(stages, ["cpu:0", "cpu:1"], 2) as pipe:
        with pytest.raises(ValueError, match=r"stage 1 has a BatchNorm1d in training mode, .*; use LayerNorm"):
            pipe(torch.randn(4, 4))
        pipe.eval()
        assert pipe(torch.randn(4, 4)).shape == (4, 4)
        stages[1][0].running_mean = None
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
