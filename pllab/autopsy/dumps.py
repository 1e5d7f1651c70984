"""Read records from files: ours, and what torch's flight recorder dumps on any machine, as JSON or as a pickle."""

import io
import json
import pickle
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pllab.arguments import plain_file, require
from pllab.autopsy.records import MARK, Call, Record, checked


def read_records(paths: Sequence[Path]) -> list[Record]:
    """The record of each file, in order of rank; a file of torch's has its rank as the last number of its name.

    Example: `read_records([Path("trace_0"), Path("trace_1")])`.

    Raises:
        ValueError: a file is missing, is not a record, or asks for more than plain values.
    """
    return sorted(map(_read, paths), key=lambda record: record.rank)


def _read(path: Path) -> Record:
    try:
        return _record(_values(plain_file(path).read_bytes()), path)
    except OSError as error:
        raise ValueError(f"{str(path)!r} cannot be read ({error.strerror}); give the dump of each rank") from None
    except ValueError as error:
        raise ValueError(f"{str(path)!r} is no flight record: {error}") from None


def _values(data: bytes) -> Any:
    """A dump begins with the byte 0x80 if it is a pickle, and is JSON otherwise."""
    if data[:1] == b"\x80":
        return read_pickle(data)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON or a pickle ({error})") from None


class _AsksForCode(ValueError):
    """The pickle asks for a class or a function."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise _AsksForCode(
            f"the pickle asks for {module}.{name}, and a dump holds plain values only; nothing of it ran"
        )


def read_pickle(data: bytes) -> Any:
    """The dictionaries, lists, tuples, words and numbers of a pickle; nothing in it is run.

    Example: `read_pickle(pickle.dumps({"entries": [1, 2]}))` is `{"entries": [1, 2]}`.

    A pickle is a program that may call whatever it names, and torch's own reader of its dumps would do so. What torch
    writes into them needs no name at all, so here every name is refused before anything is called.

    Raises:
        ValueError: it names a class or a function, or it is not a complete pickle.
    """
    try:
        return _PlainUnpickler(io.BytesIO(data)).load()
    except _AsksForCode:
        raise
    except Exception as error:  # a damaged pickle raises nearly anything
        raise ValueError(f"it is no whole pickle of plain values ({type(error).__name__}: {error})") from None


def _record(found: Any, path: Path) -> Record:
    try:
        if MARK in found:
            return Record.from_json(found)
        numbers = re.findall(r"\d+", path.stem if path.suffix in (".json", ".pkl", ".pickle") else path.name)
        told = "its name has no number, and torch writes the rank there alone; call it trace_0 for rank 0"
        require(bool(numbers), told)
        return _of_torch(found, int(numbers[-1]))
    except (KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise ValueError(f"a part of it is missing or has another form than torch's or ours ({error!r})") from None


def _of_torch(found: Mapping[str, Any], rank: int) -> Record:
    """A dump of torch, which numbers collectives from 1 in each group, and messages between two ranks separately."""
    groups = found.get("pg_config") or {}
    sizes = [len(re.findall(r"\d+", str(group.get("ranks", "")))) for group in groups.values()]
    entries = sorted(found["entries"], key=lambda entry: entry["record_id"])
    calls = tuple(_call(entry) for entry in entries)
    standing = next((entry for entry, call in zip(entries, calls, strict=True) if not call.finished), None)
    stack = tuple(map(_line, standing.get("frames") or ())) if standing else ()
    return Record(rank=rank, world_size=max(sizes, default=0), calls=calls, stack=stack)


def _call(entry: Mapping[str, Any]) -> Call:
    name, peer = _name_and_peer(str(entry["profiling_name"]))
    is_p2p = bool(entry.get("is_p2p", False))
    sizes = entry["output_sizes" if name == "receive" else "input_sizes"]
    dtypes = entry.get("output_dtypes" if name == "receive" else "input_dtypes") or [""]
    ended = entry.get("time_discovered_completed_ns") or 0
    frames = [_line(frame) for frame in entry.get("frames") or ()]
    own = [line for line in frames if not line.startswith(("distributed_c10d.py", "c10d_logger.py"))]
    call = Call(
        number=entry["record_id" if is_p2p else "collective_seq_id"],
        name=name,
        shape=_shape(sizes),
        dtype=str(dtypes[0]),
        peer=peer,
        finished=bool(entry.get("retired")) or entry["state"] == "completed" or bool(ended),
        started_s=entry["time_created_ns"] / 1e9,
        finished_s=ended / 1e9 or None,
        where=own[0] if own else "",
        group=" ".join(map(str, entry["process_group"])),
        order=entry["collective_seq_id"],
    )
    return checked(call)


def _name_and_peer(text: str) -> tuple[str, int | None]:
    """`"nccl:all_reduce"` -> all_reduce; `"nccl:send 0->1"` -> send to rank 1; `"nccl:recv 0<-1"` -> from rank 1."""
    name = text.rpartition(":")[2].strip()
    if ends := re.fullmatch(r"(send|recv)\s+(\d+)\s*(?:->|<-)\s*(\d+)", name):
        return "send" if ends[1] == "send" else "receive", int(ends[3])
    return name, None


def _shape(sizes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The shape of one tensor; for several, their number followed by the shape of the first."""
    shapes = [tuple(int(size) for size in each) for each in sizes]
    if not shapes:
        return ()
    return shapes[0] if len(shapes) == 1 else (len(shapes), *shapes[0])


def _line(frame: Mapping[str, Any]) -> str:
    name = str(frame["filename"]).replace("\\", "/").rpartition("/")[2]
    return f"{name}:{frame['line']} in {frame['name']}"
