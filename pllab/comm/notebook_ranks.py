"""Ranks for a notebook: real processes in a ready group that run cells, and that end with the notebook.

A function typed into a cell cannot be sent to a new process, but source can. So the ranks stay alive and receive the
text of each cell, as ipyparallel engines; `%%px` on the first line of a cell sends it to all of them.

Ranks write at the same time, so their lines arrive in any order; a notebook that is compared with its committed
output needs one order. Every line is marked with its rank:

    rank 0: loss 5.31
    rank 1: loss 5.28
"""

import ast
import inspect
import pickle
import sys
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from contextlib import ExitStack, suppress
from typing import Any, Self

from pllab.arguments import deadline, rank_count, require
from pllab.comm.devices import gpu_backend
from pllab.comm.errors import ANSI, RankError, listed, sounds_like_echo
from pllab.comm.group import plan_backend
from pllab.comm.notebook_engines import Cluster, calls_made, connection_file, enter_group

_TICK_S = 0.05  # how often the waiting looks whether all processes still live
_GRACE_S = 1.5  # how long the others may go on after one rank failed
_HEAR_S = 1.0  # how long Python takes at most to notice an interrupt
_STOPPED = "these ranks have been stopped; make new ones, for example ranks = Ranks(2)"


class RanksInterrupted(KeyboardInterrupt):
    """A cell on the ranks was interrupted; the message says whether the ranks are still there."""

    def _render_traceback_(self) -> list[str]:
        """IPython's hook: show only the message."""
        return [f"KeyboardInterrupt: {self}"]


