"""Every strategy that some ranks allow, side by side: the time of a step against the memory of a rank.

All layouts take the same steps from the same weights, so their losses are equal, or the row says how far off. Steps of
different layouts are minutes apart; differences of a few percent between rows mean nothing.
"""

import gc
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from pllab import comm
from pllab.show import Figure, figure
from pllab.train.config import TrainConfig
from pllab.train.layouts import layouts, loss_of_all, share_of
from pllab.train.trainers import make_trainer

_VOCAB, _TIME = 1024, 64
_SAME = 1e-4


@dataclass(frozen=True)
class Strategy:
    """One row: what a step took, what a rank held, and what was learned."""

    name: str
    step_s: float
    """Median seconds of a step, of the slowest rank."""
    tokens_per_s: float
    """Tokens of the whole batch over that time."""
    peak_bytes: int
    """The most bytes of tensors that a rank held at once, since before its model was made; the largest of all ranks."""
    loss: float
    """Loss of the last step over the whole batch."""


@dataclass(frozen=True)
class StrategyComparison:
    """All rows; the first is one rank alone."""

    num_ranks: int
    num_steps: int
    rows: tuple[Strategy, ...]

    def table(self) -> str:
        """One line per strategy."""
        width = max(len(row.name) for row in self.rows)
        head = f"{'strategy':{width}}  step ms  tokens/s  over one  MiB a rank  loss"
        return "\n".join([head, *(self._line(row, width) for row in self.rows), self._sentence()])

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`."""
        return asdict(self)

    def picture(self) -> Figure:
        """Time against memory, every strategy a point."""
        from matplotlib.figure import Figure as Canvas

        fig = Canvas(figsize=(9.5, 5.5), layout="constrained")
        axes = fig.add_subplot()
        for number, row in enumerate(self.rows, start=1):
            is_torch = "pytorch" in row.name
            place = row.step_s * 1e3, row.peak_bytes / 2**20
            marker, color = ("s", "#E69F00") if is_torch else ("o", "#0072B2")
            axes.plot(*place, marker=marker, color=color, linestyle="none", label=f"{number} {row.name}")
            axes.annotate(str(number), place, xytext=(5, 3), textcoords="offset points", fontsize=9)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, frameon=False)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("milliseconds of a step (median)")
        axes.set_ylabel("MiB of tensors on a rank (largest)")
        axes.set_title(f"Strategies of {self.num_ranks} ranks (real); circles ours, squares PyTorch's", loc="left")
        points = ", ".join(f"{r.name} {r.step_s * 1e3:.0f} ms {r.peak_bytes / 2**20:.1f} MiB" for r in self.rows)
        return figure(fig, f"Time against memory of {len(self.rows)} strategies: {points}")

    def _line(self, row: Strategy, width: int) -> str:
        alone = self.rows[0]
        off = abs(row.loss - alone.loss) / abs(alone.loss)
        why = "" if off <= _SAME else f"   NOT EQUAL: {off:.1e} from one rank"
        speed = f"{row.step_s * 1e3:7.1f}  {row.tokens_per_s:8,.0f}  {alone.step_s / row.step_s:7.2f}x"
        return f"{row.name:{width}}  {speed}  {row.peak_bytes / 2**20:10.1f}  {row.loss:.5f}{why}"

    def _sentence(self) -> str:
        return f"real; {self.num_ranks} ranks on this host, {self.num_steps} steps each, one after the other"


def compare_strategies(
    *,
    num_ranks: int = 2,
    num_steps: int = 8,
    batch_size: int = 32,
    n_embd: int = 128,
    n_head: int = 4,
    timeout_s: float = 900.0,
) -> StrategyComparison:
    """Take steps under every layout of some ranks, and of one rank alone.

    Example: `print(compare_strategies().table())` takes about a minute on two cores.

    Args:
        num_ranks: 2 or 4.
        num_steps: steps of each layout, the first two of which are not timed.
        batch_size: rows of the whole batch.
        n_embd: width of the GPT-2 of four blocks.
        n_head: its attention heads.
        timeout_s: the most seconds for all layouts together.

    Raises:
        ValueError: the sizes do not fit the ranks.
    """
    if num_ranks not in (2, 4) or num_steps < 3:
        raise ValueError(f"num_ranks is {num_ranks} and num_steps {num_steps}; give 2 or 4 ranks and at least 3 steps")
    fields: dict[str, Any] = {
        "batch_size": batch_size,
        "n_embd": n_embd,
        "n_head": n_head,
        "max_length": _TIME,
        "device": "cpu",
    }
    alone, configs = TrainConfig(**fields), list(layouts(num_ranks, **fields))
    options: Any = {"backend": "gloo", "num_threads": 1, "timeout_s": timeout_s}
    rows = comm.launch(_rows, 1, [alone], num_steps, **options)[0]
    rows += comm.launch(_rows, num_ranks, configs, num_steps, **options)[0]
    return StrategyComparison(num_ranks, num_steps, tuple(rows))


def _rows(
    rank: int,  # noqa: ARG001 - what launch calls
    world_size: int,  # noqa: ARG001
    configs: Sequence[TrainConfig],
    num_steps: int,
) -> list[Strategy]:
    os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # torch's profiler tells stderr when it starts and stops
    return [_row(config, num_steps) for config in configs]


def _row(config: TrainConfig, num_steps: int) -> Strategy:
    held = _peak_bytes(config)
    seconds, loss = _timed(config, num_steps)
    slowest = [max(times) for times in zip(*comm.all_gather_object(seconds), strict=True)]
    step_s = median(slowest[2:])
    tokens = config.batch_size * _TIME
    return Strategy(config.label, step_s, tokens / step_s, max(comm.all_gather_object(held)), loss)


def _timed(config: TrainConfig, num_steps: int) -> tuple[list[float], float]:
    trainer = make_trainer(config, _VOCAB)
    trainer.updates.begin(num_steps)
    seconds, loss = [], 0.0
    for number in range(num_steps):
        batch = share_of(_batch(config, number), config)
        comm.barrier()
        start = time.perf_counter()
        record = trainer.step(batch)
        seconds.append(time.perf_counter() - start)
        loss = loss_of_all(record)
    trainer.close()
    del trainer
    gc.collect()
    return seconds, loss


def _peak_bytes(config: TrainConfig) -> int:
    """The most bytes of tensors while a trainer was made and took two steps; of shared memory, this rank's part."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        trainer = make_trainer(config, _VOCAB)
        trainer.updates.begin(2)
        for number in range(2):
            trainer.step(share_of(_batch(config, number), config))
        comm.barrier()
        elsewhere = comm.held_for_others()  # torch counts what is mapped on every rank that maps it
        comm.barrier()
        trainer.close()
        del trainer
        gc.collect()  # what is freed in the next recording would count there
    events = [event for event in recorded.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak - elsewhere


def _batch(config: TrainConfig, number: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(number)
    ids = torch.randint(_VOCAB, (config.batch_size, _TIME), generator=generator)
    return {"input_ids": ids, "labels": ids}
