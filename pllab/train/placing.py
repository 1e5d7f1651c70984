"""The GPT-2 of a configuration, and the devices of this process."""

import torch

from pllab import accelerator, comm
from pllab.comm import devices
from pllab.models import GPT2LMHeadModelParallel, gpt2_config
from pllab.models.gpt2 import made_real
from pllab.train.config import TrainConfig


def build_model(config: TrainConfig, vocab_size: int) -> GPT2LMHeadModelParallel:
    """Make a randomly initialised GPT-2, the same on every rank for the same seed; if deferred, without values."""
    model = meta_model(config, vocab_size)
    return model if config.deferred_init else made_real(model, config.seed)


def meta_model(config: TrainConfig, vocab_size: int) -> GPT2LMHeadModelParallel:
    """The whole GPT-2 of a configuration on the meta device, which has shapes and no values."""
    sizes = {"n_layer": config.n_layer, "n_embd": config.n_embd, "n_head": config.n_head}
    # No dropout in attention: the fused kernel of a GPU takes no generator, so its masks could not be repeated.
    dropout = {"embd_pdrop": config.dropout, "resid_pdrop": config.dropout}
    settings = gpt2_config("tiny", vocab_size, n_positions=config.max_length, use_cache=False, **sizes, **dropout)
    with torch.device("meta"):
        model = GPT2LMHeadModelParallel(settings)
    return model.to(getattr(torch, config.dtype))


def devices_of(config: TrainConfig) -> list[torch.device]:
    """The devices of this process: one, or one per stage or lane; these share GPUs if there are too few.

    Example: two lanes without a GPU -> `[cpu:0, cpu:1]`, with one GPU -> `[cuda:0, cuda:0]`.

    Raises:
        ValueError: device is cuda and there is no GPU.
    """
    num_gpus = devices.num_gpus()
    if config.device == "cuda" and not num_gpus:
        raise ValueError("device is 'cuda' and this machine has no CUDA GPU; use 'cpu' or 'auto'")
    on_cpu = config.device == "cpu" or not num_gpus
    if comm.backend_name() is not None:  # a rank computes where its group carries messages
        return [comm.own_device()]
    if config.is_split:
        kind, number = ("cpu", config.world_size) if on_cpu else (accelerator.KIND, num_gpus)
        return [torch.device(kind, stage % number) for stage in range(config.pp)]
    return [torch.device("cpu") if on_cpu else devices.current_gpu()]
