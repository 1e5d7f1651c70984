import torch
from torch import nn

from pllab.pipeline import tie_gradients, tied_weights
from tests.pipeline.families import stages_of, tiny_gpt2


def copies(*grads: float | None) -> list[nn.Parameter]:
    made = [nn.Parameter(torch.ones(2)) for _ in grads]
    for copy, grad in zip(made, grads, strict=True):
        copy.grad = None if grad is None else torch.full((2,), grad)
    return made


def test_both_copies_get_the_sum_in_tensors_of_their_own() -> None:
    first, last = copies(1.0, 10.0)
    tie_gradients(first, last)
    assert first.grad.tolist() == last.grad.tolist() == [11.0, 11.0]
    first.grad.zero_()
    assert last.grad.tolist() == [11.0, 11.0]


def test_a_copy_without_a_gradient_counts_as_zero() -> None:
    for grads in ((1.0, None), (None, 1.0)):
        first, last = copies(*grads)
        tie_gradients(first, last)
        assert first.grad.tolist() == last.grad.tolist() == [1.0, 1.0]
        assert first.grad.data_ptr() != last.grad.data_ptr()
    first, last = copies(None, None)
    tie_gradients(first, last)
    assert first.grad is None and last.grad is None


def test_tied_weights_are_found_by_their_places() -> None:
    (places,) = tied_weights(stages_of(tiny_gpt2(), 4))
    assert [stage for stage, _ in places] == [0, 3]
    assert places[0][1].endswith("wte.weight") and places[1][1].endswith("lm_head.weight")
    assert tied_weights([nn.Linear(2, 2), nn.Linear(2, 2)]) == ()
