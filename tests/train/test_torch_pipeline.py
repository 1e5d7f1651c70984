"""Pipelines between ranks on PyTorch's runtime, against the plain model of one process."""

import time
from datetime import timedelta
from typing import Any

import pytest
import torch.distributed as dist
from torch import nn

from pllab import comm
from pllab.pipeline import tied_weights
from pllab.schedule import FAMILIES, Schedule, one_f_one_b
from pllab.simulate import simulate
from pllab.timeline import Timeline
from pllab.train.torch_pipeline import TorchPipeline
from tests.pipeline.families import plain_copy, stages_of, tiny_gpt2, tokens, worst
from tests.pipeline.programs import few_targets, names_of, own
from tests.tiers import exhaustive

FROZEN = ("transformer.wte.", "transformer.wpe.", "transformer.h.0.")
CASES = [
    ("interleaved", False, False),
    ("zb_h1", False, False),
    ("zbv", True, False),
    ("1f1b", True, True),  # two ranks have a copy of the frozen embedding
    *exhaustive(
        ("gpipe", False, False),
        ("1f1b", False, False),
        ("zbv", False, False),
        ("1f1b", False, True),
        ("1f1b", True, False),
        ("interleaved", False, True),
    ),
]


def pipeline(schedule: Schedule, model: nn.Module, rank: int, **options: Any) -> TorchPipeline:
    stages = stages_of(model, schedule.num_stages)
    return TorchPipeline(schedule, own(schedule, stages, rank), tied_weights(stages), **{"group": None} | options)


def in_order(timeline: Timeline) -> list[list[str]]:
    """What each rank ran."""
    return [[str(span.action) for span in timeline.of_rank(rank)] for rank in range(timeline.num_ranks)]


def assert_as_the_plain_model(rank: int, size: int, name: str, frozen: bool, recompute: bool) -> None:
    """Batches that the micro-batches do not divide, and one whose rows differ in targets; gradients add up."""
    schedule, model = FAMILIES[name].make(size, 4), tiny_gpt2()
    for parameter_name, parameter in model.named_parameters():
        parameter.requires_grad_(not (frozen and parameter_name.startswith(FROZEN)))
    batches = [(ids, ids) for ids in (tokens(8, 1), tokens(7, 2), tokens(3, 3), tokens(9, 4))] + [few_targets()]
    plain, losses = plain_copy(model, *batches)
    engine = pipeline(schedule, model, rank, recompute=recompute)
    steps = [engine.step(batch, batch[1]) for batch in batches]
    assert [float(loss) for loss, _ in steps] == pytest.approx(losses, abs=1e-5)
    assert [engine.evaluate(batch, batch[1])[0] for batch in batches] == pytest.approx(losses, abs=1e-5)
    assert engine._runtime.cache_info().currsize == 4  # the newest of three shapes, to train and to evaluate
    here = names_of(model, own(schedule, stages_of(model, schedule.num_stages), rank))
    trained = {name for name in here if model.get_parameter(name).requires_grad}
    with pytest.raises(KeyError), engine._tied.summed():
        raise KeyError  # in a step that fails, and takes none of the gradients before it along
    assert worst(model, plain, trained) < 1e-6
    assert all(model.get_parameter(name).grad is None for name in here - trained)
    for timeline in engine.timelines([record for _, record in steps]):
        if not (frozen and name == "zbv"):  # which gets whole backwards where nothing trains before
            assert in_order(timeline) == in_order(simulate(schedule))


@pytest.mark.parametrize(("name", "frozen", "recompute"), CASES)
def test_losses_gradients_and_evaluations_are_the_plain_models(name: str, frozen: bool, recompute: bool) -> None:
    comm.launch(assert_as_the_plain_model, 2, name, frozen, recompute, backend="gloo", timeout_s=100)


def wait_for_one_that_is_late(rank: int, size: int, deadline_s: float) -> None:
    """It comes after the deadline of their group."""
    group = dist.new_group(timeout=timedelta(seconds=deadline_s))
    engine, ids = pipeline(one_f_one_b(size, 4), tiny_gpt2(), rank, group=group), tokens(8)
    engine.step((ids, ids), ids)
    if rank == 1:
        time.sleep(deadline_s + 2.0)
        return
    late = "a step of the pipeline on rank 0 waited until its deadline for another rank"
    with pytest.raises(comm.PeerError, match=late):
        engine.step((ids, ids), ids)


@pytest.mark.exhaustive
def test_a_rank_that_is_late_is_an_error_at_the_deadline_in_a_sentence() -> None:
    comm.launch(wait_for_one_that_is_late, 2, 3.0, backend="gloo", timeout_s=60)
