"""Notebook glue: checks with hints, predictions, and the display of the package's own source."""

from pllab.lesson.checking import check
from pllab.lesson.class_folder import class_guesses, send_guess
from pllab.lesson.exercise import Case, Exercise, Wrong
from pllab.lesson.guesses import Calibration, calibration
from pllab.lesson.keeping import Parts, mine, parts
from pllab.lesson.prediction import Prediction, predict
from pllab.lesson.source import Source, show_source
from pllab.lesson.verdict import Outcome, Result, Verdict

__all__ = [
    "Calibration",
    "Case",
    "Exercise",
    "Outcome",
    "Parts",
    "Prediction",
    "Result",
    "Source",
    "Verdict",
    "Wrong",
    "calibration",
    "check",
    "class_guesses",
    "mine",
    "parts",
    "predict",
    "send_guess",
    "show_source",
]
