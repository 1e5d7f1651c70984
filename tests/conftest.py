"""What holds for every test."""

import signal
from pathlib import Path

import pytest


def pytest_configure() -> None:
    """Let tests interrupt the programs they start, also when the tests run as a shell's background job."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Under `-m cuda` read only the files with such tests: a GPU machine may have nothing but torch and pytest."""
    if config.option.markexpr != "cuda":
        return None
    files = collection_path.rglob("test_*.py") if collection_path.is_dir() else [collection_path]
    return None if any("mark.cuda" in file.read_text() for file in files) else True
