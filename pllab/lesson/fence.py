"""The fence around a submission's processes: what foreign code may not do, whoever in the process asks for it.

    programs       start one, or fork; the nursery alone does
    files          write, rename or remove one outside of the yard
    processes      signal any but those of the yard
    network        reach beyond this machine
    limits         raise its own
    machine code   through ctypes, or a library that it wrote itself

It is an audit hook, which cannot be taken down, and forks inherit it. It stops what Python code does; it is no
virtual machine. The watch over memory and processes is the owner's (`pllab.lesson.yard`).
"""

import _posixsubprocess
import _thread
import ctypes
import json
import os
import posix
import resource
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from pkgutil import resolve_name
from types import FrameType
from typing import Any, NoReturn

from pllab.comm import processes
from pllab.lesson import nursery
from pllab.lesson.own_code import is_theirs

_PR_SET_CHILD_SUBREAPER = 36
_SLACK_BYTES = 2 << 30  # address space that threads reserve and never use
_MOST_FILE_BYTES = 256 << 20
_LOCAL = ("127.0.0.1", "localhost", "::1", "")
_STARTS = frozenset({"os.fork", "os.exec"})  # the nursery's own way to start a process
_PROGRAMS = frozenset({"subprocess.Popen", "os.system", "os.posix_spawn", "os.spawn", "os.forkpty", "pty.spawn"})
_SIGNALS = frozenset({"os.kill", "os.killpg"})
_LIMITS = frozenset({"resource.setrlimit", "resource.prlimit"})
_SENDS = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
# Where an event has its paths, each with the place of the folder that it starts from.
_CHANGES: dict[str, tuple[tuple[int, int | None], ...]] = {
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.mkdir": ((0, 2),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((0, 2), (1, 3)),
    "os.symlink": ((1, 2),),
    # and those that follow a link:
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.utime": ((0, 3),),
    "os.truncate": ((0, None),),
    "os.setxattr": ((0, None),),
    "os.removexattr": ((0, None),),
}
_FOLLOW = frozenset({"os.chmod", "os.chown", "os.utime", "os.truncate", "os.setxattr", "os.removexattr"})
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_MACHINE = frozenset(
    f"ctypes.{name}"
    for name in ("dlopen", "dlsym", "dlsym/handle", "call_function", "cdata", "cdata/buffer", "addressof", "string_at")
)

Rule = Callable[[tuple[Any, ...], FrameType], str]
IsOurs = Callable[[Any, Any, bool], bool]
Tell = Callable[[str, str], None]  # told the hint id and the sentence
_listeners: list[Tell] = []  # in the process of a check and in its ranks: who hears of a breach


@dataclass(frozen=True)
class Ground:
    """The yard as its processes know it.

    folder: with `home`, `tmp` and `work`, where they may write, and `report`, where files are written and stay.
    memory_bytes: what each may allocate.
    pid: of the nursery of the yard; 0 as long as it is not known.
    """

    folder: str
    memory_bytes: int
    pid: int = 0


def serve_yard() -> None:
    """The entry point of a yard's nursery: put up the fence, then fork a child for each order."""
    ground = Ground(**json.loads(sys.argv.pop()) | {"pid": os.getpid()})
    _move_in(ground.folder)
    _limit(ground.memory_bytes)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # who is left behind becomes its child
    put_up(ground)
    nursery.serve(("pllab.lesson.fence:enter", json.dumps(asdict(ground))), at=f"{ground.folder}/work")


def enter() -> None:
    """The entry point of a new Python process in the yard: put up the fence, then call the entry point that follows."""
    ground = Ground(**json.loads(sys.argv.pop(1)))
    put_up(ground)
    resolve_name(sys.argv.pop(1))()


def on_breach(tell: Tell) -> None:
    """In the process of a check: call it when the learner's code does what the fence refuses."""
    _listeners.append(tell)


