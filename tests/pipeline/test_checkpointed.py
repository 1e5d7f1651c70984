import gc
import weakref

import pytest
import torch
from torch import nn

from pllab.pipeline import checkpointed, live_saved_bytes


def stage_of(dropout=0.5):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Dropout(dropout), nn.Linear(32, 6))


def gradients(call, stages, count=3):
    torch.manual_seed(1)
    inputs = [torch.randn(4, 6, requires_grad=True) for _ in range(count)]
    outputs = []
    for x in inputs:
        value = x
        for stage in stages:
            value = call(stage, value)
        outputs.append(value)
    for output in outputs:
        output.square().mean().backward()
    return [leaf.grad for leaf in (*inputs, *(weight for stage in stages for weight in stage.parameters()))]


@pytest.mark.parametrize("num_stages", [1, 2])
def test_gradients_are_the_plain_ones_bit_for_bit_with_dropout(num_stages):
    plain = gradients(lambda stage, x: stage(x), [stage_of() for _ in range(num_stages)])
    mine = gradients(checkpointed, [stage_of() for _ in range(num_stages)])
    assert all(torch.equal(a, b) for a, b in zip(plain, mine, strict=True))


def test_the_generator_goes_on_as_if_each_forward_ran_once():
    stage, x = stage_of(), torch.randn(4, 6)
    torch.manual_seed(2)
    stage(x), stage(x)
    wanted = torch.rand(3)
    torch.manual_seed(2)
    first, _ = checkpointed(stage, x), checkpointed(stage, x)
    first.sum().backward()  # draws what was drawn two forwards ago
    assert torch.equal(torch.rand(3), wanted)


def test_only_the_input_is_kept_and_only_while_it_is_needed():
    stage = stage_of()
    x = torch.randn(4, 6)
    with live_saved_bytes([stage]) as saved:
        output = checkpointed(stage, x)
        assert saved.now == (4 * 6 * 4,)
        output.sum().backward()
    assert saved.peak[0] > 4 * 32 * 4
    gone = weakref.ref(x)
    del x, output
    gc.collect()
    assert gone() is None


def test_parameters_learn_where_the_input_needs_no_gradient():
    stage, ids = nn.Sequential(nn.Embedding(5, 6), nn.Linear(6, 2)), torch.arange(5)
    checkpointed(stage, ids).sum().backward()
    mine = [weight.grad.clone() for weight in stage.parameters()]
    stage.zero_grad()
    stage(ids).sum().backward()
    assert all(torch.equal(weight.grad, grad) for weight, grad in zip(stage.parameters(), mine, strict=True))


def test_the_gradient_stops_at_the_input_and_goes_on_from_there():
    stage, scale = stage_of(0.0), torch.ones(6, requires_grad=True)
    x = torch.randn(4, 6)
    checkpointed(stage, x * scale).sum().backward()
    mine = scale.grad.clone()
    scale.grad = None
    stage(x * scale).sum().backward()
    assert torch.equal(mine, scale.grad)
