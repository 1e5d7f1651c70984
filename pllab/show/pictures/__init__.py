"""Pictures of one question each, drawn by matplotlib; under `ipywidgets.interact` a slider chooses what they show.

fingerprint.py     by which factor gradients differ from the right ones
ring.py            messages that hop around a ring of ranks
"""

from pllab.show.pictures.fingerprint import draw_fingerprint
from pllab.show.pictures.ring import draw_ring

__all__ = [
    "draw_fingerprint",
    "draw_ring",
]
