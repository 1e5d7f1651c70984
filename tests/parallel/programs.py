"""A small problem whose model and batches ranks share, and the state of models that they share."""

from functools import cache

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from pllab import comm
from pllab.parallel import FullyShardedDataParallel
from pllab.parallel.shards import join

NUM_STEPS = 3
NUM_BLOCKS = 4


class Block(nn.Module):
    """13 numbers that no number of ranks divides, and a parameter that its forward may leave out."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.extra = nn.Parameter(torch.randn(7))
        self.uses_extra = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + torch.tanh(self.linear(x))
        return x * self.extra[0] if self.uses_extra else x


class Chain(nn.Module):
    """Blocks between a tied embedding and head; block 1 and most of 2 may be frozen."""

    def __init__(self, seed: int = 0, freeze: bool = False, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(11, 6)
        self.blocks = nn.ModuleList(Block() for _ in range(NUM_BLOCKS))
        self.norm = nn.LayerNorm(6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("scale", torch.full((), 1.0 + seed))
        self.checkpointed = False
        self.to(dtype)
        if freeze:
            self.blocks[1].requires_grad_(False)
            self.blocks[2].linear.requires_grad_(False)
            self.blocks[2].uses_extra = True  # its gradient is there before the frozen weight has done its work

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in (*self.blocks, self.norm):
            x = checkpoint(layer, x, use_reentrant=False) if self.checkpointed else layer(x)
        return self.head(x * self.scale)


def batch(step: int, rows: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens (rows, 5) and targets (rows * 5), the same in every process."""
    generator = torch.Generator().manual_seed(step)
    return (
        torch.randint(0, 11, (rows, 5), generator=generator),
        torch.randint(0, 11, (rows * 5,), generator=generator),
    )


def share(step: int, rank: int, world_size: int, rows: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """A rank's part of a batch."""
    tokens, targets = batch(step, rows)
    return tokens.chunk(world_size)[rank], targets.chunk(world_size)[rank]


def loss_of(model: nn.Module, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    """Fused, it writes to the pieces without a trace in their version counters."""
    return torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9, weight_decay=0.1, fused=True)


@cache
def one_process(freeze: bool = False) -> dict[str, torch.Tensor]:
    """The weights after steps on whole batches, from those of seed 0."""
    chain = Chain(freeze=freeze)
    optimizer = sgd(chain)
    for step in range(NUM_STEPS):
        optimizer.zero_grad()
        loss_of(chain, *batch(step)).backward()
        optimizer.step()
    return weights(chain)


def step_used_by_the_first(model: nn.Module, chain: Chain, rank: int, world_size: int) -> dict[str, torch.Tensor]:
    """A step in which only rank 0 uses block 0's extra parameter, and none block 1's; the weights of one process."""
    plain = Chain()
    for number in range(world_size):
        plain.blocks[0].uses_extra = number == 0
        (loss_of(plain, *share(0, number, world_size)) / world_size).backward()
    for is_first in (True, False):  # the first leaves numbers in all memory that the second could take for its own
        chain.zero_grad()
        chain.blocks[0].uses_extra = is_first or rank == 0
        chain.blocks[1].uses_extra = is_first
        loss_of(model, *share(0, rank, world_size)).backward()
    assert chain.blocks[0].extra.grad is not None and chain.blocks[1].extra.grad is None
    sgd(plain).step()
    sgd(chain).step()
    chain.blocks[0].uses_extra = False
    loss_of(model, *share(0, rank, world_size)).backward()
    assert chain.blocks[0].extra.grad is not None, "what was there before stays"
    return weights(plain)


def whole_state(model: nn.Module, mesh: comm.Mesh | None = None) -> dict[str, torch.Tensor]:
    """The state dict of the whole of a split model, on every rank."""
    return {name: join(value, value.detach(), mesh) for name, value in model.state_dict(keep_vars=True).items()}


def gathered(model: FullyShardedDataParallel) -> dict[str, torch.Tensor]:
    """The whole state of a sharded model, on every rank."""
    with model.gathered() as inner:
        return weights(inner)


def weights(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def gradients(model: nn.Module) -> dict[str, torch.Tensor | None]:
    return {n: None if p.grad is None else p.grad.clone() for n, p in model.named_parameters()}
