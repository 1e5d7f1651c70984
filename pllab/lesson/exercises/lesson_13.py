"""The exercises of lesson 13: an optimizer and a sum in parts, a unit at a time, a checkpoint of all parts."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_13_adam as adam
from pllab.lesson.exercises import lesson_13_gather as gather
from pllab.lesson.exercises import lesson_13_scatter as scatter
from pllab.lesson.exercises import lesson_13_units as units

EXERCISES = (
    Exercise(
        id="13.1",
        title="An optimizer in parts",
        difficulty=2,
        cases=cases_of(adam),
        hints=(
            "For 10 numbers on 3 ranks, write down which numbers each rank steps. How long is the shortest part, and "
            "what sizes does a message need in which all ranks take part?",
            "all_gather_async needs parts of one size, and room for all of them together. A slice that reaches beyond "
            "the end of a tensor is only shorter, or empty; fill it up with zeros.",
            "Round the size of a part up. Cut out this rank's numbers and their gradient, and start moments of that "
            "length at zero if the dictionary is empty. Count the step, update the moments, and write the new numbers "
            "to the front of a tensor of zeros of the part's size. Gather these into a tensor of all parts, and copy "
            "its first n numbers into flat.",
        ),
        deadline_s=120.0,
    ),
    Exercise(
        id="13.2",
        title="A sum in parts",
        difficulty=2,
        cases=cases_of(scatter),
        hints=(
            "Print the length of what each rank gives to the collective. Do all ranks have a gradient for the same "
            "parameters?",
            "reduce_scatter_async takes a flat tensor whose length is a multiple of the number of ranks, and a tensor "
            "for this rank's part of the sum. Every number must have the same place on all ranks, so a gradient that "
            "is None needs its place too.",
            "Collect the flattened gradient of every trained parameter, or zeros of its size. Add zeros at the end "
            "until the number of ranks divides the length. Free the gradients, scatter the sum into a tensor of the "
            "part's size, and divide it by the number of ranks.",
        ),
        deadline_s=120.0,
    ),
    Exercise(
        id="13.3",
        title="Gather, use, free",
        difficulty=3,
        cases=cases_of(units),
        hints=(
            "Run three units forward with autograd on, and list the tensors that backward will need. Which of them "
            "are weights?",
            "A graph keeps the weights for its backward. In lesson 10 a stage kept only its input and ran again in "
            "backward; a unit can do the same, and be gathered again.",
            "Forward, without autograd: for each unit keep its input, gather it, run it. Backward, from the last unit "
            "to the first: gather it again, let the weights and the detached input require gradients, run the unit, "
            "and ask autograd for both gradients, given the gradient of its output; that of the loss is one. Pad the "
            "gradient of the weights, scatter its sum and divide by the number of ranks; pass the gradient of the "
            "input on.",
        ),
        deadline_s=120.0,
    ),
    Exercise(
        id="13.4",
        title="A checkpoint of all parts",
        difficulty=2,
        cases=cases_of(gather),
        hints=(
            "Which rank needs the whole, and which ranks only give? How many names has a tied weight, and how many "
            "places in the flat tensor?",
            "send and receive of pllab.comm carry one tensor between two ranks; a send waits until it is received. "
            "named_parameters lists every parameter once, in the order of the flat tensor.",
            "Every rank but 0 sends its part to 0 and returns None. Rank 0 receives one part from each rank, in "
            "order, puts them behind its own, and cuts the result into pieces of the parameters' sizes; what is left "
            "at the end is padding. Give each piece its parameter's shape.",
        ),
        deadline_s=120.0,
    ),
)
