"""Memory bars: what each rank holds of a training state, kind by kind, in several stages of sharding it.

The numbers are the caller's, measured and from a formula; all bars have one scale, so that stages can be compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import traitlets

from pllab.show.figures import Figure, drawing, figure
from pllab.show.theme import LIGHT
from pllab.show.widget import Widget, check_place, sources_of

KINDS = {"parameters": "F", "gathered": "C", "gradients": "B", "optimizer": "W", "messages": "U"}
"""What can be held, in the order of the bar, and the look of each."""
_LETTERS = {"parameters": "P", "gathered": "whole", "gradients": "G", "optimizer": "O", "messages": "M"}
_FORM = "closed form"


@dataclass(frozen=True)
class ZeroStage:
    """One stage: its name, what every rank holds by kind, what a formula says, and a remark such as what it sends.

    Example: `ZeroStage("ZeRO-1", [{"parameters": 4.0, "optimizer": 4.0}] * 2, {"parameters": 4.0, "optimizer": 4.0})`.
    """

    name: str
    ranks: Sequence[Mapping[str, float]]
    form: Mapping[str, float]
    remark: str = ""


class MemoryBars(Widget):
    """A stacked bar for each rank and one for the formula, for one stage at a time.

    Example, `stages` from a measurement on two ranks:

        MemoryBars(stages, unit="bytes per parameter", engine="real")

    The slider chooses the stage; so do the keys 0 to 9 while the widget has the focus.

    Args:
        stages: in order; of each rank and of the formula the amount of every kind it has.
        unit: what the amounts count.
        engine: where the measured ones come from.

    Raises:
        ValueError: there is no stage, a stage has no rank, or a kind is unknown.
    """

    _esm, _css = sources_of(__file__, "view.js")

    stages = traitlets.List(traitlets.Dict(), help="one dict per stage: name, bars, sentence").tag(sync=True)
    stage = traitlets.Int(0, help="number of the stage shown, from 0").tag(sync=True)
    top = traitlets.Float(1.0, help="the amount at the right end of the scale").tag(sync=True)
    kinds = traitlets.List(traitlets.Dict(), help="name, letter and look of each kind that occurs").tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)

    def __init__(
        self, stages: Sequence[ZeroStage], *, unit: str, engine: str = "real", projector: bool = False
    ) -> None:
        if not stages or not all(stage.ranks for stage in stages):
            raise ValueError("memory bars need at least one stage, and of each stage at least one rank")
        used = {kind for stage in stages for bar in (*stage.ranks, stage.form) for kind in bar}
        if unknown := sorted(used - set(KINDS)):
            raise ValueError(f"kind {unknown[0]!r} is unknown; choose of {', '.join(KINDS)}")
        views = [_view(stage, unit) for stage in stages]
        super().__init__(
            stages=views,
            kinds=[{"name": kind, "letter": _LETTERS[kind], "look": KINDS[kind]} for kind in KINDS if kind in used],
            top=max(bar["total"] for view in views for bar in view["bars"]),
            title=f"held at the fullest moment, {unit}, engine: {engine}",
            projector=projector,
        )

    def static(self) -> Figure:
        """All stages, one above the other: the fullest rank and the formula."""
        return _draw_stages(self.stages, self.top, self.title)

    @traitlets.validate("stage")
    def _stage_exists(self, proposal: Any) -> int:
        return check_place("stage", proposal["value"], len(self.stages))


def _view(stage: ZeroStage, unit: str) -> dict[str, Any]:
    """A stage as plain data, the formula's bar last."""
    bars = [_bar(f"rank {rank}", held, "measured") for rank, held in enumerate(stage.ranks)]
    bars.append(_bar(_FORM, stage.form, "formula"))
    fullest = max(bars[:-1], key=lambda bar: float(bar["total"]))
    parts = ", ".join(f"{part['kind']} {part['value']:.1f}" for part in fullest["parts"])
    sentence = (
        f"{stage.name}: a rank holds {fullest['total']:.1f} {unit} ({parts}); the closed form says "
        f"{bars[-1]['total']:.1f}."
    )
    return {"name": stage.name, "bars": bars, "sentence": f"{sentence} {stage.remark}".strip()}


def _bar(label: str, held: Mapping[str, float], source: str) -> dict[str, Any]:
    parts = [{"kind": kind, "value": float(held[kind])} for kind in KINDS if held.get(kind)]
    return {"label": label, "source": source, "parts": parts, "total": float(sum(held.values()))}


def _draw_stages(stages: Sequence[Mapping[str, Any]], top: float, title: str) -> Figure:
    """A pair of bars for each stage; the sentences are the text."""
    pairs = [(view["name"], bar) for view in stages for bar in _fullest_and_form(view["bars"])]
    with drawing(8.0, 0.7 + 0.36 * len(pairs), layout="constrained") as canvas:
        axes = canvas.add_subplot()
        for row, (_, bar) in enumerate(pairs):
            _draw_bar(axes, row, bar, top)
        labels = [f"{name}, {'measured' if bar['source'] == 'measured' else _FORM}" for name, bar in pairs]
        axes.set_yticks(range(len(pairs)), labels)
        axes.set_xlim(0, top * 1.1)
        axes.invert_yaxis()
        axes.set_xlabel(title)
        axes.spines[["top", "right"]].set_visible(False)
    letters = "; ".join(f"{letter}: {kind}" for kind, letter in _LETTERS.items() if letter != kind)
    sentences = " ".join(view["sentence"] for view in stages)
    return figure(canvas, f"{title[:1].upper()}{title[1:]}. {sentences}", caption=letters)


def _fullest_and_form(bars: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    return max(bars[:-1], key=lambda bar: float(bar["total"])), bars[-1]


def _draw_bar(axes: Any, row: int, bar: Mapping[str, Any], top: float) -> None:
    left, is_form = 0.0, bar["source"] == "formula"
    for part in bar["parts"]:
        look, width = KINDS[part["kind"]], part["value"]
        edge = {"edgecolor": LIGHT.outline_of(look), "linestyle": "--" if is_form else "-"}
        axes.barh(row, width, 0.78, left, color=LIGHT.fill_of(look, is_form), **edge)
        letter = _LETTERS[part["kind"]]
        if width > 0.02 * top * len(letter):
            axes.annotate(letter, (left + width / 2, row), ha="center", va="center", color=LIGHT.ink, fontsize=9)
        left += width
    axes.annotate(f" {bar['total']:.1f}", (left, row), va="center", fontsize=9)
