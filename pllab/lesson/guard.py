"""What a check refuses whatever the answer is: looking into the check, changing it, or handing back what is asked for.

    peeking     reading the stack or the collector from the learner's code, where the verdict's channel is in reach
    patched     a function of Python, PyTorch or pllab that is another one after the case
    packaged    the package's own function, called by the learner's code, handed in or returned
    disguised   a result whose class decides for itself what it equals

A learner who reads the source and pastes it passes: that is reading. The guard runs in the process of a check and in
its ranks, never in a notebook.
"""

import functools
import inspect
import os
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import pllab

Refuse = Callable[[str, str], None]  # told the hint id and the sentence

_PEEKS = frozenset({"sys._getframe", "sys._current_frames", "gc.get_objects", "gc.get_referrers", "gc.get_referents"})
_SWITCHES = frozenset({"sys.setprofile", "sys.settrace", "ctypes.dlopen"})
_MAKES_CODE = frozenset({"compile", "code.__new__"})  # both with the name of the file
_TRIES = 100  # a thread sets its profile in microseconds; on a busy machine it may be interrupted there
_FRAMES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})
_OURS = tuple(
    f"{Path(place).resolve()}{os.sep}"
    for place in {*sysconfig.get_paths().values(), str(Path(pllab.__file__).parent), str(Path(os.__file__).parent)}
    if place != sysconfig.get_paths()["data"]
)
_LIBRARIES = ("<frozen", "<string>", "<eval_with_key", "<template>", "<attrs", "<__array_function__")
_WATCHED = ("builtins", "json", "math", "operator", "queue", "random", "threading", "time", "torch")
_PEEKING = (
    "peeking",
    "Your function looked into the check that runs it ({event}); a verdict counts only for what the function does.",
)
_PATCHED = (
    "patched",
    "After your function {name} is another object than before; a check counts only if it finds everything as it was.",
)
_PACKAGED = (
    "packaged",
    "This is {name} of the package, which is what the exercise asks for; write it yourself. Its helpers may be called.",
)
_DISGUISED = (
    "disguised",
    "Your function returned an object of the class {name}, which decides for itself what it equals; "
    "return plain numbers, lists or tensors.",
)


class Refused(BaseException):
    """What the guard has seen; no `except Exception` of a case or of the learner's code stops it."""

    def __init__(self, hint_id: str, sentence: str) -> None:
        super().__init__(hint_id, sentence)
        self.hint_id = hint_id
        self.sentence = sentence


def is_theirs(code: CodeType) -> bool:
    """Whether code is the learner's: of a notebook cell or a file outside Python, its libraries and pllab."""
    return _is_their_file(code.co_filename)


@functools.lru_cache(maxsize=4096)
def _is_their_file(name: str) -> bool:
    return not name.startswith(_LIBRARIES) and not os.path.realpath(name).startswith(_OURS)


def their_line(error: BaseException) -> str:
    """The innermost line of the learner's own code, in a class too: `line 3 of make_tasks: return a / 0`."""
    walk = list(traceback.walk_tb(error.__traceback__))
    own = [(frame, line) for frame, line in walk if is_theirs(frame.f_code)]
    if not own:
        return ""
    frame, line = own[-1]
    summary = traceback.FrameSummary(frame.f_code.co_filename, line, frame.f_code.co_name)
    return f"line {line} of {frame.f_code.co_name}: {summary.line}".removesuffix(": ")


