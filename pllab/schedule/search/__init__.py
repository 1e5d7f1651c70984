"""Schedules that are searched for costs under a memory limit, one stage a rank.

workload.py   costs and memory as plain numbers, and what no order goes below
greedy.py     an order by rules: what a free rank does next
shortest.py   `zero_bubble`: the best of the families and of all rules, improved move by move
solver.py     `optimal`: the best there is, by OR-tools, for small sizes
"""
