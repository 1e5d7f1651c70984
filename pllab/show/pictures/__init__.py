"""Figures of one question each; where there is a choice, a lesson puts `ipywidgets.interact` in front of it.

matrix_shards.py   matrices split over ranks, and where their terms meet
memory_bars.py     what each rank holds, kind by kind
message_sizes.py   how gradients fall into messages, and what these cost
stage_cuts.py      layers cut into stages
rank_groups.py     ranks by coordinate and host, and the groups of each axis
race_board.py      throughput, live while ranks run and as a figure
"""
