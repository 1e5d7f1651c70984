"""Recorded runs of the instructor's guide: JSON files that a demonstration falls back on, always shown with a label.

A machine in front of a class fails at the wrong moment. So each rehearsed moment (`moments.py`) can be recorded
before, by `python -m pllab record FOLDER`, and shown with `recorded`. A recording is plain numbers and texts with its
machine, date, engine and command; whatever is drawn from it says so.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, cast, get_args

from pllab.schedule import Action
from pllab.show import Figure, draw_timeline, figure
from pllab.show.figures import drawing
from pllab.timeline import Engine, Span, Timeline

MOMENTS = ("late-binding", "memory-staircase", "hang", "impossible-number", "golf")
"""The five rehearsed moments of the guide, by the names of their files."""

MOST_BYTES = 50_000
_FORMAT = "pllab recording 1"
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
_LINES = ("-", "--", "-.", ":")
_CELL = "text-align:left;vertical-align:top;padding:2px 10px"

Point = tuple[float, float]


@dataclass(frozen=True)
class Staircase:
    """Steps over time: by the name of a curve its points `(x, y)`, where y holds from x on."""

    title: str
    x_label: str
    y_label: str
    curves: Mapping[str, tuple[Point, ...]]


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one moment showed: a sentence, a table and perhaps pictures, with the machine, date and command behind it.

    Example, as text:

        recorded on Some CPU, 2 cores, torch 2.13.0, 2026-11-23; engine real
        Rank 1 skipped one call; the others waited until their deadline.
        rank    step 0    step 1
        0       0         30
    """

    moment: str
    engine: Engine
    date: str
    command: str
    machine: Mapping[str, str | int]
    sentence: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    timelines: Mapping[str, Timeline] = field(default_factory=dict)
    staircases: tuple[Staircase, ...] = ()
    is_recorded: bool = False

    @property
    def label(self) -> str:
        """Where the numbers come from; it stands above and in the caption of everything shown."""
        if not self.is_recorded:
            return f"run now on this machine; engine {self.engine}"
        cores = f"{self.machine['cores']} core{'' if self.machine['cores'] == 1 else 's'}"
        return (
            f"recorded on {self.machine['cpu']}, {cores}, torch {self.machine['torch']}, {self.date}; "
            f"engine {self.engine}"
        )

    def picture(self) -> Figure | None:
        """The timelines or the staircases, with the label as caption; None where the table is all."""
        if self.staircases:
            return _draw_stairs(self.staircases, self.label)
        if self.timelines:
            drawn = draw_timeline(*self.timelines.values(), titles=list(self.timelines))
            return figure(drawn.canvas, f"{self.label}: {drawn.alt}", self.label)
        return None

    def __repr__(self) -> str:
        table = [self.columns, *self.rows]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in table)
        return "\n".join([self.label, self.sentence, *(line.rstrip() for line in lines)])

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col" style="{_CELL}">{escape(name)}</th>' for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f'<td style="{_CELL}">{escape(text)}</td>' for text in row) + "</tr>" for row in self.rows
        )
        picture = self.picture()
        return (
            f"<p><strong>{escape(self.label)}</strong></p><p>{escape(self.sentence)}</p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"{picture.to_html() if picture else ''}"
        )

    def to_text(self) -> str:
        """The text of the file that `recorded` reads, with a line for each part."""
        parts = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in self.to_json().items())
        return "{\n" + ",\n".join(parts) + "\n}\n"

    def to_json(self) -> dict[str, Any]:
        """Plain values for a recording."""
        return {
            "format": _FORMAT,
            "moment": self.moment,
            "engine": self.engine,
            "date": self.date,
            "command": self.command,
            "machine": dict(self.machine),
            "sentence": self.sentence,
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
            "timelines": {title: _timeline_to_json(timeline) for title, timeline in self.timelines.items()},
            "staircases": [
                {"title": one.title, "x_label": one.x_label, "y_label": one.y_label, "curves": dict(one.curves)}
                for one in self.staircases
            ],
        }


