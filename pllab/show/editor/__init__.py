"""The schedule editor, or bubble golf: a learner rearranges the actions of a schedule, and each move is judged.

schedule_editor.py   the widget: commands in, a view out, slow work in the background
game.py              the verbs and their outcomes, in sentences
edits.py             a schedule in, another with the same work out; and the history for undo
judgement.py         the problems, times and score of an order
board.py             everything on screen, as plain data and words
board_picture.py     the same on paper
"""

from pllab.show.editor.schedule_editor import ScheduleEditor

__all__ = ["ScheduleEditor"]
