"""What a message costs: its latency, its bytes, and the gradients of a GPT-2 cut into few or many messages.

One launch measures the time of an all-reduce by its size, the same gradients in buckets of several sizes, the sum
in shared memory, whole training steps with one message after backward and with buckets under it, and the timeline
of one backward whose buckets leave while it runs.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from pllab import comm
from pllab.bench.measure import Comparison, Spread, compare
from pllab.models import GPT2LMHeadModelParallel, gpt2_config
from pllab.parallel import average_flat, broadcast_parameters, plan_buckets
from pllab.parallel.overlap import average_in_backward
from pllab.schedule import Action, Kind
from pllab.timeline import Span, Timeline

SHARED = "shared memory"
FLAT, OVERLAPPED, ALONE = "flat", "overlapped", "no messages"  # ways to average in a whole step
_OVERLAP_BYTES = 2**19  # bytes of a bucket that leaves while backward runs
SIZES = (2**8, 2**12, 2**15, 2**17, 2**19, 2**21, 2**22)  # bytes of the messages that the line is fitted to
BUCKETS = (1, 2**16, 2**18, 2**20, 2**30)  # bytes of a bucket; 1 holds one gradient, 2**30 holds all


@dataclass(frozen=True)
class MessageCost:
    """A message of n bytes takes `alpha_s + beta_s * n` seconds: the latency, and the time of a byte.

    Example: with 100 us and 1 ns per byte, 148 messages of 2.5 MB in all take 17.3 ms and one takes 2.6 ms.
    """

    alpha_s: float
    beta_s: float

    def seconds(self, num_messages: int, num_bytes: float) -> float:
        """Predict the time of some messages, one after the other, that carry so many bytes together."""
        return self.alpha_s * num_messages + self.beta_s * num_bytes


def fit_cost(num_bytes: Sequence[float], seconds: Sequence[float]) -> MessageCost:
    """Fit latency and time per byte to measured times, by least squares of the relative errors.

    Example: `fit_cost([0, 1000], [1.0, 3.0])` is `MessageCost(alpha_s=1.0, beta_s=0.002)`. Relative, because
    else the largest message alone would decide.

    Raises:
        ValueError: fewer than two sizes, or a time that is not above 0.
    """
    if len(set(num_bytes)) < 2 or min(seconds) <= 0:
        raise ValueError(f"sizes {list(num_bytes)} with times {list(seconds)} fix no line; measure two sizes or more")
    rows = torch.tensor([[1.0, size] for size in num_bytes], dtype=torch.float64)
    times = torch.tensor(list(seconds), dtype=torch.float64).unsqueeze(1)
    scale = rows[:, 1].max()  # seconds and bytes are far apart; without it the small one drowns
    rows[:, 1] /= scale
    alpha, beta = torch.linalg.lstsq(rows / times, torch.ones_like(times)).solution.flatten()
    return MessageCost(float(alpha), float(beta / scale))


@dataclass(frozen=True)
class MessagesBench:
    """Measured on some ranks: what a message costs, and the gradients of one model sent in several ways.

    `ways` compares the bucket sizes in bytes as text ("65536") and `SHARED`; `num_messages` says how many each
    sends. `gradient_bytes` lists the gradients in the order in which backward makes them. `steps` compares forward,
    backward and averaging: `FLAT` sends one message after backward, `OVERLAPPED` buckets while it runs, and `ALONE`
    averages nothing.
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
    seen = comm.launch(_measure, world_size, num_layers, width, repeats, backend="gloo", timeout_s=timeout_s)
    by_size, ways, num_messages, steps, gradient_bytes = seen[0][:5]
    # The lower quartile: what else runs on the machine only ever adds to the time of a message.
    cost = fit_cost([int(size) for size in by_size.seconds], [by_size.time(size).low for size in by_size.seconds])
    timeline = Timeline.of([span for *_, spans in seen for span in spans], "real", world_size)
    return MessagesBench(world_size, by_size, cost, ways, num_messages, steps, tuple(gradient_bytes), timeline)


