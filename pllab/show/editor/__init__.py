"""The schedule editor, or bubble golf: a learner rearranges the actions of a schedule, and each move is judged.

schedule_editor.py   the widget: moves in, a view out, and the history of positions
positions.py         what stands on the board and what is left; edits, and what an order leads to
board.py             everything on screen, as plain data and words, and the same on paper
"""
