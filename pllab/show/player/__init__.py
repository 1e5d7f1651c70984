"""The timeline player: a run that a student steps through."""
