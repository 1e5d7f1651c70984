"""A pickle of plain values and nothing else: what a foreign dump may hold, read without running anything of it.

A pickle is a program: it may name any function and call it. torch writes its dumps as pickles of dictionaries, lists,
tuples, words and numbers, which need no name at all. So every name is refused, before anything is called.
"""

import io
import pickle
import pickletools
from typing import Any

_REFUSED = frozenset({"GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "REDUCE", "BUILD"}) | frozenset(
    {"EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID", "NEXT_BUFFER", "READONLY_BUFFER"}
)


class _Narrow(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise ValueError(f"the pickle asks for {module}.{name}, and a dump holds plain values only; nothing of it ran")

    def persistent_load(self, pid: Any) -> Any:
        raise ValueError(f"the pickle asks for the outside object {pid!r}; nothing of it ran")


def read_pickle(data: bytes) -> Any:
    """The dictionaries, lists, tuples, words and numbers of a pickle.

    Raises:
        ValueError: it asks for anything else, such as a class or a call, or it is no whole pickle.
    """
    try:
        for code, argument, _ in pickletools.genops(data):
            if code.name in _REFUSED:
                named = f" {str(argument).replace(' ', '.')}" if argument else ""
                raise ValueError(
                    f"the pickle asks for more than plain values ({code.name}{named}); nothing of it ran, and a dump "
                    "of torch's flight recorder has no such request"
                )
        return _Narrow(io.BytesIO(data)).load()
    except ValueError as error:
        if "nothing of it ran" in str(error):
            raise
        raise ValueError(f"it is no whole pickle ({error})") from None
    except Exception as error:  # a damaged pickle raises nearly anything
        raise ValueError(f"it is no whole pickle ({type(error).__name__}: {error})") from None
