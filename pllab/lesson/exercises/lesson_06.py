"""The exercises of lesson 06: one flat message, messages while backward runs, one set for several backwards."""

from pllab.lesson.exercise import Case, Exercise
from pllab.lesson.exercises import lesson_06_accumulate as accumulation
from pllab.lesson.exercises import lesson_06_flat as flat
from pllab.lesson.exercises import lesson_06_overlap as overlap

EXERCISES = (
    Exercise(
        id="06.1",
        title="One flat message",
        minutes=12,
        difficulty=2,
        deadline_s=60.0,
        cases=(
            Case("every gradient is the mean over the ranks, in its own parameter", flat.in_place),
            Case("float64 gradients keep their digits", flat.keeps_digits),
            Case("frozen and unused parameters keep grad None", flat.leaves_none),
            Case("the ledger has at most one message per data type", flat.few_messages),
        ),
        hints=(
            "Write two gradients side by side on paper: w w w w w w b b. Where does each one begin?",
            "Three steps: lay the gradients that exist side by side, sum and divide, and copy each piece back into the "
            "gradient that it came from.",
            "flat = torch.cat([g.flatten() for g in gradients]); all_reduce(flat); flat /= world_size(); then for each "
            "gradient and its piece of flat.split([g.numel() for g in gradients]): gradient.copy_(piece.view_as("
            "gradient)). Do it once for each dtype.",
        ),
    ),
    Exercise(
        id="06.2",
        title="Messages while backward runs",
        minutes=20,
        difficulty=3,
        deadline_s=60.0,
        cases=(
            Case("a message is under way before the last gradient exists", overlap.starts_in_backward),
            Case("backward does not wait for the other rank, and wait() does", overlap.really_waits),
            Case("after wait() the gradients are the mean over the ranks, step after step", overlap.two_steps),
            Case("messages pair up when gradients arrive in another order on each rank", overlap.same_order),
        ),
        hints=(
            "Write down which gradient backward makes first. What does the hook get, and what must wait() know?",
            "Keep a list of parameters in one fixed order, a set of those that are ready, and a list of what was "
            "started. The hook marks its parameter ready and starts all whose turn has come.",
            "order = [p for p in model.parameters() if p.requires_grad][::-1]; in the hook: ready.add(parameter), then "
            "while the next one of order is ready: works.append(all_reduce_async(next.grad)). wait() starts what is "
            "left and has a gradient, waits for all, divides, and clears both lists.",
        ),
    ),
    Exercise(
        id="06.3",
        title="Several backwards, one set of messages",
        minutes=8,
        difficulty=1,
        deadline_s=60.0,
        cases=(
            Case("each micro-batch runs forward and backward before the next", accumulation.one_graph_at_a_time),
            Case("one set of messages, none before the last backward", accumulation.one_set_of_messages),
            Case("the gradient equals that of one process with all the data", accumulation.equals_one_process),
        ),
        hints=(
            "backward() adds to the gradients that are there. After three of them, how many times too large are they?",
            "Divide each loss by the number of micro-batches, let the gradients add up, and talk to the other rank "
            "after the loop.",
            "for x in micro_batches: (loss_of(x) / len(micro_batches)).backward(); and after the loop one call of "
            "average_flat(model) from exercise 06.1.",
        ),
    ),
)
