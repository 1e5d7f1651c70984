"""A flight recorder: a file for each rank that lists its calls, even while it is stuck and after it has died.

A ledger counts messages; this also records when each began and ended, whether its values were numbers, which line made
it, the exceptions that the program caught, and the lines its main thread is in. It listens where torch's own recorder
does, at the process group's methods, so both number the same calls. The file is written before each call, because
gloo ends the process when sizes differ, and ten times a second by a thread, because a stuck rank writes nothing itself.
"""

import json
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist

from pllab.autopsy import Call, Caught, Record
from pllab.comm.ledger import GroupCall, HeardWork, Step, group_name, hear_calls
from pllab.files import write_whole

_EVERY_S = 0.1
_LAST_S = 60.0  # for the thread's last write; it ends in a tenth of a second on a machine that is not busy
_MOST_CALLS = 1000
_LIBRARIES = (str(Path(torch.__file__).parent), str(Path(__file__).parent), str(Path(threading.__file__).parent))
_OF_ROOT = frozenset({"broadcast", "scatter"})  # the root alone puts something in
_QUIET = (StopIteration, GeneratorExit)


@contextmanager
def record_flight(path: Path, watch: str = "", torchs: Path | None = None) -> Iterator["Flight"]:
    """Write the flight record of this rank to a file until the block ends.

    Example:
        with record_flight(Path(f"flight-{rank}.json"), watch=__file__):
            train()
        # afterwards, or while it is stuck: python -m pllab autopsy flight-*.json

    Args:
        path: the file; it is replaced as a whole, so a reader never sees half of it.
        watch: a Python file whose caught exceptions are recorded; by default none are.
        torchs: a file for the gloo calls in torch's own flight recorder; by default that is not read.
    """
    flight, state = Flight(path, torchs), "returned"
    writer = threading.Thread(target=flight.keep_writing, name="pllab-flight", daemon=True)
    writer.start()
    try:
        with _watch(watch, flight, sys._getframe()) if watch else nullcontext(), hear_calls(flight.heard):
            yield flight
    except BaseException as error:
        state = f"raised {_told(error)}"
        raise
    finally:
        flight.write(state)
        flight.has_ended.set()
        writer.join(_LAST_S)  # it asks for the rank, which is gone once the group is


