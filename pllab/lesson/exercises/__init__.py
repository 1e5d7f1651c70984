"""The exercises, one file per lesson with an `EXERCISES` tuple; a file is imported when it is asked for."""

__all__: list[str] = []
