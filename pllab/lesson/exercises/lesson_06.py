"""The exercises of lesson 06: one flat message, messages while backward runs, one set for several backwards."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_06_accumulate as accumulation
from pllab.lesson.exercises import lesson_06_flat as flat
from pllab.lesson.exercises import lesson_06_overlap as overlap

EXERCISES = (
    Exercise(
        id="06.1",
        title="One flat message",
        difficulty=2,
        deadline_s=60.0,
        cases=cases_of(flat),
        hints=(
            "Write two gradients side by side on paper, w w w w w w b b, with the shape of each above it. What do "
            "you need to know to get the second one back from the row of numbers?",
            "Look at torch.cat and at the method split of a tensor: one joins, and the other cuts, if you give it "
            "the number of elements of each piece. Which gradients may share a tensor?",
            "Collect the gradients that exist and group them by data type, in the order in which the types first "
            "appear. For each type, lay the flattened gradients side by side, sum over the ranks, divide, cut the "
            "result into pieces of the old sizes, and copy each piece, in its old shape, into the gradient it came "
            "from.",
        ),
    ),
    Exercise(
        id="06.2",
        title="Messages while backward runs",
        difficulty=3,
        deadline_s=60.0,
        cases=cases_of(overlap),
        hints=(
            "On paper, take three layers: which gradient comes first, and which last? At which of these moments can "
            "a message leave, and what is left to do when backward has ended?",
            "A hook only tells you that one gradient is there. Something has to remember which are there, which "
            "message is next, and what all_reduce_async returned. plan_buckets can do the first two for you.",
            "Choose one order for all messages: that of the buckets, or that of the parameters from last to first. "
            "The hook notes its gradient, then starts messages as long as the next one in the order is complete. The "
            "function wait starts those that were held back, waits for all that were started, divides what has not "
            "been divided, and clears all notes, so that the next step begins empty.",
        ),
    ),
    Exercise(
        id="06.3",
        title="Several backwards, one set of messages",
        difficulty=1,
        deadline_s=60.0,
        cases=cases_of(accumulation),
        hints=(
            "Backward adds to the gradients that are there. After three backwards, how many times too large are they?",
            "Two places matter: what you call backward on, and where you average, in the loop or after it.",
            "Divide each loss by the number of micro-batches before its backward, let the gradients add up, and "
            "average over the ranks once, after the loop.",
        ),
    ),
)
