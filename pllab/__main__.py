"""`python -m pllab`: the command line, kept to one call so that Ctrl-C is caught from the first moment."""

import gc
import os
import sys

_NOTHING = "99"


def _run() -> int:
    # Read when torch is loaded, here and in the ranks: its profiler would tell stderr when it starts and stops.
    os.environ.setdefault("KINETO_LOG_LEVEL", _NOTHING)
    try:
        from pllab.cli import main

        return main()
    except KeyboardInterrupt:  # before the command line could catch it itself
        sys.stderr.write("\ninterrupted; nothing was started\n")
        return 130
    finally:
        gc.freeze()  # Python collects garbage at its end: half a second with torch, a second with transformers


if __name__ == "__main__":  # spawned ranks import this file too, under another name
    sys.exit(_run())
