"""The training methods that race in lesson 16: the same model and rows, plain gradient descent, run in different ways.

Each is a whole training run with one signature, that of exercise 05.4, so that a learner's own can run beside them:

    train(rank, world_size, model, dataset, num_steps, batch_size, lr) -> loss of each step

`model` is a chain from token ids (rows, time) to logits (rows, time, vocabulary), `dataset[i]` is (ids, targets) of one
row. A batch is the whole data set, so the loss of a step does not depend on which rank took which rows.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from pllab import comm
from pllab.comm.devices import compute_threads
from pllab.models import GPT2LMHeadModelParallel, gpt2_config, layer_costs, layers_of
from pllab.models.layers import cut
from pllab.parallel import DataParallel
from pllab.pipeline import Pipe, balance, create_workers

Rows = Sequence[tuple[torch.Tensor, torch.Tensor]]
Train = Callable[..., Sequence[float]]

LANES = ("cpu:0", "cpu:1")
NUM_MICROBATCHES = 8  # of a pipeline that races


@dataclass(frozen=True)
class Entrant:
    """A training method of the race and how many ranks run it; the others wait meanwhile."""

    train: Train
    num_ranks: int = 1


@dataclass(frozen=True, kw_only=True)
class Track:
    """What all of them train: `Track(dataset=rows, vocab_size=1024)`.

    The embedding is not tied to the head, so that each stage has its own parameters (lesson 07).
    """

    dataset: Rows
    vocab_size: int
    num_layers: int = 4
    width: int = 192
    num_steps: int = 2
    lr: float = 0.5

    def model(self) -> nn.Sequential:
        """The GPT-2 as a chain of layers, with the same weights at each call."""
        torch.manual_seed(1234)
        return nn.Sequential(*layers_of(GPT2LMHeadModelParallel(self._config)))

    @property
    def sizes(self) -> list[int]:
        """How many layers each of two stages has, balanced."""
        return balance(layer_costs(self._config, len(self.dataset[0][0])), len(LANES))

    @property
    def tokens(self) -> int:
        """The tokens of one training."""
        return self.num_steps * sum(len(ids) for ids, _ in self.dataset)

    @property
    def _config(self) -> Any:
        sizes = {"n_layer": self.num_layers, "n_embd": self.width, "n_head": 4, "use_cache": False}
        return gpt2_config("tiny", self.vocab_size, tie_word_embeddings=False, **sizes)


def package_entrants(track: Track) -> dict[str, Entrant]:
    """The package's ways to train on this track; the first is the baseline."""
    return {
        "one lane": Entrant(one_lane),
        "two threads": Entrant(two_threads),
        "data parallel": Entrant(data_parallel, num_ranks=2),
        "naive model parallel": Entrant(partial(piped, track.sizes, 1)),
        "pipeline": Entrant(partial(piped, track.sizes, NUM_MICROBATCHES)),
    }


