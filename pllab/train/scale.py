"""Any mesh without a cluster: the trainer's own step as one rank of thousands, on tensors without values.

For each pipeline coordinate this process is the rank with dp 0 and tp 0, whose slices are the largest, under the
backend `fake`. It makes the same model, mesh, stages and optimizer as a run and takes one step, of which the ledger has
the messages; of a pipeline's micro-batches, which are equal, one stands for all. So the counts are those of the code,
not of a formula; tests hold them against formulas and real ranks.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from itertools import groupby
from typing import Any, Literal, NamedTuple

import torch

from pllab import comm, models
from pllab.arguments import require, whole_number
from pllab.models.new_gpt2 import gpt2_config
from pllab.parallel.byte_count import held_bytes
from pllab.schedule import FAMILIES, FamilyName, Schedule
from pllab.simulate import Costs, simulate
from pllab.train.config import TrainConfig
from pllab.train.inputs import meta_model
from pllab.train.trainers import Pipelined, Trainer, make_trainer, packet_of, stage_sizes

_GIB = 2**30
_MOST_ROWS = 1_000_000  # of a rank in a step; torch counts the numbers of a tensor in 64 bits
_MOST_RANKS = 1 << 17  # torch makes a list of them; a million take minutes


@dataclass(frozen=True)
class Machine:
    """The assumed costs of work and messages, for the step time; the defaults are round numbers for an H100 cluster.

    Raises:
        ValueError: a number is below 0.
    """

    s_per_flop: float = 2.5e-15
    """Seconds per multiplication or addition of a rank, as measured; 2.5e-15 is 400 TFLOP/s."""
    tp_alpha_s: float = 1e-5
    """Seconds to start a message between ranks of a tp group."""
    tp_beta_s: float = 1 / 450e9
    """Seconds per byte between ranks of a tp group."""
    dp_alpha_s: float = 2e-5
    """Seconds to start a message between ranks of a dp group."""
    dp_beta_s: float = 1 / 50e9
    """Seconds per byte between ranks of a dp group."""
    alpha_s: float = 2e-5
    """Seconds to start any other message: of a pipeline, of its ends, of all ranks."""
    beta_s: float = 1 / 50e9
    """Seconds per byte of any other message."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            require(0 <= value < math.inf, f"{name} is {value}; give seconds from 0")

    def message_s(self, axis: str, num_bytes: float) -> float:
        """Seconds of a message along an axis for which a rank sends this many bytes."""
        wire = f"{axis}_" if axis in ("tp", "dp") else ""
        return float(getattr(self, f"{wire}alpha_s") + getattr(self, f"{wire}beta_s") * num_bytes)


class Count(NamedTuple):
    """The messages of one kind that a rank takes part in during a step.

    `axis` is dp, tp or pp, `tied` for the ranks that share the embedding, or `all` if that is more than an axis.
    `num_bytes` is the payload, of an all-gather this rank's part; `traffic` is what the rank sends for it in a ring.
    """

    axis: str
    name: str
    num_messages: int
    num_bytes: int
    traffic: Fraction


@dataclass(frozen=True)
class RankCount:
    """One rank's step: the first rank of a pipeline coordinate."""

    counts: tuple[Count, ...]
    peak: dict[str, int]
    """Bytes by kind at the moment of the largest sum, without activations and autograd's temporary sums."""
    tp_s: dict[tuple[int, bool], float] = field(repr=False)
    """Seconds of the messages over tp of all F's (True) and of all backwards of a stage."""
    after_s: float = field(repr=False)
    """Seconds of the messages sent once in a step: over dp, between the ranks that share the embedding, and by all."""

    @property
    def peak_bytes(self) -> int:
        """All kinds together."""
        return sum(self.peak.values())


class StepTime(NamedTuple):
    """The simulated seconds of a step, by what they are for; they add up.

    Drawn, for one stage and two micro-batches:

        F tp  F tp  B tp  B tp  dp

    Messages of tp make an action longer, because it waits for them; those of dp follow the last action. Nothing
    overlaps, so this is an upper bound for code that hides messages behind work.
    """

    compute_s: float
    """The schedule with free messages: the work, and the bubble."""
    pp_s: float
    """The time that packets between stages add."""
    tp_s: float
    """The time that the messages of split layers add."""
    dp_s: float
    """The time of the messages after the schedule: gradients, weights, the norm."""

    @property
    def total_s(self) -> float:
        """All of it."""
        return sum(self)

    def text(self) -> str:
        """The sum in words."""
        parts = [f"{name[:-2]} {seconds:.3g}" for name, seconds in self._asdict().items()]
        return f"{self.total_s:.3g} s a step, simulated: {' + '.join(parts)}"


