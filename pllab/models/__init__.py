"""GPT-2 cut into stages (the embedding, the blocks, and the head with its loss) and into slices.

Importing this room is light: the layers of transformers are imported when a name that needs them is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pllab.models.new_gpt2 import gpt2_config

if TYPE_CHECKING:
    from pllab.models.gpt2 import GPT2LMHeadModelParallel
    from pllab.models.layers import cut, layer_costs, layers_of
    from pllab.models.slices import tensor_parallel

__all__ = [
    "GPT2LMHeadModelParallel",
    "cut",
    "gpt2_config",
    "layer_costs",
    "layers_of",
    "tensor_parallel",
]

_FILES = {"GPT2LMHeadModelParallel": "gpt2", "tensor_parallel": "slices"}


def __getattr__(name: str) -> Any:
    """Import the file that has a name; unpickling goes to the file itself."""
    if name not in __all__:
        raise AttributeError(f"module 'pllab.models' has no attribute {name!r}")
    return getattr(import_module(f"pllab.models.{_FILES.get(name, 'layers')}"), name)
