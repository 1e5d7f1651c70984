"""The exercises of lesson 07: cut where the device changes, cut where it balances, tie what the cut has torn."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_07_balance as balancing
from pllab.lesson.exercises import lesson_07_split as splitting
from pllab.lesson.exercises import lesson_07_tied as tied

EXERCISES = (
    Exercise(
        id="07.1",
        title="Cut where the device changes",
        difficulty=1,
        cases=cases_of(splitting),
        hints=(
            "Write the devices of six layers in a row, some of them missing, and draw a line wherever a new stage "
            "begins. What did you have to remember from the layer before?",
            "Go through the layers once, from first to last, and remember the device of the stage that you are "
            "filling. A layer without a device of its own belongs to that stage.",
            "Start with two empty lists. For each layer, take its own device, or else the one you remember. If there "
            "is no stage yet, or if this device is not that of the last stage, start a new stage with an empty "
            "nn.Sequential and note the device. Then append the layer to the last stage.",
        ),
        package=("pllab.pipeline.split_module",),
    ),
    Exercise(
        id="07.2",
        title="The cut that balances",
        difficulty=3,
        cases=cases_of(balancing),
        hints=(
            "Every stage waits for the slowest one. Take five layers, cut them in two ways, and compare the largest "
            "stage costs, nothing else.",
            "A cut is a choice of places between layers: one place fewer than stages. With up to 8 layers you can try "
            "all choices; itertools has a function for choices without repetition, and one for pairs of neighbours.",
            "For each choice of places, put 0 before them and the number of layers after them. Each pair of neighbours"
            " is then the beginning and the end of a stage. Add up the costs in between and keep the largest sum. The "
            "best choice is the one whose largest sum is smallest; the differences between its neighbours are the "
            "numbers of layers.",
        ),
        package=("pllab.pipeline.balance",),
    ),
    Exercise(
        id="07.3",
        title="One weight on two stages",
        difficulty=2,
        cases=cases_of(tied),
        hints=(
            "The plain model uses one weight twice. What does backward do with the two uses?",
            "Backward adds up both uses, and each copy knows only its own. So both copies need the sum, and you need "
            "it before you change either of them.",
            "Collect the gradients that exist; if there are none, there is nothing to do. Make their sum a new tensor,"
            " store it in one copy, and store a clone of it in the other.",
        ),
        package=("pllab.pipeline.tie_gradients",),
    ),
)
