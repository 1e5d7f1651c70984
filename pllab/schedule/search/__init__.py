"""Search for schedules: the costs and a memory limit are given, with one stage per rank.

problem.py    costs and memory as plain numbers, and lower bounds for every order
greedy.py     an order from rules: what a free rank does next
shortest.py   `zero_bubble`: the best of the families and of all rules, improved move by move; `optimal`: and its bound
"""
