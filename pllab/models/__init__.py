"""GPT-2 cut into stages (the embedding, the blocks, and the head with its loss) and into slices."""

from pllab.models.gpt2 import GPT2LMHeadModelParallel, gpt2_config
from pllab.models.layers import layer_costs, layers_of
from pllab.models.slices import tensor_parallel

__all__ = [
    "GPT2LMHeadModelParallel",
    "gpt2_config",
    "layer_costs",
    "layers_of",
    "tensor_parallel",
]
