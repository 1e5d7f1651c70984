"""Ranks that run the cells of a notebook.

`cells.py` is what a lesson sees, `cluster.py` owns the processes, `serving.py` runs in each of them.
"""
