"""Execute notebooks and clean them for a commit: `python -m pllab.lesson.publish notebooks/*.ipynb`.

A notebook with a problem is still written, so that it can be looked at, and the command ends with 1.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from pllab.lesson.clean import clean, read_problems


def publish(path: Path, timeout_s: float = 120.0) -> list[str]:
    """Execute a notebook in its own folder, clean it, write it back, and return its problems.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raised; the file is left as it was.
    """
    import nbformat  # needed by authors of lessons only
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(
        notebook,
        timeout=timeout_s,
        kernel_name="python3",
        resources=resources,
        record_timing=False,
        coalesce_streams=True,
    ).execute()
    nbformat.write(clean(notebook), path)
    return read_problems(path)


def main(arguments: Sequence[str]) -> int:
    """Publish each notebook named, one after the other, and write what is wrong; 0 when nothing is."""
    if not arguments:
        sys.stderr.write("name the notebooks to publish, for example notebooks/*.ipynb\n")
        return 2
    found = [problem for name in arguments for problem in publish(Path(name))]
    sys.stdout.writelines(f"{problem}\n" for problem in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
