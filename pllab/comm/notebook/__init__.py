"""Ranks that run the cells of a notebook.

`notebook_ranks.py` has `Ranks` for a lesson, `cluster.py` owns the processes, `rank_engine.py` runs in each of them.
"""