class Ranks:
    """`num_ranks` processes on this host in a ready process group, for cells of a notebook.

    Example:
        ranks = Ranks(2)

        %%px
        x = torch.tensor([rank + 1.0])
        dist.all_reduce(x)
        print(x)
            rank 0: tensor([3.])
            rank 1: tensor([3.])

    Each rank has one compute thread, one device, and the names `rank`, `world_size`, `device`, `torch` and
    `dist`. Outside a notebook, `execute(code)` does what `%%px` does; `fetch("x")` brings x from every rank. A cell
    that fails on one rank is stopped on the others and reported as one `RankError`; the ranks and their variables
    stay, in a new group where that was needed. When a rank dies, all are ended. `stop()`, the end of a `with` block,
    or the end of the notebook's kernel, however it ends, ends all ranks and removes every file.

    Raises:
        ValueError: an argument is out of its range, or the backend does not fit this host.
        RankError: a rank did not start.
    """

    def __init__(self, num_ranks: int, backend: str | None = None, *, timeout_s: float = 60.0) -> None:
        self.plan = plan_backend(0, num_ranks, backend)
        self.num_ranks = rank_count(num_ranks)
        self._timeout_s = deadline(timeout_s)
        self._num_groups = 1
        with ExitStack() as undo:
            self._cluster = Cluster()
            undo.callback(self._cluster.stop)
            self._cluster.start(num_ranks, backend, self._timeout_s)
            self._client = self._connect(undo, time.monotonic() + self._timeout_s)
            self._finish = weakref.finalize(self, undo.pop_all().close)
        _register_px(weakref.ref(self))

    def _connect(self, undo: ExitStack, end: float) -> Any:
        """A client that sees all engines; they register after they have joined the group."""
        # A GPU node with only torch and transformers imports this room too.
        from ipyparallel import Client

        folder = self._cluster.folder
        file = self._wait_for(lambda: connection_file(folder, "client"), end)
        client = Client(str(file), profile_dir=str(folder), ipython_dir=str(folder))
        undo.callback(client.close)
        self._wait_for(lambda: len(client.ids) == self.num_ranks, end)
        return client

    def _wait_for(self, answer: Callable[[], Any], end: float) -> Any:
        """Ask repeatedly until there is an answer, and return it."""
        while not (found := answer()):
            self._cluster.check_alive()
            if time.monotonic() >= end:
                way_out = f"Ranks({self.num_ranks}, timeout_s=300)"
                raise RankError(0, f"the ranks did not start in time; give them more, as in {way_out}")
            time.sleep(_TICK_S)
        return found

    @property
    def stopped(self) -> bool:
        """Whether the processes have been ended."""
        return not self._finish.alive

    def stop(self) -> None:
        """End all processes and remove their files; calling it again does nothing."""
        self._finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "stopped" if self.stopped else self.plan.reason
        return f"Ranks({self.num_ranks}): {state}"

    def execute(self, code: str, targets: Sequence[int] | None = None) -> None:
        """Run the code on all ranks (or on `targets`), wait, and show what they wrote in order of rank.

        Raises:
            ValueError: a target is not one of the ranks, or the code awaits outside of its functions.
            RankError: a rank raised or died; the first line says which one, and what became of the others.
            RanksInterrupted: Ctrl-C, or the notebook's stop button.
            RuntimeError: the ranks have been stopped.
        """
        way_out = "run it in a thread, as in threading.Thread(target=asyncio.run, args=[go()])"
        require(not _awaits(code), f"a cell on ranks cannot await outside of its functions; {way_out}")
        self._run(targets, lambda engine: engine.execute(code, silent=False, block=False))

    def fetch(self, expression: str) -> list[Any]:
        """Copy the value of an expression from every rank to here, in order of rank.

        Example: `ranks.fetch("rank + 1")` on two ranks is `[1, 2]`; `ranks.fetch("losses")[0]` is what rank 0 has.
        The values are copies: ranks share no memory with the notebook.

        Raises:
            RankError, RanksInterrupted, RuntimeError: as `execute`; also if a rank cannot send the value.
            AttributeError: the value is of a class that only the rank has; fetch numbers, lists and tensors.
        """
        packed = f"__import__('pickle').dumps(({expression}))"  # ipyparallel's own packing sorts a dictionary
        replies = self._run(None, lambda engine: engine.pull(packed, block=False))
        return [pickle.loads(reply.get()) for reply in replies.values()]

    def _run(self, targets: Sequence[int] | None, ask: Callable[[Any], Any]) -> dict[int, Any]:
        """Send code to engines, wait, and show what they wrote; return their answers, or raise as `execute` does."""
        if self.stopped:
            raise RuntimeError(_STOPPED)
        everyone = range(self.num_ranks)
        targets = everyone if targets is None else targets
        is_known = all(rank in everyone for rank in targets)
        require(is_known, f"targets is {targets!r}; give ranks from 0 to {everyone[-1]}, or leave it out for all")
        replies = {rank: ask(self._client[rank]) for rank in targets}
        try:
            self._attend(replies)
        except KeyboardInterrupt:
            outcome = self._calm(replies)
            _show_replies(replies)
            raise RanksInterrupted(f"the cell was interrupted on all ranks; {outcome}") from None
        except RankError as error:
            _show_replies(replies)
            self.stop()
            outcome = f"all ranks were ended; make new Ranks({self.num_ranks})"
            raise RankError(error.rank, _with_outcome(str(error), outcome)) from None
        failures = _failures_in(replies)
        has_echo = any(map(_is_remote_echo, failures.values()))
        broken = _still_running(replies) or has_echo or (bool(failures) and self._is_apart())
        outcome = self._calm(replies) if broken else "the ranks and their variables are still there"
        _show_replies(replies)
        if failures:
            raise _first_cause(failures, outcome)
        return replies

    def _attend(self, replies: dict[int, Any]) -> None:
        """Wait until all ranks are done, or a moment after one failed, or until one died."""
        give_up = float("inf")
        while (pending := _still_running(replies)) and time.monotonic() < give_up:
            replies[pending[0]].wait(_TICK_S)
            self._cluster.check_alive()
            if _failures_in(replies):
                give_up = min(give_up, time.monotonic() + _GRACE_S)

    def _calm(self, replies: dict[int, Any]) -> str:
        """Stop running ranks and make a new group, or end everything; return a sentence that says which."""
        self._cluster.interrupt(_still_running(replies))
        if not _settle(replies, _HEAR_S):
            self._cluster.cut_wires()  # a rank waits inside gloo, which does not notice an interrupt
            if not _settle(replies, _HEAR_S):  # a second interrupt while the first is handled would be printed
                self._cluster.interrupt(_still_running(replies))
        if not _settle(replies, 3 * _HEAR_S) or not self._renew():
            who = listed(_still_running(replies) or range(self.num_ranks))
            self.stop()
            return f"{who} did not react, so all ranks were ended; make new Ranks({self.num_ranks})"
        return "the ranks and their variables are still there, in a new group"

    def _is_apart(self) -> bool:
        """Whether a rank has asked for messages that the others have not, so that they may still be under way."""
        if self.plan.name == gpu_backend():
            return True  # every call returns before its peers have made it, and sends are not counted
        replies = {rank: self._client[rank].apply_async(calls_made) for rank in range(self.num_ranks)}
        if not _settle(replies, 10.0) or _failures_in(replies):
            return True
        counts = {count for reply in replies.values() for count in reply.get().items()}
        return len(counts) > len(dict(counts))

    def _renew(self) -> bool:
        """Let all ranks join a new group: a half-sent message would confuse the next cell."""
        meeting = str(self._cluster.folder / f"meeting-{self._num_groups}")
        self._num_groups += 1
        replies = {
            rank: self._client[rank].apply_async(
                enter_group, rank, self.num_ranks, self.plan.name, meeting, self._timeout_s
            )
            for rank in range(self.num_ranks)
        }
        return _settle(replies, 10.0) and not _failures_in(replies)


