"""Pictures of one question each, drawn by matplotlib; under `ipywidgets.interact` a slider chooses what they show.

fingerprint.py     by which factor gradients differ from the right ones
"""

from pllab.show.pictures.fingerprint import draw_fingerprint

__all__ = [
    "draw_fingerprint",
]
