"""What a message costs: its latency, its bytes, and the gradients of a GPT-2 cut into few or many messages.

One launch measures the time of an all-reduce by its size, the same gradients in buckets of several sizes, and the sum
in shared memory. It also measures whole training steps, with one message after backward and with buckets during it,
and the timeline of one backward whose buckets leave while it runs.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from pllab import comm
from pllab.bench.measure import Comparison, Spread, compare
from pllab.models import GPT2LMHeadModelParallel, gpt2_config
from pllab.parallel import Bucket, DataParallel, broadcast_parameters, plan_buckets
from pllab.schedule import Action, Kind
from pllab.simulate import MessageCost
from pllab.timeline import Span, Timeline

SHARED = "shared memory"
FLAT, OVERLAPPED, ALONE = "flat", "overlapped", "no messages"  # ways to average in a whole step
_OVERLAP_BYTES = 2**19  # bytes of a bucket that leaves while backward runs
SIZES = (2**8, 2**12, 2**15, 2**17, 2**19, 2**21, 2**22)  # bytes of the messages that the line is fitted to
BUCKETS = (1, 2**16, 2**18, 2**20, 2**30)  # bytes of a bucket; 1 holds one gradient, 2**30 holds all


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


def cost_of(by_size: Comparison) -> MessageCost:
    """Fit `fit_cost` to measured messages, whose names are their bytes.

    It takes the lower quartile of each size, because other work on the machine only makes a message slower.
    """
    return fit_cost([int(size) for size in by_size.seconds], [by_size.time(size).low for size in by_size.seconds])


@dataclass(frozen=True)
class MessagesBench:
    """The cost of a message on some ranks, and the gradients of one model sent in several ways.

    `ways` compares the bucket sizes in bytes as text ("65536") and `SHARED`; `num_messages` has the number of messages
    of each. `gradient_bytes` lists the gradients in the order of backward. `steps` compares forward, backward and
    averaging: `FLAT` sends one message after backward, `OVERLAPPED` sends buckets while it runs, and `ALONE` averages
    nothing.
    """

    world_size: int
    by_size: Comparison
    cost: MessageCost
    ways: Comparison
    num_messages: Mapping[str, int]
    steps: Comparison
    gradient_bytes: tuple[int, ...]
    timeline: Timeline

    def points(self) -> list[dict[str, float]]:
        """The measured bucket sizes, plain: bucket_bytes, num_messages, and median, low and high seconds."""
        return [
            {
                "bucket_bytes": int(name),
                "num_messages": self.num_messages[name],
                "seconds": (took := self.ways.time(name)).median,
                "low": took.low,
                "high": took.high,
            }
            for name in self.ways.seconds
            if name != SHARED
        ]

    def times_one_each(self) -> Spread:
        """One message per gradient over one for all, taken round by round."""
        return self.ways.ratio(str(BUCKETS[0]), str(BUCKETS[-1]))


def bench_messages(
    *, num_layers: int = 12, width: int = 64, world_size: int = 2, repeats: int = 9, timeout_s: float = 120.0
) -> MessagesBench:
    """Measure messages on gloo ranks of this host.

    Example: `bench_messages().cost` takes about ten seconds. The gradients are those of a GPT-2 with 12 layers,
    which are 148 whatever its width.

    Args:
        num_layers: blocks of the GPT-2.
        width: its width.
        world_size: the number of ranks.
        repeats: rounds that count.
        timeout_s: the most seconds the measurement may take.
    """
    by_rank = comm.launch(_measure, world_size, num_layers, width, repeats, backend="gloo", timeout_s=timeout_s)
    by_size, ways, num_messages, steps, gradient_bytes, _ = by_rank[0]
    timeline = Timeline.of([span for *_, spans in by_rank for span in spans], "real", world_size)
    return MessagesBench(
        world_size, by_size, cost_of(by_size), ways, num_messages, steps, tuple(gradient_bytes), timeline
    )


def _measure(rank: int, world_size: int, num_layers: int, width: int, repeats: int) -> tuple[Any, ...]:
    """Measure on each rank, in step with the others; whole steps use equal models, and no weights are updated."""
    del world_size
    torch.manual_seed(0)
    config = gpt2_config("tiny", 512, n_layer=num_layers, n_embd=width, n_head=2)
    model, flat, overlapped, alone = [GPT2LMHeadModelParallel(config) for _ in range(4)]
    sizes = {str(size): partial(comm.all_reduce, torch.zeros(size // 4)) for size in SIZES}
    by_size = compare(sizes, 4 * repeats, 3, in_step=True)
    ways, num_messages = _ways(model)
    by_way = compare(ways, repeats, 2, baseline=str(BUCKETS[-1]), in_step=True)
    ways_of_steps = {
        FLAT: DataParallel(flat, "flat"),
        OVERLAPPED: DataParallel(overlapped, "overlapped", bucket_bytes=_OVERLAP_BYTES),
        ALONE: alone,
    }
    tokens = torch.randint(512, (2, 128), generator=torch.Generator().manual_seed(rank))  # others on each rank
    runs = {name: partial(_step, tokens, each) for name, each in ways_of_steps.items()}
    steps = compare(runs, repeats, 2, baseline=FLAT, in_step=True)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad][::-1]
    gradient_bytes = [parameter.numel() * parameter.element_size() for parameter in parameters]
    return by_size, by_way, num_messages, steps, gradient_bytes, _spans(rank, model, tokens)


def _ways(model: torch.nn.Module) -> tuple[dict[str, Callable[[], object]], dict[str, int]]:
    """The messages alone, without copies: buckets of each size, then one sum in memory where there can be one."""
    plans = {str(size): [bucket.flat for bucket in plan_buckets(model.parameters(), size)] for size in BUCKETS}
    ways: dict[str, Callable[[], object]] = {name: partial(_send_all, flats) for name, flats in plans.items()}
    num_messages = {name: len(flats) for name, flats in plans.items()}
    everything = plans[str(BUCKETS[-1])][0]
    if (buffer := comm.shared_buffer(everything.numel(), everything.dtype)) is not None:
        ways[SHARED], num_messages[SHARED] = buffer.all_reduce, 1
    return ways, num_messages


def _send_all(flats: Sequence[torch.Tensor]) -> None:
    for flat in flats:
        comm.all_reduce(flat)


def _step(tokens: torch.Tensor, model: torch.nn.Module) -> None:
    model.zero_grad()
    model(input_ids=tokens, labels=tokens).loss.backward()


def _spans(rank: int, model: torch.nn.Module, tokens: torch.Tensor, num_steps: int = 4) -> list[Span]:
    """The last of some steps of forward, and backward with buckets that leave while it runs.

    Whenever a gradient arrives, all messages under way are checked for completion.
    """
    broadcast_parameters(model)
    buckets = plan_buckets(model.parameters(), _OVERLAP_BYTES)
    sent = _send_when_full(buckets)
    for _ in range(num_steps):
        model.zero_grad()
        sent.clear()
        comm.barrier()
        start = time.perf_counter()
        loss = model(input_ids=tokens, labels=tokens).loss
        middle = time.perf_counter()
        loss.backward()
        end = time.perf_counter()
        for message, bucket in zip(sent, buckets, strict=True):  # every gradient was there, so all have left
            message.wait()
            bucket.empty()
    moments = [(Kind.F, 0, start, middle), (Kind.B, 0, middle, end)]
    moments += [(Kind.C, number, message.start, message.end) for number, message in enumerate(sent)]
    return [Span(rank, Action(0, kind, number), begin - start, stop - start) for kind, number, begin, stop in moments]


def _send_when_full(buckets: Sequence[Bucket]) -> list["_Timed"]:
    """Let backward send each full bucket, in the order of the plan; the list returned fills with messages."""
    sent: list[_Timed] = []

    def arrived(bucket: Bucket, index: int, _: torch.Tensor) -> None:
        bucket.store(index, comm.world_size())
        while len(sent) < len(buckets) and buckets[len(sent)].is_full:
            sent.append(_Timed(buckets[len(sent)].flat))
        for message in sent:
            message.look()

    for bucket in buckets:
        for index, parameter in enumerate(bucket.parameters):
            parameter.register_post_accumulate_grad_hook(partial(arrived, bucket, index))
    return sent


class _Timed:
    """A message with the time it left, and the time of the first check that found it complete."""

    def __init__(self, flat: torch.Tensor) -> None:
        self.start, self.end = time.perf_counter(), 0.0
        self._work = comm.all_reduce_async(flat)

    def look(self) -> None:
        """Note the time if it is complete; never waits."""
        if not self.end and self._work.done():
            self.end = time.perf_counter()

    def wait(self) -> None:
        """Wait until it is complete."""
        self._work.wait()
        self.end = self.end or time.perf_counter()
