"""The exercises of lesson 06: one flat message, messages while backward runs, one set for several backwards."""

from pllab.lesson.exercise import Exercise
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
        cases=(flat.in_place, flat.keeps_digits, flat.leaves_none, flat.few_messages),
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
        cases=(overlap.starts_in_backward, overlap.really_waits, overlap.two_steps, overlap.same_order),
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
        cases=(accumulation.one_graph_at_a_time, accumulation.one_set_of_messages, accumulation.equals_one_process),
        hints=(
            "backward() adds to the gradients that are there. After three of them, how many times too large are they?",
            "Divide each loss by the number of micro-batches, let the gradients add up, and talk to the other rank "
            "after the loop.",
            "for x in micro_batches: (loss_of(x) / len(micro_batches)).backward(); and after the loop one call of "
            "average_flat(model) from exercise 06.1.",
        ),
    ),
)
