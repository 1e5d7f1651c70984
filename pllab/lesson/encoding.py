"""What passes between a check and the learner's function: numbers, texts, lists, tensors. Nothing is unpickled.

    python                  one line of JSON
    3, "a", None, [1, 2]    as they are
    (1, 2), {1}             {"tuple": [1, 2]}, {"set": [1]}
    another sequence        its items: [0, 1] for range(2)
    an iterator             {"iterator": [items as they came, items at the end]}
    {1: "a"}                {"dict": [[1, "a"]]}
    a tensor                {"tensor": [dtype, shape, requires_grad, base64]}
    a record, an enum       {"record": [class, {field: ...}]}, {"named": [class, [...]]}
    a function of pllab     {"function": name}
    another of the check's  {"call": 0}
    all else                {"odd": its repr}

The two ends do not trust each other equally. The learner's process builds any class that a check names; a check builds
the few classes it knows, and everything else is `Odd` to it: shown, and without any behaviour.
"""

import base64
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, MappingView, Sequence, Set
from enum import Enum
from functools import partial
from itertools import islice
from numbers import Integral, Real
from pkgutil import resolve_name
from types import FunctionType
from typing import Any

import torch

_MOST_ITEMS = 20_000  # of one list; more is a function that never ends
_MOST_BITS = 10_000  # of a whole number; Python refuses to write one of 4,300 digits
_MOST_SHOWN = 200
_SIMPLE = (bool, int, float, str)  # written here once: a union is made anew whenever it is read, for every number sent
_OF_PARTS = (Mapping, MappingView, Sequence, Set, Iterator)
_DTYPES = {str(each).removeprefix("torch."): each for each in vars(torch).values() if isinstance(each, torch.dtype)}
_KNOWN = ("pllab.comm.ledger:Message", *(f"pllab.schedule.model:{name}" for name in ("Schedule", "Action", "Kind")))
_SEEN_IN = "pllab.lesson.exercises."

# What decoding garbage may raise.
NO_VALUE = (ValueError, TypeError, LookupError, AttributeError, ImportError, RuntimeError)

Call = Callable[..., Any]


@dataclasses.dataclass(frozen=True, repr=False)
class Odd:
    """A value that cannot be sent: its repr.

    Example: `decode(encode(object()))` -> `Odd("<object object at 0x...>")`.
    """

    shown: str

    def __repr__(self) -> str:
        return self.shown


class Drawn:
    """The items of an iterator as they came; `later` has them as they were when all had come.

    The two differ for a generator that hands out one list again and again. It is not a list, as an iterator is not.
    """

    def __init__(self, came: list[Any], later: list[Any]) -> None:
        self.came, self.later = came, later

    def __iter__(self) -> Iterator[Any]:
        return iter(self.came)

    def __repr__(self) -> str:
        return f"an iterator of {self.came}"


_KINDS: Mapping[str, Callable[[Iterable[Any]], Any]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "dict": dict,
    "iterator": lambda parts: Drawn(*parts),
}


def encode(value: Any, calls: list[Call] | None = None) -> Any:
    """The value as JSON can write it.

    Example: `encode((1, [2.5]))` -> `{"tuple": [1, [2.5]]}`.

    calls: collects the functions found; the other side calls them by their index there. Without it a function is
    odd.
    """
    if value is None or isinstance(value, _SIMPLE):  # of a class of the learner's own JSON writes the value alone
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:
            return {"odd": f"a number of {value.bit_length()} bits"}
        return {"named": [full_name(type(value)), [value.value]]} if isinstance(value, Enum) else value
    if isinstance(value, torch.Tensor) and value.layout == torch.strided and not value.is_quantized:
        return {"tensor": _tensor(value)}
    deeper = partial(encode, calls=calls)
    has_parts = isinstance(value, _OF_PARTS) and not isinstance(value, bytes)
    if has_parts or dataclasses.is_dataclass(type(value)):
        return _encode_parts(value, deeper)
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else float(value)
    if hasattr(value, "__array__") and hasattr(value, "tolist"):
        return deeper(value.tolist())  # NumPy's
    return _encode_name(value, calls)


def _encode_name(value: Any, calls: list[Call] | None) -> dict[str, Any]:
    """What stands for a function, or for what cannot be sent."""
    if isinstance(value, FunctionType) and value.__module__.startswith("pllab.") and "<" not in value.__qualname__:
        return {"function": full_name(value)}
    if calls is None or not callable(value):
        return {"odd": repr(value)[:_MOST_SHOWN]}
    calls.append(value)
    return {"call": len(calls) - 1}


