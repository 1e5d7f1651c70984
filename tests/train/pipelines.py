"""Functions that the tests of pipelines between ranks run on their ranks."""

import os
import signal
import time
from datetime import timedelta
from typing import Any, NamedTuple

import torch.distributed as dist
from torch import nn

from pllab import comm
from pllab.pipeline import tied_weights
from pllab.schedule import FAMILIES, Schedule, one_f_one_b
from pllab.simulate import simulate
from pllab.timeline import Timeline
from pllab.train.torch_pipeline import TorchPipeline
from tests.pipeline.families import next_token_loss, plain_copy, stages_of, tiny_gpt2, tokens, worst
from tests.pipeline.programs import few_targets, names_of, own

FROZEN = ("transformer.wte.", "transformer.wpe.", "transformer.h.0.")


class Seen(NamedTuple):
    """Of some steps on a rank: the largest errors, whether all actions came back, and how many runtimes are kept."""

    loss: float
    gradient: float
    evaluation: float
    is_whole: bool
    num_runtimes: int


def pipeline(schedule: Schedule, model: nn.Module, rank: int, **options: Any) -> TorchPipeline:
    stages = stages_of(model, schedule.num_stages)
    return TorchPipeline(schedule, own(schedule, stages, rank), tied_weights(stages), **{"group": None} | options)


def trained_here(schedule: Schedule, model: nn.Module, rank: int) -> set[str]:
    """The names of the parameters of this rank's stages that train."""
    names = names_of(model, own(schedule, stages_of(model, schedule.num_stages), rank))
    return {name for name in names if model.get_parameter(name).requires_grad}


def against_the_plain_model(rank: int, size: int, name: str, frozen: bool, recompute: bool) -> Seen:
    """Batches that the micro-batches do not divide, on top of gradients that were there before."""
    schedule, model = FAMILIES[name].make(size, 4), tiny_gpt2()
    for parameter_name, parameter in model.named_parameters():
        parameter.requires_grad_(not (frozen and parameter_name.startswith(FROZEN)))
    batches = [tokens(8, 1), tokens(7, 2), tokens(3, 3), tokens(9, 4)]
    plain, losses = plain_copy(model, *batches)
    engine = pipeline(schedule, model, rank, recompute=recompute)
    steps = [engine.step((ids, ids), ids) for ids in batches]
    evaluations = [engine.evaluate((ids, ids), ids) for ids in batches]
    timelines = engine.timelines([record for _, record in steps])
    return Seen(
        max(abs(float(loss) - expected) for (loss, _), expected in zip(steps, losses, strict=True)),
        worst(model, plain, trained_here(schedule, model, rank)),
        max(abs(float(loss) - expected) for (loss, _), expected in zip(evaluations, losses, strict=True)),
        all(in_order(timeline) == in_order(simulate(schedule)) for timeline in timelines),
        len(engine._runtimes),
    )


def in_order(timeline: Timeline) -> list[list[str]]:
    """What each rank ran."""
    return [[str(span.action) for span in timeline.of_rank(rank)] for rank in range(timeline.num_ranks)]


def mean_over_tokens(rank: int, size: int) -> tuple[float, float]:
    """Rows with 7, 2, 0 and 5 targets: the errors of the loss and the gradient against the plain model's mean."""
    model, (ids, labels) = tiny_gpt2(), few_targets()
    schedule = one_f_one_b(size, 4)
    plain = tiny_gpt2()
    loss = next_token_loss(plain(ids).logits, labels)
    loss.backward()
    mine, _ = pipeline(schedule, model, rank).step((ids, labels), labels)
    return abs(float(mine) - loss.item()), worst(model, plain, trained_here(schedule, model, rank))


def one_dies(rank: int, size: int) -> str:
    """The words of the rank whose peer is killed in the middle of its second step."""
    engine, ids = pipeline(one_f_one_b(size, 4), tiny_gpt2(), rank), tokens(8)
    engine.step((ids, ids), ids)
    if rank == 1:
        nn.modules.module.register_module_forward_hook(lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    engine.step((ids, ids), ids)
    return "nothing"


def one_is_late(rank: int, size: int, deadline_s: float) -> str:
    """The words of the rank that waits for one that comes after the deadline of their group."""
    group = dist.new_group(timeout=timedelta(seconds=deadline_s))
    engine, ids = pipeline(one_f_one_b(size, 4), tiny_gpt2(), rank, group=group), tokens(8)
    engine.step((ids, ids), ids)
    if rank == 1:
        time.sleep(deadline_s + 2.0)
        return "late"
    try:
        engine.step((ids, ids), ids)
    except comm.PeerError as error:
        return str(error)
    return "nothing"
