"""Which device the messages of a rank are on, by backend; the meta device stands in for a GPU."""

import pytest
import torch
from torch import nn

from pllab.pipeline import LaneExecutor, torch_schedule
from pllab.pipeline.split import check_loss, check_stages
from pllab.pipeline.torch_schedule import place_on_rank
from pllab.schedule import gpipe


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch):
    def pretend(backend: str | None, size: int = 2) -> None:
        monkeypatch.setattr(torch_schedule, "backend_name", lambda: backend)
        monkeypatch.setattr(torch_schedule, "world_size", lambda: size)

    monkeypatch.setattr(torch_schedule, "own_device", lambda: torch.device("cuda", 3))
    return pretend


@pytest.mark.parametrize(
    ("backend", "size", "stage", "place"),
    [
        (None, 1, nn.Linear(2, 2), "cpu"),
        ("gloo", 2, nn.Linear(2, 2), "cpu"),
        ("gloo", 2, nn.ReLU(), "cpu"),
        ("gloo", 1, nn.Linear(2, 2, device="meta"), "meta"),
        ("nccl", 2, nn.Linear(2, 2, device="meta"), "meta"),
        ("nccl", 2, nn.ReLU(), "cuda:3"),
    ],
)
def test_messages_are_where_the_stages_are(group, backend: str | None, size: int, stage: nn.Module, place: str) -> None:
    """A stage without parameters says nothing of its device; its group does."""
    group(backend, size)
    assert str(place_on_rank({0: stage})) == place


def test_stages_on_the_cpu_are_refused_under_nccl(group) -> None:
    group("nccl")
    with pytest.raises(ValueError, match=r"\[1, 3\], are on the CPU, and nccl .* backend='gloo'"):
        place_on_rank({1: nn.ReLU(), 3: nn.Linear(2, 2)})


def test_stages_on_a_gpu_are_refused_under_gloo(group) -> None:
    """gloo would read the GPU's address as one of the host's."""
    group("gloo")
    with pytest.raises(ValueError, match=r"\[0, 2\], are on meta and gloo carries what is on the CPU"):
        place_on_rank({2: nn.Linear(2, 2, device="meta"), 0: nn.Linear(2, 2, device="meta")})


@pytest.mark.parametrize(
    ("stages", "sentence"),
    [
        (nn.Linear(2, 2), "the stages are a Linear; give a list of modules"),
        ({0: nn.Linear(2, 2)}, "the stages are a dict; give a list of modules"),
        ([nn.Linear(2, 2), None], "stage 1 is of type NoneType; give an nn.Module"),
    ],
)
def test_what_is_no_list_of_modules_is_refused(stages: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        check_stages(stages)
    with pytest.raises(ValueError, match=sentence):
        LaneExecutor(gpipe(2, 2), stages, nn.functional.mse_loss)  # type: ignore[arg-type]


@pytest.mark.parametrize(("given", "sentence"), [(("mse", None), "loss is 'mse'"), ((abs, 3), "mean_over is 3")])
def test_what_cannot_be_called_is_no_loss_and_no_count(given: tuple[object, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"{sentence}; give a function"):
        check_loss(*given)
