import inspect
import re
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage, schedules

from pllab.comm import launch
from pllab.pipeline import torch_schedule
from pllab.pipeline.torch_schedule import place_on_rank
from tests.pipeline import programs


@pytest.mark.parametrize("program", [programs.against_the_plain_model, programs.refusals])
def test_on_two_ranks(program: Callable[[int, int], None]) -> None:
    launch(program, 2, backend="gloo", timeout_s=200)


def test_torch_still_has_the_private_names_that_this_rests_on() -> None:
    """They stand in one file, `torch_schedule.py`; the sentence says what another torch has changed."""
    wanted = {
        schedules._PipelineScheduleRuntime._load_csv: ("filename", "format"),
        schedules._PipelineScheduleRuntime.step: ("args", "target", "losses"),
        schedules._PipelineScheduleRuntime.eval: ("args", "target", "losses"),
        PipelineStage.forward_one_chunk: ("fwd_chunk_id", "args"),
        PipelineStage.backward_one_chunk: ("bwd_chunk_id", "loss", "full_backward", "last_backward"),
        PipelineStage.backward_weight_one_chunk: ("bwd_chunk_id", "last_backward"),
    }
    for method, names in wanted.items():
        missing = set(names) - set(inspect.signature(method).parameters)
        assert not missing, f"{method.__qualname__} of torch {torch.__version__} takes no {missing} any more"
    source = inspect.getsource(schedules._PipelineScheduleRuntime)
    assert "pipeline_order_with_comms" in source, f"the runtime of torch {torch.__version__} keeps its rows elsewhere"
    kinds = {kind.name for kind in schedules._ComputationType}
    assert {"FORWARD", "SEND_F", "RECV_F"} <= kinds, f"torch {torch.__version__} names its actions {kinds}"


@pytest.mark.parametrize(
    ("backend", "size", "stages", "expected"),
    [
        (None, 1, [nn.Linear(2, 2)], "cpu"),
        ("gloo", 2, [nn.Linear(2, 2)], "cpu"),
        ("gloo", 2, [nn.ReLU()], "cpu"),
        ("gloo", 1, [nn.Linear(2, 2, device="meta")], "meta"),
        ("nccl", 2, [nn.Linear(2, 2, device="meta")], "meta"),
        ("nccl", 2, [nn.ReLU()], "cuda:3"),
        # gloo would read the GPU's address as one of the host's
        ("gloo", 2, [nn.Linear(2, 2, device="meta")], r".*\[0\], are on meta, but gloo carries only CPU tensors.*"),
    ],
)
def test_messages_are_where_the_stages_are_or_that_is_refused(
    monkeypatch: pytest.MonkeyPatch, backend: str | None, size: int, stages: list[nn.Module], expected: str
) -> None:
    """A stage without parameters says nothing of its device; its group does. The meta device stands in for a GPU."""
    monkeypatch.setattr(torch_schedule, "backend_name", lambda: backend)
    monkeypatch.setattr(torch_schedule, "world_size", lambda: size)
    monkeypatch.setattr(torch_schedule, "own_device", lambda: torch.device("cuda", 3))
    try:
        found = str(place_on_rank(dict(enumerate(stages))))
    except ValueError as error:
        found = str(error)
    assert re.fullmatch(expected, found)
