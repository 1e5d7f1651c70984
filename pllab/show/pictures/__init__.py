"""Figures of one question each; where there is a choice, a lesson puts `ipywidgets.interact` in front of it.

fingerprint.py     by which factor gradients differ from the right ones
index_map.py       which rank loads which sample
matrix_shards.py   matrices split over ranks, and where their terms meet
memory_bars.py     what each rank holds, kind by kind
message_sizes.py   how gradients fall into messages, and what these cost
race_board.py      throughput, live while ranks run and as a figure
rank_groups.py     ranks by coordinate and host, and the groups of each axis
ring.py            messages that hop around a ring of ranks
stage_cuts.py      layers cut into stages
ticks.py           the clock of a pipeline as a grid, with its bubble
"""
