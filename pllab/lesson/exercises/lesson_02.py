"""The exercises of lesson 02: a ring without deadlock, a group with a deadline, groups in the world."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_02_enter as enter
from pllab.lesson.exercises import lesson_02_ring as ring
from pllab.lesson.exercises import lesson_02_subgroups as subgroups

EXERCISES = (
    Exercise(
        id="02.1",
        title="Pass it on",
        difficulty=2,
        cases=cases_of(ring),
        package=("pllab.comm.ring_pass",),
        deadline_s=120.0,
    ),
    Exercise(
        id="02.2",
        title="Enter with a deadline",
        difficulty=1,
        cases=cases_of(enter),
        deadline_s=120.0,
        package=("pllab.comm.setup",),
        lends=False,
    ),
    Exercise(
        id="02.3",
        title="Groups inside the world",
        difficulty=2,
        cases=cases_of(subgroups),
        package=("pllab.comm.make_groups",),
        deadline_s=120.0,
    ),
)