def named(path: str) -> Any:
    """The object of a dotted name: `named("pllab.parallel.average_gradients")`."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def refuse_package(solution: Any, package: tuple[str, ...]) -> None:
    """Refuse the package's own function or class, also wrapped in a partial, bound, or as a base class.

    Raises:
        Refused: the solution is one of the names in `package`.
    """
    core = _core(solution)
    for path, asked in _loaded(package):
        if core is _core(asked) or (isinstance(core, type) and isinstance(asked, type) and issubclass(core, asked)):
            raise Refused(_PACKAGED[0], _PACKAGED[1].format(name=path))


def _loaded(package: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """What of the package can be handed back; what was never imported cannot, and importing it takes seconds."""
    for path in package:
        if path.rpartition(".")[0] in sys.modules:
            yield path, named(path)


def _core(thing: Any) -> Any:
    while True:
        if isinstance(thing, functools.partial):
            thing = thing.func
        elif isinstance(thing, MethodType | classmethod | staticmethod):
            thing = thing.__func__
        elif hasattr(thing, "__wrapped__"):
            thing = thing.__wrapped__
        else:
            return thing


def watch(package: tuple[str, ...], refuse: Refuse) -> None:
    """From now on call `refuse` when the learner's code peeks or calls what is asked for; it cannot be switched off."""
    if package:
        profile = _profile(package, refuse)
        threading.setprofile(profile)
        _set_profile(profile)
    busy = threading.local()

    def hear(event: str, args: tuple[Any, ...]) -> None:
        looks = event in _PEEKS or event in _SWITCHES
        if not looks and not (event == "object.__getattr__" and args[1] in _FRAMES) and not _hides(event, args):
            return
        if getattr(busy, "now", False):
            return
        busy.now = True
        try:
            if _asked_by_them(sys._getframe(1)):
                refuse(_PEEKING[0], _PEEKING[1].format(event=args[1] if event == "object.__getattr__" else event))
        finally:
            busy.now = False

    sys.addaudithook(hear)


def _profile(package: tuple[str, ...], refuse: Refuse) -> Callable[[FrameType, str, Any], None]:
    names = {path.rpartition(".")[2] for path in package}

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or frame.f_code.co_qualname.partition(".")[0] not in names or not _is_asked_for(frame):
            return
        for path, asked in _loaded(package):
            if frame.f_code in codes_of(asked):
                refuse(_PACKAGED[0], _PACKAGED[1].format(name=path))

    return profile


def _is_asked_for(frame: FrameType) -> bool:
    """Whether the learner's code calls it, through a decorator of contextlib too; a generator runs where it is read."""
    caller = frame.f_back
    while caller is not None and caller.f_code.co_filename.endswith("contextlib.py"):
        caller = caller.f_back
    return caller is not None and (is_theirs(caller.f_code) or bool(frame.f_code.co_flags & inspect.CO_GENERATOR))


def codes_of(thing: Any) -> Iterator[CodeType]:
    """The code of a function, or of the methods of a class."""
    thing = _core(thing)
    for one in vars(thing).values() if isinstance(thing, type) else [thing]:
        code = getattr(_core(one), "__code__", None)
        if isinstance(code, CodeType) and not code.co_filename.startswith("<string>"):
            yield code


def _hides(event: str, args: tuple[Any, ...]) -> bool:
    """Whether it makes code under the name of a file of Python's or pllab's."""
    if event not in _MAKES_CODE:
        return False
    name = args[1].decode(errors="replace") if isinstance(args[1], bytes) else args[1]
    return isinstance(name, str) and name != "<string>" and not _is_their_file(name)


def _asked_by_them(frame: FrameType | None) -> bool:
    """Whether the learner's code asks, itself or through what hands out frames; a library may ask for itself."""
    if frame is not None and frame.f_code.co_filename == "<string>":
        return True  # a text that was executed; no library looks around in one
    inner = frame
    while frame is not None and frame.f_code.co_filename.endswith(("inspect.py", "traceback.py")):
        inner, frame = frame, frame.f_back
    if frame is None or inner is None or not is_theirs(frame.f_code):
        return False
    prints = inner.f_code.co_filename.endswith("traceback.py") and not inner.f_code.co_name.startswith("walk")
    return not prints


def _set_profile(profile: Any) -> None:
    """Set it again after an error: Python refuses while a thread that has just started is about to set its own."""
    for _ in range(_TRIES):
        with suppress(RuntimeError):
            return sys.setprofile(profile)
        time.sleep(0.001)
    sys.setprofile(profile)


