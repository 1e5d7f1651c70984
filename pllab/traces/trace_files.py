"""A trace file as plain data, or one sentence that says what is wrong with it.

The file may come from anywhere, so it is read as JSON and nothing else. Source: Trace Event Format (Google), which
torch.profiler writes.
"""

import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pllab.arguments import plain_file, printable

Event = Mapping[str, Any]

_MOST_MICROSECONDS = 1e18  # some 30,000 years
_GZIP = b"\x1f\x8b"
_WANTED = "give a trace as torch.profiler's export_chrome_trace writes it, and let the writing end"


@dataclass(frozen=True)
class TraceFile:
    """The complete events ("X") of a file by category, and its other contents; the name is for messages."""

    name: str
    about: Mapping[str, Any]
    spans: Mapping[str, list[Event]]

    def of_category(self, *endings: str) -> list[Event]:
        """The complete events of the categories with this ending: `"_runtime"` for `cuda_runtime`."""
        return [event for name, events in self.spans.items() if name.endswith(endings) for event in events]


def read_file(path: Path | str) -> TraceFile:
    """Read a trace, compressed or not; of its events only the complete ones whose names are texts.

    Example: `read_file("rank0.json.gz").spans["user_annotation"][0]["name"]`.

    Raises:
        ValueError: there is no such file, or it is no trace; the sentence says why.
    """
    path = Path(path)
    content = _content_of(path)
    events = content.get("traceEvents") if isinstance(content, dict) else None
    if not isinstance(events, list):
        raise ValueError(f"{path.name} is JSON without a list of traceEvents; {_WANTED}")
    spans: dict[str, list[Event]] = {}
    for event in events:
        if isinstance(event, dict) and event.get("ph") == "X" and isinstance(event.get("name"), str):
            spans.setdefault(str(event.get("cat")), []).append(event)
    return TraceFile(path.name, {name: value for name, value in content.items() if name != "traceEvents"}, spans)


def _content_of(path: Path) -> Any:
    """The JSON of a file.

    Raises:
        ValueError: it cannot be read, or is no whole JSON.
    """
    try:
        content = plain_file(path).read_bytes()
        text = (gzip.decompress(content) if content.startswith(_GZIP) else content).decode()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path.name} is compressed and ends too early or is damaged ({error}); {_WANTED}") from None
    except OSError as error:
        raise ValueError(f"{str(path)!r} cannot be read ({error.strerror}); give the files of all ranks") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} is no text; {_WANTED}") from None
    try:
        return json.loads(text)
    except (RecursionError, ValueError) as error:  # also nested too deeply, or a number of thousands of digits
        raise ValueError(f"{path.name} is no whole JSON ({error}); {_WANTED}") from None


def times_of(event: Event, name: str) -> tuple[float, float]:
    """Start and end of a complete event in microseconds.

    Raises:
        ValueError: it has none; the sentence names the event and the file.
    """
    start, length = event.get("ts"), event.get("dur")
    if start is None or length is None or not (_is_time(start) and _is_time(length)) or length < 0:
        text = f"{event.get('name')!s:.60} in {name} starts at {start!s:.30} and lasts {length!s:.30} microseconds"
        raise ValueError(printable(f"{text}; export the trace again"))
    return float(start), float(start) + float(length)


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MOST_MICROSECONDS
