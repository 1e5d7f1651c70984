"""The schedule editor, or bubble golf: a learner rearranges the actions of a schedule, and each move is judged.

schedule_editor.py   the widget: moves in, a view out, a run in the background
game.py              the table of moves, and what each led to, in sentences
edits.py             what stands on the board and what is left; a position in, another with the same work out
judgement.py         the problems, times and next moves of a position
board.py             everything on screen, as plain data and words
board_picture.py     the same on paper
"""