def _register_px(reference: "weakref.ref[Ranks]") -> None:
    """Give the notebook or the IPython prompt, if there is one, `%px` and `%%px`; the ranks still end with their name.

    ipyparallel's own `%%px` writes in another order, shows a bar, and leaves a rank that waits inside gloo waiting.
    """
    if (ipython := sys.modules.get("IPython")) is None or (shell := ipython.get_ipython()) is None:
        return

    def px(line: str, cell: str | None = None) -> None:
        """Run the line, or the cell, on all ranks."""
        ranks = reference()
        if ranks is None:
            raise RuntimeError(_STOPPED)
        if cell is not None and line:
            raise ValueError(f"%%px runs a cell on all ranks and was given {line!r}; leave it out, or use execute")
        ranks.execute(line if cell is None else cell)

    shell.register_magic_function(px, "line_cell")


def _awaits(code: str) -> bool:
    """Whether a cell awaits outside of its functions, where an engine waits for ever; not known of one with magics."""
    with suppress(SyntaxError, ValueError):
        flags = compile(code, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True).co_flags
        return bool(flags & inspect.CO_COROUTINE)
    return False


# The answers of the ranks to one cell: `replies` are ipyparallel's AsyncResults by rank, one rank each.


def _still_running(replies: dict[int, Any]) -> list[int]:
    """The ranks that have not answered yet."""
    return [rank for rank, reply in replies.items() if not reply.done()]


def _settle(replies: dict[int, Any], timeout_s: float) -> bool:
    """Wait until all are done, for at most `timeout_s` seconds; return whether they are."""
    return not futures.wait(replies.values(), timeout_s).not_done


def _show_replies(replies: dict[int, Any]) -> None:
    """Write what each rank printed, showed and returned, in order of rank, even for ranks that never answered."""
    # A GPU node with only torch and transformers imports this room too.
    from IPython.display import publish_display_data

    for reply in replies.values():
        if reply.done():
            reply.wait_for_output(1.0)
    records = {rank: replies[rank].metadata for rank in sorted(replies)}
    _write(sys.stdout, {rank: _printed(record) for rank, record in records.items()})
    _write(sys.stderr, {rank: _complained(record) for rank, record in records.items()})
    for rank, record in records.items():
        for output in record.get("outputs") or ():  # a picture or other rich output, under a line that names its rank
            publish_display_data({"text/plain": f"rank {rank}:"})
            publish_display_data(dict(output["data"]), dict(output.get("metadata") or {}))


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


def _write(stream: Any, texts: Mapping[int, str]) -> None:
    if lines := [f"rank {rank}: {line}\n" for rank, text in texts.items() for line in text.splitlines()]:
        stream.write("".join(lines))
        stream.flush()


def _failures_in(replies: dict[int, Any]) -> dict[int, Any]:
    """The remote errors by rank, as ipyparallel carries them."""
    return {rank: error for rank, reply in replies.items() if reply.done() and (error := reply.exception())}


def _is_remote_echo(error: Any) -> bool:
    """Whether a remote error only says that another rank went away."""
    return sounds_like_echo(error.ename, error.evalue)


def _first_cause(failures: dict[int, Any], outcome: str) -> RankError:
    """The failure that is a cause rather than an echo of a peer's, in words."""
    rank, error = min(failures.items(), key=lambda item: (_is_remote_echo(item[1]), item[0]))
    details = ANSI.sub("", str(error.traceback or "")).strip()
    words = _with_outcome(f"rank {rank} raised {error.ename}: {error.evalue}", outcome)
    return RankError(rank, f"{words}\n\n{details}".rstrip())


def _with_outcome(words: str, outcome: str) -> str:
    """Put what became of the ranks at the end of the first line."""
    first, *rest = words.split("\n", 1)
    return "\n".join([f"{first} ({outcome})", *rest])
