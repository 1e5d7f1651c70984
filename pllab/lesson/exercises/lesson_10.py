"""The exercises of lesson 10: the rows of 1F1B, a row that lets go, and a stage that computes twice to keep less."""

from pllab.lesson.exercise import Case, Exercise
from pllab.lesson.exercises import lesson_10_checkpoint as twice
from pllab.lesson.exercises import lesson_10_free as free
from pllab.lesson.exercises import lesson_10_order as order

EXERCISES = (
    Exercise(
        id="10.1",
        title="One forward, one backward",
        minutes=12,
        difficulty=2,
        cases=(
            Case(
                "there is a row for each stage, with every forward and every backward once",
                order.complete,
                order.ENDLESS,
            ),
            Case("the rows can run: nobody waits in a circle", order.can_run, order.ENDLESS),
            Case("stage s holds at most min(m, p - s) micro-batches", order.holds_few, order.ENDLESS),
            Case("a step takes no longer than GPipe's", order.as_quick, order.ENDLESS),
            Case("all of it holds for fewer micro-batches than stages", order.fewer_than_stages, order.ENDLESS),
            Case("all of it holds for one stage", order.one_stage, order.ENDLESS),
        ),
        hints=(
            "Write the rows down for 3 stages and 4 micro-batches. The last stage can go back at once: F0 B0 F1 B1 and "
            "so on. When does the first gradient reach the stage before it?",
            "Three parts: a warm-up of forwards alone, then one forward and one backward in turn, then the backwards "
            "that are left. Only the length of the warm-up depends on the stage.",
            "Stage s warms up with p - s - 1 forwards, or with all of them if there are fewer. Then it runs the next "
            "forward and the next backward in turn until no forward is left; at the end come as many backwards as the "
            "warm-up had forwards.",
        ),
        package=("pllab.schedule.one_f_one_b",),
    ),
    Exercise(
        id="10.2",
        title="Let go of what is not needed",
        minutes=10,
        difficulty=2,
        cases=(
            Case("loss and gradients are those of the whole batch", free.same_result),
            Case("forwards and backwards come in the order of the row", free.in_order),
            Case("the live bytes stay at what the row needs, for every row", free.few_bytes),
            Case(
                "after their backward two graphs at most are alive when a forward begins, and none at the end",
                free.no_graph,
            ),
        ),
        hints=(
            "Between its forward and its backward a micro-batch needs its graph. Where does your function keep it, and "
            "when does it let go?",
            "A loss holds the whole graph behind it, and so does a sum of losses. Look at every list, dictionary "
            "and sum of yours: which of them still holds a loss tensor when its backward is over?",
            "Keep a dictionary from the number of a micro-batch to its loss. A forward puts its loss in, divided by "
            "the number of micro-batches, and adds the plain number to a sum. A backward takes its loss out for good "
            "and goes back from it at once.",
        ),
    ),
    Exercise(
        id="10.3",
        title="A stage that keeps only its input",
        minutes=15,
        difficulty=3,
        cases=(
            Case("the output is what the stage gives, and it has a graph", twice.same_output),
            Case("after the forward nothing is kept but the input", twice.keeps_little),
            Case("without dropout the gradients are the plain stage's, bit for bit", twice.same_gradients),
            Case("parameters learn also where the input needs no gradient", twice.first_stage),
            Case("token numbers can be the input, and weights may be frozen or unused", twice.tokens_and_frozen),
            Case("with dropout they are the same too", twice.same_masks),
            Case("also for several stages and micro-batches, with the backwards in any order", twice.several),
            Case("the forward runs exactly twice, and the generator goes on as if it ran once", twice.leaves_no_trace),
        ),
        hints=(
            "With dropout off, are the gradients right? With dropout on, does the second forward drop the same numbers "
            "as the first?",
            "Write an autograd Function. Its forward runs without a graph: it keeps the input, and the state of the "
            "generator from before it ran. Its backward sets that state and runs the stage again; look at what the "
            "second graph hangs on.",
            "In the backward, detach the input and let the copy ask for a gradient where the input did. Turn autograd "
            "on, set the kept state inside a fork of the generator, run the stage, and go back through this second "
            "graph with the gradient that arrived. Return the gradient of the copy. Hand the parameters to the "
            "Function too, each as an argument of its own, so that its output has a graph when the input needs none; "
            "for each of them return None.",
        ),
    ),
)
