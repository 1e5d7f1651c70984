"""What the ranks wrote, told in order of rank.

Ranks write at the same time, so their lines arrive in any order; a notebook that is compared with its
committed output needs one order. Every line is marked with its rank:

    rank 0: loss 5.31
    rank 1: loss 5.28
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any


def show_outputs(records: Mapping[int, Mapping[str, Any]]) -> None:
    """Write what each rank printed, showed and returned; `records` is ipyparallel's metadata by rank."""
    ordered = sorted(records.items())
    _write(sys.stdout, [(rank, _printed(record)) for rank, record in ordered])
    _write(sys.stderr, [(rank, _complained(record)) for rank, record in ordered])
    for rank, record in ordered:
        for output in record.get("outputs") or ():
            _show(rank, output)


def _printed(record: Mapping[str, Any]) -> str:
    """Standard output, then the value of the last expression, as a prompt would show it."""
    text = str(record.get("stdout") or "")
    if text and not text.endswith("\n"):
        text += "\n"
    result = record.get("execute_result") or {}
    return text + str(result.get("data", {}).get("text/plain", ""))


def _complained(record: Mapping[str, Any]) -> str:
    """Standard error without the engine's own echo of an interrupt."""
    lines = str(record.get("stderr") or "").splitlines()
    return "\n".join(line for line in lines if line.strip() not in ("", "KeyboardInterrupt"))


def _write(stream: Any, texts: Sequence[tuple[int, str]]) -> None:
    lines = [f"rank {rank}: {line}\n" for rank, text in texts for line in text.splitlines()]
    if lines:
        stream.write("".join(lines))
        stream.flush()


def _show(rank: int, output: Mapping[str, Any]) -> None:
    """A picture or other rich output of one rank, under a line that names it."""
    # A GPU node with only torch and transformers imports this room too.
    from IPython.display import publish_display_data

    publish_display_data({"text/plain": f"rank {rank}:"})
    publish_display_data(dict(output["data"]), dict(output.get("metadata") or {}))
