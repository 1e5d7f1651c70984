"""What a message costs: its latency, its bytes, and the gradients of a GPT-2 cut into few or many messages.

One launch measures the time of an all-reduce by its size, the same gradients in buckets of several sizes, and the sum
in shared memory. It also measures whole training steps, with one message after backward and with buckets during it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from pllab import comm
from pllab.bench.measure import Comparison, Spread, compare
from pllab.models import GPT2LMHeadModelParallel, gpt2_config
from pllab.parallel import DataParallel, plan_buckets
from pllab.simulate import MessageCost

SHARED = "shared memory"
FLAT, OVERLAPPED, ALONE = "flat", "overlapped", "no messages"  # ways to average in a whole step
_OVERLAP_BYTES = 512_000  # bytes of a bucket that leaves while backward runs
SIZES = (2**8, 2**12, 2**15, 2**17, 2**19, 2**21, 2**22)  # bytes of the messages that the line is fitted to
BUCKETS = (1, 64_000, 256_000, 1_024_000, 10**9)  # bytes of a bucket; 1 holds one gradient, 10**9 holds all


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

    `ways` compares the bucket sizes in bytes as text ("64000") and `SHARED`; `num_messages` has the number of messages
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
    by_size, ways, num_messages, steps, gradient_bytes = by_rank[0]
    return MessagesBench(world_size, by_size, cost_of(by_size), ways, num_messages, steps, tuple(gradient_bytes))


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
    return by_size, by_way, num_messages, steps, gradient_bytes


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
