"""Do the stages fit the schedule, and where do they live?"""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import nn

from pllab.comm import rank, world_size
from pllab.schedule import Schedule


def check_lanes(schedule: Schedule, stages: Sequence[nn.Module], devices: Sequence[torch.device | str] | None) -> None:
    """Refuse stages or devices that are more or fewer than the schedule has.

    Raises:
        ValueError: naming both counts.
    """
    if len(stages) != schedule.num_stages:
        raise ValueError(f"the schedule has {schedule.num_stages} stages, not {len(stages)}; give one module for each")
    if devices is not None and len(devices) != schedule.num_ranks:
        raise ValueError(f"the schedule has {schedule.num_ranks} ranks, not {len(devices)}; give one device for each")


def check_ranks(schedule: Schedule, stages: Mapping[int, nn.Module]) -> None:
    """Refuse a group that is not as large as the schedule, or stages that are not this rank's.

    Raises:
        ValueError: naming both counts, or this rank's stages.
    """
    if not isinstance(stages, Mapping):
        raise ValueError(f"the stages are a {type(stages).__name__}; give this rank's by number, as {{0: module}}")
    if world_size() != schedule.num_ranks:
        raise ValueError(
            f"the schedule has {schedule.num_ranks} ranks and the group {world_size()}; start as many ranks as it has"
        )
    mine, given = schedule.stages_of_rank(rank()), tuple(sorted(stages))
    if given != mine:
        raise ValueError(f"rank {rank()} of the schedule runs stages {mine}, not {given}; give it those")


def place_of(stages: Iterable[nn.Module]) -> torch.device:
    """Where the first parameter lives; stages without parameters live on the CPU."""
    found = (parameter.device for stage in stages for parameter in stage.parameters())
    return next(found, torch.device("cpu"))


def lanes_of(schedule: Schedule, stages: Mapping[int, nn.Module]) -> list[torch.device]:
    """A device for each rank: the GPU its stages are on, or a CPU lane of its own."""
    ranks = range(schedule.num_ranks)
    places = [place_of(stages[stage] for stage in schedule.stages_of_rank(rank)) for rank in ranks]
    return [torch.device("cpu", rank) if place.type == "cpu" else place for rank, place in enumerate(places)]
