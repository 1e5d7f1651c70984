"""The cut editor: the cost of each layer as a bar, and cut lines that a student moves by mouse or keys.

Every run of consecutive layers is summed and put into words here, once; the browser only looks up the runs between the
cut lines. So the words are tested without a browser, and the widget works when the kernel is busy or gone.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import traitlets

from pllab.show.figures import Figure, drawing, figure
from pllab.show.theme import ENGINE_LABELS, INK, LIGHT, write_number
from pllab.show.widget import Widget, sources_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINE = 88  # letters in a line below the picture


class CutEditor(Widget):
    """Cut a chain of layers into stages; the slowest stage is bold, with its sum and the bound on the speed-up.

    Each cut line is a slider: down and right move it one layer on, up and left one layer back, Home and End as far as
    possible. `best` is an optimal cut, shown on demand.

    Example: `CutEditor([1, 1, 1, 1, 4], [2, 3], best=balance([1, 1, 1, 1, 4], 2), unit="ms")`; `.sizes` is what the
    student has chosen.

    Raises:
        ValueError: the sizes do not describe a cut of these layers, or there is nothing to add up.
    """

    _esm, _css = sources_of(__file__, "view.js", "boxes.js")

    layers = traitlets.List(traitlets.Dict(), help="name, cost and text of each layer").tag(sync=True)
    cuts = traitlets.List(traitlets.Int(), help="number of layers before each cut line").tag(sync=True)
    runs = traitlets.Dict(help="sum and words of the layers a to b - 1, by 'a-b'").tag(sync=True)
    best = traitlets.Dict(help="the optimal cut and its words; empty without one").tag(sync=True)
    show_best = traitlets.Bool(False, help="whether the optimal cut is drawn").tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        costs: Sequence[float],
        sizes: Sequence[int],
        *,
        names: Sequence[str] = (),
        best: Sequence[int] = (),
        unit: str = "ms",
        engine: str = "real",
        title: str = "cost of each layer",
        projector: bool = False,
    ) -> None:
        names = list(names) or [f"layer {number}" for number in range(len(costs))]
        self._check(costs, sizes, names, best)
        runs = _runs_of(list(costs), names, unit, len(sizes))
        self._unit = unit
        super().__init__(
            layers=[
                {"name": name, "cost": float(cost), "text": f"{write_number(cost)} {unit}"}
                for name, cost in zip(names, costs, strict=True)
            ],
            cuts=_cuts_of(sizes),
            runs=runs,
            best=_best_of(_cuts_of(best), names, runs) if best else {},
            title=f"{title}, engine: {ENGINE_LABELS.get(engine, engine)}",
            projector=projector,
        )

    @property
    def sizes(self) -> list[int]:
        """The number of layers of each stage, as the lines stand now."""
        return [end - start for start, end in pairwise(self._ends)]

    @property
    def sentence(self) -> str:
        """The slowest stage, its cost, and the bound on the speed-up."""
        stages = self._stages
        slowest = _slowest_of(stages)
        words = f"The slowest stage is stage {slowest}, {stages[slowest]['words']}"
        if not self.show_best:
            return words
        is_best = stages[slowest]["cost"] <= self.best["cost"] * (1 + 1e-9)
        return f"{words} {self.best['praise'] if is_best else self.best['words']}"

    @property
    def _ends(self) -> list[int]:
        return [0, *self.cuts, len(self.layers)]

    @property
    def _stages(self) -> list[dict[str, Any]]:
        """The sum and the words of each stage."""
        return [self.runs[f"{start}-{end}"] for start, end in pairwise(self._ends)]

    def static(self) -> Figure:
        """One bar per layer, the cuts as lines (the best cut dashed), the slowest stage in bold, the sentence below."""
        below = [f"{self._unit} per layer; a line is a cut between two stages", *wrap(self.sentence, _LINE)]
        rows, top = len(self.layers), max(layer["cost"] for layer in self.layers)
        with drawing(8.0, 0.3 * rows + 0.9 + 0.2 * len(below), layout="constrained") as fig:
            axes = fig.add_subplot()
            axes.set_title(self.title, loc="left", fontsize=11.5, fontweight="bold")
            self._draw_stages(axes, top)
            axes.hlines([cut - 0.5 for cut in self.cuts], 0, top * 1.75, color=LIGHT.over, linewidth=2.5)
            best = [cut - 0.5 for cut in self.best["cuts"]] if self.show_best else []
            axes.hlines(best, 0, top * 1.2, color=INK, linewidth=1.5, linestyle="--")
            axes.set_xlim(0, top * 1.8)
            axes.set_ylim(rows - 0.5, -0.5)
            axes.set_yticks(range(rows), [layer["name"] for layer in self.layers])
            axes.tick_params(axis="y", length=0)
            axes.set_xticks([])
            axes.set_xlabel("\n".join(below), loc="left")
            axes.spines[["top", "right", "bottom"]].set_visible(False)
            return figure(fig, f"{self.title}. {self.sentence}")

    def _draw_stages(self, axes: "Axes", top: float) -> None:
        stages = self._stages
        slowest = _slowest_of(stages)
        for stage, (start, end) in enumerate(pairwise(self._ends)):
            is_slowest = stage == slowest
            _draw_bars(axes, self.layers[start:end], range(start, end), is_slowest)
            label = f"stage {stage}: {stages[stage]['text']}" + (" (slowest)" if is_slowest else "")
            weight = "bold" if is_slowest else "normal"
            axes.text(top * 1.22, (start + end - 1) / 2, label, va="center", fontweight=weight)

    @staticmethod
    def _check(costs: Sequence[float], sizes: Sequence[int], names: Sequence[str], best: Sequence[int]) -> None:
        if not costs or min(costs) < 0 or sum(costs) == 0:
            raise ValueError(f"costs {list(costs)} cannot be balanced; give at least one, none negative, not all 0")
        if len(names) != len(costs):
            raise ValueError(f"{len(names)} names do not fit {len(costs)} layers; give one name per layer")
        for cut in (sizes, best or sizes):
            if not cut or min(cut) < 1 or sum(cut) != len(costs):
                raise ValueError(
                    f"sizes {list(cut)} do not cut {len(costs)} layers; each is at least 1 and their sum {len(costs)}"
                )

    @traitlets.validate("cuts")
    def _cuts_ascend(self, proposal: Any) -> list[int]:
        ends = [0, *proposal["value"], len(self.layers) or 10**6]
        if any(end <= start for start, end in pairwise(ends)):
            raise traitlets.TraitError(f"cuts {proposal['value']} leave a stage without a layer; let them ascend")
        return list(proposal["value"])

    @traitlets.validate("show_best")
    def _best_is_known(self, proposal: Any) -> bool:
        if proposal["value"] and not self.best:
            raise traitlets.TraitError("no best cut was given; make the editor with best=balance(costs, num_stages)")
        return bool(proposal["value"])


def _cuts_of(sizes: Sequence[int]) -> list[int]:
    """`[2, 1, 2]` -> `[2, 3]`: how many layers stand before each cut line."""
    return list(accumulate(sizes))[:-1]


def _slowest_of(stages: Sequence[Mapping[str, Any]]) -> int:
    """The number of the slowest stage; the first of equals."""
    return max(range(len(stages)), key=lambda stage: (stages[stage]["cost"], -stage))


def _runs_of(costs: list[float], names: Sequence[str], unit: str, num_stages: int) -> dict[str, Any]:
    """The sum and the words of every run of consecutive layers."""
    total, runs = sum(costs), {}
    for start in range(len(costs)):
        for end in range(start + 1, len(costs) + 1):
            cost = float(sum(costs[start:end]))
            text = f"{write_number(cost)} {unit}"
            layers = names[start] if end - start == 1 else f"{names[start]} to {names[end - 1]}"
            bound = f"{total / cost:.2f}" if cost else "infinitely many"
            words = f"{layers}: {text}. {num_stages} devices are at most {bound} times as fast as one."
            runs[f"{start}-{end}"] = {"cost": cost, "text": text, "words": words}
    return runs


def _best_of(cuts: list[int], names: Sequence[str], runs: dict[str, Any]) -> dict[str, Any]:
    """The optimal cut with the sentence that shows it, and the one that confirms it."""
    slowest = max((runs[f"{a}-{b}"] for a, b in pairwise([0, *cuts, len(names)])), key=lambda run: run["cost"])
    where = " and ".join(names[cut - 1] for cut in cuts) or "no layer"
    words = f"The best cut is after {where}: its slowest stage costs {slowest['text']}."
    return {"cuts": cuts, "cost": slowest["cost"], "words": words, "praise": "No other cut is better."}


def _draw_bars(axes: "Axes", layers: Sequence[Mapping[str, Any]], rows: range, is_slowest: bool) -> None:
    kind, weight = ("B", "bold") if is_slowest else ("F", "normal")
    fill, line = LIGHT.fill_of(kind), LIGHT.outline_of(kind)
    costs = [layer["cost"] for layer in layers]
    axes.barh(rows, costs, height=0.7, color=fill, edgecolor=line, linewidth=2.2 if is_slowest else 0.8)
    for layer, row in zip(layers, rows, strict=True):
        beside: dict[str, Any] = {"xytext": (5, 0), "textcoords": "offset points", "va": "center", "fontweight": weight}
        axes.annotate(layer["text"], (layer["cost"], row), **beside)
