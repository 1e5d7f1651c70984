"""The exercises of lesson 12: a split MLP, the two steps around it, the heads of a rank, the loss on split words."""

from pllab.lesson.exercise import Exercise
from pllab.lesson.exercises import lesson_12_heads as heads
from pllab.lesson.exercises import lesson_12_loss as loss
from pllab.lesson.exercises import lesson_12_mlp as mlp
from pllab.lesson.exercises import lesson_12_pair as pair

EXERCISES = (
    Exercise(
        id="12.1",
        title="Columns, then rows",
        minutes=10,
        difficulty=2,
        deadline_s=120.0,
        cases=(mlp.forward_equal, mlp.gradient_of_x, mlp.shares, mlp.share_of_work, mlp.bias_once, mlp.two_messages),
        hints=(
            "Draw the matrices for two ranks and colour what rank 0 has. Which numbers of the hidden layer can it make "
            "alone? What is missing in what it makes of the output?",
            "Three values are of three kinds: whole on every rank, a slice, a term of a sum. One of the given steps "
            "turns whole into whole and sums on the way back; the other turns terms into whole. Where does each kind "
            "change?",
            "Send x through enter. Multiply it by your columns of A, add your part of a, apply gelu: that is your "
            "slice. Multiply it by the rows of B that belong to the same features: that is your term. Send the term "
            "through leave, and add the whole bias b to what comes out.",
        ),
    ),
    Exercise(
        id="12.2",
        title="The conjugate pair",
        minutes=10,
        difficulty=2,
        deadline_s=120.0,
        cases=(pair.f_right, pair.g_right, pair.one_message_each, pair.leaves_them_alone, pair.x_elsewhere, pair.alone),
        hints=(
            "Write four cells on paper: f and g, forward and backward. In each cell stands either nothing or "
            "all-reduce. Which two cells stand where?",
            "Each is an autograd Function with a static forward and a static backward. The call all_reduce works in "
            "place and returns nothing, so ask who else holds the tensor that you hand it.",
            "Write a helper that makes a contiguous clone, sums it over the ranks and returns it. The first Function "
            "gives its input back as a view and calls the helper in backward; the second calls the helper in forward "
            "and gives the gradient back. Return the apply of both.",
        ),
        package=("pllab.parallel.tensor.copy_in", "pllab.parallel.tensor.reduce_out"),
    ),
    Exercise(
        id="12.3",
        title="The heads of a rank",
        minutes=7,
        difficulty=2,
        cases=(heads.makes_its_heads, heads.refuses),
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
        minutes=15,
        difficulty=3,
        deadline_s=120.0,
        cases=(loss.losses_equal, loss.stable, loss.gradients_equal, loss.few_bytes),
        hints=(
            "The loss of a token is the logarithm of a sum over all words, less one logit. Which numbers of this "
            "can a rank not know, and how few bytes do they need?",
            "Three things travel: the highest logit, the sum of exponentials, the logit of the target. The first is a "
            "maximum and needs no gradient; the other two are sums over the ranks through which a gradient must pass, "
            "and this lesson has a step for that.",
            "Take the highest of your words from a detached copy, and let all_reduce make it the maximum of all ranks. "
            "Take it off the logits. Sum their exponentials over your words, and over the ranks with reduce_out. Count "
            "the targets from first, replace those that are not yours by 0, gather, put 0 where the target is not "
            "yours, and sum that with reduce_out as well. The loss is the logarithm of the first sum, and from that "
            "the second sum is taken off.",
        ),
        package=("pllab.parallel.vocab_parallel_cross_entropy",),
    ),
)
