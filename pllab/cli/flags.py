"""Make flags from the fields of a record or the parameters of a function, so that each setting is written once.

Names, types and defaults come from the signature, the help from the docstrings. If a parameter is a record, its fields
are flags without a prefix. argparse reads the words; an error is one sentence.
"""

import argparse
import inspect
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NamedTuple, NoReturn, TypeVar, get_args, get_origin

import docstring_parser

from pllab.arguments import plain_file, require

T = TypeVar("T")


def parse(target: Callable[..., T], words: Sequence[str], command: str, alone: str = "") -> T:
    """Call `target` with the values of the flags; `--help` prints the flags and exits.

    Example: `parse(TrainConfig, ["--batch-size", "8"], "train")` -> `TrainConfig(batch_size=8)`.

    Args:
        target: a record or a function.
        words: as the user wrote them.
        command: what stands before them, for sentences.
        alone: the parameter whose values are the words that stand alone, before, after and between flags.

    Raises:
        ValueError: a flag is unknown or has a value that `target` refuses.
    """
    (call,) = bind((target,), words, command, alone)
    return call()


def bind(
    targets: Sequence[Callable[..., Any]], words: Sequence[str], command: str, alone: str = ""
) -> list[Callable[[], Any]]:
    """`parse` for several targets with flags of their own; return a function for each, to be called later.

    Raises:
        ValueError: a flag is unknown, or has a value of another type or one that a record refuses.
    """
    summary = docstring_parser.parse_from_object(targets[0]).short_description
    form = argparse.ArgumentDefaultsHelpFormatter
    parser = _Parser(f"python -m pllab {command}", description=summary, allow_abbrev=False, formatter_class=form)
    for flag in (flag for target in targets for flag in _flags(target)):
        _add(parser, flag, flag.name == alone)
    values = vars(parser.parse_intermixed_args([_as_flag(word) for word in words]))
    return [_call(target, values) for target in targets]


def check_file(flag: str, path: Path | None, kind: str = "file", *endings: str) -> None:
    """Refuse a file that could not be written later, when there is something to write: `check_file("--json", path)`.

    Args:
        flag: the flag that names the file.
        path: the file, or None.
        kind: the kind of file, in words.
        endings: the file endings of this kind, if they matter.

    Raises:
        ValueError: the path is a folder, a pipe or a device, is in a folder that does not exist, cannot be written, or
            is of another kind.
        OSError: its folder cannot be written to.
    """
    if path is None:
        return
    name = f"{flag} {str(path)!r}"
    is_kind = not endings or path.suffix.lower() in endings
    require(not plain_file(path).is_dir(), f"{name} is a folder; name a file in it")
    require(path.parent.is_dir(), f"{name} lies in a folder that does not exist; make it first")
    require(is_kind, f"{name} is no {kind}; end the name in {' or '.join(endings)}")
    require(not path.exists() or os.access(path, os.W_OK), f"{name} cannot be written; name a file of your own")
    tempfile.TemporaryFile(dir=path.parent).close()  # in /proc even root may not, whatever access says


class _Parser(argparse.ArgumentParser):
    """argparse that raises one sentence instead of printing usage and exiting."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; {self.prog} --help lists the flags")


class _Flag(NamedTuple):
    name: str
    kind: Any
    default: Any
    help: str


def _flags(target: Callable[..., Any]) -> Iterator[_Flag]:
    """The flags of a target's parameters; a record has a flag per field, with the defaults of the record given."""
    docs = {param.arg_name: param.description for param in docstring_parser.parse_from_object(target).params}
    for name, kind, default in _parameters(target):
        if _is_record(kind):
            yield from (flag._replace(default=getattr(default, flag.name, flag.default)) for flag in _flags(kind))
        else:
            yield _Flag(name, kind, default, docs.get(name) or name.replace("_", " "))


def _call(target: Callable[..., Any], values: dict[str, Any]) -> Callable[[], Any]:
    """The target with its flags' values bound; its records are made at once, so that they refuse wrong values now."""
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    options = {n: _call(kind, values)() if _is_record(kind) else plain[n] for n, kind, _ in _parameters(target)}
    return partial(target, **options)


def _parameters(target: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    """Name, type and default of each parameter of a function, or of each field of a record."""
    parameters = inspect.signature(target, eval_str=True).parameters
    return [(name, parameter.annotation, parameter.default) for name, parameter in parameters.items()]


def _is_record(kind: Any) -> bool:
    return is_dataclass(kind)  # by itself it would narrow the type to one that cannot be called


def _add(parser: argparse.ArgumentParser, flag: _Flag, is_alone: bool) -> None:
    about: dict[str, Any] = {"default": flag.default, "help": flag.help.replace("%", "%%")}
    can_be_none = NoneType in get_args(flag.kind)
    kind = next(kind for kind in get_args(flag.kind) if kind is not NoneType) if can_be_none else flag.kind
    is_many = get_origin(kind) is tuple
    if kind is bool:
        about |= {"action": argparse.BooleanOptionalAction}
    elif get_origin(kind) is Literal:
        about |= {"choices": get_args(kind), "type": type(get_args(kind)[0])}
    else:
        one = get_args(kind)[0] if is_many else kind
        about |= {"type": partial(_read, one, can_be_none), "metavar": one.__name__.upper()}
        about |= {"nargs": "+"} if is_many else {}
    if is_alone:
        parser.add_argument(flag.name, **about | {"nargs": "*" if is_many else "?"})
    else:
        short = ["-o"] if flag.name == "output" else []
        parser.add_argument(*short, "--" + flag.name.replace("_", "-"), **about)


def _read(kind: type, can_be_none: bool, text: str) -> Any:
    if can_be_none and text == "None":
        return None
    try:
        return kind(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is no {kind.__name__}") from None


def _as_flag(word: str) -> str:
    """Flags are written with dashes or underscores: `--batch_size=8` is `--batch-size=8`."""
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if name.startswith("--") else word
