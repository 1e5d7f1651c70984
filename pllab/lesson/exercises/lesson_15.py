"""The exercises of lesson 15: where ranks part, who waits for whom, and a diagnosis from the records alone."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_15_causes as causes
from pllab.lesson.exercises import lesson_15_parting as parting
from pllab.lesson.exercises import lesson_15_waits as waits

EXERCISES = (
    Exercise(
        id="15.1",
        title="Where the ranks part",
        difficulty=1,
        cases=cases_of(parting),
        hints=(
            "Lay the records side by side, a column for each rank and a line for each number. At which line is the "
            "first entry that does not fit?",
            "For each number, collect the calls of the ranks that made one. One attribute of a call holds all that "
            "must be the same.",
            "Go through the numbers in order, and count how often each kind comes. At the first number with more "
            "than one kind, the rank that parted is the one whose kind came once.",
        ),
        package=("pllab.autopsy.diagnose",),
    ),
    Exercise(
        id="15.2",
        title="Who waits for whom",
        difficulty=2,
        cases=cases_of(waits),
        hints=(
            "Draw the arrows for one ward by hand. From which call of a rank does an arrow start, and at which ranks "
            "does it end?",
            "A rank is held up by the first call that it has not finished. Ask every other rank what it did under the "
            "same number: nothing, something else, or the same.",
            "For each rank take its first unfinished call. Without one, the set is empty; for a send or a receive, it "
            "holds the peer. For a collective, take all other ranks and leave out those that have a call of the same "
            "number and the same kind, finished or not.",
        ),
        package=("pllab.autopsy.wait_for_graph", "pllab.autopsy.diagnose"),
    ),
    Exercise(
        id="15.3",
        title="The diagnosis",
        difficulty=3,
        cases=cases_of(causes),
        hints=(
            "Sort the eight causes first: which leave a rank stuck, and of those, which leave ranks with different "
            "calls? What else do the records of the remaining wards tell?",
            "Ask in this order: a caught exception, a NaN, a call where the ranks part, two ranks in a send, and last "
            "the times. Where the ranks part, look at what the rank that parted called next, and at what the same "
            "place of the step before held.",
            "The call expected at a number is the one four numbers before. The rank that parted may have made the call "
            "that is expected one number later: then it swapped if its next call is the one expected here, and skipped "
            "if not. If its call has the expected name, its shape is wrong; else it has left the loop. Of two in a "
            "send, blame the one that received four numbers before. The straggler is the rank of the first call to "
            "which one rank comes 0.2 s or more after all others.",
        ),
        package=("pllab.autopsy.diagnose",),
    ),
)
