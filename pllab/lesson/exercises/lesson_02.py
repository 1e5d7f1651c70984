"""The exercises of lesson 02: a ring without deadlock, a group with a deadline, groups in the world."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_02_enter as enter
from pllab.lesson.exercises import lesson_02_ring as ring
from pllab.lesson.exercises import lesson_02_subgroups as subgroups

EXERCISES = (
    Exercise(
        id="02.1",
        title="Pass it on",
        difficulty=2,
        cases=cases_of(ring),
        hints=(
            "Write down line by line what rank 0 and rank 1 do, and keep one finger on each. Where do both fingers "
            "stop?",
            "Look at the first of the two calls. A send waits until the other rank receives. So either some ranks "
            "receive first, or the send must not wait.",
            "Start the send, receive into a new tensor like x, then wait for the send. The remainder of a division by "
            "the world size closes the ring. A rank that is alone has nobody to send to: return a copy.",
        ),
        package=("pllab.comm.ring_pass",),
        deadline_s=120.0,
    ),
    Exercise(
        id="02.2",
        title="Enter with a deadline",
        difficulty=1,
        cases=cases_of(enter),
        hints=(
            "A rank must know three things before it can meet the others. Three of the four arguments are these. What "
            "is the fourth one for?",
            "Look up the arguments of dist.init_process_group. The place is init_method, a text that begins with "
            "file:// and goes on with the absolute path, so it has three slashes. The deadline is timeout.",
            "One call does it all: give it the backend gloo, the file as the place, the rank, the world size and the "
            "deadline. The deadline is not a number but a timedelta of that many seconds, from the module datetime.",
        ),
        deadline_s=120.0,
        package=("pllab.comm.setup",),
        lends=False,
    ),
    Exercise(
        id="02.3",
        title="Groups inside the world",
        difficulty=2,
        cases=cases_of(subgroups),
        hints=(
            "The ranks wait for each other inside new_group. Which rank never makes the call that the others are in?",
            "new_group is a collective call: every rank of the world makes all of these calls, in the same order, "
            "also for the groups that it is not in.",
            "On every rank, make a group for every list, in the order of the lists. Keep the groups whose list "
            "contains the rank's own number.",
        ),
        package=("pllab.comm.make_groups",),
        deadline_s=120.0,
    ),
)
