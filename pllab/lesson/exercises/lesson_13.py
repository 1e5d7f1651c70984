"""The exercises of lesson 13: an optimizer and a sum in parts, a unit at a time, a checkpoint of all parts."""

from pllab.lesson.exercise import Exercise
from pllab.lesson.exercises import lesson_13_adam as adam
from pllab.lesson.exercises import lesson_13_gather as gather
from pllab.lesson.exercises import lesson_13_scatter as scatter
from pllab.lesson.exercises import lesson_13_units as units

EXERCISES = (
    Exercise(
        id="13.1",
        title="An optimizer in parts",
        minutes=12,
        difficulty=2,
        cases=(adam.even, adam.uneven, adam.small_state, adam.few_bytes),
        hints=(
            "For 10 numbers on 3 ranks, write down which numbers each rank steps. How long is the shortest part, and "
            "what does a message need that all ranks take part in?",
            "all_gather_async wants parts of one size, and as much room as all of them together. A slice of a tensor "
            "that reaches beyond its end is only shorter, or empty; fill it up with zeros.",
            "Round the size of a part up. Cut this rank's numbers and their gradient out, and let moments of that "
            "length start at zero if the dictionary is empty. Count the step, update the moments, and write the new "
            "numbers to the front of a tensor of zeros of the part's size. Gather these into a tensor of all parts, "
            "and copy its first n numbers into flat.",
        ),
        deadline_s=120.0,
    ),
    Exercise(
        id="13.2",
        title="A sum in parts",
        minutes=10,
        difficulty=2,
        cases=(scatter.even, scatter.uneven, scatter.gaps, scatter.nothing_else, scatter.few_bytes),
        hints=(
            "Print the length of what each rank gives to the collective. Do all ranks have a gradient for the same "
            "parameters?",
            "reduce_scatter_async takes a flat tensor whose length is a multiple of the number of ranks, and room for "
            "this rank's part of the sum. The place of every number must be the same on all ranks, so a gradient that "
            "is missing must take its place too.",
            "Collect for every parameter that is trained its flattened gradient, or zeros of its size. Add zeros at "
            "the end until the number of ranks divides the length. Free the gradients, scatter the sum into a tensor "
            "of the part's size, and divide it by the number of ranks.",
        ),
        deadline_s=120.0,
    ),
    Exercise(
        id="13.3",
        title="Gather, use, free",
        minutes=20,
        difficulty=3,
        cases=(units.same_loss, units.same_gradients, units.few_whole, units.reduced_early, units.few_bytes),
        hints=(
            "Run three units forward with autograd on, and list the tensors that are still needed at its end. Which of "
            "them are weights?",
            "A graph keeps the weights for its backward. In lesson 10 a stage kept only its input and computed itself "
            "again; a unit can do the same, and gather itself again.",
            "Forward: without autograd, for each unit keep its input, gather it, use it. Backward, from the last unit "
            "to the first: gather it again, let the weights and the detached input ask for gradients, run the unit, "
            "and ask autograd for both gradients, given the gradient of its output; that of the loss is one. Pad the "
            "gradient of the weights, scatter its sum, divide by the number of ranks; go on with the gradient of the "
            "input.",
        ),
        deadline_s=120.0,
    ),
    Exercise(
        id="13.4",
        title="A checkpoint of all parts",
        minutes=10,
        difficulty=2,
        cases=(gather.whole_on_0, gather.other_models, gather.only_0, gather.loads),
        hints=(
            "Which rank needs the whole, and which ones only have to give? How many names has a tied weight, and how "
            "many places in the flat tensor?",
            "send and receive of pllab.comm carry one tensor between two ranks; a send waits until it is received. "
            "named_parameters lists every parameter once, in the order of the flat tensor.",
            "Every rank but 0 sends its part to 0 and returns nothing. Rank 0 receives one part from each, in order, "
            "lays them behind its own, and cuts the result into pieces of the parameters' sizes; what is left at the "
            "end is padding. Each piece gets its parameter's shape.",
        ),
        deadline_s=120.0,
    ),
)
