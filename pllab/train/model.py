"""The GPT-2 of a run, placed on its devices as the mode asks."""

import torch
from torch import nn

from pllab import comm
from pllab.models import GPT2LMHeadModelParallel, gpt2_config
from pllab.train.config import TrainConfig


def build_model(config: TrainConfig, vocab_size: int) -> GPT2LMHeadModelParallel:
    """Make a randomly initialised GPT-2, the same in every rank and mode for the same seed."""
    torch.manual_seed(config.seed)
    sizes = {"n_layer": config.n_layer, "n_embd": config.n_embd, "n_head": config.n_head}
    # None in attention: the fused kernel takes no generator, so its masks could not be repeated on lanes.
    dropout = {"embd_pdrop": config.dropout, "resid_pdrop": config.dropout}
    settings = gpt2_config("tiny", vocab_size, n_positions=config.max_length, use_cache=False, **sizes, **dropout)
    return GPT2LMHeadModelParallel(settings).to(getattr(torch, config.dtype))


def place_model(model: GPT2LMHeadModelParallel, config: TrainConfig) -> torch.device:
    """Put the model on the device or devices of the mode; returns the device that takes the batch."""
    devices = devices_of(config)
    if not config.is_split:
        nn.Module.to(model, devices[0])
        return devices[0]
    model.parallelize(devices, time=config.max_length)
    if config.mode == "pipeline":
        count = config.num_microbatches or min(2 * len(devices), config.batch_size)
        model.prepare_pipeline_parallel(
            config.split_size, num_microbatches=None if config.split_size else count, recompute=config.recompute
        )
    return devices[0]


def devices_of(config: TrainConfig) -> list[torch.device]:
    """The devices this process drives: one, or one per stage; stages share GPUs when those are short.

    Example: two stages without a GPU -> `[cpu:0, cpu:1]`, with one GPU -> `[cuda:0, cuda:0]`.

    Raises:
        ValueError: device is cuda and there is no GPU.
    """
    num_gpus = torch.cuda.device_count()
    if config.device == "cuda" and not num_gpus:
        raise ValueError("device is 'cuda' and this machine has no CUDA GPU; use 'cpu' or 'auto'")
    on_cpu = config.device == "cpu" or not num_gpus
    if config.is_split:
        kind, number = ("cpu", config.world_size) if on_cpu else ("cuda", num_gpus)
        return [torch.device(kind, stage % number) for stage in range(config.world_size)]
    if config.mode == "data_parallel":  # a rank computes where its group carries messages
        on_cpu = comm.backend_name() != "nccl"
    return [torch.device("cpu") if on_cpu else torch.device("cuda", torch.cuda.current_device())]
