"""Put the pretended GPU in the place of pllab/accelerator.py, in every process that inherits the environment.

Python imports a module of this name when it starts, so ranks, workers and kernels have the GPU too.
"""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

PRETENDED = Path(__file__).parents[1] / "pretend_gpu.py"


class InPlaceOfTheAccelerator:
    """Finds another file for one module."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return spec_from_file_location(name, PRETENDED) if name == "pllab.accelerator" else None


sys.meta_path.insert(0, InPlaceOfTheAccelerator)
