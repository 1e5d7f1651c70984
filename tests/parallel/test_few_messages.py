"""Fewer messages give the same gradients: against the loop over parameters, and against one process."""

from functools import partial

import pytest
import torch
from torch import nn

from pllab import comm
from pllab.parallel import accumulate_gradients, average_flat, average_gradients, average_in_backward


class Sample(nn.Module):
    """Two layers of different types, a frozen one, and a parameter that nothing uses."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(4, 3)
        self.frozen = nn.Linear(3, 3).requires_grad_(requires_grad=False)
        self.last = nn.Linear(3, 2).double()
        self.unused = nn.Parameter(torch.zeros(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.frozen(self.first(x)).tanh().double()).square().mean()


def data(rank: int, step: int = 0) -> torch.Tensor:
    return torch.randn(6, 4, generator=torch.Generator().manual_seed(10 * step + rank))


def gradients(model: nn.Module) -> list[torch.Tensor | None]:
    return [None if parameter.grad is None else parameter.grad.clone() for parameter in model.parameters()]


def by_the_loop(rank: int, step: int = 0) -> list[torch.Tensor | None]:
    model = Sample()
    model(data(rank, step)).backward()
    average_gradients(model)
    return gradients(model)


def same(ours: list[torch.Tensor | None], theirs: list[torch.Tensor | None]) -> bool:
    return all(
        (a is None and b is None) or torch.allclose(a, b, rtol=1e-6, atol=1e-7)  # type: ignore[arg-type]
        for a, b in zip(ours, theirs, strict=True)
    )


def program(rank: int, world_size: int) -> dict[str, object]:
    """Everything at once, because a launch takes seconds."""
    flat = Sample()
    flat(data(rank)).backward()
    with comm.record_messages() as ledger:
        average_flat(flat)
    seen: dict[str, object] = {"flat": same(gradients(flat), by_the_loop(rank)), "flat messages": ledger.count()}
    for bucket_bytes in (1, 60, 2**20):
        model = Sample()
        wait = average_in_backward(model, bucket_bytes)
        for step in range(2):
            model.zero_grad()
            model(data(rank, step)).backward()
            wait()
            seen[f"{bucket_bytes} bytes, step {step}"] = same(gradients(model), by_the_loop(rank, step))
    model, alone = Sample(), Sample()
    accumulate_gradients(model, model, [data(rank, step) for step in range(3)])
    alone(torch.cat([data(other, step) for other in range(world_size) for step in range(3)])).backward()
    seen["accumulated"] = same(gradients(model), gradients(alone))
    return seen


@pytest.mark.ranks
def test_few_messages_give_the_gradients_of_many() -> None:
    for seen in comm.launch(program, 2, backend="gloo", timeout_s=120.0):
        assert seen.pop("flat messages") == 2
        assert [name for name, right in seen.items() if not right] == []


class Nothing:
    """A message that arrives at once."""

    def wait(self) -> None:
        """It is there."""


def test_buckets_leave_in_the_order_of_the_plan_and_before_backward_ends() -> None:
    model = nn.Sequential(*(nn.Linear(4, 4, bias=False) for _ in range(3)))
    events: list[str] = []

    def send(flat: torch.Tensor) -> Nothing:
        events.append(f"message of {flat.numel()}")
        return Nothing()

    wait = average_in_backward(model, 1, send)
    for number, layer in enumerate(model):
        layer.weight.register_post_accumulate_grad_hook(lambda _, number=number: events.append(f"gradient {number}"))
    model(torch.ones(1, 4)).sum().backward()
    wait()
    # The last bucket carries three numbers more, which tell the parameters that were used.
    assert events == ["message of 16", "gradient 2", "message of 16", "gradient 1", "message of 19", "gradient 0"]


def test_a_model_without_gradients_sends_nothing() -> None:
    with comm.record_messages() as ledger:
        average_flat(nn.Linear(2, 2))
    assert ledger.count() == 0


def test_accumulating_costs_the_messages_of_one_backward() -> None:
    model = nn.Linear(4, 2)
    mean = partial(lambda layer, x: layer(x).mean(), model)
    with comm.record_messages() as ledger:
        accumulate_gradients(model, mean, [torch.ones(2, 4)] * 5)
    assert ledger.count() == 1
