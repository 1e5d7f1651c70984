"""The time and memory of a layout by a closed form, and how well a rule chooses among layouts measured elsewhere.

`scale` takes seconds to count one layout, and a plan compares hundreds. So the form says in a few lines what lessons 10
to 13 found: work, bubble and messages make the time; weights, gradients, optimizer and activations make the memory.
Tests compare it with `scale`. Published measurements show how good its choices are; nothing was fitted to them.
"""

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import accumulate
from operator import mul
from typing import NamedTuple

from pllab.train.scale import Machine

# Layers and width of Llama 3, by billions of parameters. The publication does not say them, so they are assumed.
_SHAPES = {1: (16, 2048), 3: (28, 3072), 8: (32, 4096)}


class Model(NamedTuple):
    """A transformer, as far as the closed form knows it."""

    num_layers: int
    width: int
    vocab_size: int
    num_tokens: int
    """Tokens of a row."""
    element_bytes: int = 2
    """Bytes of a weight and an activation. A gradient has 4; of weights of 2 bytes the optimizer has a copy of 4."""
    kept: float = 17.0
    """Numbers per token that a layer keeps for its backward, in widths."""


class Layout(NamedTuple):
    """How ranks share a step, the rows of a micro-batch, and the number of micro-batches on each dp rank."""

    dp: int
    tp: int
    pp: int
    rows: int = 1
    num_microbatches: int = 1
    zero: int = 0


class Price(NamedTuple):
    """The seconds of a step, and the bytes of the rank that holds the most, including activations."""

    seconds: float
    num_bytes: float


Rule = Callable[[Sequence[Layout], Callable[[Layout], Price]], Layout]
"""Chooses one of the layouts; the second argument tells the price of each."""


def price_of(model: Model, layout: Layout, machine: Machine) -> Price:
    """The step and the memory of a layout by a closed form, in which all stages are equal and nothing overlaps.

    Example: `price_of(Model(12, 768, 50257, 1024), Layout(1, 1, 1), Machine())`, GPT-2 on an H100: 2.2 ms and 2.7 GB.

    The head counts as blocks with as many weights. Under 1F1B stage 0 holds the most: a micro-batch for each stage,
    and the embedding beside its blocks.

    Source: Korthikanti et al. 2022 for activations, 34 bytes x width a token and block, split over tp; Rajbhandari et
    al. 2020 for what ZeRO shards; Narayanan et al. 2021 for the bubble.
    """
    dp, tp, pp, rows, m, zero = layout
    width, tokens = model.width, rows * model.num_tokens
    blocks = model.num_layers + model.vocab_size / (12 * width)
    weights = 12 * width**2 * blocks

    held = (weights / pp + (pp > 1) * model.vocab_size * width) / tp
    optimizer = 8 if model.element_bytes == 4 else 12
    states = held * (model.element_bytes + 4 + optimizer / (dp if zero else 1))
    activations = model.element_bytes * model.kept * width * tokens * blocks / (pp * tp) * min(pp, m)

    attention = 2 * model.num_tokens * width * model.num_layers
    work_s = 3 * 2 * tokens * (weights + attention) / (pp * tp) * machine.s_per_flop
    hidden = model.element_bytes * width * tokens
    tp_s = 4 * model.num_layers / pp * machine.message_s("tp", 2 * (tp - 1) / tp * hidden) if tp > 1 else 0.0
    pp_s = 2 * (m + pp - 2 - math.ceil((m - 1) / pp)) * machine.message_s("pp", hidden) if pp > 1 else 0.0
    dp_s = machine.message_s("dp", 2 * (dp - 1) / dp * 4 * held) if dp > 1 else 0.0
    return Price((m + pp - 1) * (work_s + tp_s) + pp_s + dp_s, states + activations)


def on_hosts(machine: Machine, dp: int, tp: int, pp: int, ranks_per_host: int = 8) -> Machine:
    """Give each axis its wire: that of tp if the groups along it lie within hosts, and else that of the pipeline.

    tp is innermost and pp outermost, as in `make_mesh`.

    Example: with 8 ranks on a host and dp 2 x tp 4 x pp 2, dp gets the wire of tp; with dp 4 it gets that of pp.
    """
    near, far = (machine.tp_alpha_s, machine.tp_beta_s), (machine.alpha_s, machine.beta_s)
    of_tp, of_dp, of_pp = (near if reach <= ranks_per_host else far for reach in accumulate((tp, dp, pp), mul))
    return Machine(machine.s_per_flop, *of_tp, *of_dp, *of_pp)


@dataclass(frozen=True)
class Group:
    """What was measured of one model on one number of hosts."""

    billions: int
    num_hosts: int
    mfu: dict[Layout, float | None] = field(default_factory=dict, repr=False)
    """For each layout, the model's FLOP/s as a share of the GPUs' peak; None if it crashed."""
    memory_gib: dict[Layout, float] = field(default_factory=dict, repr=False)
    """The GiB that a GPU held, for layouts that ran."""

    def price(self, layout: Layout) -> Price:
        """The closed form, for an assumed model and machine: Llama 3 in bfloat16, and `Machine()`."""
        model = Model(*_SHAPES[self.billions], vocab_size=128_256, num_tokens=4096)
        return price_of(model, layout, on_hosts(Machine(), layout.dp, layout.tp, layout.pp))

    def regret(self, rule: Rule) -> float:
        """How much longer the step of the chosen layout took than the best one measured: 0.1 is 10 % longer.

        A layout that crashed counts as the slowest that ran.
        """
        ran = [mfu for mfu in self.mfu.values() if mfu]
        return max(ran) / (self.mfu[rule(list(self.mfu), self.price)] or min(ran)) - 1


def measured_groups() -> list[Group]:
    """Published measurements of layouts on H100s, 8 on a host, with 256 rows of 4,096 tokens a step: seven groups.

    They are ordered by their sizes, so that a rule that cannot decide does not find the best one first.

    Example: `measured_groups()[0]` is `Group(billions=1, num_hosts=1)`, with 31 layouts.

    Source: the interactive plot of Hugging Face's Ultra-Scale Playbook (2025), trained with nanotron. Rows that come
    twice are here once; three are left out because their rows and micro-batches do not make up the 256.
    """
    groups: dict[tuple[int, int], Group] = {}
    with files("pllab.train").joinpath("layouts_h100.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            where = int(row["billions"]), int(row["hosts"])
            layout = Layout(*(int(row[name]) for name in Layout._fields))
            group = groups.setdefault(where, Group(*where))
            group.mfu[layout] = float(row["mfu"]) if row["mfu"] else None
            if row["mfu"]:
                group.memory_gib[layout] = float(row["memory_gib"])
    return list(groups.values())
