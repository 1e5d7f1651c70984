"""Every strategy that some ranks allow, side by side: the time of a step, the memory of a rank, and what was learned.

All layouts take the same steps from the same weights, whose embedding is tied and of which one is frozen. So their
losses are equal, or the row says how far off they are. The rows of a batch differ in their number of targets, and a
rank's rows sometimes have none. Layouts are timed minutes apart; a few percent between rows mean nothing.
"""

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from pllab import comm
from pllab.arguments import require
from pllab.comm.devices import describe_machine, synchronize
from pllab.comm.shared_memory import held_for_others
from pllab.show import Figure, chart, figure
from pllab.train.checkpoints import whole_weights
from pllab.train.config import TrainConfig
from pllab.train.inputs import build_model
from pllab.train.trainers import StepRecord, Trainer, losses_of_all, make_trainer

FROZEN = ("transformer.h.1.ln_1.weight",)
SMALL: dict[str, Any] = {
    "batch_size": 8,
    "n_embd": 64,
    "max_length": 12,
    "vocab_size": 65,
    "optimizer": "sgd",
    "learning_rate": 0.1,
    "device": "cpu",
}
"""The model and the steps of `equivalence`."""
_SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb_h1", "zbv", "zero_bubble")
_WARMUP = 2
"""Steps of each layout in which its memory is recorded; they are not timed."""


@dataclass(frozen=True)
class Strategy:
    """One row: the time of a step, the memory of a rank, and the deviation from one process."""

    name: str
    step_s: float
    """Median seconds of a step, of the slowest rank."""
    peak_bytes: int
    """The most bytes of tensors that a rank held at once, from before its model was made; the largest of all ranks."""
    loss_off: float
    """The largest deviation of a step's loss, relative."""
    parameters_off: float
    """The largest deviation of a parameter after the last step, relative to the largest of its tensor."""