def recorded(moment: str, folder: str | Path = "recorded") -> Run:
    """Show a recorded run of one of the guide's moments, labelled with its machine, date and engine.

    Example: `recorded("hang")` as the last line of a cell, in a notebook beside the folder `recorded`.

    Raises:
        ValueError: there is no such moment or no recording of it, or the file is no recording.
    """
    if moment not in MOMENTS:
        raise ValueError(f"{moment!r} is no moment of the guide; choose one of {', '.join(MOMENTS)}")
    path = Path(folder) / f"{moment}.json"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ValueError(f"{path} is not there; make it with python -m pllab record {folder}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read ({type(error).__name__}); {_again(folder)}") from None
    try:
        run = _run(json.loads(text))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        raise ValueError(f"{path} is no recording of pllab; {_again(folder)}") from None
    if run.moment != moment:
        raise ValueError(f"{path} holds a recording of {run.moment!r:.60}; {_again(folder)}")
    return run


def _again(folder: str | Path) -> str:
    return f"make it again with python -m pllab record {folder}"


def _run(value: Any) -> Run:
    """The run in the JSON of a file.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: it is something else.
    """
    if value["format"] != _FORMAT:
        raise ValueError(value["format"])
    columns = _texts(value["columns"])
    rows = tuple(map(_texts, value["rows"]))
    machine = {_text(name): _text_or_count(one) for name, one in value["machine"].items()}
    if not {"cpu", "cores", "torch"} <= machine.keys() or any(len(row) != len(columns) for row in rows):
        raise ValueError(value["moment"])
    return Run(
        moment=_text(value["moment"]),
        engine=_engine(value["engine"]),
        date=_text(value["date"]),
        command=_text(value["command"]),
        machine=machine,
        sentence=_text(value["sentence"]),
        columns=columns,
        rows=rows,
        timelines={_text(title): _timeline(one) for title, one in value["timelines"].items()},
        staircases=tuple(map(_staircase, value["staircases"])),
        is_recorded=True,
    )


def _timeline_to_json(timeline: Timeline) -> dict[str, Any]:
    spans = [[span.rank, str(span.action), round(span.start, 6), round(span.end, 6)] for span in timeline.spans]
    return {"engine": timeline.engine, "num_ranks": timeline.num_ranks, "spans": spans}


def _timeline(value: Any) -> Timeline:
    spans = [
        Span(int(_number(rank)), Action.parse(_text(action)), _number(start), _number(end))
        for rank, action, start, end in value["spans"]
    ]
    num_ranks = int(_number(value["num_ranks"]))
    if any(not 0 <= span.rank < num_ranks or span.end < span.start for span in spans):
        raise ValueError(value["num_ranks"])
    return Timeline.of(spans, _engine(value["engine"]), num_ranks)


def _staircase(value: Any) -> Staircase:
    curves = {_text(name): tuple(_points(points)) for name, points in value["curves"].items()}
    return Staircase(_text(value["title"]), _text(value["x_label"]), _text(value["y_label"]), curves)


def _points(value: Any) -> Iterator[Point]:
    for x, y in value:
        yield _number(x), _number(y)


def _engine(value: Any) -> Engine:
    if value not in get_args(Engine):
        raise ValueError(value)
    return cast(Engine, value)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError
    return tuple(map(_text, value))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError
    return float(value)


def _text_or_count(value: Any) -> str | int:
    return value if isinstance(value, str) else int(_number(value))


def _draw_stairs(staircases: Sequence[Staircase], label: str) -> Figure:
    """A panel for each staircase, on the same axes; the sentence has the highest step of each curve."""
    told = []
    with drawing(8.0, 2.1 * len(staircases) + 0.4, layout="constrained") as canvas:
        panels = canvas.subplots(len(staircases), sharex=True, sharey=True, squeeze=False)[:, 0]
        for panel, one in zip(panels, staircases, strict=True):
            for number, (name, points) in enumerate(one.curves.items()):
                steps = list(zip(*points, strict=True)) or [(), ()]
                line, colour = _LINES[number % len(_LINES)], _COLOURS[number % len(_COLOURS)]
                panel.step(*steps, line, where="post", label=name, color=colour, linewidth=max(1.2, 3 - number))
                told.append(f"{one.title}, {name}: at most {max(steps[1], default=0):g}")
            panel.set(title=one.title, ylabel=one.y_label, ylim=(0, None))
            panel.legend(loc="upper left", bbox_to_anchor=(1, 1))
        panels[-1].set_xlabel(staircases[-1].x_label)
    return figure(canvas, f"{label}: {staircases[0].y_label}. {'; '.join(told)}.", label)