@dataclass(frozen=True)
class Scale:
    """The counts of every pipeline coordinate, and the step time of the layout."""

    config: TrainConfig
    num_parameters: int
    ranks: tuple[RankCount, ...]
    time: StepTime
    schedule: Schedule = field(repr=False)
    """The order of work of one pipeline."""
    costs: Costs = field(repr=False)
    """The seconds of its stages, messages of tp included: `simulate` of both, and `time.dp_s`, are the step time."""

    @property
    def peak_bytes(self) -> int:
        """The most bytes that a rank holds, without activations."""
        return max(rank.peak_bytes for rank in self.ranks)

    def table(self) -> str:
        """A line for each kind of message and a line of bytes, for coordinates with equal counts once."""
        config = self.config
        lines = [
            f"{self.num_parameters:,} parameters: {config.n_layer} layers of width {config.n_embd}; {config.dtype}",
            f"{config.world_size:,} ranks = dp {config.dp} x tp {config.tp} x pp {config.pp}, zero {config.zero}; "
            f"a step of {config.batch_size:,} rows of {config.max_length} tokens",
            f"{'pp':>6}  {'axis':4} {'operation':14} {'messages':>9} {'payload bytes':>19} {'sent in a ring':>19}",
        ]
        for where, rank in self._distinct():
            lines += [
                f"{where:>6}  {c.axis:4} {c.name:14} {c.num_messages:9,} {c.num_bytes:19,} {float(c.traffic):19,.0f}"
                for c in rank.counts
            ]
            kinds = ", ".join(f"{kind} {size / _GIB:.2f}" for kind, size in rank.peak.items() if size)
            lines.append(f"{where:>6}  peak {rank.peak_bytes / _GIB:.2f} GiB without activations: {kinds}")
        return "\n".join([*lines, self.time.text()])

    def _distinct(self) -> Iterator[tuple[str, RankCount]]:
        """Groups of neighbours with equal counts, as `1-6` and the first of them."""
        for _, equal in groupby(enumerate(self.ranks), key=lambda each: (each[1].counts, each[1].peak)):
            (first, rank), *others = equal
            yield f"{first}-{others[-1][0]}" if others else f"{first}", rank


def scale(
    machine: Machine = Machine(),  # noqa: B008 - it is frozen
    *,
    model: str = "gpt2",
    world_size: int = 1,
    dp: int = 1,
    tp: int = 1,
    pp: int = 1,
    zero: Literal[0, 1, 2, 3] = 0,
    schedule: FamilyName = "1f1b",
    loss_parallel: bool = False,
    rows: int = 1,
    num_microbatches: int | None = None,
    max_length: int = 1024,
    vocab_size: int = 50257,
    dtype: Literal["float32", "bfloat16"] = "float32",
) -> Scale:
    """Count the messages and the bytes of a step on any mesh, without a cluster, and simulate its time.

    Example: `print(scale(model="405B", dp=256, tp=8, pp=8, zero=1).table())`, 16,384 ranks in less than a minute.

    Args:
        machine: what work and messages cost.
        model: GPT-2 by size, tiny, small, gpt2, medium, large, xl, 1B, 6.7B, 13B, 70B, 175B or 405B.
        world_size: number of ranks; 1 takes the product of the axes.
        dp: ranks that share the batch.
        tp: ranks that split each layer.
        pp: ranks that share the layers as a pipeline.
        zero: what dp shards; with a pipeline 0 or 1.
        schedule: order of forwards and backwards of the pipeline.
        loss_parallel: leave logits split over tp.
        rows: rows of a micro-batch.
        num_microbatches: micro-batches of a rank in a step; by default twice pp, and 1 without a pipeline.
        max_length: tokens of a row.
        vocab_size: entries of the vocabulary; tp may share it unequally.
        dtype: number type of parameters, gradients, moments and activations.

    Raises:
        ValueError: the axes contradict each other, or the model, or a count is below 1, or as `count_layout`.
    """
    size, usual = gpt2_config(model), 2 * pp if pp > 1 else 1
    parts = usual if num_microbatches is None else num_microbatches
    of_pipeline: Any = {"num_microbatches": parts, "schedule": schedule} if pp > 1 else {"accumulation": parts}
    axes: Any = {"world_size": world_size, "dp": dp, "tp": tp, "pp": pp, "zero": zero, "loss_parallel": loss_parallel}
    sizes: Any = {"n_layer": size.n_layer, "n_embd": size.n_embd, "n_head": size.n_head, "vocab_size": vocab_size}
    shape = axes | sizes | of_pipeline | {"batch_size": dp * rows * parts, "max_length": max_length, "dtype": dtype}
    return count_layout(TrainConfig(**shape, gradient_clipping=1.0), machine)