@dataclass(frozen=True)
class StrategyComparison:
    """All rows; the first is one process alone. `most` is the largest deviation that counts as equal.

    Adam divides a gradient near zero by its own size, so parameters are compared only under plain gradient descent.
    """

    num_steps: int
    tokens: int
    most: float
    with_parameters: bool
    rows: tuple[Strategy, ...]

    @property
    def is_equal(self) -> bool:
        """Whether every row is equal."""
        return all(map(self.holds, self.rows))

    def holds(self, row: Strategy) -> bool:
        """Whether a row deviates by no more than rounding; NaN counts as more."""
        return row.loss_off <= self.most and (row.parameters_off <= self.most or not self.with_parameters)

    def table(self) -> str:
        """One line per strategy."""
        width = max(len(row.name) for row in self.rows)
        head = f"{'strategy':{width}}  step ms  tokens/s  over one  MiB a rank  loss off by  parameters off by"
        held = "losses and parameters" if self.with_parameters else "losses"
        tail = f"real; {self.num_steps} steps each, one after the other; {self.most:g} allowed for {held}, relative"
        return "\n".join([head, *(self._line(row, width) for row in self.rows), tail])

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`."""
        rows = [{**asdict(row), "is_equal": self.holds(row)} for row in self.rows]
        return {"machine": describe_machine(), **asdict(self), "rows": rows}

    def picture(self) -> Figure:
        """Time against memory, every strategy a point."""
        with chart("milliseconds of a step (median)", "MiB of tensors on a rank (largest)", 9.5, 5.5) as axes:
            for number, row in enumerate(self.rows, start=1):
                place = row.step_s * 1e3, row.peak_bytes / 2**20
                marker, color = ("s", "#E69F00") if "pytorch" in row.name else ("o", "#0072B2")
                axes.plot(*place, marker=marker, color=color, linestyle="none", label=f"{number} {row.name}")
                axes.annotate(str(number), place, xytext=(5, 3), textcoords="offset points", fontsize=9)
            axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, frameon=False)
            axes.set_ylim(bottom=0)
            axes.set_title("Strategies (real); circles ours, squares PyTorch's", loc="left")
            points = ", ".join(f"{r.name} {r.step_s * 1e3:.0f} ms {r.peak_bytes / 2**20:.1f} MiB" for r in self.rows)
            canvas: Any = axes.figure
            return figure(canvas, f"Time against memory of {len(self.rows)} strategies: {points}")

    def _line(self, row: Strategy, width: int) -> str:
        speed = f"{row.step_s * 1e3:7.1f}  {self.tokens / row.step_s:8,.0f}  {self.rows[0].step_s / row.step_s:7.2f}x"
        off = f"{row.loss_off:11.1e}  {row.parameters_off:17.1e}{'' if self.holds(row) else '   NOT EQUAL'}"
        return f"{row.name:{width}}  {speed}  {row.peak_bytes / 2**20:10.1f}  {off}"


def compare_strategies(
    *,
    num_ranks: int = 2,
    num_steps: int = 8,
    batch_size: int = 32,
    n_embd: int = 128,
    n_head: int = 4,
    timeout_s: float = 900.0,
) -> StrategyComparison:
    """Take steps of AdamW under every layout of some ranks, and of one process alone.

    Example: `print(compare_strategies().table())` takes about a minute on two cores.

    Args:
        num_ranks: 2, 4 or 8.
        num_steps: steps of each layout, the first two of which are not timed.
        batch_size: rows of the whole batch.
        n_embd: width of the GPT-2 of four blocks.
        n_head: its attention heads.
        timeout_s: the most seconds for all layouts together.

    Raises:
        ValueError: the sizes do not fit the ranks.
    """
    require(num_steps > _WARMUP, f"num_steps is {num_steps}, and the first {_WARMUP} are not timed; give at least 3")
    sizes = {"batch_size": batch_size, "n_embd": n_embd, "n_head": n_head, "max_length": 64, "vocab_size": 1024}
    fields: dict[str, Any] = {**sizes, "device": "cpu"}
    rows = compared([[TrainConfig(**fields)], list(layouts(num_ranks, **fields))], num_steps, timeout_s)
    return StrategyComparison(num_steps, batch_size * 64, 1e-4, False, rows)


def equivalence(
    *, ranks: tuple[int, ...] = (2, 4, 8), num_steps: int = 20, timeout_s: float = 600.0
) -> StrategyComparison:
    """The same small run for every layout of some numbers of ranks, by plain gradient descent.

    Example: `print(equivalence(ranks=(2,)).table())`.

    Args:
        ranks: numbers of ranks, each 2, 4 or 8.
        num_steps: steps of gradient descent.
        timeout_s: the most seconds the ranks of one number may take.

    Raises:
        ValueError: the model does not fit a number of ranks.
    """
    alone, groups = TrainConfig(**SMALL), [list(layouts(num_ranks, **SMALL)) for num_ranks in ranks]
    rows = compared([[alone], *groups], num_steps, timeout_s)
    return StrategyComparison(num_steps, alone.batch_size * alone.max_length, 1e-5, True, rows)


def layouts(num_ranks: int, **fields: Any) -> Iterator[TrainConfig]:
    """A configuration for every strategy, composition and schedule for this number of ranks, ours and PyTorch's.

    Example: `[config.run_name for config in layouts(2)]` -> `data_parallel-2`, `data_parallel-2-pytorch`, ...

    Args:
        num_ranks: 2, 4 or 8; with 8 only the layouts that have all three axes.
        fields: other fields of each `TrainConfig`.

    Raises:
        ValueError: the fields do not fit the ranks.
    """
    for axes in _axes(num_ranks):
        # Between ranks a pipeline is PyTorch's under either name, so one that is not shared over dp or tp comes once.
        if axes.get("pp") != num_ranks:
            yield TrainConfig(**fields, **axes)
        if "tp" not in axes and axes.get("zero") != 1:  # which PyTorch's classes do not do
            yield TrainConfig(**fields, **axes, implementation="pytorch")


def _axes(num_ranks: int) -> Iterator[dict[str, Any]]:
    if num_ranks == 8:
        yield from ({"dp": 2, "tp": 2, "pp": 2, "schedule": "1f1b", "loss_parallel": True, "zero": z} for z in (0, 1))
        return
    yield from ({"dp": num_ranks, "zero": zero} for zero in (0, 1, 2, 3))
    yield {"dp": num_ranks, "zero": 3, "deferred_init": True}
    yield from ({"tp": num_ranks, "loss_parallel": splits} for splits in (False, True))
    yield from ({"pp": num_ranks, "schedule": name} for name in (_SCHEDULES if num_ranks == 2 else ("gpipe", "1f1b")))
    if num_ranks == 4:
        yield from ({"dp": 2, "tp": 2, "zero": zero, "loss_parallel": zero > 0} for zero in (0, 1, 2, 3))
        yield {"dp": 2, "tp": 2, "zero": 3, "deferred_init": True}
        yield from ({"dp": 2, "pp": 2, "schedule": name} for name in _SCHEDULES)
        yield from ({"dp": 2, "pp": 2, "schedule": name, "zero": 1} for name in ("1f1b", "interleaved", "zbv"))
        yield from ({"tp": 2, "pp": 2, "schedule": name, "loss_parallel": name == "1f1b"} for name in ("gpipe", "1f1b"))


def compared(
    groups: Sequence[Sequence[TrainConfig]], num_steps: int, timeout_s: float, frozen: tuple[str, ...] = FROZEN
) -> tuple[Strategy, ...]:
    """A row for each configuration against the first; those of a group have the same number of ranks."""
    rows: list[Strategy] = []
    reference: Trained | None = None
    for configs in groups:
        given, num_ranks = (configs, num_steps, frozen), configs[0].world_size
        outcomes = comm.launch(_in_rank, num_ranks, *given, backend="gloo", timeout_s=timeout_s)[0]
        for config, outcome in zip(configs, outcomes, strict=True):
            reference = reference or outcome
            off = deviation(outcome, reference)
            rows.append(Strategy(config.run_name, outcome.step_s, outcome.peak_bytes, *off))
    return tuple(rows)


class Trained(NamedTuple):
    """The loss of the whole batch in each step, the weights at the end, and the most time and memory of a rank."""

    losses: list[float]
    step_s: float
    peak_bytes: int
    parameters: Mapping[str, torch.Tensor]
    """After the last step, whole."""


def trained(config: TrainConfig, num_steps: int, frozen: tuple[str, ...] = FROZEN) -> Trained:
    """Train a layout on the batches of all.

    Args:
        config: the layout.
        num_steps: steps.
        frozen: prefixes of the names of parameters that do not train.
    """
    records, seconds = list[StepRecord](), list[float]()

    def take(trainer: Trainer, number: int) -> None:
        share = share_of(batch(number, config), config)
        comm.barrier()
        start = time.perf_counter()
        records.append(trainer.step(share))
        synchronize()
        seconds.append(time.perf_counter() - start)

    gc.collect()  # what is freed in the recording would count there
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        model = build_model(config, config.vocab_size)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(not name.startswith(frozen))
        trainer = make_trainer(config, config.vocab_size, model)
        trainer.updates.begin(num_steps)
        for number in range(min(_WARMUP, num_steps)):
            take(trainer, number)
    elsewhere = held_for_others()  # torch counts what is mapped on every rank that maps it
    for number in range(_WARMUP, num_steps):
        take(trainer, number)
    parameters = {name: whole.clone() for name, whole in whole_weights(trainer)}
    trainer.close()
    losses, _ = losses_of_all(records, config.dp)
    return Trained(losses, *_of_the_rank_with_most(seconds, _peak_bytes(recorded) - elsewhere), parameters)


def share_of(whole: dict[str, torch.Tensor], config: TrainConfig) -> dict[str, torch.Tensor]:
    """The rows of this rank's replica."""
    number, size = config.share_of(comm.rank()), config.batch_size // config.dp
    return {name: rows[number * size : (number + 1) * size] for name, rows in whole.items()}


def batch(number: int, config: TrainConfig) -> dict[str, torch.Tensor]:
    """Ids and labels, both (rows, time); row r has r fewer targets than the first, and the last half sometimes none."""
    generator, rows, length = torch.Generator().manual_seed(number), config.batch_size, config.max_length
    ids = torch.randint(config.vocab_size, (rows, length), generator=generator)
    has_target = torch.arange(length)[None] < length - torch.arange(rows)[:, None] % length
    if number % 3 == 1:
        has_target[rows // 2 :] = False
    return {"input_ids": ids, "labels": ids.where(has_target, -100)}


def _peak_bytes(recorded: Any) -> int:
    """The most bytes of tensors that were there at once since a recording began."""
    events = [event for event in recorded.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def deviation(outcome: Trained, reference: Trained) -> tuple[float, float]:
    """How far losses and parameters are from the reference's, relative."""
    off = [abs(ours - theirs) / abs(theirs) for ours, theirs in zip(outcome.losses, reference.losses, strict=True)]
    far = [
        float((outcome.parameters[name] - value).abs().max() / value.abs().max().clamp(min=1e-30))
        for name, value in reference.parameters.items()
    ]
    return float(torch.tensor(off).max()), float(torch.tensor(far).max())  # torch's max keeps what is not a number


def _of_the_rank_with_most(seconds: Sequence[float], peak_bytes: int) -> tuple[float, int]:
    """The median of the steps, each as long as on its slowest rank, and the most bytes."""
    of_ranks = comm.all_gather_object((seconds, peak_bytes))
    slowest = [max(times) for times in zip(*(seconds for seconds, _ in of_ranks), strict=True)]
    return median(slowest[_WARMUP:] or slowest), max(held for _, held in of_ranks)


def _in_rank(
    _rank: int, _world_size: int, configs: Sequence[TrainConfig], num_steps: int, frozen: tuple[str, ...]
) -> list[Trained]:
    """The function of a launched rank."""
    return [trained(config, num_steps, frozen) for config in configs]
