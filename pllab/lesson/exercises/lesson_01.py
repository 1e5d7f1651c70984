"""The exercises of lesson 01, where a time becomes a number that can be defended."""

from pllab.lesson.exercises.lesson_01_bound import BOUND_OF
from pllab.lesson.exercises.lesson_01_throughput import THROUGHPUT
from pllab.lesson.exercises.lesson_01_timed import TIMED

EXERCISES = (THROUGHPUT, TIMED, BOUND_OF)
