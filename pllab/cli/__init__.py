"""The command line: `python -m pllab doctor | train | bench`.

Each command is a module with `run(arguments) -> exit code`, imported when it is asked for, so that help and
doctor do not wait for libraries they do not use. What goes wrong is one sentence on stderr and exit code 2.
"""

import importlib
import sys
from collections.abc import Sequence

from pllab import __version__

__all__ = ["main"]

_COMMANDS = {
    "doctor": "what this machine has, what would be chosen and why, and what was left running",
    "train": "train GPT-2 in one lane, data parallel, model parallel or pipelined",
    "bench": "compare data parallel and pipeline with their baselines",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 2 refused, 130 interrupted.

    Args:
        argv: the words after `pllab`; by default those of this process.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    with_traceback = "--traceback" in words
    try:
        return _dispatch([word for word in words if word != "--traceback"])
    except KeyboardInterrupt:
        if with_traceback:
            raise
        print("\ninterrupted; every rank and worker has ended", file=sys.stderr)
        return 130
    except (ValueError, RuntimeError, OSError) as error:
        if with_traceback:
            raise
        print(f"pllab: {_sentence(error)}", file=sys.stderr)
        return 2


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_help())
        return 0 if words else 2
    if words[0] == "--version":
        print(f"pllab {__version__}")
        return 0
    if words[0] not in _COMMANDS:
        raise ValueError(f"{words[0]!r} is no command; choose one of {', '.join(_COMMANDS)}")
    return int(importlib.import_module(f"pllab.cli.{words[0]}").run(words[1:]))


def _help() -> str:
    lines = [f"  {name:<8} {summary}" for name, summary in _COMMANDS.items()]
    return "\n".join(
        [
            "usage: python -m pllab COMMAND [options]",
            "",
            *lines,
            "",
            "python -m pllab COMMAND --help lists a command's options;",
            "--traceback shows where an error came from.",
        ]
    )


def _sentence(error: Exception) -> str:
    """The first line of an error: a failed rank's traceback stands below it and is for --traceback."""
    if isinstance(error, OSError) and error.strerror:
        place = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror}{place}"
    return str(error).strip().partition("\n")[0] or type(error).__name__
