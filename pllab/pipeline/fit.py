"""Do the stages fit the schedule, and where do they live?"""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import nn

from pllab.comm import Group, backend_name, own_device, rank, world_size
from pllab.comm.devices import gpu_backend
from pllab.pipeline.sleep import sleeper
from pllab.schedule import Schedule


def check_lanes(schedule: Schedule, stages: Sequence[nn.Module], devices: Sequence[torch.device | str] | None) -> None:
    """Refuse another number of stages or devices than the schedule has.

    Raises:
        ValueError: the numbers differ, or a stage is not a module.
    """
    check_stages(stages)
    if len(stages) != schedule.num_stages:
        raise ValueError(f"the schedule has {schedule.num_stages} stages, not {len(stages)}; give one module for each")
    if devices is not None and len(devices) != schedule.num_ranks:
        raise ValueError(f"the schedule has {schedule.num_ranks} ranks, not {len(devices)}; give one device for each")


def check_stages(stages: object) -> None:
    """Refuse stages that are not a list of modules.

    Raises:
        ValueError: they are something else.
    """
    if not isinstance(stages, Sequence | nn.ModuleList | nn.Sequential):
        raise ValueError(f"the stages are a {type(stages).__name__}; give a list of modules, one for each stage")
    _check_modules(dict(enumerate(stages)))


def check_ranks(schedule: Schedule, stages: Mapping[int, nn.Module], group: Group | None = None) -> None:
    """Refuse a group of another size than the schedule, or the stages of another rank.

    Raises:
        ValueError: the group or the stages do not fit.
    """
    if not isinstance(stages, Mapping):
        raise ValueError(f"the stages are a {type(stages).__name__}; give this rank's by number, as {{0: module}}")
    _check_modules(stages)
    if world_size(group) != schedule.num_ranks:
        raise ValueError(
            f"the schedule has {schedule.num_ranks} ranks and the group {world_size(group)}; "
            "start as many ranks as it has"
        )
    expected, actual = schedule.stages_of_rank(rank(group)), tuple(sorted(stages))
    if actual != expected:
        raise ValueError(f"rank {rank(group)} of the schedule runs stages {expected}, not {actual}; give it those")


def _check_modules(stages: Mapping[int, nn.Module]) -> None:
    for number, stage in stages.items():
        if not isinstance(stage, nn.Module):
            raise ValueError(f"stage {number} is of type {type(stage).__name__}; give an nn.Module")


def place_of(stages: Iterable[nn.Module]) -> torch.device:
    """The device of the first parameter; the CPU for stages without parameters."""
    devices = (parameter.device for stage in stages for parameter in stage.parameters())
    return next(devices, torch.device("cpu"))


def place_on_rank(stages: Mapping[int, nn.Module]) -> torch.device:
    """The device of this rank's stages and messages; without parameters, the device that the group's backend needs.

    Raises:
        ValueError: the group's backend carries no tensors of that device.
    """
    place, backend = place_of(stages.values()), backend_name()
    numbers = f"the stages of rank {rank()}, {sorted(stages)},"
    if backend == gpu_backend() and place.type == "cpu":
        if _are_real_without_parameters(stages.values()):
            return own_device()
        raise ValueError(
            f"{numbers} are on the CPU, or asleep, and {backend} carries what is on GPUs; "
            "move them to this rank's GPU, or start the ranks with backend='gloo'"
        )
    if backend == "gloo" and place.type != "cpu" and world_size() > 1:
        raise ValueError(
            f"{numbers} are on {place} and gloo carries what is on the CPU; "
            f"leave them on the CPU, or start one rank for each GPU, which get {gpu_backend()}"
        )
    return place


def _are_real_without_parameters(stages: Iterable[nn.Module]) -> bool:
    return not any(sleeper(stage) is not None or next(stage.parameters(), None) is not None for stage in stages)


def lanes_of(schedule: Schedule, stages: Mapping[int, nn.Module]) -> list[torch.device]:
    """A device for each rank: the GPU its stages are on, or a CPU lane of its own."""
    ranks = range(schedule.num_ranks)
    places = [place_of(stages[stage] for stage in schedule.stages_of_rank(rank)) for rank in ranks]
    return [torch.device("cpu", rank) if place.type == "cpu" else place for rank, place in enumerate(places)]
