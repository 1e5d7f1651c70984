"""Sixty breaks of the package, each small and quiet, to see whether the tests notice: a mutation test by hand.

    python -m tests.breaks                        # all of them; hours
    python -m tests.breaks 3 17                   # some of them, by number
    python -m tests.breaks 3 -- tests/pipeline    # in these tests alone; pytest takes all words after the --
    python -m tests.breaks -- tests -m ""         # in the exhaustive tests too
    python -m tests.breaks --limit-s 3600         # more time for each run of pytest, on a busy machine

`breaks.diff` has them: number, file and what is wrong then; the lines that are there (-), and what stands instead (+).

Each is made in a copy of the tracked files, where the tests of its room run first and then all others. A break is
seen by the first test that fails, or missed. One whose lines are no longer there exactly once is stale. The breaks were
chosen by somebody who had not read the tests; none raises an exception or waits for ever by itself.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
_OWN_TEST = "tests/test_breaks.py"
_HEAD = re.compile(r"(\d+) (\S+): (.+)")
_FAILED = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+\.py[^\s\[]*(?:\[.*?\])?)(?: - .*)?$", re.MULTILINE)


class Break(NamedTuple):
    """Lines of one file, what stands instead, and what is wrong then."""

    number: int
    file: str
    says: str
    find: str
    instead: str

    def __str__(self) -> str:
        return f"{self.number} {self.file}: {self.says}"

    def made_in(self, folder: Path) -> str | None:
        """The text of its file with the break in it; None if the break is stale."""
        file = folder / self.file
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
        return text.replace(self.find, self.instead) if text.count(self.find) == 1 else None


def read_breaks() -> Iterator[Break]:
    """The breaks of `breaks.diff`, where an empty line stands between two."""
    for block in Path(__file__).with_suffix(".diff").read_text(encoding="utf-8").split("\n\n"):
        head, *lines = block.splitlines()
        told = _HEAD.fullmatch(head)
        assert told is not None, head
        find, instead = ("\n".join(line[1:] for line in lines if line[0] == sign) for sign in "-+")
        yield Break(int(told[1]), told[2], told[3], find, instead)


def verdict_on(each: Break, words: Sequence[str], limit_s: float) -> str:
    """Make a break in a copy and run the tests there: the first test that sees it, or that none does."""
    with tempfile.TemporaryDirectory(prefix="pllab-break-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        copy_to(folder)
        if (text := each.made_in(folder)) is None:
            return "stale"
        (folder / each.file).write_text(text, encoding="utf-8")
        own = f"tests/{Path(each.file).parts[1]}"  # the tests of its room
        for selection in [words] if words else [[own], ["tests", f"--ignore={own}"]]:
            if seen_by := _run_tests(folder, selection, limit_s):
                return f"seen by {seen_by}"
    return "missed"


def copy_to(folder: Path) -> None:
    """Copy the tracked files; the copy is a repository too, for tests that ask git."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def _run_tests(folder: Path, words: Sequence[str], limit_s: float) -> str:
    """The first test that fails; empty if all pass, or there are none."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            # Without the test that a break's lines are there: it fails in every copy.
            [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", f"--ignore={_OWN_TEST}", *words],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return "a test that does not end"
        finally:
            if process.poll() is None:  # then all that it started in its session ends too
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        found = _FAILED.search(output.read().decode(errors="replace"))
    if code in (0, 5):  # 5: nothing was selected
        return ""
    return found[1] if found else f"pytest, which ended with {code}"


def main(words: Sequence[str]) -> int:
    """Run the breaks that the words name; 1 if one was missed."""
    at = words.index("--") if "--" in words else len(words)
    breaks = {each.number: each for each in read_breaks()}
    parser = argparse.ArgumentParser(prog="python -m tests.breaks", description="Which breaks do the tests see?")
    parser.add_argument("numbers", nargs="*", type=int, help="breaks; by default all")
    parser.add_argument("--limit-s", type=float, default=900.0, help="seconds for each run of pytest")
    options = parser.parse_args(words[:at])
    if unknown := set(options.numbers) - breaks.keys():
        parser.error(f"there is no break {min(unknown)}; give numbers from 1 to {len(breaks)}")
    verdicts = []
    for number in options.numbers or breaks:
        verdicts.append(verdict_on(breaks[number], words[at + 1 :], options.limit_s))
        sys.stdout.write(f"{breaks[number]}: {verdicts[-1]}\n")
        sys.stdout.flush()
    missed, stale = verdicts.count("missed"), verdicts.count("stale")
    sys.stdout.write(f"seen {len(verdicts) - missed - stale} of {len(verdicts)}, missed {missed}, stale {stale}\n")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
