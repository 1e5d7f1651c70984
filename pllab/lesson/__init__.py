"""Notebook glue: checks with hints, predictions, and the display of the package's own source."""

from pllab.lesson.checking import check
from pllab.lesson.exercise import Exercise
from pllab.lesson.guesses import Calibration, calibration
from pllab.lesson.keeping import mine, parts
from pllab.lesson.prediction import class_guesses, predict, send_guess
from pllab.lesson.source import show_source
from pllab.lesson.verdict import Outcome

__all__ = [
    "Calibration",
    "Exercise",
    "Outcome",
    "calibration",
    "check",
    "class_guesses",
    "mine",
    "parts",
    "predict",
    "send_guess",
    "show_source",
]
