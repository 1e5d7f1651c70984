"""What a loss asks of a GPU: nothing waits for it but the one number that a step returns."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pllab.pipeline.split import Score
from pllab.train.stages import mean_loss


class Reads(TorchDispatchMode):
    """Counts the numbers that the host reads from tensors."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def test_the_loss_of_a_batch_is_read_once() -> None:
    targets = [(torch.zeros(rows, 2),) for rows in (3, 1)]
    score = Score(torch.nn.functional.mse_loss, targets, None, torch.device("cpu"))
    with Reads() as reads:
        total = score.total([torch.tensor(1.0), torch.tensor(5.0)])
    assert total == 2.0 and reads.count == 1


def test_targets_are_counted_before_they_are_moved() -> None:
    counted = []

    def count(labels: torch.Tensor) -> int:
        counted.append(labels.device.type)
        return len(labels)

    Score(torch.nn.functional.mse_loss, [(torch.zeros(2, 2),)], count, torch.device("meta"))
    assert counted == ["cpu"]


def test_the_mean_over_targets_is_divided_where_it_is() -> None:
    labels = torch.tensor([[1, 2, -100], [1, -100, -100]])
    with Reads() as reads:
        loss = mean_loss(torch.tensor([2.0, 4.0]), labels)
    assert reads.count == 0
    assert loss == 6.0  # one target: the first of a row is predicted by nothing
    assert mean_loss(torch.zeros(1), torch.full((1, 3), -100)) == 0.0
