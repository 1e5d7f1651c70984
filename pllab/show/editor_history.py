"""What the editor can take back: the schedules before this one, and those that were taken back."""

from pllab.schedule import Schedule


class History:
    """A present schedule with a past and a future.

    The steps of one grab (an action carried over several places before it is dropped) are one entry, so that one
    undo takes them back together; `cancel` takes them back as if they had never been.
    """

    def __init__(self, start: Schedule) -> None:
        self.start = start
        self.present = start
        self._past: list[Schedule] = []
        self._future: list[Schedule] = []
        self._grab: int | None = None

    @property
    def can_undo(self) -> bool:
        """Whether there is a past."""
        return bool(self._past)

    @property
    def can_redo(self) -> bool:
        """Whether something was taken back."""
        return bool(self._future)

    def push(self, schedule: Schedule, grab: int | None = None) -> None:
        """Make a schedule the present one; a schedule equal to the present one leaves no entry."""
        if schedule == self.present:
            return
        self._future.clear()
        if grab is None or grab != self._grab:
            self._past.append(self.present)
        elif schedule == self._past[-1]:  # carried back to where it was
            self.cancel(grab)
            return
        self.present, self._grab = schedule, grab

    def cancel(self, grab: int) -> None:
        """Go back to before this grab, leaving no trace of it."""
        if self._past and grab == self._grab:
            self.present, self._grab = self._past.pop(), None

    def undo(self) -> None:
        """One entry back, if there is one."""
        if self._past:
            self._future.append(self.present)
            self.present, self._grab = self._past.pop(), None

    def redo(self) -> None:
        """One entry forward, if there is one."""
        if self._future:
            self._past.append(self.present)
            self.present, self._grab = self._future.pop(), None
