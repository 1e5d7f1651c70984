"""Show the package's own source in a lesson, so that no notebook carries a copy of it.

The solutions of the exercises are the package's own functions; a lesson reads them, it never pastes them.
"""

import importlib
import inspect
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Source:
    """The source of one object: `title` says which file it stands in and what it is, `code` is the text."""

    title: str
    code: str

    def __str__(self) -> str:
        return f"# {self.title}\n{self.code}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        caption = f"<figcaption>{escape(self.title)}</figcaption>"
        return f'<figure style="margin:0">{caption}{_highlighted(self.code)}</figure>'


def show_source(thing: Any, *, note: str = "") -> Source:
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
    first = note or (inspect.getdoc(thing) or "").partition("\n")[0]
    return Source(f"{_relative(Path(path))}: {name}. {first}".rstrip(), inspect.cleandoc("\n" + code) + "\n")


def solution(*things: Any, note: str = "") -> Source:
    """Show the package's answer to an exercise, piece by piece; `note` says how it answers it."""
    shown = [show_source(thing) for thing in things]
    title = "Solution. " + note if note else "Solution, as the package has it"
    return Source(title, "\n\n".join(f"# {source.title}\n{source.code}" for source in shown))


def _relative(path: Path) -> str:
    """The path below the package's parent, `pllab/pipeline/clock.py`: no machine's own folders."""
    package = importlib.import_module("pllab")
    root = Path(package.__file__ or "").parent.parent
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


def _highlighted(code: str) -> str:
    """The code as HTML with inline colours on their own ground, so that it reads in light and dark pages."""
    try:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import PythonLexer
    except ImportError:  # a page without colours is still a page
        return f"<pre>{escape(code)}</pre>"
    formatter = HtmlFormatter(
        noclasses=True,
        style="default",
        nobackground=False,
        cssstyles="padding:4px 8px",
        prestyles="font-family:monospace",
    )
    return str(highlight(code, PythonLexer(), formatter))