def own_entrants(track: Track, mine: Callable[[str], Any]) -> tuple[dict[str, Entrant], list[str]]:
    """The learner's training methods, as far as `mine` has them, and a sentence for each that cannot run.

    `mine("05.4")` is a whole training on two ranks, `mine("09.5")` a `pipe_step`; `mine` raises ValueError otherwise.
    """
    split_size = -(-len(track.dataset) // NUM_MICROBATCHES)
    made: dict[str, Callable[[], Entrant]] = {
        "your data parallel": lambda: Entrant(mine("05.4"), num_ranks=2),
        "your pipe": lambda: Entrant(partial(stepped, mine("09.5"), track.sizes, split_size)),
    }
    entrants, missing = {}, []
    for name, make in made.items():
        try:
            entrants[name] = make()
        except ValueError as error:
            missing.append(f"{name} does not run: {error}")
    return entrants, missing


def one_lane(
    _rank: int,
    _world_size: int,
    model: nn.Module,
    dataset: Rows,
    num_steps: int,
    batch_size: int,
    lr: float,
) -> list[float]:
    """One device does everything."""
    ids, targets = batch_of(dataset, batch_size)
    return [loss.item() for loss in _descend(model, lambda: mean_loss(model(ids), targets), num_steps, lr)]


def two_threads(rank: int, world_size: int, model: nn.Module, *rest: Any) -> list[float]:
    """The same with two compute threads, which share the work inside each operation; it uses nothing from this lab."""
    with compute_threads(2):
        return one_lane(rank, world_size, model, *rest)


def data_parallel(
    rank: int, world_size: int, model: nn.Module, dataset: Rows, num_steps: int, batch_size: int, lr: float
) -> list[float]:
    """Every rank has the model and its share of the rows; `DataParallel` averages the gradients."""
    shared = DataParallel(model)
    ids, targets = batch_of(dataset[rank:batch_size:world_size], batch_size)
    losses = torch.stack(list(_descend(shared, lambda: mean_loss(shared(ids), targets), num_steps, lr)))
    comm.all_reduce(losses)
    return [loss.item() / world_size for loss in losses]


def piped(
    sizes: Sequence[int],
    num_microbatches: int,
    _rank: int,
    _world_size: int,
    model: nn.Sequential,
    dataset: Rows,
    num_steps: int,
    batch_size: int,
    lr: float,
) -> list[float]:
    """Two stages on two lanes of this process; with one micro-batch they run in turn: naive model parallel."""
    batch = batch_of(dataset, batch_size)
    with scored_pipe(model, sizes, num_microbatches) as pipe:
        return [loss.item() for loss in _descend(pipe, lambda: pipe(batch).mean(), num_steps, lr)]


def stepped(
    pipe_step: Callable[..., float],
    sizes: Sequence[int],
    split_size: int,
    _rank: int,
    _world_size: int,
    model: nn.Sequential,
    dataset: Rows,
    num_steps: int,
    batch_size: int,
    lr: float,
) -> list[float]:
    """Train with a `pipe_step` of exercise 09.5, which runs forward and backward of a batch on worker lanes."""
    (ids, targets), stages = batch_of(dataset, batch_size), cut(list(model), sizes)
    devices, losses = [torch.device(lane) for lane in LANES], []
    optimizer = torch.optim.SGD(model.parameters(), lr)
    with create_workers(devices) as (in_queues, out_queues):
        for _ in range(num_steps):
            optimizer.zero_grad()
            loss = pipe_step(ids, targets, stages, devices, in_queues, out_queues, split_size, mean_loss)
            optimizer.step()
            losses.append(float(loss))
    return losses


class RowLoss(nn.Module):
    """The head with the loss, so that it runs on the last stage's lane: (hidden, targets) -> mean loss of each row."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, value: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Losses (rows,)."""
        hidden, targets = value
        return cross_entropy(self.head(hidden).transpose(1, 2), targets, reduction="none").mean(1)


def scored_stages(model: nn.Sequential, sizes: Sequence[int]) -> list[nn.Sequential]:
    """The stages of a model; the last one computes the loss of each row."""
    *layers, head = model
    return cut([*layers, RowLoss(head)], sizes)


def scored_pipe(model: nn.Sequential, sizes: Sequence[int], num_microbatches: int) -> Pipe:
    """A pipe of such stages on two lanes."""
    return Pipe.from_partitions(scored_stages(model, sizes), LANES, num_microbatches=num_microbatches)


def mean_loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy of logits (rows, time, vocabulary) and targets (rows, time)."""
    return cross_entropy(logits.flatten(0, -2), targets.flatten())


def batch_of(dataset: Rows, batch_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The first rows of a data set as ids and targets, both (rows, time)."""
    rows = dataset[:batch_size]
    return torch.stack([ids for ids, _ in rows]), torch.stack([targets for _, targets in rows])


def _descend(
    model: nn.Module, loss_of_step: Callable[[], torch.Tensor], num_steps: int, lr: float
) -> Iterator[torch.Tensor]:
    """Plain gradient descent: the loss of each step, before its update."""
    optimizer = torch.optim.SGD(model.parameters(), lr)
    for _ in range(num_steps):
        optimizer.zero_grad()
        loss = loss_of_step()
        loss.backward()
        optimizer.step()
        yield loss.detach()
