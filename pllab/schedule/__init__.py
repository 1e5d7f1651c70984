"""What runs where, in which order. Standard library only."""

from pllab.schedule.action import Action, Kind

__all__ = ["Action", "Kind"]
