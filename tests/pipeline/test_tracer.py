"""How long the way of a batch through the engine is: a reader of the code goes it too."""

import torch
from torch import nn

from pllab.pipeline import LaneExecutor, Pipe
from pllab.schedule import one_f_one_b
from tests.pipeline.tracer import Step, Way, way_of


def stages() -> list[nn.Sequential]:
    return [nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(2)]


def through_a_pipe(num_microbatches: int) -> Way:
    x = torch.randn(4, 6)
    with Pipe.from_partitions(stages(), ["cpu:0", "cpu:1"], num_microbatches=num_microbatches) as pipe:
        return way_of(lambda: pipe(x).sum().backward())


def through_an_executor(num_microbatches: int) -> Way:
    x = torch.randn(4, 6)
    with LaneExecutor(one_f_one_b(2, num_microbatches), stages(), nn.functional.mse_loss) as executor:
        return way_of(lambda: executor.step(x, x))


def test_a_batch_goes_through_a_pipe_in_a_short_way() -> None:
    short, long = through_a_pipe(2), through_a_pipe(4)
    assert len(short.files) <= 8 and len(short.functions) <= 48 and short.changes <= 64
    assert (long.changes - short.changes) / 8 <= 3  # two further micro-batches are eight actions


def test_a_step_of_an_executor_takes_no_longer_way() -> None:
    short, long = through_an_executor(2), through_an_executor(4)
    assert len(short.files) <= 10 and len(short.functions) <= 50 and short.changes <= 52
    assert (long.changes - short.changes) / 8 <= 3.5


def test_the_tracer_sees_both_threads_in_order_and_no_lambda() -> None:
    way = through_a_pipe(2)
    lanes = [[step for step in steps if step.name == "StageWork.perform"] for steps in way.threads]
    assert sorted(map(len, lanes)) == [0, 4, 4]  # the caller's thread performs nothing, each lane F, F, B, B
    assert Step("pipeline/engine.py", "interpret") in way.functions
    assert not any("<lambda>" in step.name for step in way.functions)