def _encode_parts(value: Any, deeper: Callable[[Any], Any]) -> Any:
    """What has parts, each of them encoded."""
    if isinstance(value, Mapping):
        return {"dict": [[deeper(key), deeper(item)] for key, item in islice(value.items(), _MOST_ITEMS)]}
    if dataclasses.is_dataclass(value):
        fields = (field.name for field in dataclasses.fields(value) if field.init)
        return {"record": [full_name(type(value)), {name: deeper(getattr(value, name)) for name in fields}]}
    if isinstance(value, Iterator):
        return {"iterator": _drawn(value, deeper)}
    items = [deeper(item) for item in islice(value, _MOST_ITEMS)]
    if isinstance(value, tuple):
        return {"named": [full_name(type(value)), items]} if hasattr(value, "_fields") else {"tuple": items}
    if isinstance(value, frozenset):
        return {"frozenset": items}  # which may be in a set, or a key
    return {"set": items} if isinstance(value, Set) and not isinstance(value, MappingView) else items


def _drawn(iterator: Iterator[Any], deeper: Callable[[Any], Any]) -> list[Any]:
    """The items as they came, and the lists among them once more when all had come."""
    items, came = list[Any](), list[Any]()
    for item in islice(iterator, _MOST_ITEMS):
        items.append(item)
        came.append(deeper(item))
    return [came, [deeper(item) if isinstance(item, list) else one for item, one in zip(items, came, strict=True)]]


def _known(name: str) -> Any:
    """A class that may be built here: of a schedule, a message, or a plain record of what a check's program saw."""
    if name in _KNOWN:
        return resolve_name(name)
    found = resolve_name(name) if name.startswith(_SEEN_IN) else None
    is_record = dataclasses.is_dataclass(found) or hasattr(found, "_fields")
    return found if is_record and full_name(found) == name else None  # not what the module has imported


def decode(told: Any, known: Callable[[str], Any] = _known, call: Callable[[int], Any] | None = None) -> Any:
    """The value that was encoded.

    Args:
        told: what JSON read.
        known: finds a class by its name; by default those of a schedule alone.
        call: makes the function that stands for one of the other side.

    Raises:
        NO_VALUE: it is no such message.
    """
    deeper = partial(decode, known=known, call=call)
    if isinstance(told, list):
        return [deeper(item) for item in told]
    if not isinstance(told, dict):
        return told
    ((kind, inside),) = told.items()
    if kind in _KINDS:
        return _KINDS[kind](deeper(item) for item in inside)
    if kind == "tensor":
        return _tensor_of(*inside)
    if kind == "odd":
        return Odd(str(inside))
    if kind == "function":
        return known(inside) or Odd(str(inside))
    if kind == "call" and call is not None:
        return call(int(inside))
    name, parts = str(inside[0]), inside[1]
    return _decode_named(kind, name, parts, deeper, known(name))


def _decode_named(kind: str, name: str, parts: Any, deeper: Callable[[Any], Any], made: Any) -> Any:
    """A value of a class, if the class is known here."""
    if kind == "record":
        values = {field: deeper(item) for field, item in parts.items()}
        return made(**values) if made else Odd(f"{name}({values})"[:_MOST_SHOWN])
    if kind == "named":
        items = [deeper(item) for item in parts]
        return made(*items) if made else _bare(items)
    raise ValueError(f"{kind!r} is no kind of value")


def write_back(mine: Any, theirs: Any) -> None:
    """Write into an argument what the other side wrote into its copy.

    Example: after `write_back(items, [1])` the list `items` is `[1]`; a number or a text stays.
    """
    if isinstance(mine, list) and isinstance(theirs, list):
        mine[:] = theirs
    elif isinstance(mine, dict) and isinstance(theirs, dict):
        mine.clear()
        mine.update(theirs)
    elif isinstance(mine, torch.Tensor) and isinstance(theirs, torch.Tensor):
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            mine.data = theirs.data
        elif not torch.equal(mine, theirs):
            mine.data.copy_(theirs)  # in its memory, so that what shares it sees the change


def full_name(thing: Any) -> str:
    """The name by which another process finds a function or a class.

    Example: `full_name(Counter)` -> `"collections:Counter"`.
    """
    return f"{thing.__module__}:{thing.__qualname__}"


def _bare(items: Sequence[Any]) -> Any:
    """A named tuple of a class that is not known is a tuple; an enum's is the value of its member."""
    return items[0] if len(items) == 1 and isinstance(items[0], str | int | float) else tuple(items)


def _tensor(value: torch.Tensor) -> list[Any]:
    plain = torch.empty(value.shape, dtype=value.dtype, device="cpu").copy_(torch.Tensor.detach(value))
    flat = plain.reshape(-1).view(torch.uint8)
    words = base64.b64encode(flat.numpy().tobytes()).decode()
    return [str(value.dtype).removeprefix("torch."), list(value.shape), value.requires_grad, words]


def _tensor_of(dtype: str, shape: list[int], requires_grad: bool, words: str) -> torch.Tensor:
    raw = bytearray(base64.b64decode(words))
    flat = torch.frombuffer(raw, dtype=_DTYPES[dtype]) if raw else torch.empty(0, dtype=_DTYPES[dtype])
    return flat.reshape(shape).requires_grad_(bool(requires_grad))
