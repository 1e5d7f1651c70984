"""The guesses of a class: each card leaves a small file in a shared folder, and one call draws them all.

There is no server. PLLAB_CLASS names a folder that all can write, on a share or on the machine that all use; without it
nothing is sent. A file holds a guess and no name. What lies in the folder was written by others, so it is read with
bounds: so many files, each a small plain one, with numbers on the axis.
"""

import hashlib
import itertools
import json
import os
import socket
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

from pllab.arguments import require
from pllab.comm.processes import text_of
from pllab.files import write_whole
from pllab.lesson.guesses import Guess, ends_of
from pllab.lesson.keeping import home
from pllab.show.figures import Figure, drawing, figure
from pllab.show.theme import count_of, write_number

if TYPE_CHECKING:
    from pllab.lesson.prediction import Prediction

MOST_FILES = 1000  # of one question
_MOST_BYTES = 200
_NO_FOLDER = "no folder of a class is named; set PLLAB_CLASS to one that all can write, before JupyterLab starts"


def send_guess(asked: "Prediction", guess: Guess, folder: str | Path = "", learner: str = "") -> str:
    """Put a guess into the folder of the class; return nothing, or in a sentence why it was not sent.

    A learner's later guess to the same question replaces the earlier one.

    Args:
        asked: the prediction.
        guess: a number or a range.
        folder: by default what PLLAB_CLASS names; without either nothing happens.
        learner: whose guess it is, by default this login and folder; the file's name has a hash of it.
    """
    if not (named := str(folder) or os.environ.get("PLLAB_CLASS")):
        return ""
    try:
        who = learner or f"{os.environ.get('JUPYTERHUB_USER')} {os.getuid()} {socket.gethostname()} {home().resolve()}"
        write_whole(Path(named) / f"{_key(asked)}-{_short(who)}.json", json.dumps(guess))
    except OSError as error:
        return f"Your guess was not sent to the class: {error.strerror or type(error).__name__}."
    return ""


def class_guesses(asked: "Prediction", folder: str | Path = "") -> Figure:
    """Draw how often the class guessed what; of a range its middle counts.

    Example: `class_guesses(how_long)`, in a cell below the card, before the answer is revealed.

    Args:
        asked: the prediction, as the cards of the class have it: same question, same unit.
        folder: by default what PLLAB_CLASS names.

    Raises:
        ValueError: no folder is named.
        OSError: it cannot be read.
    """
    named = str(folder) or os.environ.get("PLLAB_CLASS", "")
    require(bool(named), _NO_FOLDER)
    ours = [file for file in Path(named).iterdir() if file.name.startswith(f"{_key(asked)}-")]
    middles, left_out = list[float](), 0
    for file in ours[:MOST_FILES]:
        try:
            guess = asked.checked(json.loads(text_of(file, _MOST_BYTES)))  # nothing of a link or a pipe
            middles.append(statistics.mean(ends_of(guess)))
        except (OSError, ValueError):
            left_out += 1
    return _histogram(asked, middles, f"{count_of(left_out, 'file')} could not be used." if left_out else "")


def _key(asked: "Prediction") -> str:
    return _short(f"{asked.question}\n{asked.unit}")


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _histogram(asked: "Prediction", middles: list[float], note: str) -> Figure:
    """A bar for each whole number where things are counted, otherwise for each tenth of the axis."""
    low, high = asked.low, asked.high
    edges = [*(low + (high - low) * number / 10 for number in range(10)), high]
    if asked.counted:
        edges = [low - 0.5 + number for number in range(int(high - low) + 2)]  # the number stands in the middle
    with drawing(7, 2.2, layout="constrained") as fig:
        axes = fig.add_subplot(xlabel=asked.unit, ylabel="learners", xlim=(edges[0], edges[-1]))
        heights, *_ = axes.hist(middles, edges, rwidth=0.9, color="#E69F00", edgecolor="black")
        axes.locator_params(axis="y", integer=True)
        axes.spines[["top", "right"]].set_visible(False)
    places = [
        f"{height:g} at {left + 0.5:g}" if asked.counted else f"{height:g} from {left:g} to {right:g}"
        for height, (left, right) in zip(heights, itertools.pairwise(edges), strict=True)
        if height
    ]
    said = f"{count_of(len(middles), 'learner')} guessed"
    if middles:
        middle = write_number(statistics.median(middles))
        said += f": {', '.join(places)}; the middle one is {middle} {asked.unit}"
    said = f"{said}. {note}".rstrip()
    return figure(fig, said, caption=f"{asked.question} {said}")
