"""The exercises of lesson 11: a backward in halves, interleaved rows, and a schedule whose W's fill the holes."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_11_halves as halves
from pllab.lesson.exercises import lesson_11_interleaved as interleaved
from pllab.lesson.exercises import lesson_11_late as late

EXERCISES = (
    Exercise(
        id="11.1",
        title="A backward in halves",
        difficulty=2,
        cases=cases_of(halves),
        hints=(
            "Start with one layer. Its backward makes two matrix products: which of them does the layer before it "
            "wait for?",
            "Go from the last layer to the first. The gradient that arrives at a layer serves both products, and you "
            "make only one of them now. What must you remember for the other?",
            "Carry the gradient down through the weights, and keep a list of what arrived at each layer, in the order "
            "of the layers. The function that you return goes through this list and the inputs side by side: the "
            "gradient of a weight is what arrived, transposed, times the input of the layer.",
        ),
    ),
    Exercise(
        id="11.2",
        title="Interleaved rows",
        difficulty=3,
        cases=cases_of(interleaved),
        hints=(
            "Write down the forwards of one rank, in order, for two ranks with two stages each and four "
            "micro-batches. Which stage runs the third one?",
            "A rank takes p micro-batches through its first stage, the same p through its next one, and so on; then "
            "the next p. Its backwards go the same way, but from its last stage to its first.",
            "Put the forwards of a rank in one list and its backwards in another, both in that order. The warm-up "
            "comes first: p forwards for each of its stages but the last, and two more for each rank behind it, since "
            "one message goes up to that rank and another comes down; or all forwards, if there are fewer. Then "
            "alternate, a forward and a backward, until no forward is left, and run the remaining backwards.",
        ),
        package=("pllab.schedule.interleaved",),
    ),
    Exercise(
        id="11.3",
        title="W fills the hole",
        difficulty=3,
        cases=cases_of(late),
        hints=(
            "Start from 1F1B with every backward split and each W right behind its I. Simulate it with three ranks: "
            "which rank waits for an I while the rank that owes it works on a W?",
            "The last rank owes its I's to all others, and nobody waits for those of rank 0. So the further back a "
            "rank is, the longer its W's should wait; and each W that waits keeps half a micro-batch in memory.",
            "Keep the forwards and the I's where 1F1B has its forwards and backwards. Rank r puts each W off by r "
            "micro-batches: behind the I of a micro-batch comes the W of the micro-batch r earlier, if there is one. "
            "The remaining W's come at the end.",
        ),
        package=("pllab.schedule.zb_h1", "pllab.schedule.zero_bubble", "pllab.schedule.optimal"),
    ),
)
