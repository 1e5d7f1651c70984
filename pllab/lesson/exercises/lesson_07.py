"""The exercises of lesson 07: cut where the device changes, cut where it balances, tie what the cut has torn."""

from pllab.lesson.exercise import Exercise
from pllab.lesson.exercises import lesson_07_balance as balancing
from pllab.lesson.exercises import lesson_07_split as splitting
from pllab.lesson.exercises import lesson_07_tied as tied

EXERCISES = (
    Exercise(
        id="07.1",
        title="Cut where the device changes",
        minutes=8,
        difficulty=1,
        cases=(splitting.consecutive, splitting.silent, splitting.again),
        hints=(
            "Write the devices of six layers in a row, some of them missing, and draw a line wherever a new stage "
            "begins. What did you have to remember from the layer before?",
            "Go through the layers once, from first to last, and remember the device of the stage that you are "
            "filling. A layer without one of its own belongs to that stage.",
            "Begin with two empty lists. For each layer find its device, or else take the one you remember. If there "
            "is no stage yet, or its device is another, begin a new stage with an empty nn.Sequential and note the "
            "device; then append the layer to the last stage.",
        ),
        package=("pllab.pipeline.split_module",),
    ),
    Exercise(
        id="07.2",
        title="The cut that balances",
        minutes=15,
        difficulty=3,
        cases=(balancing.well_formed, balancing.optimal, balancing.any_unit, balancing.edges, balancing.too_many),
        hints=(
            "Every stage waits for the slowest one. Compare two cuts of five layers by their largest stage, by nothing "
            "else.",
            "A cut is a choice of places between layers: one place fewer than stages. Up to 8 layers there are so few "
            "choices that you can try all; itertools has a function for choices without repetition, and one for pairs "
            "of neighbours.",
            "For every choice of places put 0 before them and the number of layers behind them: neighbours are then "
            "the begin and the end of a stage. Add up the costs between them, keep the largest of these sums, and "
            "take the choice whose largest is smallest. The sizes are the differences of its neighbours.",
        ),
        package=("pllab.pipeline.balance",),
    ),
    Exercise(
        id="07.3",
        title="One weight on two stages",
        minutes=8,
        difficulty=2,
        cases=(tied.one_call, tied.three_steps, tied.two_tensors, tied.missing, tied.other_types),
        hints=(
            "In the plain model one weight is used twice. What does backward do with two uses of one weight?",
            "Backward adds the uses up, and each copy knows its own use only. So both need the sum, before either of "
            "them is changed.",
            "Collect the gradients that exist; with none there is nothing to do. Make their sum a new tensor, store "
            "it in one copy, and store a clone of it in the other.",
        ),
        package=("pllab.pipeline.tie_gradients",),
    ),
)
