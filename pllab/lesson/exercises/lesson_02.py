"""The exercises of lesson 02: a ring without deadlock, a group that leaves nothing behind, groups in the world."""

from pllab.lesson.exercise import Exercise
from pllab.lesson.exercises import lesson_02_group as group
from pllab.lesson.exercises import lesson_02_ring as ring
from pllab.lesson.exercises import lesson_02_subgroups as subgroups

EXERCISES = (
    Exercise(
        id="02.1",
        title="Pass it on",
        minutes=12,
        difficulty=2,
        cases=(ring.two_ranks, ring.three_ranks, ring.alone),
        hints=(
            "Write down line by line what rank 0 and rank 1 do, one finger on each. Where do both fingers stop?",
            "A send waits until the other rank receives. Somebody has to receive first, or the send must not wait: "
            "dist.isend starts one and returns at once.",
            "received = torch.empty_like(x); sending = dist.isend(x, (rank + 1) % size); "
            "dist.recv(received, (rank - 1) % size); sending.wait(). With size 1, return a copy.",
        ),
        deadline_s=90.0,
    ),
    Exercise(
        id="02.2",
        title="Enter and leave",
        minutes=10,
        difficulty=2,
        cases=(group.group_of_one, group.work_raises, group.two_at_once),
        hints=(
            "Three steps: enter the group, do the work, leave the group. Which step must happen even if the one "
            "before it fails?",
            "dist.init_process_group takes init_method='file://...' with the rank and the world_size; "
            "dist.destroy_process_group ends it. A port would be the same for both groups, the file is not.",
            "dist.init_process_group('gloo', init_method=f'file://{init_file}', rank=rank, world_size=world_size); "
            "then try: return work() and finally: dist.destroy_process_group().",
        ),
        deadline_s=90.0,
    ),
    Exercise(
        id="02.3",
        title="Groups inside the world",
        minutes=8,
        difficulty=2,
        cases=(subgroups.same_calls,),
        hints=(
            "The ranks wait for each other inside new_group. Which rank never made the call that the others are in?",
            "new_group is a collective call: every rank of the world makes every one of these calls, in the same "
            "order, also for the groups it is not in.",
            "groups = [dist.new_group(ranks) for ranks in members] on all ranks; then keep the group of each list "
            "that contains dist.get_rank().",
        ),
        deadline_s=90.0,
    ),
)
