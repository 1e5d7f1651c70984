"""What a message costs, and what it costs a training step to send its gradients in few or many messages.

What "a message" means changes from lesson to lesson, and so does its cost; `message_table` times them in one run.

`bench_messages` measures the time of an all-reduce by its size, the gradients of a GPT-2 in buckets of several sizes,
and the sum in shared memory; then whole steps, with one message after backward and with buckets during it.

`bench_link` measures whole steps over a slow link by the number of messages. The model computes; the link is emulated
(`pllab.comm.slow_link`) and needs no core, as a network card needs none. It is made so slow that all gradients together
travel as long as backward computes. So on any machine overlap can hide all of it in principle, and no more.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from pllab import comm
from pllab.bench.measure import Comparison, Run, Spread, compare
from pllab.bench.workloads import Workload
from pllab.parallel import DataParallel, plan_buckets
from pllab.schedule import Action, Kind
from pllab.simulate import MessageCost, leave_when_ready
from pllab.timeline import Span, Timeline

SHARED = "shared memory"
FLAT, OVERLAPPED, ALONE = "flat", "overlapped", "no messages"  # ways to average in a whole step
SIZES = (2**8, 2**12, 2**15, 2**17, 2**19, 2**21, 2**22)  # bytes of the messages that the line is fitted to
BUCKETS = (1, 64_000, 256_000, 1_024_000, 10**9)  # bytes of a bucket; 1 holds one gradient, 10**9 holds all
BUCKETS_ON_LINK = (1, 64_000, 128_000, 256_000, 512_000, 1_024_000, 10**9)
LATENCY_S = 0.001  # of the link
_OVERLAP_BYTES = 512_000  # bytes of a bucket that leaves while backward runs
_DEADLINE_S = 120.0  # of either measurement
_NUM_IN_A_ROW = 28  # gradients of the model of lesson 05
_GRADIENTS = Workload(num_layers=12, width=64, num_heads=2, vocab_size=512, batch_size=2, num_tokens=128)


def fit_cost(num_bytes: Sequence[float], seconds: Sequence[float]) -> MessageCost:
    """Fit latency and time per byte to measured times, by least squares of the relative errors.

    Example: `fit_cost([0, 1000], [1.0, 3.0])` is `MessageCost(alpha_s=1.0, beta_s=0.002)`. With absolute errors the
    largest message alone would decide.

    Raises:
        ValueError: there are fewer than two sizes, or a time is not above 0.
    """
    if len(set(num_bytes)) < 2 or min(seconds) <= 0:
        raise ValueError(f"sizes {list(num_bytes)} with times {list(seconds)} fix no line; measure two sizes or more")
    beta, alpha = np.polyfit(num_bytes, seconds, 1, w=1 / np.asarray(seconds))
    return MessageCost(float(alpha), float(beta))


def measure_latency(repeats: int = 200) -> Spread:
    """Seconds that one number takes from one rank to another: half of there and back, over gloo on this host.

    Example: `measure_latency().median` is about 1e-4 on a laptop.
    """
    return comm.launch(_measure_latency, 2, repeats, backend="gloo", timeout_s=60.0)[0]


def _measure_latency(_rank: int, _world_size: int, repeats: int) -> Spread:
    times = compare({"there and back": partial(_throw, torch.zeros(1))}, repeats, 20, in_step=True)
    return times.time("there and back").scaled(0.5)


def _throw(number: torch.Tensor) -> None:
    """Rank 0 sends a number and rank 1 sends it back; other ranks do nothing."""
    if comm.rank() < 2:
        other = 1 - comm.rank()
        if comm.rank() == 0:
            comm.send(number, to=other)
        comm.receive(number, source=other)
        if comm.rank() == 1:
            comm.send(number, to=other)


def message_table(lesson: str, repeats: int = 40) -> str:
    """Time what each lesson up to this one calls a message, in turn, on the ranks of the group; a row for each.

    Example: every rank calls `message_table("05")` and gets the same text, of which these are two rows:

        01  one way: half of there and back  196 (166-245)     one message at a time
        05  all-reduces in a row, each       611 (540-700)     late ranks delay all

    All rows carry 64 numbers, so that they differ in how these are sent, not in bytes: half of the gradients of
    `bench_messages` are that small. One or two would make an all-reduce look cheaper, as gloo cuts any more into
    pieces.
    """
    numbers = torch.zeros(64, device=comm.own_device())
    in_a_row = [numbers] * _NUM_IN_A_ROW
    # What the lesson calls a message, what sends it, how many of them that is, and what is special about it.
    every: dict[str, tuple[str, Run, int, str]] = {
        "01": ("one way: half of there and back", partial(_throw, numbers), 2, "one message at a time"),
        "03": ("every rank passes it on", partial(comm.ring_pass, numbers), 1, "all at once; the slowest counts"),
        "05": ("all-reduces in a row, each", partial(_send_all, in_a_row), len(in_a_row), "late ranks delay all"),
        "06": ("one all-reduce", partial(comm.all_reduce, numbers), 1, "all ranks start together"),
    }
    kinds = {name: kind for name, kind in every.items() if name <= lesson}
    times = compare({name: call for name, (_, call, _, _) in kinds.items()}, repeats, 3, in_step=True)
    rows = [f"{f'64 numbers, real, {comm.world_size()} ranks':37}us (quartiles)    conditions"]
    for name, (what, _, num_messages, why) in kinds.items():
        took = times.time(name).scaled(1e6 / num_messages)
        rows.append(f"{name}  {what:33}{took.text(0):17} {why}")
    return "\n".join(rows)


@dataclass(frozen=True)
class MessagesBench:
    """The cost of a message on some ranks, and the gradients of one model sent in several ways.

    `ways` compares the bucket sizes in bytes as text ("64000") and `SHARED`; `num_messages` has the number of messages
    of each. `gradient_bytes` lists the gradients in the order of backward. `steps` compares forward, backward and
    averaging: `FLAT` sends one message after backward, `OVERLAPPED` sends buckets while it runs, and `ALONE` averages
    nothing. `table` is that of `message_table`.
    """

    world_size: int
    table: str
    cost: MessageCost
    ways: Comparison
    num_messages: Mapping[str, int]
    steps: Comparison
    gradient_bytes: tuple[int, ...]

    def points(self) -> list[dict[str, float]]:
        """The measured bucket sizes, plain: bucket_bytes, and median, low and high seconds."""
        times = {name: self.ways.time(name) for name in self.ways.seconds if name != SHARED}
        return [
            {"bucket_bytes": int(name), "seconds": took.median, "low": took.low, "high": took.high}
            for name, took in times.items()
        ]

    def times_one_each(self) -> Spread:
        """One message per gradient over one for all, taken round by round."""
        return self.ways.ratio(str(BUCKETS[0]), str(BUCKETS[-1]))


def bench_messages(workload: Workload = _GRADIENTS, repeats: int = 9) -> MessagesBench:
    """Measure messages between two gloo ranks of this host.

    Example: `bench_messages().cost` takes about ten seconds. The gradients are those of a GPT-2 with 12 layers,
    which are 148 whatever its width.

    Args:
        workload: the GPT-2, and the batch of each rank.
        repeats: rounds that count.

    Raises:
        RankError: a rank failed, or the measurement takes more than 120 s.
    """
    return comm.launch(_measure_messages, 2, workload, repeats, backend="gloo", timeout_s=_DEADLINE_S)[0]


def _measure_messages(_rank: int, world_size: int, workload: Workload, repeats: int) -> MessagesBench:
    """Measure on each rank, in step with the others; whole steps use equal models, and no weights are updated."""
    sizes = {str(size): partial(comm.all_reduce, torch.zeros(size // 4)) for size in SIZES}
    by_size = compare(sizes, 4 * repeats, 3, in_step=True)
    # The lower quartile, because other work on the machine only makes a message slower.
    cost = fit_cost(SIZES, [by_size.time(size).low for size in sizes])
    trainers = {
        FLAT: _HookedTrainer(workload, partial(DataParallel, strategy="flat")),
        OVERLAPPED: _HookedTrainer(workload, _overlapped(_OVERLAP_BYTES)),
        ALONE: _HookedTrainer(workload),
    }
    parameters = trainers[ALONE].parameters
    ways, num_messages = _ways(parameters)
    by_way = compare(ways, repeats, 2, baseline=str(BUCKETS[-1]), in_step=True)
    steps = compare({name: each.step for name, each in trainers.items()}, repeats, 2, baseline=FLAT, in_step=True)
    gradient_bytes = tuple(parameter.nbytes for parameter in reversed(parameters))
    return MessagesBench(world_size, message_table("06"), cost, by_way, num_messages, steps, gradient_bytes)


def _overlapped(bucket_bytes: int) -> Callable[[nn.Module], nn.Module]:
    return partial(DataParallel, strategy="overlapped", bucket_bytes=bucket_bytes)


def _ways(parameters: Sequence[nn.Parameter]) -> tuple[dict[str, Callable[[], object]], dict[str, int]]:
    """The messages alone, without copies: buckets of each size, then one sum in memory where there can be one."""
    plans = {str(size): [bucket.flat for bucket in plan_buckets(parameters, size)] for size in BUCKETS}
    ways: dict[str, Callable[[], object]] = {name: partial(_send_all, flats) for name, flats in plans.items()}
    num_messages = {name: len(flats) for name, flats in plans.items()}
    everything = plans[str(BUCKETS[-1])][0]
    if (buffer := comm.shared_buffer(everything.numel(), everything.dtype)) is not None:
        ways[SHARED], num_messages[SHARED] = buffer.all_reduce, 1
    return ways, num_messages


def _send_all(flats: Sequence[torch.Tensor]) -> None:
    for flat in flats:
        comm.all_reduce(flat)


Plan = tuple[tuple[float, int], ...]  # for each bucket: when its last gradient is there, and its bytes


@dataclass(frozen=True)
class LinkBench:
    """Whole steps over a link of some `cost`, by the most bytes of a bucket, as text: `"1"` is one message each.

    `plans` tells of each bucket when its last gradient is there, in seconds from the start of a step without messages,
    and its bytes. `timelines` has the last step of each plan.
    """

    cost: MessageCost
    steps: Comparison
    plans: Mapping[str, Plan]
    timelines: Mapping[str, Timeline]

    def num_messages(self, name: str) -> int:
        """The number of messages of a plan."""
        return len(self.plans[name])

    def simulated_s(self, name: str) -> float:
        """When the last message of a step is through; it leaves when all gradients are there."""
        ready_s, num_bytes = zip(*self.plans[name], strict=True)
        return leave_when_ready(ready_s, num_bytes, self.cost)[-1][1]

    def best(self) -> str:
        """The plan with the shortest median step."""
        return min(self.plans, key=lambda name: self.steps.time(name).median)

    def best_numbers(self) -> list[int]:
        """The number of messages that won, for each round."""
        numbers = list(map(self.num_messages, self.plans))
        rounds = zip(*(self.steps.seconds[name] for name in self.plans), strict=True)
        return [numbers[seconds.index(min(seconds))] for seconds in rounds]


def bench_link(workload: Workload = _GRADIENTS, repeats: int = 5) -> LinkBench:
    """Measure forward and backward with overlapped messages, on two gloo ranks of this host behind a slow link.

    Example: `bench_link().best()` takes about ten seconds; the gradients are those of `bench_messages`.

    Args:
        workload: the GPT-2, and the batch of each rank.
        repeats: rounds that count.

    Raises:
        RankError: as `bench_messages`.
    """
    return comm.launch(_measure_link, 2, workload, repeats, backend="gloo", timeout_s=_DEADLINE_S)[0]


class _Moments(NamedTuple):
    """The moments of one step on the monotonic clock; `arrived` has one for each gradient, and `end` is the last."""

    start: float
    middle: float
    end: float
    arrived: dict[int, float]


class _HookedTrainer:
    """A GPT-2 with its batch, made parallel by `share`; a hook on each parameter notes when its gradient is there."""

    def __init__(self, workload: Workload, share: Callable[[nn.Module], nn.Module] | None = None) -> None:
        self._tokens = workload.ids(comm.rank())  # others on each rank
        inner = workload.model(n_positions=1024)  # GPT-2's own number, whatever the length of the rows
        self.parameters = [parameter for parameter in inner.parameters() if parameter.requires_grad]
        self._arrived: dict[int, float] = {}
        # Before `DataParallel` hooks in, so that a gradient is noted before it leaves.
        for parameter in self.parameters:
            parameter.register_post_accumulate_grad_hook(self._note)
        self._model = inner if share is None else share(inner)

    def _note(self, parameter: torch.Tensor) -> None:
        self._arrived[id(parameter)] = time.monotonic()

    def step(self) -> _Moments:
        """One forward and backward; messages are through when it returns."""
        self._model.zero_grad()
        self._arrived = {}
        start = time.monotonic()
        loss = self._model(input_ids=self._tokens, labels=self._tokens).loss
        middle = time.monotonic()
        loss.backward()
        return _Moments(start, middle, max(self._arrived.values()), self._arrived)


def _measure_link(rank: int, world_size: int, workload: Workload, repeats: int) -> LinkBench:
    """First without messages, to find how slow the link must be; then every plan in turn, behind the link."""
    alone = _HookedTrainer(workload)
    ready_s, backward_s = _without_messages(alone, repeats)
    when = dict(zip(map(id, alone.parameters), ready_s, strict=True))
    plans: dict[str, Plan] = {
        str(limit): tuple(
            (max(when[id(one)] for one in bucket.parameters), bucket.flat.nbytes)
            for bucket in plan_buckets(alone.parameters, limit)
        )
        for limit in BUCKETS_ON_LINK
    }
    total = sum(num_bytes for _, num_bytes in plans[str(BUCKETS_ON_LINK[-1])])
    trainers = {name: _HookedTrainer(workload, _overlapped(int(name))) for name in plans}
    spans: dict[str, list[Span]] = {}
    with comm.slow_link(LATENCY_S, total / backward_s) as link:
        steps = {name: partial(_draw, rank, trainer, link, spans, name) for name, trainer in trainers.items()}
        comparison = compare(steps, repeats, 1, in_step=True, engine="emulated")
    by_rank = comm.all_gather_object(spans)
    drawn = {name: [span for of_rank in by_rank for span in of_rank[name]] for name in plans}
    timelines = {name: Timeline.of(each, "emulated", world_size) for name, each in drawn.items()}
    return LinkBench(MessageCost(LATENCY_S, backward_s / total), comparison, plans, timelines)


def _without_messages(alone: _HookedTrainer, repeats: int) -> tuple[list[float], float]:
    """When each gradient is there and how long backward takes, in seconds: the fastest step, on the slowest rank."""
    steps = []
    for _ in range(repeats + 2):
        comm.barrier()
        steps.append(alone.step())
    quickest = min(steps, key=lambda step: step.end - step.middle)
    ready_s = [quickest.arrived[id(one)] - quickest.start for one in alone.parameters]
    by_rank = comm.all_gather_object((ready_s, quickest.end - quickest.middle))
    latest = [max(moments) for moments in zip(*(ready for ready, _ in by_rank), strict=True)]
    return latest, max(seconds for _, seconds in by_rank)


def _draw(rank: int, trainer: _HookedTrainer, link: comm.Link, spans: dict[str, list[Span]], name: str) -> None:
    """One step; keep its forward, its backward up to the last gradient, and the messages on the link."""
    before = len(link.messages)
    step = trainer.step()
    moments = [(Kind.F, 0, step.start, step.middle), (Kind.B, 0, step.middle, step.end)]
    moments += [(Kind.C, number, *times) for number, times in enumerate(link.messages[before:])]
    spans[name] = [
        Span(rank, Action(0, kind, number), at - step.start, end - step.start) for kind, number, at, end in moments
    ]
