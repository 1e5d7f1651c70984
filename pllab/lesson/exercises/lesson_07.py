"""The exercises of lesson 07: cut where the device changes, cut where it balances, tie what the cut has torn."""

from pllab.lesson.exercise import Exercise
from pllab.lesson.exercises import lesson_07_balance as balancing
from pllab.lesson.exercises import lesson_07_split as splitting
from pllab.lesson.exercises import lesson_07_tied as tied

EXERCISES = (
    Exercise(
        id="07.1",
        title="Cut where the device changes",
        minutes=12,
        difficulty=2,
        cases=(
            splitting.consecutive,
            splitting.without_parameters,
            splitting.silent_first,
            splitting.spoken_for,
            splitting.again,
            splitting.torn,
        ),
        hints=(
            "Go through the layers once, from first to last, and remember the device of the stage you are filling.",
            "A layer's device: .device of a WithDevice; else the device of all its parameters; else the device you "
            "remember. A layer starts a new stage when its device differs from the one you remember.",
            "devices = {p.device for p in layer.parameters()}; two of them are a ValueError, none means: the device "
            "before. Pair every layer with its device, then itertools.groupby on the device gives the stages.",
        ),
    ),
    Exercise(
        id="07.2",
        title="The cut that balances",
        minutes=15,
        difficulty=3,
        cases=(balancing.well_formed, balancing.optimal, balancing.edges, balancing.too_many),
        hints=(
            "Every stage waits for the slowest one. Compare two cuts by their largest stage, by nothing else.",
            "For 8 layers you may try every cut: itertools.combinations(range(1, n), p - 1) gives the cut places.",
            "max(sum(costs[a:b]) for a, b in pairwise([0, *cut, n])) is what a cut costs; min(..., key=...) finds the "
            "best, and the sizes are the differences b - a.",
        ),
    ),
    Exercise(
        id="07.3",
        title="One weight on two stages",
        minutes=8,
        difficulty=2,
        cases=(tied.one_call, tied.three_steps, tied.two_tensors, tied.missing),
        hints=(
            "In the plain model one weight is used twice. What does backward do with two uses of one weight?",
            "Backward adds the uses up. Each copy knows its own use only, so both need first.grad + last.grad.",
            "Make the sum a new tensor before you store it, and give the second copy a clone of it: "
            "total = first.grad + last.grad; first.grad = total; last.grad = total.clone(). Then think of None.",
        ),
    ),
)
