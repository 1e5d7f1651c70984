"""What the exercises check, one file each; a file is imported when its cases are asked for."""

__all__: list[str] = []
