"""The bubble studio: a schedule that follows sliders, with its bubble and its memory.

bubble_studio.py    the widget: what is set, what is shown, which files it gives
settings.py         families, sizes and costs, and the schedules that follow from them
stage_costs.py      what a stage costs however the model is cut
runs.py             runs on screen: their numbers, their words, their bytes
studio_picture.py   the same on paper
export.py           a page and a trace to take away
"""

from pllab.show.studio.bubble_studio import BubbleStudio

__all__ = ["BubbleStudio"]