@contextmanager
def _unheard() -> Iterator[None]:
    """Without the profile: it would hear a hundred thousand calls of our own, and double the time of a check."""
    profile = sys.getprofile()
    _set_profile(None)
    try:
        yield
    finally:
        _set_profile(profile)


class Fingerprint:
    """The functions and classes of the check's surroundings, and its cases, to be found as they were.

    Example: `before = Fingerprint()`, the case, then `before.compare()`.
    """

    @_unheard()
    def __init__(self, cases: Sequence[Any] = ()) -> None:
        self._cases = [(f"case {number}", case) for number, case in enumerate(cases)]
        self._seen = {name: dict(_callables(owner)) for name, owner in (*_surroundings(), *self._cases)}

    @_unheard()
    def compare(self) -> None:
        """Look again.

        Raises:
            Refused: something that was there is another object now.
        """
        for name, owner in (*_surroundings(), *self._cases):
            before, now = self._seen.get(name, {}), dict(_callables(owner))
            for key, (value, code) in before.items():
                value_now, code_now = now.get(key, (None, None))
                if (value_now is not value or code_now is not code) and not _wrapped_by_a_library(value_now, value):
                    raise Refused(_PATCHED[0], _PATCHED[1].format(name=f"{name}.{key}"))


def _wrapped_by_a_library(now: Any, before: Any) -> bool:
    """PyTorch wraps some of its own functions at the first step of an optimizer."""
    code = getattr(now, "__code__", None)
    return isinstance(code, CodeType) and not is_theirs(code) and now is not before and _core(now) is _core(before)


def _surroundings() -> Iterator[tuple[str, Any]]:
    for name, module in list(sys.modules.items()):
        if not isinstance(module, ModuleType):
            continue
        if name in _WATCHED or name.startswith(("torch.distributed", "torch.nn.functional", "torch.autograd", "pllab")):
            yield name, module
            if name.startswith("pllab"):
                yield from _classes(name, module)
    if torch := sys.modules.get("torch"):
        yield "torch.Tensor", torch.Tensor


def _classes(name: str, module: ModuleType) -> Iterator[tuple[str, Any]]:
    for key, value in list(vars(module).items()):
        if isinstance(value, type) and value.__module__ == name:
            yield f"{name}.{key}", value


def _callables(owner: Any) -> Iterator[tuple[str, tuple[Any, Any]]]:
    for key, value in list(vars(owner).items()):
        if callable(value) and not key.startswith("__abc") and key != "_":
            yield key, (value, value.__code__ if isinstance(value, FunctionType) else None)


def undisguised(solution: Callable[..., Any], package: tuple[str, ...] = ()) -> Callable[..., Any]:
    """The function, whose results may neither decide what they equal nor be what is asked for; classes stay."""
    if not isinstance(solution, FunctionType):
        return solution

    @functools.wraps(solution)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = solution(*args, **kwargs)
        for leaf in _leaves(result, depth=3):
            if _disguises(leaf):
                raise Refused(_DISGUISED[0], _DISGUISED[1].format(name=type(leaf).__name__))
            if callable(leaf):
                refuse_package(leaf, package)
        return result

    return call


def _leaves(value: Any, depth: int) -> Iterator[Any]:
    yield value
    if depth and type(value) in (list, tuple):
        for part in value[:1000]:
            yield from _leaves(part, depth - 1)
    elif depth and type(value) is dict:
        for part in list(value.values())[:1000]:
            yield from _leaves(part, depth - 1)


def _disguises(value: Any) -> bool:
    kind = type(value)
    for name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__sub__", "__rsub__", "__array__"):
        method = getattr(kind, name, None)
        if isinstance(method, FunctionType) and is_theirs(method.__code__):
            return True
    return kind.__module__ == "unittest.mock"
