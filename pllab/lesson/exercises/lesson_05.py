"""The exercises of lesson 05: the same start, the same gradient, the same weight for every target."""

from pllab.lesson.exercise import Exercise
from pllab.lesson.exercises import lesson_05_average as average
from pllab.lesson.exercises import lesson_05_start as start
from pllab.lesson.exercises import lesson_05_tokens as tokens

EXERCISES = (
    Exercise(
        id="05.1",
        title="The same start",
        minutes=8,
        difficulty=1,
        deadline_s=60.0,
        cases=(start.all_parameters, start.everything_else, start.in_place),
        hints=(
            "Print one weight on every rank before and after. And then something that is no parameter, such as the "
            "running mean of a batch norm.",
            "dist.broadcast(tensor, src) must be called on every rank, with the same src. It overwrites the tensor "
            "in place on all ranks but src.",
            "One loop over model.parameters() and one over model.buffers(); in each, dist.broadcast(tensor.data, 0).",
        ),
    ),
    Exercise(
        id="05.2",
        title="The same gradient",
        minutes=15,
        difficulty=2,
        deadline_s=60.0,
        cases=(average.the_mean, average.skipped, average.few_messages, average.equals_one_process),
        hints=(
            "Compare your gradient with the mean of what the ranks had, number by number: is the ratio constant? "
            "Which parameters have no gradient at all?",
            "dist.all_reduce(tensor) sums over all ranks, in place, and returns None. A mean is a sum divided by "
            "dist.get_world_size().",
            "for p in model.parameters(): if p.grad is not None: dist.all_reduce(p.grad), then divide p.grad in "
            "place by the number of ranks.",
        ),
        package=("pllab.parallel.average_gradients",),
    ),
    Exercise(
        id="05.3",
        title="The same weight for every target",
        minutes=12,
        difficulty=3,
        deadline_s=60.0,
        cases=(tokens.unequal, tokens.one_empty),
        hints=(
            "Which rank's targets count more than others when every rank divides by its own number?",
            "One number has to travel: the targets of all ranks together. And mind that average_gradients will "
            "divide by the number of ranks after you.",
            "total = torch.tensor(float(num_tokens)); dist.all_reduce(total); then loss_sum * world_size / total.",
        ),
    ),
)
