import inspect
import re

import pytest
import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage, schedules

from pllab.comm import launch
from pllab.pipeline import to_torch, torch_schedule
from pllab.pipeline.torch_schedule import place_on_rank
from pllab.schedule import Schedule
from tests.pipeline import programs


def assert_equal(per_rank: list[dict[str, tuple[float, float, bool]]]) -> None:
    for seen in per_rank:
        wrong = {name: found for name, found in seen.items() if not (found[0] < 1e-5 and found[1] < 1e-6 and found[2])}
        assert seen and not wrong


@pytest.mark.ranks
def test_pytorchs_runtime_runs_the_same_rows_with_the_same_loss_and_gradients() -> None:
    assert_equal(launch(programs.every_family, 2, backend="gloo", timeout_s=200))


@pytest.mark.ranks
def test_what_does_not_fit_is_refused_in_a_sentence() -> None:
    for size, stages, text, listed in launch(programs.what_does_not_fit, 2, backend="gloo", timeout_s=60):
        assert "3 ranks and the group 2" in size
        assert "runs stages" in stages
        assert "is of type str; give an nn.Module" in text
        assert "the stages are a list; give this rank's by number" in listed


@pytest.mark.ranks
def test_what_comes_after_a_frozen_beginning_has_the_plain_models_gradients_under_split_backwards() -> None:
    """PyTorch's I looks for weights on the way to the stage's input, and there is no way to one without a gradient."""
    assert_equal(launch(programs.frozen_beginning, 2, backend="gloo", timeout_s=200))


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


def test_without_a_group_it_is_said_what_to_call() -> None:
    with pytest.raises(ValueError, match=r"there is no process group; call pllab.comm.setup\(rank, world_size\) first"):
        to_torch(Schedule.of([["0F0", "0B0"]]), {0: nn.Linear(2, 2)}, nn.functional.mse_loss)


@pytest.mark.parametrize(
    ("backend", "size", "stages", "expected"),
    [
        (None, 1, [nn.Linear(2, 2)], "cpu"),
        ("gloo", 2, [nn.Linear(2, 2)], "cpu"),
        ("gloo", 2, [nn.ReLU()], "cpu"),
        ("gloo", 1, [nn.Linear(2, 2, device="meta")], "meta"),
        ("nccl", 2, [nn.Linear(2, 2, device="meta")], "meta"),
        ("nccl", 2, [nn.ReLU()], "cuda:3"),
        ("nccl", 2, [nn.ReLU(), nn.Linear(2, 2)], r".*\[0, 1\], are on the CPU, but nccl .* backend='gloo'"),
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
