"""`python -m pllab`: the command line, kept to one call so that Ctrl-C is caught from the first moment."""

import sys


def _run() -> int:
    try:
        from pllab.cli import main

        return main()
    except KeyboardInterrupt:  # before the command line could catch it itself
        sys.stderr.write("\ninterrupted; nothing was started\n")
        return 130


if __name__ == "__main__":  # spawned ranks import this file too, under another name
    sys.exit(_run())
