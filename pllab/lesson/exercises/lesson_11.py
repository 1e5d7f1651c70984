"""The exercises of lesson 11: a backward in halves, interleaved rows, and a schedule whose W's fill the holes."""

from pllab.lesson.exercise import Case, Exercise
from pllab.lesson.exercises import lesson_11_halves as halves
from pllab.lesson.exercises import lesson_11_interleaved as interleaved
from pllab.lesson.exercises import lesson_11_late as late

EXERCISES = (
    Exercise(
        id="11.1",
        title="A backward in halves",
        minutes=10,
        difficulty=2,
        cases=(
            Case("it returns the gradient of the input and a function", halves.two_halves),
            Case("the gradient of the input is autograd's, for one layer and for chains", halves.right_input),
            Case("the first half computes no gradient of a weight", halves.input_first),
            Case("the gradients of the weights are autograd's, in order", halves.right_weights),
            Case("nothing is computed twice (matrix products are counted)", halves.nothing_twice),
            Case("the second halves of several micro-batches may come in any order", halves.in_any_order),
        ),
        hints=(
            "One layer first. Its backward makes two matrix products: which of them does the layer before it wait for?",
            "Go from the last layer to the first. The gradient that arrives at a layer serves both products, and you "
            "make one of them now. What has to be remembered for the other?",
            "Carry the gradient down through the weights, and keep in a list what arrived at each layer, in the order "
            "of the layers. The function that you return goes through this list and the inputs side by side: the "
            "gradient of a weight is what arrived, transposed, times what the layer was given.",
        ),
    ),
    Exercise(
        id="11.2",
        title="Interleaved rows",
        minutes=15,
        difficulty=3,
        cases=(
            Case("there is a row of actions for every rank", interleaved.rows_of_actions, interleaved.ENDLESS),
            Case("rank r has the stages r, p + r, 2p + r, ...", interleaved.places, interleaved.ENDLESS),
            Case(
                "every stage runs every micro-batch forward and back, once", interleaved.complete, interleaved.ENDLESS
            ),
            Case("a rank's backwards begin with its last stage", interleaved.chunks_in_reverse, interleaved.ENDLESS),
            Case("no ranks wait for each other in a circle", interleaved.no_circle, interleaved.ENDLESS),
            Case("free messages: the bubble overhead is (p - 1) / (v m), simulated", interleaved.short_bubble),
            Case("slow messages: no longer than the package's order, simulated", interleaved.slow_messages),
            Case("no rank holds more than (v + 1) p - 1 micro-batches of a stage", interleaved.little_memory),
        ),
        hints=(
            "Write the forwards of one rank down, in order, for two ranks with two stages each and four micro-batches. "
            "Which stage has the third one?",
            "A rank takes p micro-batches through its first stage, the same p through its next one, and so on; then "
            "the next p. Its backwards go the same way with the stages from the last to the first.",
            "Put the forwards of a rank in one list and its backwards in another, both in that order. First come the "
            "forwards of the warm-up: p for each of its stages but the last, and two more for each rank behind it, "
            "since a message goes up to that rank and another comes down; or all forwards, if there are fewer. Then a "
            "forward and a backward in turn while there are forwards, then the backwards that are left.",
        ),
        package=("pllab.schedule.interleaved",),
    ),
    Exercise(
        id="11.3",
        title="W fills the hole",
        minutes=12,
        difficulty=3,
        cases=(
            Case("every action comes once, and every backward is split", late.complete, late.ENDLESS),
            Case("no W comes before its I, and no ranks wait in a circle", late.can_run, late.ENDLESS),
            Case("no rank holds more than p micro-batches", late.fits, late.ENDLESS),
            Case("a rank idles no more than (p - 1)(F + I - W), simulated", late.short, late.ENDLESS),
        ),
        hints=(
            "Start from 1F1B with every backward split, and each W right behind its I. Simulate it with three ranks: "
            "which rank waits for an I, while the rank that owes it works on a W?",
            "The last rank owes its I's to all others, and rank 0 owes them to nobody. So the further back a rank is, "
            "the longer its W's should wait; and each W that waits keeps half a micro-batch in memory.",
            "Keep the forwards and the I's where 1F1B has its forwards and backwards. Rank r puts each W off by r "
            "micro-batches: behind the I of a micro-batch comes the W of the one that is r before it, if there is "
            "one, and the W's that are left come at the end.",
        ),
        package=("pllab.schedule.zb_h1", "pllab.schedule.zero_bubble", "pllab.schedule.optimal"),
    ),
)
