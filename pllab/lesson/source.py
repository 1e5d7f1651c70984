"""Show the package's own source in a lesson, so that no notebook carries a copy of it.

The solutions of the exercises are the package's own functions; a lesson reads them, it never pastes them.
"""

import importlib
import inspect
from dataclasses import dataclass
from html import escape
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

_COLOURS = {
    "Token.Keyword": ("keyword", "#008000"),
    "Token.Operator.Word": ("keyword", "#008000"),
    "Token.Literal.String": ("string", "#ba2121"),
    "Token.Literal.Number": ("number", "#005f5f"),
    "Token.Comment": ("comment", "#406060"),
    "Token.Name.Function": ("def", "#0000ff"),
    "Token.Name.Class": ("def", "#0000ff"),
    "Token.Name.Builtin": ("builtin", "#008000"),
}


@dataclass(frozen=True)
class Source:
    """The source of one object: `title` says which file it stands in and what it is, `code` is the text.

    A page shows it open, or behind its title where `folded`: a solution must not be read by accident.
    """

    title: str
    code: str
    folded: bool = False

    def __str__(self) -> str:
        return f"# {self.title}\n{self.code}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        title, code = escape(self.title), _highlighted(self.code)
        if self.folded:
            return f"<details><summary>Solution, after your own try</summary><p>{title}</p>{code}</details>"
        return f'<figure style="margin:0"><figcaption>{title}</figcaption>{code}</figure>'


def show_source(thing: Any) -> Source:
    """Show a function, class or module of the package with its file and its first sentence.

    Example: `show_source(clock_cycles)` is titled "pllab/pipeline/clock.py: clock_cycles. Generate the
    schedule ..."

    Raises:
        ValueError: the thing has no Python source, for example because it was made in C.
    """
    thing = inspect.unwrap(thing) if callable(thing) else thing
    try:
        code = inspect.getsource(thing)
        path = inspect.getsourcefile(thing) or ""
    except (TypeError, OSError):
        raise ValueError(f"{thing!r} has no Python source to show; pass a function, a class or a module") from None
    name = getattr(thing, "__qualname__", "") or getattr(thing, "__name__", "")
    first = (inspect.getdoc(thing) or "").partition("\n")[0]
    return Source(f"{_relative(Path(path))}: {name}. {first}".rstrip(), inspect.cleandoc("\n" + code) + "\n")


def solution(*things: Any, note: str = "") -> Source:
    """The package's answer to an exercise, piece by piece, folded away; `note` says how it answers it."""
    shown = [show_source(thing) for thing in things]
    title = "Solution. " + note if note else "Solution, as the package has it"
    return Source(title, "\n\n".join(f"# {source.title}\n{source.code}" for source in shown), folded=True)


def _relative(path: Path) -> str:
    """The path below the package's parent, `pllab/pipeline/clock.py`: no machine's own folders."""
    package = importlib.import_module("pllab")
    root = Path(package.__file__ or "").parent.parent
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


def _highlighted(code: str) -> str:
    """The code as HTML in the colours of JupyterLab's own editor, light or dark; elsewhere dark on light."""
    try:
        from pygments.lexers import PythonLexer
    except ImportError:  # a page without colours is still a page
        return f"<pre>{escape(code)}</pre>"
    tokens = ((_colour_of(str(kind)), text) for kind, text in PythonLexer().get_tokens(code))
    runs = ((colour, "".join(text for _, text in run)) for colour, run in groupby(tokens, key=itemgetter(0)))
    ground = "background:var(--jp-cell-editor-background,#f7f7f7);color:var(--jp-content-font-color1,#212121)"
    inside = "".join(
        f'<span style="color:{colour}">{escape(text)}</span>' if colour else escape(text) for colour, text in runs
    )
    return f'<pre style="{ground};padding:6px 8px;margin:0;overflow-x:auto">{inside}</pre>'


def _colour_of(kind: str) -> str:
    """The colour of one kind of token; each has a fallback for pages that are not JupyterLab."""
    name, fallback = next((colour for prefix, colour in _COLOURS.items() if kind.startswith(prefix)), ("", ""))
    return f"var(--jp-mirror-editor-{name}-color,{fallback})" if name else ""
