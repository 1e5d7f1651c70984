"""Notebook glue: checks with hints, predictions, and the package's own source on show."""

from pllab.lesson.check import check, hints
from pllab.lesson.exercise import Case, Exercise, Wrong
from pllab.lesson.predict import Prediction, predict
from pllab.lesson.source import Source, show_source, solution
from pllab.lesson.verdict import NotRight, Outcome, Verdict

__all__ = [
    "Case",
    "Exercise",
    "NotRight",
    "Outcome",
    "Prediction",
    "Source",
    "Verdict",
    "Wrong",
    "check",
    "hints",
    "predict",
    "show_source",
    "solution",
]
