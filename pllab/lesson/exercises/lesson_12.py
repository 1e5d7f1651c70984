"""The exercises of lesson 12: a split MLP, the two steps around it, the heads of a rank, the loss on split words."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_12_heads as heads
from pllab.lesson.exercises import lesson_12_loss as loss
from pllab.lesson.exercises import lesson_12_mlp as mlp
from pllab.lesson.exercises import lesson_12_pair as pair

EXERCISES = (
    Exercise(
        id="12.1",
        title="Columns, then rows",
        difficulty=2,
        deadline_s=120.0,
        cases=cases_of(mlp),
        hints=(
            "Draw the matrices for two ranks and colour what rank 0 has. Which numbers of the hidden layer can it "
            "compute alone? What is missing in its product with its rows of B?",
            "Every value is whole on every rank, a slice, or one term of a sum. One of the two given steps takes "
            "whole to whole and sums on the way back; the other turns terms into the whole. Where does a value change "
            "its kind?",
            "Send x through enter. Multiply it by your columns of A, add your part of a and apply gelu: that is your "
            "slice. Multiply it by the rows of B that belong to the same features: that is your term. Send the term "
            "through leave, and add the whole bias b to the result.",
        ),
    ),
    Exercise(
        id="12.2",
        title="The conjugate pair",
        difficulty=2,
        deadline_s=120.0,
        cases=cases_of(pair),
        hints=(
            "Write four cells on paper: f and g, forward and backward. Each cell holds either nothing or an "
            "all-reduce. Which two hold one?",
            "Write each step as an autograd Function with a static forward and a static backward. The call all_reduce "
            "works in place and returns None, so ask who else holds the tensor that you give it.",
            "Write a helper that makes a contiguous clone, sums it over the ranks and returns it. The first Function "
            "returns its input as a view and calls the helper in backward; the second calls the helper in forward and "
            "returns the gradient as it is. Return the apply of both.",
        ),
        package=("pllab.parallel.tensor.copy_in", "pllab.parallel.tensor.reduce_out"),
    ),
    Exercise(
        id="12.3",
        title="The heads of a rank",
        difficulty=2,
        cases=cases_of(heads),
        hints=(
            "Write down the columns for 2 heads of 2 numbers: 12 columns, q0 q0 q1 q1 and so on. Which of them does "
            "head 1 need?",
            "The weight has three parts of equal width. A rank takes the same piece of each, and a piece is a whole "
            "number of heads.",
            "Compare the number of heads with the number of ranks first. Then take the width of all heads and the "
            "width of a rank's heads; for each of the three parts the columns begin at the part, plus the rank's "
            "number times its width, and go on for its width.",
        ),
    ),
    Exercise(
        id="12.4",
        title="The loss on split words",
        difficulty=3,
        deadline_s=120.0,
        cases=cases_of(loss),
        hints=(
            "The loss of a token is the logarithm of a sum over all words, minus one logit. Which of these numbers "
            "can a rank not compute alone, and how few bytes do they need?",
            "Three numbers travel for each token: the highest logit, the sum of exponentials and the logit of the "
            "target. The first is a maximum and needs no gradient. The other two are sums over the ranks through "
            "which a gradient must pass, and this lesson has a step for that.",
            "Find the highest logit of your words in a detached copy, and let all_reduce make it the maximum of all "
            "ranks. Subtract it from the logits. Sum their exponentials over your words, and then over the ranks with "
            "reduce_out. Count the targets from first, replace those that are not yours by 0, gather, put 0 where the "
            "target is not yours, and sum that with reduce_out as well. The loss is the logarithm of the first sum, "
            "minus the second sum.",
        ),
        package=("pllab.parallel.vocab_parallel_cross_entropy",),
    ),
)
