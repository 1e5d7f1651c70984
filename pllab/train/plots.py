"""The two scaling figures, seconds per epoch and tokens per second: a bar per run with its deviation."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pllab.show import Figure, figure
from pllab.show.theme import LIGHT, write_number
from pllab.train.results import load_results

# Every mode keeps its colour in both figures: that of a kind of work; its name stands below its bar.
_COLOURS = {"data_parallel": "F", "model_parallel": "B", "pipeline": "W", "tensor_parallel": "C", "hybrid": "U"}
_TITLES = {
    "training_time_s": ("Training time of an epoch", "seconds"),
    "tokens_per_s": ("Throughput of all devices", "tokens/s"),
}


def plot_scaling(results: Sequence[dict[str, Any]], metric: str) -> Figure:
    """Draw one metric of several results.

    Example: `plot_scaling(load_results("workdir"), "tokens_per_s")` draws a bar for every run in the folder.

    Raises:
        ValueError: the metric is neither training_time_s nor tokens_per_s.
    """
    if metric not in _TITLES:
        raise ValueError(f"metric is {metric!r}; choose one of {', '.join(_TITLES)}")
    title, unit = _TITLES[metric]
    from matplotlib.figure import Figure as Drawing  # imported here because it takes half a second

    drawing = Drawing(figsize=(1.8 + 1.3 * len(results), 3.6), layout="constrained")
    axes = drawing.add_subplot()
    for place, result in enumerate(results):
        kind = _COLOURS.get(result["config"]["mode"])  # one device has none
        fill, line = (LIGHT.fill_of(kind), LIGHT.outline_of(kind)) if kind else (LIGHT.held, LIGHT.held_line)
        summary = result[metric]
        bar = axes.bar(place, summary["mean"], yerr=summary["deviation"], capsize=4, color=fill, edgecolor=line)
        axes.bar_label(bar, fmt=write_number, padding=3)
    axes.set_xticks(range(len(results)), [_name(result) for result in results])
    axes.set_title(title)
    axes.set_ylabel(unit)
    axes.margins(y=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    return figure(drawing, _alternative(results, metric))


def save_plots(workdir: str | Path) -> tuple[Path, Path]:
    """Draw both figures from all results of a work folder into its `figures`; returns the two paths.

    Raises:
        ValueError: the folder holds no results.
    """
    results = load_results(workdir)
    folder = Path(workdir) / "figures"
    folder.mkdir(exist_ok=True)
    time, rate = (
        plot_scaling(results, metric).save(folder / f"{metric}.png") for metric in ("training_time_s", "tokens_per_s")
    )
    return time, rate


def _name(result: dict[str, Any]) -> str:
    config = result["config"]
    devices = "1 device" if config["world_size"] == 1 else f"{config['world_size']} devices"
    schedule = config.get("schedule", "gpipe")
    order = "" if schedule == "gpipe" else f", {schedule}"
    return f"{config['mode'].replace('_', ' ')}{order}\n{devices}"


def _alternative(results: Sequence[dict[str, Any]], metric: str) -> str:
    title, unit = _TITLES[metric]
    names = [_name(result).replace("\n", " on ") for result in results]
    numbers = [
        f"{write_number(result[metric]['mean'])} +- {write_number(result[metric]['deviation'])}" for result in results
    ]
    return f"{title} in {unit}: {'; '.join(map(' '.join, zip(names, numbers, strict=True)))}."
