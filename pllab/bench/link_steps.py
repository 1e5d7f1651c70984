"""What a training step takes over a slow link, by the number of messages that its gradients leave in.

The model computes; the link is emulated (`pllab.comm.slow_link`) and needs no core, as a network card needs none. It is
made so slow that all gradients together travel as long as backward computes. So on any machine there is as much to hide
as can be hidden.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import nn

from pllab import comm
from pllab.bench.measure import Comparison, compare
from pllab.models import GPT2LMHeadModelParallel, gpt2_config
from pllab.parallel import DataParallel, plan_buckets
from pllab.schedule import Action, Kind
from pllab.simulate import MessageCost, leave_when_ready
from pllab.timeline import Span, Timeline

BUCKETS = (1, 64_000, 128_000, 256_000, 512_000, 1_024_000, 10**9)  # bytes; 1 holds one gradient, 10**9 holds all
LATENCY_S = 0.001  # of the link

Plan = tuple[tuple[float, int], ...]  # for each bucket: when its last gradient is there, and its bytes


@dataclass(frozen=True)
class LinkBench:
    """Whole steps over a link of some `cost`, by the most bytes of a bucket, as text: `"1"` is one message each.

    `plans` tells of each bucket when its last gradient is there, in seconds from the start of a step without messages,
    and its bytes; `computing_s` is how long that step takes. `timelines` has the last step of each plan.
    """

    cost: MessageCost
    steps: Comparison
    plans: Mapping[str, Plan]
    computing_s: float
    timelines: Mapping[str, Timeline]

    def num_messages(self, name: str) -> int:
        """The number of messages of a plan."""
        return len(self.plans[name])

    def simulated_s(self, name: str) -> float:
        """A step without messages, and what is still under way when it has ended."""
        ready_s, num_bytes = zip(*self.plans[name], strict=True)
        return max(self.computing_s, leave_when_ready(ready_s, num_bytes, self.cost)[-1][1])

    def best(self) -> str:
        """The plan with the shortest median step."""
        return min(self.plans, key=lambda name: self.steps.time(name).median)

    def best_numbers(self) -> list[int]:
        """The number of messages that won, for each round."""
        names = list(self.plans)
        rounds = zip(*(self.steps.seconds[name] for name in names), strict=True)
        return [self.num_messages(names[seconds.index(min(seconds))]) for seconds in rounds]


def bench_link(
    *, num_layers: int = 12, width: int = 64, world_size: int = 2, repeats: int = 5, timeout_s: float = 120.0
) -> LinkBench:
    """Measure forward and backward with overlapped messages, on gloo ranks of this host behind a slow link.

    Example: `bench_link().best()` takes about ten seconds; the gradients are those of `bench_messages`.

    Args:
        num_layers: blocks of the GPT-2.
        width: its width.
        world_size: the number of ranks.
        repeats: rounds that count.
        timeout_s: the most seconds the measurement may take.
    """
    by_rank = comm.launch(_measure, world_size, num_layers, width, repeats, backend="gloo", timeout_s=timeout_s)
    cost, steps, plans, computing_s, _ = by_rank[0]
    timelines = {
        name: Timeline.of([span for *_, spans in by_rank for span in spans[name]], "emulated", world_size)
        for name in plans
    }
    return LinkBench(cost, steps, plans, computing_s, timelines)


class _Step(NamedTuple):
    """The moments of one step on the monotonic clock; `arrived` has one for each gradient."""

    start: float
    middle: float
    arrived: dict[int, float]


class _Trainer:
    """A GPT-2 with its batch, and a hook on each parameter that notes when its gradient is there."""

    def __init__(self, num_layers: int, width: int) -> None:
        torch.manual_seed(0)
        self.inner = GPT2LMHeadModelParallel(gpt2_config("tiny", 512, n_layer=num_layers, n_embd=width, n_head=2))
        self.tokens = torch.randint(512, (2, 128), generator=torch.Generator().manual_seed(comm.rank()))
        self.model: nn.Module = self.inner
        self.last = _Step(0.0, 0.0, {})
        for parameter in self.inner.parameters():
            parameter.register_post_accumulate_grad_hook(self._note)

    def _note(self, parameter: torch.Tensor) -> None:
        self.last.arrived[id(parameter)] = time.monotonic()

    def step(self) -> None:
        """One forward and backward; messages are through when it returns."""
        self.model.zero_grad()
        start = time.monotonic()
        loss = self.model(input_ids=self.tokens, labels=self.tokens).loss
        self.last = _Step(start, time.monotonic(), {})
        loss.backward()


def _measure(
    rank: int, world_size: int, num_layers: int, width: int, repeats: int
) -> tuple[MessageCost, Comparison, dict[str, Plan], float, dict[str, list[Span]]]:
    """First without messages, which says how slow to make the link; then every plan in turn, behind it."""
    del world_size
    alone = _Trainer(num_layers, width)
    ready_s, backward_s = _without_messages(alone, repeats)
    order = [parameter for parameter in alone.inner.parameters() if parameter.requires_grad]
    when = dict(zip(map(id, order), ready_s, strict=True))
    plans: dict[str, Plan] = {
        str(limit): tuple(
            (max(when[id(one)] for one in bucket.parameters), bucket.num_bytes) for bucket in plan_buckets(order, limit)
        )
        for limit in BUCKETS
    }
    trainers = {name: _Trainer(num_layers, width) for name in plans}
    for name, trainer in trainers.items():
        trainer.model = DataParallel(trainer.inner, "overlapped", bucket_bytes=int(name))
    total = sum(num_bytes for _, num_bytes in plans[str(BUCKETS[-1])])
    cost = MessageCost(LATENCY_S, backward_s / total)
    spans: dict[str, list[Span]] = {}
    with comm.slow_link(LATENCY_S, total / backward_s) as link:
        steps = {name: partial(_draw, rank, trainer, link, spans, name) for name, trainer in trainers.items()}
        comparison = compare(steps, repeats, 1, in_step=True, engine="emulated")
    return cost, comparison, plans, max(ready_s), spans


def _without_messages(alone: _Trainer, repeats: int) -> tuple[list[float], float]:
    """When each gradient is there and how long backward takes, in seconds: the quickest step, on the slowest rank."""
    quickest: tuple[list[float], float] = ([], float("inf"))
    for _ in range(repeats + 2):
        comm.barrier()
        alone.step()
        start, middle, arrived = alone.last
        ready_s = [arrived[id(one)] - start for one in alone.inner.parameters() if one.requires_grad]
        quickest = min(quickest, (ready_s, max(arrived.values()) - middle), key=lambda one: one[1])
    by_rank: Sequence[tuple[list[float], float]] = comm.all_gather_object(quickest)
    latest = [max(moments) for moments in zip(*(ready for ready, _ in by_rank), strict=True)]
    return latest, max(seconds for _, seconds in by_rank)


def _draw(rank: int, trainer: _Trainer, link: comm.Link, spans: dict[str, list[Span]], name: str) -> None:
    """One step; keep its forward, its backward up to the last gradient, and the messages on the link."""
    before = len(link.messages)
    trainer.step()
    start, middle, arrived = trainer.last
    moments = [(Kind.F, 0, start, middle), (Kind.B, 0, middle, max(arrived.values()))]
    moments += [(Kind.C, number, *times) for number, times in enumerate(link.messages[before:])]
    spans[name] = [Span(rank, Action(0, kind, number), at - start, end - start) for kind, number, at, end in moments]
