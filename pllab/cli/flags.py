"""Make flags from the fields of a record or the parameters of a function, so that each setting is written once.

Names, types and defaults come from the signature, the help from the docstrings. If a parameter is a record, its fields
are flags without a prefix. argparse reads the words; an error is one sentence.
"""

import argparse
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from functools import partial
from types import MappingProxyType, NoneType
from typing import Any, Literal, NamedTuple, NoReturn, TypeVar, get_args, get_origin

import docstring_parser

T = TypeVar("T")


def parse(target: Callable[..., T], words: Sequence[str], command: str) -> T:
    """Call `target` with the values of the flags; `--help` prints the flags and exits.

    Example: `parse(TrainConfig, ["--batch-size", "8"], "train")` -> `TrainConfig(batch_size=8)`.

    Raises:
        ValueError: a flag is unknown or has a value that `target` refuses.
    """
    (call,) = bind((target,), words, command)
    return call()


def bind(targets: Sequence[Callable[..., Any]], words: Sequence[str], command: str) -> list[Callable[[], Any]]:
    """`parse` for several targets that share the words; return a function for each, to be called later.

    Raises:
        ValueError: a flag is unknown, or has a value of another type or one that a record refuses.
    """
    summary = docstring_parser.parse_from_object(targets[0]).short_description
    parser = _Parser(prog=f"python -m pllab {command}", description=summary)
    shared: set[str] = set()
    for flag in (flag for target in targets for flag in _flags(target)):
        if flag.name not in shared:  # the first target's help and default stand for all
            _add(parser, flag)
        shared.add(flag.name)
    values = vars(parser.parse_args([_as_flag(word) for word in words]))
    return [_call(target, values) for target in targets]


def gather(
    words: Sequence[str], name: str, *, short: Mapping[str, str] = MappingProxyType({}), switches: Sequence[str] = ()
) -> list[str]:
    """Make words that stand alone the values of one flag: `a.json -o b.html` -> `-o b.html --traces a.json`.

    Args:
        words: as the user wrote them.
        name: the flag that may be left out, `"--traces"`.
        short: other names of flags.
        switches: flags without a value.
    """
    flags: list[str] = []
    alone: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            alone.append(word)
            continue
        flags.append(short.get(word, word))
        if word not in ("-h", "--help", name, *switches) and "=" not in word:
            flags += [value for value in [next(rest, None)] if value is not None]
    return [*(flag for flag in flags if flag != name), *([name, *alone] if alone else [])]


class _Parser(argparse.ArgumentParser):
    """argparse with a sentence in place of a usage text and an exit."""

    def __init__(self, **about: Any) -> None:
        super().__init__(**about, allow_abbrev=False, formatter_class=argparse.ArgumentDefaultsHelpFormatter)

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
    """The target with the values of its flags; its records are made at once, so that they refuse wrong values now."""
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    options = {n: _call(kind, values)() if _is_record(kind) else plain[n] for n, kind, _ in _parameters(target)}
    return partial(target, **options)


def _parameters(target: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    """Name, type and default of each parameter of a function, or of each field of a record."""
    parameters = inspect.signature(target, eval_str=True).parameters
    return [(name, parameter.annotation, parameter.default) for name, parameter in parameters.items()]


def _is_record(kind: Any) -> bool:
    return is_dataclass(kind)


def _add(parser: argparse.ArgumentParser, flag: _Flag) -> None:
    name = "--" + flag.name.replace("_", "-")
    about: dict[str, Any] = {"default": flag.default, "help": flag.help.replace("%", "%%")}
    can_be_none = NoneType in get_args(flag.kind)
    kind = next(kind for kind in get_args(flag.kind) if kind is not NoneType) if can_be_none else flag.kind
    if kind is bool:
        about |= {"action": argparse.BooleanOptionalAction}
    elif get_origin(kind) is Literal:
        about |= {"choices": get_args(kind), "type": type(get_args(kind)[0])}
    else:
        is_many = get_origin(kind) is tuple
        one = get_args(kind)[0] if is_many else kind
        about |= {"type": partial(_read, one, can_be_none), "metavar": one.__name__.upper()}
        about |= {"nargs": "+"} if is_many else {}
    parser.add_argument(name, **about)


def _read(kind: type, can_be_none: bool, text: str) -> Any:
    if can_be_none and text == "None":
        return None
    try:
        return kind(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is no {kind.__name__}") from None


def _as_flag(word: str) -> str:
    """Flags are written with dashes or underscores: `--batch_size=8` is `--batch-size=8`."""
    if "\0" in word:
        raise ValueError(f"{word!r} holds a NUL character, which no name and no number has; leave it out")
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if name.startswith("--") else word
