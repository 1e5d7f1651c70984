"""Figures of one question each; where there is a choice, a lesson puts `ipywidgets.interact` in front of it.

memory_bars.py     what each rank holds, kind by kind
rank_groups.py     ranks by coordinate and host, and the groups of each axis
"""