def _measure(rank: int, world_size: int, num_layers: int, width: int, repeats: int) -> tuple[Any, ...]:
    """What each rank runs, in step with the others."""
    del world_size
    torch.manual_seed(0)
    config = gpt2_config("tiny", 512, n_layer=num_layers, n_embd=width, n_head=2)
    model = GPT2LMHeadModelParallel(config)
    sizes = {str(size): partial(comm.all_reduce, torch.zeros(size // 4)) for size in SIZES}
    by_size = compare(sizes, 4 * repeats, 3, in_step=True)
    ways, num_messages = _ways(model)
    comparison = compare(ways, repeats, 2, baseline=str(BUCKETS[-1]), in_step=True)
    steps = _compare_steps(rank, [GPT2LMHeadModelParallel(config) for _ in range(3)], repeats)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad][::-1]
    gradient_bytes = [parameter.numel() * parameter.element_size() for parameter in parameters]
    return by_size, comparison, num_messages, steps, gradient_bytes, _spans(rank, model)


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


def _compare_steps(rank: int, models: Sequence[torch.nn.Module], repeats: int) -> Comparison:
    """Whole steps on models of one kind, as hooks stay where they were put; nothing is updated."""
    flat, overlapped, alone = models
    for model in (flat, overlapped):
        broadcast_parameters(model)
    wait = average_in_backward(overlapped, _OVERLAP_BYTES)
    step = partial(_step, _tokens(rank))
    runs: dict[str, Callable[[], object]] = {
        FLAT: partial(step, flat, partial(average_flat, flat)),
        OVERLAPPED: partial(step, overlapped, wait),
        ALONE: partial(step, alone, lambda: None),
    }
    return compare(runs, repeats, 2, baseline=FLAT, in_step=True)


def _step(tokens: torch.Tensor, model: torch.nn.Module, finish: Callable[[], object]) -> None:
    model.zero_grad()
    model(input_ids=tokens, labels=tokens).loss.backward()
    finish()


def _tokens(rank: int) -> torch.Tensor:
    """A batch of two rows, another one on each rank."""
    return torch.randint(512, (2, 128), generator=torch.Generator().manual_seed(rank))


def _spans(rank: int, model: torch.nn.Module, num_steps: int = 4) -> list[Span]:
    """The last of some steps of forward, backward and buckets that leave while it runs."""
    broadcast_parameters(model)
    clock = _Clock()
    wait = average_in_backward(model, _OVERLAP_BYTES, clock.send)
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(clock.look)
    tokens = _tokens(rank)
    for _ in range(num_steps):
        model.zero_grad()
        clock.sent.clear()
        comm.barrier()
        start = time.perf_counter()
        loss = model(input_ids=tokens, labels=tokens).loss
        middle = time.perf_counter()
        loss.backward()
        end = time.perf_counter()
        wait()
    moments = [(Kind.F, 0, start, middle), (Kind.B, 0, middle, end)]
    moments += [(Kind.C, number, *one.times()) for number, one in enumerate(clock.sent)]
    return [Span(rank, Action(0, kind, number), begin - start, stop - start) for kind, number, begin, stop in moments]


class _Timed:
    """A message with the moment it left and the first moment at which it was seen to be complete."""

    def __init__(self, flat: torch.Tensor) -> None:
        self.start, self.end = time.perf_counter(), 0.0
        self.work = comm.all_reduce_async(flat)

    def look(self) -> None:
        """Note the time if it is complete; never waits."""
        if not self.end and self.work.done():
            self.end = time.perf_counter()

    def wait(self) -> None:
        """Wait until it is complete."""
        self.work.wait()
        self.look()

    def times(self) -> tuple[float, float]:
        """Start and end in seconds."""
        return self.start, self.end or time.perf_counter()


class _Clock:
    """Starts messages and looks, whenever a gradient arrives, which of them are complete."""

    def __init__(self) -> None:
        self.sent: list[_Timed] = []

    def send(self, flat: torch.Tensor) -> _Timed:
        """Start the sum of a bucket."""
        self.sent.append(_Timed(flat))
        return self.sent[-1]

    def look(self, _: torch.Tensor) -> None:
        """Look at all that are under way."""
        for one in self.sent:
            one.look()
