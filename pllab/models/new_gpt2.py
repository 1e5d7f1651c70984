"""A new GPT-2: how large it is, and the first values of its parameters.

Nothing here needs the layers of transformers, whose import takes longer than torch's.
"""

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from pllab.parallel.tensor import slice_of, split_of

if TYPE_CHECKING:
    from transformers import GPT2Config, GPT2LMHeadModel

    from pllab.models.gpt2 import GPT2LMHeadModelParallel

# name: layers, width, heads. From gpt2 to xl as published; 1B has heads that 2, 4, 8 and 16 ranks can share. The larger
# ones are as deep and wide as GPT-3 and Llama 3, for counting.
SIZES = {
    "tiny": (4, 64, 4),
    "small": (6, 256, 8),
    "gpt2": (12, 768, 12),
    "medium": (24, 1024, 16),
    "large": (36, 1280, 20),
    "xl": (48, 1600, 25),
    "1B": (18, 2048, 16),
    "6.7B": (32, 4096, 32),
    "13B": (40, 5120, 40),
    "70B": (80, 8192, 64),
    "175B": (96, 12288, 96),
    "405B": (126, 16384, 128),
}


def gpt2_config(size: str = "tiny", vocab_size: int = 2048, dropout: float = 0.0, **changes: Any) -> "GPT2Config":
    """Make a GPT-2 configuration: "tiny" (4 x 64), "small" (6 x 256), or "gpt2", "medium", "large", "xl", "1B".."405B".

    Example: `gpt2_config("gpt2", vocab_size=50257)` is GPT-2 124M without dropout; every field of
    `transformers.GPT2Config` can be given as a keyword. With dropout, attention is computed in its eager form,
    because the fused kernel of a GPU takes no generator, so its masks could not follow the micro-batch.

    Raises:
        ValueError: the size is none of these.

    Source: Radford et al., 2019, for the sizes from gpt2 (124M) to xl (1.56B); 1B is ours, with 1.01e9 parameters;
    Brown et al., 2020, for 6.7B, 13B and 175B; Grattafiori et al., 2024, for the shapes of 70B and 405B.
    """
    from transformers import GPT2Config

    if size not in SIZES:
        raise ValueError(f"size {size!r} is none of {', '.join(SIZES)}")
    n_layer, n_embd, n_head = SIZES[size]
    fields: dict[str, Any] = {
        "vocab_size": vocab_size,
        "n_layer": n_layer,
        "n_embd": n_embd,
        "n_head": n_head,
        "resid_pdrop": dropout,
        "embd_pdrop": dropout,
        "attn_pdrop": dropout,
        "bos_token_id": None,
        "eos_token_id": None,
        "attn_implementation": "eager" if dropout else "sdpa",
    }
    return GPT2Config(**(fields | changes))


def initial_value(name: str, shape: torch.Size, config: "GPT2Config", seed: int) -> torch.Tensor:
    """The first value of a parameter, from its name and a seed: the same on every rank, in whatever order.

    Example: `initial_value("transformer.h.0.attn.c_proj.weight", torch.Size([64, 64]), config, seed=1)` is normal with
    deviation 0.02 / sqrt(2 x layers); norms are ones, biases zeros.

    Source: Radford et al. 2019, section 2.3, as in transformers' `GPT2PreTrainedModel._init_weights`.
    """
    module, _, kind = name.rpartition(".")
    if kind == "bias":
        return torch.zeros(shape)
    if module.rpartition(".")[2].startswith("ln_"):
        return torch.ones(shape)
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()) + (seed << 32) % 2**63)
    depth = 2 * config.n_layer if module.endswith("c_proj") else 1
    return torch.randn(shape, generator=generator) * (config.initializer_range / depth**0.5)


def initialise(model: "GPT2LMHeadModel", seed: int) -> Callable[[nn.Module], None]:
    """A function that gives one module's own parameters, or this rank's slices of them, their first values.

    Example: `FullyShardedDataParallel(model, initialise=initialise(model, seed=1))` for a model on the meta device.
    """
    names = {id(module): f"{name}." if name else "" for name, module in model.named_modules()}
    aliases = {"lm_head.weight": "transformer.wte.weight"}

    @torch.no_grad()
    def fill(module: nn.Module) -> None:
        for own, parameter in module.named_parameters(recurse=False):
            name = names[id(module)] + own
            split = split_of(parameter)
            shape = list(parameter.shape)
            if split is not None:
                shape[split.dim] = split.size
            value = initial_value(aliases.get(name, name), torch.Size(shape), model.config, seed)
            group: Any = getattr(module, "group", None)
            parameter.copy_(value if split is None else slice_of(value, split, group))

    return fill


def made_real(
    model: "GPT2LMHeadModelParallel", seed: int, device: torch.device | str = "cpu"
) -> "GPT2LMHeadModelParallel":
    """Give a model on the meta device its memory and its first values; tied weights stay tied."""
    model.to_empty(device=device)
    model.tie_weights()
    return model.apply(initialise(model, seed))
