"""The timeline player: a run that a student steps through."""

from pllab.show.player.timeline_player import TimelinePlayer

__all__ = ["TimelinePlayer"]