def count_layout(config: TrainConfig, machine: Machine) -> Scale:
    """`scale` for a configuration of this package's classes that is not searched and recomputes nothing.

    Raises:
        ValueError: there are more than 131,072 ranks, or a million rows of one in a step.
    """
    whole_number("world_size", config.world_size, most=_MOST_RANKS)
    whole_number("rows x num_microbatches", config.batch_size // config.dp, most=_MOST_ROWS)
    ranks = tuple(_count(coordinate, config, machine) for coordinate in range(config.pp))
    num_parameters = sum(parameter.numel() for parameter in meta_model(config, config.vocab_size).parameters())
    return Scale(config, num_parameters, ranks, *_timed(config, ranks, machine))


def _count(coordinate: int, config: TrainConfig, machine: Machine) -> RankCount:
    with comm.counted_rank(coordinate * config.dp * config.tp, config.world_size):
        trainer = make_trainer(config, config.vocab_size, meta_model(config, config.vocab_size))
        alone = next((axis for axis in comm.AXES if getattr(config, axis) == config.world_size), "all")
        axes = {comm.group_name(comm.group_of(trainer.mesh, axis)): axis for axis in comm.AXES}
        watch = _Watch(trainer, axes | {comm.group_name(): alone}, machine)
        shape = config.batch_size // config.dp, config.max_length
        batch = {name: torch.empty(shape, dtype=torch.int64, device="meta") for name in ("input_ids", "labels")}
        with comm.record_messages(watch.note):
            trainer.step(batch)
    return RankCount(tuple(watch.counts()), watch.peak, watch.tp_s, watch.after_s)


class _Watch:
    """What a rank holds and sends during a step, after a first one without messages that made the optimizer's state."""

    def __init__(self, trainer: Trainer, axes: dict[str, str], machine: Machine) -> None:
        self._trainer, self._axes, self._machine = trainer, axes, machine
        self._parameters = list(trainer.shared.parameters())
        for parameter in self._parameters:
            parameter.grad = torch.zeros_like(parameter)
        trainer.updates.step()
        self._sent: defaultdict[tuple[str, str], list[tuple[int, int, Fraction]]] = defaultdict(list)
        self.peak: dict[str, int] = {}
        self.tp_s: defaultdict[tuple[int, bool], float] = defaultdict(float)
        self.after_s = 0.0
        # All gradients are whole then, whether or not a message travelled.
        trainer.updates.optimizer.register_step_pre_hook(lambda *_: self.look())

    def note(self, message: comm.Message) -> None:
        """Write down a message before it is sent; one of an action stands for those of all micro-batches."""
        axis = "pp" if message.name in ("send", "receive") else self._axes.get(message.group, "tied")
        order = self._trainer.schedule
        action = self._trainer.running() if isinstance(self._trainer, Pipelined) else None
        times = order.num_microbatches if order and action else 1
        traffic = comm.traffic(message)
        self._sent[axis, message.name].append((times, times * message.num_bytes, times * traffic))
        seconds = times * self._machine.message_s(axis, float(traffic))
        if axis == "tp":
            self.tp_s[(action.stage, action.kind == "F") if action else (0, True)] += seconds
        elif axis != "pp":
            self.after_s += seconds
            self.look(message.num_bytes if axis == "tied" else 0)

    def look(self, num_message_bytes: int = 0) -> None:
        """Add up the storages that are held now, each once, and keep the largest sum."""
        sizes = held_bytes(self._trainer.shared, self._parameters, [self._trainer.updates.optimizer])
        sizes["messages"] += num_message_bytes
        self.peak = max(self.peak, sizes, key=lambda each: sum(each.values()))

    def counts(self) -> Iterator[Count]:
        """The messages by axis and name."""
        for (axis, name), sent in sorted(self._sent.items()):
            numbers, sizes, traffic = zip(*sent, strict=True)
            yield Count(axis, name, sum(numbers), sum(sizes), sum(traffic, Fraction()))


def _timed(config: TrainConfig, ranks: Sequence[RankCount], machine: Machine) -> tuple[StepTime, Schedule, Costs]:
    """The schedule with work as FLOP and messages as counted; the coordinate that sends longest ends the step."""
    parts = config.num_microbatches or config.accumulation
    schedule = FAMILIES[config.schedule].make(config.pp, parts)
    sent = {action: seconds / parts for rank in ranks for action, seconds in rank.tp_s.items()}
    work = _work_s(config, schedule, machine)
    packet = packet_of(config, parts).nbytes if schedule.num_stages > 1 else 0
    costs = Costs(work, work, work, machine.message_s("pp", packet))
    forward, backward = (
        [alone + sent.get((stage, is_forward), 0.0) for stage, alone in enumerate(work)] for is_forward in (True, False)
    )
    with_tp = replace(costs, forward=forward, backward_input=backward)
    steps = (replace(costs, p2p=0.0), costs, with_tp)
    alone, together, waiting = (simulate(schedule, each).makespan for each in steps)
    after_s = max(rank.after_s for rank in ranks)
    return StepTime(alone, together - alone, waiting - together, after_s), schedule, with_tp


def _work_s(config: TrainConfig, schedule: Schedule, machine: Machine) -> list[float]:
    """Two FLOP for each multiplication of a token in F, and the same in I and in W; split equally over tp."""
    model = meta_model(config, config.vocab_size)
    layers = iter(models.layer_costs(model.config, config.max_length))
    tokens = config.batch_size // config.dp // schedule.num_microbatches * config.max_length
    flops = [2 * tokens * sum(next(layers) for _ in range(size)) / config.tp for size in stage_sizes(model, config)]
    return [machine.s_per_flop * each for each in flops]
