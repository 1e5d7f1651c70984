"""A process that cannot outlive its owner: it ends when the pipe on its standard input closes.

The owner holds the other end, so the pipe closes however the owner ends, by SIGKILL too. What the leash ends
is its own process group, which the owner made for it alone. Standard library only, and run by its path, so
that holding a program that does not need torch does not import it:

    python -P leash.py FOLDER ipyparallel.controller --ip=127.0.0.1
"""

import os
import runpy
import shutil
import signal
import sys
import threading
from collections.abc import Callable


def hold(folder: str, on_byte: Callable[[bytes], None] | None = None) -> None:
    """End this process group when standard input closes, and remove the owner's temporary folder.

    Every byte that arrives goes to `on_byte`. Standard input is moved away first, so that the program cannot
    read from the leash by mistake.
    """
    leash = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    def watch() -> None:
        while byte := os.read(leash, 1):
            if on_byte is not None:
                on_byte(byte)
        shutil.rmtree(folder, ignore_errors=True)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, name="pllab-leash", daemon=True).start()


def main() -> None:
    """Run the module named by the second argument on a leash, with the arguments after it."""
    hold(folder=sys.argv[1])
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
