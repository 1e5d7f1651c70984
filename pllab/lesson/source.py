"""Show the package's own source in a lesson, so that no notebook carries a copy of it."""

import inspect
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

import pllab

# By the prefix of a token's kind: the name of JupyterLab's colour, and that colour for pages elsewhere.
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
# Not left to the page: nbconvert and JupyterLab have style sheets of their own for <pre>.
_PRE = (
    "background:var(--jp-cell-editor-background,#f7f7f7);color:var(--jp-content-font-color1,#212121);"
    "font-family:var(--jp-code-font-family,monospace);white-space:pre;word-break:normal;overflow-wrap:normal;"
    "padding:6px 8px;margin:0;overflow-x:auto"
)


@dataclass(frozen=True)
class Source:
    """The source of one object: `title` has its file and its first sentence, `code` is the text."""

    title: str
    code: str

    def __str__(self) -> str:
        return f"# {self.title}\n{self.code}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        title, code = escape(self.title), _highlighted(self.code)
        return f'<figure style="margin:0"><figcaption>{title}</figcaption>{code}</figure>'


def show_source(thing: Any) -> Source:
    """Show a function, class or module of the package with its file and its first sentence.

    Example: `show_source(clock_cycles)` is titled "pllab/pipeline/workers.py: clock_cycles. Yield, tick by
    tick, ..."

    Raises:
        ValueError: the thing has no Python source, for example because it was made in C.
    """
    thing = inspect.unwrap(thing) if callable(thing) else thing
    try:
        code, path = inspect.getsource(thing), Path(inspect.getsourcefile(thing) or "")
    except (TypeError, OSError):
        raise ValueError(f"{thing!r} has no Python source to show; pass a function, a class or a module") from None
    root = Path(pllab.__file__).parent.parent
    place = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name  # no machine's own folders
    name = getattr(thing, "__qualname__", "") or getattr(thing, "__name__", "")
    first = (inspect.getdoc(thing) or "").partition("\n")[0]
    return Source(f"{place}: {name}. {first}".rstrip(), inspect.cleandoc("\n" + code) + "\n")


def _highlighted(code: str) -> str:
    """The code as HTML in the colours of JupyterLab's own editor, light or dark; elsewhere dark on light."""
    from pygments.lexers import PythonLexer  # which every notebook has

    tokens = ((_colour_of(str(kind)), text) for kind, text in PythonLexer().get_tokens(code))
    runs = ((colour, escape("".join(text for _, text in run))) for colour, run in groupby(tokens, lambda one: one[0]))
    inside = "".join(f'<span style="color:{colour}">{text}</span>' if colour else text for colour, text in runs)
    return f'<pre style="{_PRE}">{inside}</pre>'


def _colour_of(kind: str) -> str:
    """The colour of one kind of token; each has a fallback for pages that are not JupyterLab."""
    name, fallback = next((colour for prefix, colour in _COLOURS.items() if kind.startswith(prefix)), ("", ""))
    return f"var(--jp-mirror-editor-{name}-color,{fallback})" if name else ""
