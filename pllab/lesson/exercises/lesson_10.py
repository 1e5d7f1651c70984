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
            "so on. When can the stage before it?",
            "Three parts: a warm-up of forwards alone, then one forward and one backward in turn, then the backwards "
            "that are left. Only the length of the warm-up depends on the stage.",
            "The warm-up of stage s is min(m, p - s - 1) forwards. Then for k in range(m - warm_up): forward "
            "warm_up + k, backward k. Then the last warm_up backwards.",
        ),
    ),
    Exercise(
        id="10.2",
        title="Let go of what is not needed",
        minutes=10,
        difficulty=2,
        cases=(
            Case("loss and gradients are those of the whole batch", free.same_result),
            Case("forwards and backwards come in the order of the row", free.in_order),
            Case("the live bytes stay at what the row needs, for three rows", free.few_bytes),
            Case("no graph is alive after its backward", free.no_graph),
        ),
        hints=(
            "Between its forward and its backward a micro-batch needs its graph. Where does your function keep it, and "
            "when does it let go?",
            "A dictionary from micro-batch to loss is enough: the forward puts one in, the backward takes it out. A "
            "loss tensor that stays somewhere keeps the graph behind it.",
            "F: live[i] = loss(stage(inputs[i]), targets[i]) / len(inputs); total += live[i].item(). "
            "B: live.pop(i).backward().",
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
            Case("with dropout they are the same too", twice.same_masks),
            Case("also for two stages and three micro-batches", twice.several),
            Case("the forward runs exactly twice, and the generator goes on as if it ran once", twice.leaves_no_trace),
        ),
        hints=(
            "With dropout off, are the gradients right? With dropout on, does the second forward drop the same numbers "
            "as the first?",
            "Write a torch.autograd.Function. Its forward runs without autograd and saves the input and "
            "torch.get_rng_state(); its backward sets that state and runs the stage again, on a detached input.",
            "In backward: leaf = x.detach().requires_grad_(x.requires_grad); inside torch.random.fork_rng() and "
            "torch.enable_grad() set the state and compute y = stage(leaf); then torch.autograd.backward(y, gradient) "
            "and return leaf.grad. Pass *stage.parameters() to apply, with a None each in what backward returns.",
        ),
    ),
)