@dataclass(eq=False)
class Flight:
    """The record of this rank as it grows."""

    path: Path
    torchs: Path | None = None
    record: Record = Record(rank=0, world_size=1, calls=())
    has_ended: threading.Event = field(default_factory=threading.Event)  # set once its end has been written
    _works: dict[int, Any] = field(default_factory=dict)
    _orders: Counter[str] = field(default_factory=Counter)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def heard(self, made: GroupCall) -> Callable[[Any], HeardWork]:
        """Write down a call that is about to be made, and note later what becomes of it."""
        name, tensors, named, peer = made.name, made.tensors, group_name(made.group), made.peer
        puts_in = name != "receive" and (name not in _OF_ROOT or peer == dist.get_rank())
        with self._lock:
            call = Call(
                number=self.record.next_number,
                name=name,
                shape=made.shape,
                dtype=str(tensors[0].dtype).removeprefix("torch.") if tensors else "",
                peer=peer,
                started_s=time.monotonic(),
                where=_line_of(sys._getframe()),
                group=named,
                order=self._orders[named],
            )
            self._orders[named] += call.is_collective
            self.record = replace(self.record, calls=(*self.record.calls, call)[-_MOST_CALLS:])
        self.write()
        if puts_in and any(_has_nan(tensor) for tensor in tensors):  # waits for a GPU, so the call is written before
            self._change(call.number, has_nan=True)
            self.write()
        return lambda work: HeardWork(work, partial(self._went_on, call.number, work))

    def _went_on(self, number: int, work: Any, step: Step) -> None:
        """Note that a call was waited for, or has its result; under nccl a wait returns before the result is there."""
        if step == "completed":
            self._finish(number)
        elif step == "waited":
            with self._lock:
                self._works[number] = work
                self._look()

    def _look(self) -> None:
        """Note which of the calls that were waited for have their results."""
        for number, work in list(self._works.items()):
            if work.is_completed():
                self._finish(number)

    def _finish(self, number: int) -> None:
        with self._lock:
            self._works.pop(number, None)
            self._change(number, finished=True, finished_s=time.monotonic())

    def _change(self, number: int, **values: Any) -> None:
        """Update the entry of a call, unless it has been forgotten or has already ended."""
        with self._lock:
            calls = [
                replace(call, **values) if call.number == number and not call.finished else call
                for call in self.record.calls
            ]
            self.record = replace(self.record, calls=tuple(calls))

    def catch(self, text: str, where: str) -> None:
        """Note an exception where it was raised, not in the frames that it passes through."""
        with self._lock:
            caught = Caught(text, where, self.record.next_number)
            if not any((one.text, one.before_call) == (text, caught.before_call) for one in self.record.caught):
                self.record = replace(self.record, caught=(*self.record.caught, caught))

    def write(self, state: str = "") -> None:
        """Replace the file by the current record."""
        frames = traceback.walk_stack(sys._current_frames()[threading.main_thread().ident or 0])
        stack = tuple(_place(frame) for frame, _ in frames if frame.f_code.co_filename != __file__)
        with self._lock, suppress(OSError):  # the owner may have removed the folder
            self._look()
            state = state or self.record.state
            self.record = replace(
                self.record,
                state=state,
                caught=tuple(one for one in self.record.caught if state != f"raised {one.text}"),  # that ended the rank
                stack=stack if state == "running" else (),
            )
            with suppress(ValueError, RuntimeError):  # the group is not there yet, or no more: the last answer stays
                self.record = replace(self.record, rank=dist.get_rank(), world_size=dist.get_world_size())
            write_whole(self.path, json.dumps(self.record.to_json()))

    def keep_writing(self) -> None:
        """In a separate thread: write until the program has ended, then write torch's record once more."""
        is_over = False
        while not is_over:
            if not (is_over := self.has_ended.is_set()):  # then our own is written
                self.write()
            if self.torchs is not None:
                # What torch's recorder of gloo's calls knows, as JSON; it has room for the last 2000 calls.
                dump = torch._C._distributed_c10d._dump_fr_trace_json  # type: ignore[attr-defined]
                write_whole(self.torchs, dump(True, False))
            self.has_ended.wait(_EVERY_S)


@contextmanager
def _watch(watched: str, flight: Flight, frame: FrameType) -> Iterator[None]:
    """Inside the block, trace exceptions in a file, even in its functions that already run."""
    trace, before = _exceptions_of(watched, flight), sys.gettrace()
    running = [each for each, _ in traceback.walk_stack(frame) if each.f_code.co_filename == watched]
    for each in running:  # a tracer is asked only when a function begins
        each.f_trace = trace(each, "call", None)
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        yield
    finally:
        threading.settrace(None)
        sys.settrace(before)
        for each in running:
            each.f_trace, each.f_trace_lines = None, True


def _exceptions_of(watched: str, flight: Flight) -> Callable[[FrameType, str, Any], Any]:
    """A tracer that sees exceptions in one file, and is not called for single lines."""

    def local(frame: FrameType, event: str, arg: Any) -> Any:
        if event == "exception" and not issubclass(arg[0], _QUIET):
            flight.catch(_told(arg[1] if isinstance(arg[1], BaseException) else arg[0](arg[1])), _place(frame))
        return local

    def trace(frame: FrameType, _event: str, _arg: Any) -> Any:
        if frame.f_code.co_filename != watched:
            return None
        frame.f_trace_lines = False
        return local

    return trace


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def _has_nan(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.device.type != "meta" and bool(tensor.isnan().any())


def _line_of(frame: FrameType) -> str:
    """The innermost line outside torch and this room: the program's own."""
    own = (each for each, _ in traceback.walk_stack(frame) if not each.f_code.co_filename.startswith(_LIBRARIES))
    return next(map(_place, own), "")


def _place(frame: FrameType) -> str:
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} in {frame.f_code.co_name}"
