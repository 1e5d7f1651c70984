"""Ranks that run the cells of a notebook.

`cells.py` has `Ranks` for a lesson, `cluster.py` owns the processes, `serving.py` runs in each of them.
"""
