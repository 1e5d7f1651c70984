"""Figures of one question each; where there is a choice, a lesson puts `ipywidgets.interact` in front of it.

fingerprint.py     by which factor gradients differ from the right ones
index_map.py       which rank loads which sample
ring.py            messages that hop around a ring of ranks
ticks.py           the clock of a pipeline as a grid, with its bubble
"""
