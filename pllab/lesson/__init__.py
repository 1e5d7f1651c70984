"""Notebook glue: checks with hints, predictions, and the package's own source on show."""

from pllab.lesson.checking import check, hints
from pllab.lesson.exercise import Case, Exercise, NotRight, Outcome, Verdict, Wrong
from pllab.lesson.guesses import Calibration, calibration
from pllab.lesson.prediction import Prediction, predict
from pllab.lesson.source import Source, show_source, solution

__all__ = [
    "Calibration",
    "Case",
    "Exercise",
    "NotRight",
    "Outcome",
    "Prediction",
    "Source",
    "Verdict",
    "Wrong",
    "calibration",
    "check",
    "hints",
    "predict",
    "show_source",
    "solution",
]
