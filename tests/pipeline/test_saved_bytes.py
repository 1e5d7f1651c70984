import copy
import gc

import pytest
import torch
from torch import nn

from pllab.pipeline import LaneExecutor, Pipe, live_saved_bytes
from pllab.schedule import gpipe, one_f_one_b, zb_h1
from tests.pipeline.steps import Apply, gradients_of, mse

ROWS, WIDTH = 4, 8
ONE = ROWS * WIDTH * 4  # bytes of an activation


@pytest.mark.parametrize("layer", [nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH).eval()])
def test_parameters_and_buffers_are_not_counted(layer):
    """The input alone, though autograd keeps the weight and the statistics too."""
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    with live_saved_bytes([layer]) as saved:
        out = layer(x)
    assert out.requires_grad
    assert saved.now == (ONE,)


def test_one_storage_counts_once_whatever_shares_it():
    def shares(x):
        return x.exp() * x.view(WIDTH, ROWS).t().sin().reshape(ROWS, WIDTH) * x

    module, x = Apply(shares), torch.randn(ROWS, WIDTH, requires_grad=True)
    with live_saved_bytes([module]) as saved:
        Apply(shares)(x)
        assert saved.now == (0,)  # another module of the class is not watched
        out = module(x)
    assert out.requires_grad
    assert saved.now == (4 * ONE,)  # x three ways, exp(x), the sines, and the first product


def test_a_view_keeps_its_whole_storage():
    layer = nn.Linear(WIDTH, 1)
    batch = torch.randn(10 * ROWS, WIDTH)
    with live_saved_bytes([layer]) as saved:
        outputs = [layer(batch[:ROWS]), layer(batch[ROWS : 2 * ROWS])]
    assert len(outputs) == 2
    assert saved.now == (10 * ONE,)


def test_bytes_fall_when_backward_frees_them_and_when_the_graph_goes_and_gradients_are_the_same():
    layer, x = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()), torch.randn(ROWS, WIDTH)
    plain = copy.deepcopy(layer)
    plain(x).sum().backward()
    with live_saved_bytes([layer]) as saved:
        first, second = layer(x.clone()), layer(x.clone())
        assert saved.now == (4 * ONE,)
        first.sum().backward()
        assert saved.now == (2 * ONE,)
        del second
        gc.collect()
        assert saved.now == (0,)
    assert all(map(torch.equal, gradients_of(layer), gradients_of(plain)))
    assert saved.peak == (4 * ONE,)
    steps = saved.over_time(0)
    layer(x)
    assert saved.over_time(0) == steps  # nothing is watched any more
    assert [seconds for seconds, _ in steps] == sorted(seconds for seconds, _ in steps)
    assert steps[0] == (0.0, ONE)
    assert steps[-1][1] == 0


def test_without_autograd_only_the_input_counts_while_it_lives():
    layer = nn.Linear(WIDTH, WIDTH)
    x = torch.randn(ROWS, WIDTH)
    with live_saved_bytes([layer]) as saved, torch.no_grad():
        layer(x)
    assert saved.now == (ONE,)
    del x
    assert saved.now == (0,)


def test_a_stage_that_fails_takes_its_hooks_along():
    def fail(x):
        raise ArithmeticError("no")

    module, x = Apply(fail), torch.randn(ROWS, WIDTH, requires_grad=True)
    with live_saved_bytes([module]) as saved:
        with pytest.raises(ArithmeticError):
            module(x)
        kept = x.exp()
    assert kept.requires_grad
    assert saved.now == (ONE,)  # the input; exp(x) was computed outside


@pytest.mark.parametrize("num_microbatches", [2, 8])
@pytest.mark.parametrize(("make", "bound"), [(gpipe, lambda m, s: m), (one_f_one_b, lambda m, s: min(m, 4 - s))])
def test_stages_on_lanes_hold_what_theory_says(make, bound, num_microbatches):
    stages = [nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(4)]
    x = torch.randn(2 * num_microbatches, 32)
    with live_saved_bytes(stages) as saved:
        with LaneExecutor(make(4, num_microbatches), stages, mse) as executor:
            executor.step(x, torch.zeros_like(x))
        gc.collect()
    one = 2 * 32 * 4
    held = [bound(num_microbatches, stage) for stage in range(4)]
    # A later stage keeps its input and its tanh; the first one's inputs are slices of the caller's batch.
    assert saved.peak[1:] == tuple(2 * one * count for count in held[1:])
    assert saved.peak[0] == one * held[0] + x.untyped_storage().nbytes()
    assert saved.now[1:] == (0, 0, 0)
    begins = [saved.over_time(stage)[0][0] for stage in range(4)]
    assert begins[0] == 0 and begins == sorted(set(begins))  # one clock, and no stage begins before the one before it


def test_a_tied_weight_is_not_counted():
    first, second = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
    second.weight = first.weight
    with live_saved_bytes([first, second]) as saved, LaneExecutor(zb_h1(2, 1), [first, second], mse) as executor:
        executor.step(*torch.randn(2, ROWS, WIDTH))
    assert saved.peak == (2 * ONE, ONE)  # of the input, its batch


@pytest.mark.parametrize("recompute", [False, True])
def test_a_recomputing_pipe_holds_inputs_and_one_micro_batch(recompute):
    stages = [nn.Sequential(*(nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(4))) for _ in range(2)]
    x = torch.randn(16, 32)
    with (
        live_saved_bytes(stages) as saved,
        Pipe.from_partitions(stages, ["cpu:0", "cpu:1"], num_microbatches=8, recompute=recompute) as pipe,
    ):
        pipe(x).sum().backward()
        gc.collect()
        assert saved.now[1] == 0
    one = 2 * 32 * 4
    assert saved.peak[1] == ((8 + 4) * one if recompute else 8 * 5 * one)
