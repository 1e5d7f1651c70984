"""The bubble studio: a schedule that follows sliders, with its bubble and its memory.

bubble_studio.py    the widget: its settings, its view, its files
settings.py         families, sizes and costs, and the schedules that follow from them
stage_costs.py      the cost of a stage for any cut of the model
runs.py             runs on screen: their numbers, their words, their bytes
studio_picture.py   the same on paper
export.py           a page and a trace as files
trace.py            a recorded run as a studio
"""

from pllab.show.studio.bubble_studio import BubbleStudio

__all__ = ["BubbleStudio"]
