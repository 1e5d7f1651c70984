"""`pllab bench data-parallel | pipeline | schedules | ...`: measure against the baselines, print the table, write JSON.

The flags are the parameters of the measuring function, so what can be varied is written once.
"""

import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import tyro

from pllab.cli.options import parse

_BENCHES = {
    "data-parallel": ("pllab.bench.data_parallel", "bench_data_parallel"),
    "fidelity": ("pllab.bench.fidelity", "bench_fidelity"),
    "pipeline": ("pllab.bench.pipeline", "bench_pipeline"),
    "schedules": ("pllab.bench.schedules", "bench_schedules"),
    "simulate": ("pllab.bench.simulate", "bench_simulate"),
}
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_JsonFile = Annotated[Path | None, tyro.conf.arg(help="File for the numbers, the machine and the command.")]
_PictureFile = Annotated[Path | None, tyro.conf.arg(help="File for the picture, .png or .svg.")]
_FILES = {"json": _JsonFile, "picture": _PictureFile}


def run(words: Sequence[str]) -> int:
    """Measure as the flags say; returns 0.

    Raises:
        ValueError: an unknown bench or flag, an implausible measurement, or no folder for the file.
    """
    if not words or words[0] in ("-h", "--help"):
        print(f"usage: python -m pllab bench {{{','.join(_BENCHES)}}} [options]; each has its own --help")
        return 0 if words else 2
    if words[0] not in _BENCHES:
        raise ValueError(f"{words[0]!r} is no bench; choose one of {', '.join(_BENCHES)}")
    module, name = _BENCHES[words[0]]
    function = getattr(importlib.import_module(module), name)
    measure, files = parse(_with_files(function), words[1:], f"pllab bench {words[0]}")
    result = measure()
    print(result.table())
    if (path := files["json"]) is not None:
        from pllab.train.results import write_json  # with all of the trainer, which --help does not need

        write_json(path, {"command": _command(words), **result.to_json()})
        print(f"numbers in {path}")
    if (path := files["picture"]) is not None:
        print(f"picture in {result.picture().save(path)}")
    return 0


def _command(words: Sequence[str]) -> str:
    """The command to repeat the measurement: without the files, whose place is this machine's own matter."""
    flags = tuple(f"--{name}" for name in _FILES)
    texts = iter(words)
    kept = [word for word in texts if not (word in flags and next(texts, ""))]
    joined = tuple(f"{flag}=" for flag in flags)
    return " ".join(["python -m pllab bench", *(word for word in kept if not word.startswith(joined))])


def _with_files(function: Callable[..., Any]) -> Callable[..., tuple[Callable[[], Any], dict[str, Path | None]]]:
    """Bind the function's flags for a call later, and take a flag per file, checked before measuring."""

    def bind(**arguments: Any) -> tuple[Callable[[], Any], dict[str, Path | None]]:
        files: dict[str, Path | None] = {name: arguments.pop(name, None) for name in _FILES}
        for name, path in files.items():
            if path is not None and not path.parent.is_dir():
                raise ValueError(f"--{name} {str(path)!r} lies in a folder that does not exist; make it first")
        return partial(function, **arguments), files

    hints = get_type_hints(function, include_extras=True)
    parameters = [
        _as_flag(parameter, hints[parameter.name]) for parameter in inspect.signature(function).parameters.values()
    ]
    parameters += [inspect.Parameter(name, _KEYWORD, default=None, annotation=kind) for name, kind in _FILES.items()]
    vars(bind)["__signature__"] = inspect.Signature(parameters)
    bind.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    bind.__doc__ = function.__doc__
    return bind


def _as_flag(parameter: inspect.Parameter, hint: Any) -> inspect.Parameter:
    """A parameter as the flags see it: the fields of a record become flags of their own."""
    records = [kind for kind in (hint, *get_args(hint)) if is_dataclass(kind)]
    if not records:
        return parameter.replace(kind=_KEYWORD, annotation=hint)
    record: Any = records[0]
    default = record() if parameter.default is None else parameter.default
    return parameter.replace(kind=_KEYWORD, default=default, annotation=record)
