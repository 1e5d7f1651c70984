"""What each stage of ZeRO holds and sends: a training step on real ranks, its bytes and messages counted.

Stage 0 is `DataParallel`, stages 1 to 3 are `FullyShardedDataParallel`. All start from the same weights and see the
same rows, and all parameters after two steps of Adam have to agree. The ranks exchange messages here, as ranks on
different hosts would, not in shared memory, so that the ledger has what a cluster would send. Lesson 13.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import torch

from pllab import comm
from pllab.arguments import require
from pllab.bench.workloads import Workload
from pllab.parallel import DataParallel, FullyShardedDataParallel
from pllab.parallel.byte_count import held_bytes

STAGES = (0, 1, 2, 3)
_WORKLOAD = Workload(num_layers=12, width=64, num_heads=4, vocab_size=256, batch_size=4, num_tokens=32)


@dataclass(frozen=True)
class HeldAndSent:
    """One rank in one stage: bytes by kind at the moment of the largest sum, and the messages of a step.

    `sent_bytes` is what a rank sends if it passes its messages on in a ring.
    """

    peak: Mapping[str, int]
    sent_bytes: float
    num_messages: int


@dataclass(frozen=True)
class ZeroBench:
    """What every rank held and sent in every stage.

    `of_root` counts the parameters of no unit, or of several: token and position embeddings, and the last norm.
    """

    world_size: int
    num_parameters: int
    of_root: int
    stages: Mapping[int, tuple[HeldAndSent, ...]]

    def bytes_per_parameter(self, stage: int) -> list[dict[str, float]]:
        """By rank, the peak of each kind over the number of parameters; all kinds of plain Adam are 16."""
        return [{kind: size / self.num_parameters for kind, size in rank.peak.items()} for rank in self.stages[stage]]

    def volume(self, stage: int) -> float:
        """What a rank sends in a step, in units of the model's bytes times (w - 1) / w: near 2, 2, 2 and 3."""
        share = (self.world_size - 1) / self.world_size
        return self.stages[stage][0].sent_bytes / (4 * self.num_parameters) / share


def closed_form(stage: int, world_size: int) -> dict[str, float]:
    """The bytes of each kind per parameter that Adam in float32 needs, if whole units are small.

    Example: 4 + 4 + 8 = 16 for stage 0, and 16 / w for stage 3.

    Raises:
        ValueError: the stage is none of 0 to 3.

    Source: Rajbhandari et al. 2020, figure 1, there with mixed precision: 2 + 2 + 12.
    """
    require(stage in STAGES, f"stage is {stage}; give 0 (nothing is sharded) to 3 (everything is)")
    shares = {"parameters": 3, "gradients": 2, "optimizer": 1}  # sharded from this stage on
    sizes = {"parameters": 4.0, "gradients": 4.0, "optimizer": 8.0}
    return {kind: size / (world_size if stage >= shares[kind] else 1) for kind, size in sizes.items()}


def bench_zero(workload: Workload = _WORKLOAD, *, world_size: int = 2) -> ZeroBench:
    """Count the bytes and the messages of a step in every stage, on real ranks.

    Example: `bench_zero().volume(3)` is 2.9: the root and the last unit are gathered once, all others twice.

    Args:
        workload: a GPT-2 and the batch of each rank; by default 12 layers of width 64.
        world_size: the number of ranks.

    Raises:
        RankError: the stages did not train the same model, a rank failed, or all of it takes more than 120 s.
    """
    return comm.launch(_measure, world_size, workload, backend="gloo", timeout_s=120.0)[0]


def _measure(rank: int, world_size: int, workload: Workload) -> ZeroBench:
    """Train in every stage, compare the weights, and gather what the ranks held and sent."""
    whole = workload.model()
    of_all, of_blocks = (sum(part.numel() for part in each.parameters()) for each in (whole, whole.transformer.h))
    trained = {stage: _train(workload, stage, rank) for stage in STAGES}
    _, plain = trained[0]
    for _, weights in trained.values():
        torch.testing.assert_close(weights, plain, rtol=1e-3, atol=1e-4)
    of_ranks = {stage: tuple(comm.all_gather_object(counted)) for stage, (counted, _) in trained.items()}
    return ZeroBench(world_size, of_all, of_all - of_blocks, of_ranks)


def _train(workload: Workload, stage: int, rank: int) -> tuple[HeldAndSent, list[torch.Tensor]]:
    """Two steps, of which the second is counted, and the whole weights after them; no memory is shared."""
    model = workload.model()
    shared: DataParallel | FullyShardedDataParallel
    if stage == 0:
        shared = DataParallel(model, "flat")
    else:
        shared = FullyShardedDataParallel(model, zero=stage, share_memory=False)
    parameters = list(shared.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, fused=True)
    seen: list[dict[str, int]] = []

    def look(_: comm.Message | None = None) -> None:
        seen.append(held_bytes(shared, parameters, [optimizer]))

    for is_counted in (False, True):
        ids = workload.ids(seed=2 * rank + is_counted)
        with comm.record_messages(look if is_counted else None) as ledger:
            shared(input_ids=ids, labels=ids).loss.backward()
        if is_counted:
            look()
        optimizer.step()
        optimizer.zero_grad()
    fullest = max(seen, key=lambda held: sum(held.values()))
    sent_bytes = float(sum(map(comm.traffic, ledger.messages)))
    with nullcontext(shared) if isinstance(shared, DataParallel) else shared.gathered() as whole:
        weights = [parameter.detach().clone() for parameter in whole.parameters()]
    return HeldAndSent(fullest, sent_bytes, len(ledger.messages)), weights