def _move_in(folder: str) -> None:
    """The yard is home; nothing here may find the owner's files by a variable."""
    for name in [name for name in os.environ if name.startswith(("PLLAB_", "JUPYTER", "XDG_"))]:
        del os.environ[name]
    os.environ.update(HOME=f"{folder}/home", PLLAB_HOME=f"{folder}/home", TMPDIR=f"{folder}/tmp")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/tmp/torchinductor"  # which torch makes at its first need
    tempfile.tempdir = f"{folder}/tmp"
    sys.dont_write_bytecode = True


def _limit(memory_bytes: int) -> None:
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most = mapped + memory_bytes + _SLACK_BYTES
    for what, limit in (
        (resource.RLIMIT_AS, most),
        (resource.RLIMIT_FSIZE, _MOST_FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(what, (limit, limit))


def put_up(ground: Ground) -> None:
    """Put up the fence in this process and in all that it forks; it stays."""
    rules, busy, refuse = _rules(ground), threading.local(), _refuse

    def hear(event: str, args: tuple[Any, ...]) -> None:
        rule = rules.get(event)
        if rule is None or getattr(busy, "now", False):  # or the fence itself looks at a file
            return
        busy.now = True
        try:
            breach = rule(args, sys._getframe(1))
        finally:
            busy.now = False
        if breach:
            refuse(breach, sys._getframe(1))

    def no_program(*_: Any) -> NoReturn:
        raise PermissionError("grade lets no solution start programs")

    _posixsubprocess.fork_exec = no_program  # it has no event of its own
    sys.addaudithook(hear)


def _rules(ground: Ground) -> dict[str, Rule]:
    """For each event `rule(args, frame)`, which is the end of a sentence about what was done, or empty.

    The rules hold what they need themselves: foreign code can replace any name of a module.
    """
    may_start, may_signal, is_ours, calls_machine_code = _starter(), _signaller(ground.pid), _owner(ground), _by_ctypes
    is_local = _is_local

    def library(args: tuple[Any, ...], _: FrameType) -> str:
        is_own = isinstance(args[1], str) and args[1].startswith(ground.folder)
        return "loaded machine code of its own" if is_own else ""

    rules: dict[str, Rule] = {"open": _opening(is_ours), "import": library}
    rules |= {event: _changing(is_ours, places, event in _FOLLOW) for event, places in _CHANGES.items()}
    rules |= dict.fromkeys(_PROGRAMS, lambda _, __: "started a program")
    rules |= dict.fromkeys(_STARTS, lambda _, frame: "" if may_start(frame) else "started a process")
    rules |= dict.fromkeys(_LIMITS, lambda _, __: "changed its own limits")
    rules |= dict.fromkeys(
        _SIGNALS, lambda args, _: "" if may_signal(args[0]) else f"sent a signal to process {args[0]}"
    )
    rules |= dict.fromkeys(
        _SENDS, lambda args, _: "" if is_local(args[1], is_ours) else f"called {args[1]!r} over the network"
    )
    rules |= dict.fromkeys(_MACHINE, lambda _, frame: "called machine code" if calls_machine_code(frame) else "")
    return rules


def _opening(is_ours: IsOurs) -> Rule:
    encoded = os.fsencode

    def rule(args: tuple[Any, ...], _: FrameType) -> str:
        path, mode, flags = args
        writes = isinstance(flags, int) and flags & _WRITING
        if isinstance(path, int) or not (writes or (isinstance(mode, str) and any(one in mode for one in "wax+"))):
            return ""
        is_whole = mode is not None or encoded(path).startswith(b"/")  # the event leaves dir_fd out
        return "" if is_whole and is_ours(path, None, True) else f"wrote to {path!r}"

    return rule


def _changing(is_ours: IsOurs, places: tuple[tuple[int, int | None], ...], follow: bool) -> Rule:
    def rule(args: tuple[Any, ...], _: FrameType) -> str:
        for place, base in places:
            start = args[base] if base is not None and base < len(args) else None
            if not is_ours(args[place], start, follow):
                return f"changed {args[place]!r}"
        return ""

    return rule


def _starter() -> Callable[[FrameType | None], bool]:
    """Whether the nursery itself starts a process: in its main thread, with nobody else on the stack."""
    files = frozenset(str(module.__file__) for module in (nursery, processes, sys.modules[__name__]))
    main, ident = _thread.get_ident(), _thread.get_ident

    def may_start(frame: FrameType | None) -> bool:
        while frame is not None and frame.f_code.co_filename in files:
            frame = frame.f_back
        return frame is None and ident() == main

    return may_start


def _signaller(root: int) -> Callable[[int], bool]:
    """Whether a process is one of the yard, but its nursery."""
    own, read, opened, close = posix.getpid, posix.read, posix.open, posix.close

    def parent_of(pid: int) -> int:
        try:
            file = opened(f"/proc/{pid}/stat", os.O_RDONLY)
        except OSError:
            return 0
        try:
            return int(read(file, 4096).rpartition(b")")[2].split()[1])
        finally:
            close(file)

    def may_signal(pid: int) -> bool:
        if pid in (0, own()):
            return True
        while pid > 1:
            pid = parent_of(pid)
            if pid == root:
                return True
        return False

    return may_signal


def _owner(ground: Ground) -> IsOurs:
    """Whether a path lies where the yard may write; a folder's number may come before it."""
    free = tuple(f"{ground.folder}/{name}/" for name in ("home", "tmp", "work"))
    report, task = f"{ground.folder}/report/", f"{ground.folder}/report/task"
    place_of = _finder()

    def is_ours(path: Any, base: Any, follow: bool) -> bool:
        try:
            place = place_of(path, base if isinstance(base, int) and base >= 0 else None, follow)
        except FileNotFoundError:
            return True  # the call fails by itself
        except (OSError, TypeError, ValueError):
            return False
        if place in ("/dev/null", task) or place.startswith(("/dev/shm/", *free)):
            return True
        return follow and (place.startswith(report) or place + "/" in free)

    return is_ours


def _finder() -> Callable[[Any, int | None, bool], str]:
    """Where a path leads; the system itself follows the links, at the end if `follow` says so."""
    opened, close, link, decode = posix.open, posix.close, posix.readlink, os.fsdecode

    def real(path: str, base: int | None, follow: bool) -> str:
        file = opened(path, os.O_PATH | (0 if follow else os.O_NOFOLLOW), dir_fd=base)
        try:
            return link(f"/proc/self/fd/{file}")
        finally:
            close(file)

    def place_of(path: Any, base: int | None, follow: bool) -> str:
        if isinstance(path, int):
            return link(f"/proc/self/fd/{path}")
        name = decode(path)
        if follow:
            with suppress(FileNotFoundError):
                return real(name, base, True)
            with suppress(FileNotFoundError):
                real(name, base, False)
                return ""  # a link to nowhere: writing would make its end
        above, _, last = name.rstrip("/").rpartition("/")
        return f"{real(above or ('/' if name.startswith('/') else '.'), base, True)}/{last}"

    return place_of


def _is_local(address: Any, is_ours: IsOurs) -> bool:
    if address is None:  # a socket that is connected already
        return True
    if isinstance(address, tuple):
        return bool(address) and (address[0] in _LOCAL or str(address[0]).startswith("127."))
    return is_ours(address, None, True)


def _by_ctypes(frame: FrameType | None) -> bool:
    while frame is not None and "/ctypes/" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None and (is_theirs(frame.f_code) or frame.f_code.co_filename == "<string>")


def _refuse(breach: str, frame: FrameType | None) -> NoReturn:
    """Stop the call; if the learner's code is on the stack, the check ends as well."""
    while frame is not None and not is_theirs(frame.f_code):
        frame = frame.f_back
    sentence = f"Your function {breach}; grade refuses that, because a solution computes and changes nothing else."
    if frame is not None:
        for tell in _listeners:
            tell("fenced", sentence)
    raise PermissionError(sentence)
