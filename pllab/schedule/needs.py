"""Which action waits for which: the one statement of the data flow through a pipeline.

    0F0 --> 1F0 --> 2F0          forward: activations go up the stages
     |       |       |           each backward also needs what its own forward kept
    0B0 <-- 1B0 <-- 2B0          backward: gradients come down

When a backward is split, I takes B's place in this picture and W needs only the I of its own stage.
"""

from collections.abc import Container, Iterator

from pllab.schedule.action import Action, Kind


def needs(action: Action, num_stages: int, present: Container[Action]) -> Iterator[Action]:
    """The actions whose results `action` takes; `present` says whether the stage above splits its backward.

    Example: with three stages, `1B0` needs `1F0`, and `2B0` (or `2I0` where that is what is present).
    """
    stage, kind, microbatch = action
    if kind is Kind.F:
        if stage > 0:
            yield Action(stage - 1, Kind.F, microbatch)
    elif kind is Kind.W:
        yield Action(stage, Kind.I, microbatch)
    else:
        yield Action(stage, Kind.F, microbatch)
        if stage + 1 < num_stages:
            split = Action(stage + 1, Kind.I, microbatch)
            yield split if split in present else Action(stage + 1, Kind.B, microbatch)
