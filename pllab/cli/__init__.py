"""The command line: `python -m pllab COMMAND`; without a command it lists them.

Each command is a function from its words to an exit code. It is imported when it is called, so that help and doctor do
not wait for libraries they do not use. An error is one sentence on stderr and exit code 2.
"""

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name

import pllab
from pllab.arguments import printable, require

__all__ = ["main"]

_COMMANDS = {
    "doctor": ("pllab.cli.doctor:run", "what this machine has, what would be chosen and why, what was left running"),
    "train": ("pllab.cli.training:run", "train GPT-2 on any axes: data, tensor and pipeline parallel, sharded or not"),
    "compare": ("pllab.cli.measuring:run_compare", "time and memory of every strategy that some ranks allow"),
    "equivalence": ("pllab.cli.measuring:run_equivalence", "one GPT-2 under every layout, beside the plain model"),
    "scale": ("pllab.cli.measuring:run_scale", "messages, bytes and simulated time of a step on thousands of ranks"),
    "bench": ("pllab.cli.measuring:run", "compare what is ours with its baselines"),
    "autopsy": ("pllab.cli.autopsying:run", "which rank, call and cause stopped a job, from its flight records"),
    "import": ("pllab.cli.importing:run", "read the traces of a pipeline: where its time went, beside the prediction"),
    "grade": ("pllab.cli.teaching:run", "the checks of handed-in notebooks, with points, and limits on what they take"),
    "student": ("pllab.cli.teaching:run_student", "copy the lessons for students: stubs, and no folded solutions"),
}
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
    require(words[0] in _COMMANDS, f"{words[0]!r} is no command; choose one of {', '.join(_COMMANDS)}")
    return int(resolve_name(_COMMANDS[words[0]][0])(words[1:]))


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
