"""The schedule editor, or bubble golf: an order of actions that a learner rearranges, judged after each move.

schedule_editor.py   the widget: commands in, a view out, slow work in the background
game.py              the verbs, and what each led to
edits.py             a schedule in, another with the same work out; what was done can be undone
judgement.py         what an order is worth
board.py             everything on screen, as plain data and words
board_picture.py     the same on paper
"""

from pllab.show.editor.schedule_editor import ScheduleEditor

__all__ = ["ScheduleEditor"]
