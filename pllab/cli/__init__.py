"""The command line: `python -m pllab COMMAND`; without a command it lists them.

Each command is a function: its parameters are the flags, or it reads its words itself. It returns an exit code, or None
for 0. It is imported when it is called, so that help and doctor do not wait for libraries they do not use. An error is
one sentence on stderr and exit code 2.
"""

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name

import pllab
from pllab.arguments import printable, require
from pllab.cli.flags import parse

__all__ = ["main"]

_COMMANDS = {
    "doctor": ("doctor:describe", "what this machine has, what would be chosen and why, what was left running"),
    "train": ("training:run", "train GPT-2 on any axes: data, tensor and pipeline parallel, sharded or not"),
    "compare": ("measuring:run_compare", "time and memory of every strategy that some ranks allow"),
    "equivalence": ("measuring:run_equivalence", "one GPT-2 under every layout, beside the plain model"),
    "scale": ("measuring:run_scale", "messages, bytes and simulated time of a step on thousands of ranks"),
    "bench": ("measuring:run", "compare what is ours with its baselines"),
    "autopsy": ("autopsying:autopsy", "which rank, call and cause stopped a job, from its flight records"),
    "import": ("importing:import_traces", "read the traces of a pipeline: where its time went, beside the prediction"),
    "grade": (
        "teaching:grade_notebooks",
        "the checks of handed-in notebooks, with points, and limits on what they take",
    ),
    "student": ("teaching:copy_for_students", "copy the lessons for students: stubs, and no folded solutions"),
}
_READ_WORDS = {"compare", "equivalence", "scale", "bench"}  # the parameters of the other functions are the flags
# The parameter whose values are the words that stand alone.
_ALONE = {"autopsy": "records", "import": "traces", "grade": "notebooks", "student": "folder"}
_HELP = """usage: python -m pllab COMMAND [options]

{commands}

python -m pllab COMMAND --help lists a command's options;
--traceback shows where an error came from."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 2 refused, 130 interrupted.

    Args:
        argv: the words after `pllab`; by default those of this process.
    """
    all_words = list(sys.argv[1:] if argv is None else argv)
    words = [word for word in all_words if word != "--traceback"]
    try:
        return _dispatch(words)
    except KeyboardInterrupt:
        if words != all_words:
            raise
        print("\ninterrupted; every rank and worker has ended", file=sys.stderr)
        return 130
    except (ValueError, RuntimeError, OSError, OverflowError) as error:
        if words != all_words:
            raise
        print(f"pllab: {printable(_sentence(error, words))}", file=sys.stderr)
        return 2


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_HELP.format(commands="\n".join(f"  {name:<12} {text}" for name, (_, text) in _COMMANDS.items())))
        return 0 if words else 2
    if words[0] == "--version":
        print(f"pllab {pllab.__version__}")
        return 0
    name, *rest = words
    require(name in _COMMANDS, f"{name!r} is no command; choose one of {', '.join(_COMMANDS)}")
    command = resolve_name(f"pllab.cli.{_COMMANDS[name][0]}")
    code = command(rest) if name in _READ_WORDS else parse(command, rest, name, _ALONE.get(name, ""))
    return int(code or 0)


def _sentence(error: Exception, words: Sequence[str]) -> str:
    """The first line of an error; the lines below it, such as a failed rank's traceback, are for --traceback.

    An error of another library does not say which value it is about, so then the sentence has the command.
    """
    text = str(error).strip().partition("\n")[0] or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror} ({error.filename})" if error.filename else error.strerror
    raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    if raised_in.is_relative_to(Path(pllab.__file__).parent) and not isinstance(error, OverflowError):
        return text
    return f"{' '.join(words)!r} ended with {type(error).__name__}: {text}; --traceback shows where it came from"
