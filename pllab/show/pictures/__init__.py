"""Figures of one question each; where there is a choice, a lesson puts `ipywidgets.interact` in front of it.

fingerprint.py     by which factor gradients differ from the right ones
index_map.py       which rank loads which sample
message_sizes.py   how gradients fall into messages, and what these cost
race_board.py      throughput, live while ranks run and as a figure
ring.py            messages that hop around a ring of ranks
sharding.py        matrices split over ranks, what each rank holds, and the groups of ranks
stages.py          layers cut into stages, and the clock of a pipeline with its bubble
"""
