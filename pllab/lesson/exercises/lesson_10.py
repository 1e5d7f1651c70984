"""The exercises of lesson 10: the rows of 1F1B, a row that lets go, and a stage that computes twice to keep less."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_10_checkpoint as twice
from pllab.lesson.exercises import lesson_10_free as free
from pllab.lesson.exercises import lesson_10_order as order

EXERCISES = (
    Exercise(
        id="10.1",
        title="One forward, one backward",
        difficulty=2,
        cases=cases_of(order),
        hints=(
            "Write down the rows for 3 stages and 4 micro-batches. The last stage can go back at once: F0 B0 F1 B1 "
            "and so on. When does the first gradient reach the stage before it?",
            "A row has three parts: a warm-up of forwards alone, then one forward and one backward in turn, then the "
            "remaining backwards. Only the length of the warm-up depends on the stage.",
            "Stage s warms up with p - s - 1 forwards, or with all of them if there are fewer. Then it alternates, "
            "the next forward and the next backward, until no forward is left. At the end come as many backwards as "
            "the warm-up had forwards.",
        ),
        package=("pllab.schedule.one_f_one_b",),
    ),
    Exercise(
        id="10.2",
        title="Let go of what is not needed",
        difficulty=2,
        cases=cases_of(free),
        hints=(
            "A micro-batch needs its graph from its forward to its backward. Where does your function keep the graph, "
            "and when does it let go?",
            "A loss holds the whole graph behind it, and so does a sum of losses. Look at every list, dictionary and "
            "sum: which of them still holds a loss tensor after its backward?",
            "Keep a dictionary from the number of a micro-batch to its loss. A forward divides the loss by the number "
            "of micro-batches, stores it, and adds its plain number to a sum. A backward takes the loss out of the "
            "dictionary and goes back from it at once.",
        ),
    ),
    Exercise(
        id="10.3",
        title="A stage that keeps only its input",
        difficulty=3,
        cases=cases_of(twice),
        hints=(
            "With dropout off, are the gradients right? With dropout on, does the second forward drop the same "
            "numbers as the first?",
            "Write an autograd Function. Its forward runs without a graph; it keeps the input and the state of the "
            "generator from before it ran. Its backward sets that state and runs the stage again. What does the "
            "second graph hang on?",
            "In the backward, detach the input, and let the copy ask for a gradient if the input did. Turn autograd "
            "on, set the kept state inside a fork of the generator, run the stage, and go back through this second "
            "graph with the gradient that arrived. Return the gradient of the copy. Pass the parameters to the "
            "Function too, each as an argument of its own, so that the output has a graph even when the input needs "
            "no gradient; return None for each of them.",
        ),
    ),
)
