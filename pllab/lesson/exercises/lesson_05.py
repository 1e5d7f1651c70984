"""The exercises of lesson 05: the same start, the same gradient, the same weight for every target, and all of it."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_05_average as average
from pllab.lesson.exercises import lesson_05_start as start
from pllab.lesson.exercises import lesson_05_tokens as tokens
from pllab.lesson.exercises import lesson_05_train as train

EXERCISES = (
    Exercise(
        id="05.1",
        title="The same start",
        difficulty=1,
        deadline_s=60.0,
        cases=cases_of(start),
        hints=(
            "Print one weight on every rank before and after. Then print something that is no parameter, such as the "
            "running mean of a batch norm.",
            "torch.distributed has a call that overwrites a tensor in place, on all ranks but the source. Every rank "
            "makes this call, in the same order and with the same source. A model lists its parameters and its buffers "
            "in two places.",
            "Go through all parameters, then through all buffers, and broadcast each from rank 0. Pass the data of a "
            "parameter, because autograd does not let you overwrite the parameter itself. Do not rely on the state "
            "dict: it may leave out a buffer.",
        ),
        package=("pllab.parallel.broadcast_parameters", "pllab.parallel.DataParallel"),
    ),
    Exercise(
        id="05.2",
        title="The same gradient",
        difficulty=2,
        deadline_s=60.0,
        cases=cases_of(average),
        hints=(
            "Compare your gradient with the mean of what the ranks had, number by number: is the ratio constant? "
            "Which parameters have no gradient at all?",
            "The collective that sums over all ranks works in place and returns nothing of use. Ask the "
            "process group for the number of ranks; do not write it into the code.",
            "Go through the parameters once and skip those whose gradient is None. Sum each gradient over the ranks, "
            "and divide it, in place, by their number. A tied weight is in the list of parameters only once.",
        ),
        package=("pllab.parallel.average_gradients",),
    ),
    Exercise(
        id="05.3",
        title="The same weight for every target",
        difficulty=3,
        deadline_s=60.0,
        cases=cases_of(tokens),
        hints=(
            "Which rank's targets count more than others when every rank divides by its own number?",
            "One number has to travel: the number of targets on all ranks. Remember that average_gradients will divide "
            "by the number of ranks after you.",
            "Sum the numbers of targets over the ranks, in a tensor that holds just that number. Divide the sum of "
            "losses by the total, and multiply it by the number of ranks, to undo the division that follows. Every "
            "rank joins the sum, even one without targets.",
        ),
        package=("pllab.parallel.token_weighted",),
    ),
    Exercise(
        id="05.4",
        title="Your own training",
        difficulty=3,
        deadline_s=90.0,
        cases=cases_of(train),
        hints=(
            "Train on one rank and on two, and print the losses side by side. Is the first one the same? Then the "
            "start and the shares are right. Is the second one the same? Then the gradient is.",
            "Lesson 04 has the shares, 05.1 the start, 05.2 the gradient. What is left is the loop of any training, "
            "one more sum over the ranks, for the loss, and a new epoch when the loader comes to its end.",
            "Once, before the loop: copy the start from rank 0, make the loader of this rank's share, make the "
            "optimizer. In every step: clear the gradients, call the model, flatten logits and targets for the cross "
            "entropy, run backward, average the gradients, take the step. Then sum the loss over the ranks, divide it "
            "by their number and keep it. Start the loader again for each epoch, and leave the loop after the last "
            "step, on all ranks alike.",
        ),
        package=("pllab.train.train_data_parallel",),
    ),
)
