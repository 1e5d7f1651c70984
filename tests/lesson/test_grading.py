"""Grading: the verdict of the notebook, whatever else is handed in, and hostile submissions harm themselves alone."""

import os
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from pllab.comm.fork_server import warm_server
from pllab.lesson import Outcome, grading, sandbox
from pllab.lesson.checking import PRELOADED, judge
from pllab.lesson.exercise import exercises_of, find
from pllab.lesson.extraction import needed, statements
from pllab.lesson.grading import Sheet, exercises_in, grade, points_of
from pllab.lesson.packing import Packed
from pllab.lesson.sandbox import Limits
from pllab.lesson.verdict import Verdict
from tests.lesson.handed_in import FENCED, hand_in, hand_in_variants
from tests.lesson.hostile import HOSTILE, SHARE

RIGHT = f"def my_share(items, rank, world_size):\n    {SHARE}"
LIMITS = Limits(memory_bytes=1 << 30, timeout_s=20.0, fenced=FENCED)

behind_bubblewrap = pytest.mark.skipif(not FENCED, reason="bubblewrap does not start on this machine")


def graded(*paths: Path, limits: Limits = LIMITS) -> list[Sheet]:
    return list(grade(paths, limits))


def in_words(sheet: Sheet) -> list[str]:
    return ["right" if one.outcome is Outcome.RIGHT else one.hint_id for one in sheet.verdicts]


@pytest.mark.exhaustive
@behind_bubblewrap
@pytest.mark.parametrize("hostile", [HOSTILE[:5], HOSTILE[5:]], ids=["some", "others"])
def test_hostile_submissions_lose_their_own_points_and_no_others(tmp_path, monkeypatch, hostile):
    """A right one lies between two of them."""
    before = set(psutil.Process().children(recursive=True))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))  # other tests have fork servers too
    grades = tmp_path / "grades.csv"
    grades.write_text("all")
    cells = [f"GRADES = {str(grades)!r}\n{cell}" for _, cell, _ in hostile]
    paths = [hand_in(tmp_path / f"{n:02}-hostile.ipynb", ("00.1", cell, "my_share")) for n, cell in enumerate(cells)]
    right = [hand_in(tmp_path / f"{number:02}-right.ipynb", ("00.1", RIGHT, "my_share")) for number in (1, 3)]
    together = sorted([*paths, *right])
    sheets = {Path(sheet.notebook): sheet for sheet in graded(*together, limits=Limits(1 << 30, timeout_s=6.0))}
    assert [in_words(sheets[path]) for path in right] == [["right"]] * len(right)
    seen = {name: in_words(sheets[path])[0] for path, (name, _, _) in zip(paths, hostile, strict=True)}
    allowed = {name: words for name, _, words in hostile}
    assert {name: what for name, what in seen.items() if what not in allowed[name]} == {}
    assert grades.read_text() == "all"
    left = set(psutil.Process().children(recursive=True)) - before
    _, alive = psutil.wait_procs(list(left), timeout=10)
    assert not alive
    assert not list((tmp_path / "temporary").iterdir())
    assert not [thread for thread in threading.enumerate() if thread.name == "pllab-sandbox"]


@pytest.mark.exhaustive
@behind_bubblewrap
def test_the_exercise_after_a_hostile_one_of_a_notebook_is_alone(tmp_path):
    bomb = """
import os, subprocess
def bubbles(num_batches, num_partitions):
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    while True:
        os.fork()
"""
    alone = """
from pathlib import Path
def fewest_batches(num_partitions, fraction):
    words = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert not any(word.startswith(b"sleep") for word in words)
    m = 1
    while (num_partitions - 1) / (m + num_partitions - 1) > fraction + 1e-12:
        m += 1
    return m
"""
    exercises = ("08.2", bomb, "bubbles"), ("08.3", alone, "fewest_batches")
    (sheet,) = graded(hand_in(tmp_path / "a.ipynb", *exercises))
    assert in_words(sheet)[1:] == ["limit", "right"]


@behind_bubblewrap
def test_a_link_in_the_place_of_the_folder_leads_nobody_out(tmp_path):
    (victim := tmp_path / "victim").mkdir()
    cell = f"""
import tempfile
from pathlib import Path
def move():
    for folder in [*Path(tempfile.gettempdir()).iterdir()]:
        folder.rename(f"{{folder}}-away")
        folder.symlink_to({str(victim)!r})
def ring_pass(x, rank, world_size, moved=move()):
    return x
"""
    before = victim.stat().st_mtime_ns
    (sheet,) = graded(hand_in(tmp_path / "a.ipynb", ("02.1", cell, "ring_pass")))
    assert sheet.points == 0 and victim.stat().st_mtime_ns == before


OWNER = """
import sys
from pllab.lesson import sandbox
sandbox._HIDDEN = ()
with sandbox.Sandbox(sandbox.Limits()) as place, open("log", "wb") as log:
    print(place.server.start(place.scratch, "look:look", log=log).wait(100))
"""


@behind_bubblewrap
@pytest.mark.exhaustive
def test_a_python_of_the_owners_home_runs_where_the_rest_of_the_home_is_hidden(tmp_path):
    """A virtual environment behind a link, whose Python is a link to a link."""
    home, base = tmp_path / "home", Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    python, linked = home / ".local" / "bin" / "python3", home / "venv"
    python.parent.mkdir(parents=True)
    python.symlink_to(base)
    subprocess.run([python, "-m", "venv", "--without-pip", home / "kept" / "venv"], check=True)
    linked.symlink_to("kept/venv")
    (linked / "bin" / "python3").unlink()  # what is there instead is relative to the environment, not to the link to it
    (linked / "bin" / "python3").symlink_to("../../../.local/bin/python3")
    (packages,) = linked.glob("lib/python*/site-packages")
    (packages / "all.pth").write_text(f"{sysconfig.get_path('purelib')}\n{Path.cwd()}\n")
    (packages / "look.py").write_text(f"import os\ndef look():\n    print(sorted(os.listdir({str(home)!r})))")
    words, variables = [linked / "bin" / "python3", "-c", OWNER], {**os.environ, "HOME": str(home), "PYTHONPATH": ""}
    told = subprocess.run(words, env=variables, cwd=home, capture_output=True, text=True, check=False)
    assert told.stdout == "0\n", told.stderr
    assert (home / "log").read_text() == "['.local', 'kept', 'venv']\n"


@behind_bubblewrap
def test_a_solution_writes_in_its_own_folder_sees_nothing_of_others_and_nothing_leads_out(tmp_path, monkeypatch):
    """Also by system calls that Python's own events do not tell of; torch's folders are the solution's own, too."""
    folders = [tmp_path / name for name in ("home", "temporary", "handed_in", "handed_in_too")]
    for folder in folders:
        folder.mkdir()
        (folder / "secret").write_text("x")
    monkeypatch.setattr("pllab.lesson.sandbox._HIDDEN", ())  # each of these folders is hidden by itself
    monkeypatch.setenv("HOME", str(folders[0]))
    monkeypatch.setattr(tempfile, "tempdir", str(folders[1]))
    cell = f"""
import ctypes, os, socket, tempfile
from pathlib import Path
from torch._inductor.runtime.cache_dir_utils import cache_dir

OUT = {str(tmp_path / "out")!r}

def tried(way):
    try:
        return way() not in (-1, None)
    except OSError:
        return False

def my_share(items, rank, world_size):
    cache_dir()
    for place in (Path("notes"), Path.home() / "notes"):
        place.write_text("mine")
        assert place.read_text() == "mine"
        place.unlink()
    libc = ctypes.CDLL(None)
    Path("link").unlink(missing_ok=True)
    Path("link").symlink_to(OUT)
    ways = [
        lambda: os.open(OUT, os.O_CREAT | os.O_WRONLY),
        lambda: os.open("link", os.O_CREAT | os.O_WRONLY),
        lambda: libc.creat(OUT.encode(), 0o600),
        lambda: os.mkdir(OUT) or True,
        lambda: os.kill({os.getpid()}, 0) or True,
        lambda: libc.mount(b"tmpfs", b"/usr", b"tmpfs", 0, None),
        lambda: libc.mount(None, b"/", None, 0x1020, None),  # to be written again
        lambda: socket.create_connection(("127.0.0.1", PORT), 1),
        lambda: os.environ.get("A_SECRET"),
        lambda: libc.creat(b"/dev/out", 0o600),
        lambda: libc.creat(b"/tmp/out", 0o600),
        lambda: os.rename(tempfile.gettempdir(), tempfile.gettempdir() + "-away") or True,
    ]
    for folder in {[str(folder) for folder in folders]!r}:
        ways.append(lambda folder=folder: Path(folder, "secret").read_text())
        ways.append(lambda folder=folder: libc.creat(os.fsencode(Path(folder, "mine")), 0o600))
    assert [tried(way) for way in ways] == [False] * len(ways), [tried(way) for way in ways]
    Path("/dev/shm/pllab-left").write_text("x")
    {SHARE}
"""
    monkeypatch.setenv("A_SECRET", "1")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        cell = f"PORT = {server.getsockname()[1]}\n{cell}"
        sheet, _ = graded(hand_in(folders[2] / "a.ipynb", ("00.1", cell, "my_share")), folders[3] / "secret")
    assert in_words(sheet) == ["right"], sheet.verdicts[0].hint
    assert {*tmp_path.iterdir()} == {*folders}
    assert not Path("/dev/shm/pllab-left").exists()


def test_a_notebook_is_graded_as_it_stands(tmp_path, monkeypatch):
    """Helpers below, constants, a decorator, another name, and runs of the lesson that must not be run.

    Also where bubblewrap is not: then only if that is asked for. The package's own is refused, handed in or called.
    """
    monkeypatch.setattr("pllab.lesson.sandbox._WALL", ("no-such-bubblewrap",))
    cell = """
raise RuntimeError("a run of the lesson")
import functools
STEP = int("1")
def kept(function):
    @functools.wraps(function)
    def inner(*args): return function(*args)
    return inner
@kept
def share(items, rank, world_size):
    return take(items[rank:], world_size * STEP)
def take(items, step): return items[::step]
print("never", 1 / 0)
"""
    path = hand_in(
        tmp_path / "a.ipynb",
        ("00.1", cell, "share"),
        ("08.1", "def clock(m, p):\n    raise NotImplementedError", "clock"),
        ("08.2", "", "bubbles"),
        ("08.3", "def fewest_batches(p, fraction):\n    return p", "fewest_batches"),
        ("11.2", "from pllab.schedule import interleaved", "interleaved"),
        ("11.3", "from pllab.schedule import zb_h1\nlate = zb_h1(2, 2).rows.index", "late"),
    )
    (tmp_path / "b.ipynb").write_text('{"cells": 3}')
    with pytest.raises(RuntimeError, match="install bubblewrap, or pass --unfenced inside a container"):
        graded(path, limits=Limits())
    sheet, unread = graded(path, tmp_path / "b.ipynb", limits=Limits(1 << 30, timeout_s=20.0, fenced=False))
    seen = {one.exercise.id: (points_of(one), one.outcome, one.hint_id) for one in sheet.verdicts}
    hint_id = seen.pop("08.3")[-1]
    assert seen == {
        "00.1": (1, Outcome.RIGHT, ""),
        "08.1": (0, Outcome.NOT_ATTEMPTED, ""),
        **dict.fromkeys(("08.2", "11.1"), (0, Outcome.NOT_YET, "raised")),
        **dict.fromkeys(("11.2", "11.3"), (0, Outcome.NOT_YET, "packaged")),
    }
    assert hint_id and sheet.points == 1 and sheet.to_json()["exercises"][3]["hint"]
    assert "bubbles" in sheet.verdicts[2].hint
    assert unread.problem.startswith("it is no notebook")


def test_a_lesson_without_its_check_cells_keeps_its_exercises(tmp_path):
    path = hand_in(tmp_path / "a.ipynb", ("04.1", "pass", "None"))
    path.write_text(path.read_text().replace('check(\\"04.1\\", None)', "pass"))
    assert exercises_in(path)[0] == list(exercises_of("04"))


def test_the_statements_a_function_needs():
    cells = {
        1: "import math, os\nfrom time import *\nseed = 1\ntable = []",
        2: "%%px\nf = 1",
        3: "%timeit x\ndef f(x):\n    return g(x) + math.pi + len(table)\nos.system('rm')",
        4: "def cached(f): return f\ntable.append(seed)\nseed = run()\nrun()\nmatch 1, 2:\n    case [y, _]: pass",
        5: "def g(x):\n    def inner(z): return [z for other in x]\n    return inner(x, y)\nf = cached(f)\nx = f(3)",
    }
    parts = [part for number, source in cells.items() for part in statements(number, source)]
    lines = {(part.cell, part.node.lineno) for part in needed(parts, "f")}
    assert lines == {(1, 1), (1, 2), (1, 3), (1, 4), (3, 2), (4, 1), (4, 2), (4, 5), (5, 1), (5, 4)}


SHARES = "def my_share(items, rank, world_size):\n    return items[rank::world_size]\n"
CHECK = 'check("00.1", my_share)'
LAMBDA = "lambda items, rank, world_size: items[rank::world_size]"
AS_IN_A_NOTEBOOK = {  # the cell of the function, and that of its check
    "a line of % that is no magic": (
        "def my_share(items, rank, world_size):\n    return [item for n, item in enumerate(items) if (n\n        "
        "% world_size) == rank]\n",
        CHECK,
    ),
    "a timed cell": (f"\n%%time\n{SHARES}", CHECK),
    "IPython's own lines": (f"folder = %pwd\nfiles = !ls\n{SHARES}my_share?\n", CHECK),
    "a table that a loop fills": (
        "TABLE, ROWS = {}, []\nfor n in range(99):\n    if n:\n        TABLE[n] = n\n    ROWS.append(n)\n"
        "def my_share(items, rank, world_size):\n    return items[ROWS[rank]::TABLE[world_size]]\n",
        CHECK,
    ),
    "commas and brackets": ("", f'check("00.1", {LAMBDA},  # the last, with ) and ,\n deadline_s=90)'),
    "a refusal of its own": (SHARES.replace("    r", "    if rank < 0: raise NotImplementedError\n    r"), CHECK),
    "by its name": (SHARES, 'check("00.1", solution=my_share)'),
    "both by their names": (SHARES, 'lesson.check(solution=my_share, exercise_id="00.1")'),
    "in another call, and in a comment": (SHARES, 'print(check("00.1", my_share))\n# check("00.1", None)'),
    "a memory": (
        f"import functools\n@functools.cache\ndef step(n):\n    return n and step(n - 1) + 1\n{SHARES}".replace(
            "::world_size", "::step(world_size)"
        ),
        CHECK,
    ),
    "another function of that name below": (SHARES, f"{CHECK}\ndef my_share(): ..."),
}


def judged_in_cells(folder, *texts):
    """The verdict on exercise 00.1 in some cells, without a sandbox, which takes seconds to start."""
    source = tuple((f"cell {number}", tuple(text.splitlines(keepends=True))) for number, text in enumerate(texts, 1))
    return judge(find("00.1"), Packed(source), warm_server(*PRELOADED), folder, 20.0)


TELLS = """
import os
def tell():
    for descriptor in range(3, 100):
        try:
            os.write(descriptor, {words!r})
        except OSError:
            pass
TOLD = tell()
def my_share(items, rank, world_size, told=TOLD):
    return items
"""


@pytest.mark.parametrize("words", [b'{"refused": 3}\n', b"3\n", b"x\n"])
def test_words_that_are_no_value_are_refused_while_the_function_is_made(tmp_path, words):
    assert judged_in_cells(tmp_path, TELLS.format(words=words), CHECK).hint_id == "crashed"


@pytest.mark.parametrize("cells", AS_IN_A_NOTEBOOK.values(), ids=AS_IN_A_NOTEBOOK)
def test_what_is_right_in_the_notebook_is_right_here(tmp_path, cells):
    verdict = judged_in_cells(tmp_path, *cells)
    assert verdict.outcome is Outcome.RIGHT, str(verdict)


def test_a_cell_that_python_cannot_read_is_named_where_its_function_is_missing(tmp_path):
    told = "NameError: name 'my_share' is not defined, and Python cannot read cell 1, so there is no function to check"
    assert told in judged_in_cells(tmp_path, SHARES.replace(":\n", "\n"), CHECK).hint


def test_a_check_that_python_cannot_read_is_told(tmp_path):
    verdict = judged_in_cells(tmp_path, SHARES, 'check("00.1", my_share +)')
    assert verdict.hint.startswith('No cell of the notebook that Python can read has a check("00.1"')


ENDLESS = """
import tempfile
from pathlib import Path
def my_share(items, rank, world_size):
    Path(tempfile.gettempdir(), "begun").touch()
    while True:
        pass
"""


def test_an_interrupt_ends_what_is_being_graded(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))

    def interrupt():
        while not list((tmp_path / "temporary").rglob("begun")):
            time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        graded(hand_in(tmp_path / "a.ipynb", ("00.1", ENDLESS, "my_share")))
    assert not list((tmp_path / "temporary").iterdir())


def test_a_sandbox_that_cannot_start_leaves_nothing_behind(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(sandbox, "ForkServer", Mock(side_effect=OSError("no more processes")))
    (sheet,) = graded(hand_in(tmp_path / "a.ipynb", ("00.1", RIGHT, "my_share")))
    assert in_words(sheet) == ["ended"] and "no more processes" in sheet.verdicts[0].hint
    assert not list((tmp_path / "temporary").iterdir())


def test_a_notebook_that_is_too_large_is_told_apart_from_no_notebook(tmp_path, monkeypatch):
    monkeypatch.setattr(grading, "_MOST_BYTES", 100)
    (sheet,) = graded(hand_in(tmp_path / "a.ipynb", ("00.1", RIGHT, "my_share")))
    assert sheet.problem == "it is no notebook of up to 64 MB; clear its outputs and save it in JupyterLab"


def test_a_sheet_has_one_line_for_each_exercise_and_no_control_characters():
    """Or an error could paint a line of its own over the teacher's sheet."""
    painted = "Your function raised ValueError: \x1b[1A\x1b[2K\n  00.1  1 of 1  right"
    verdict = Verdict(exercise=find("00.1"), hint_id="raised", hint=painted)
    lines = list(Sheet("handed\x1b]0;in\n.ipynb", (verdict,)).lines())
    assert len(lines) == 2 and all(line.isprintable() for line in lines)
    assert lines[0].startswith("handed\\x1b]0;in\\n.ipynb") and "\\x1b[1A\\x1b[2K" in lines[1]


@pytest.mark.parametrize(("asked", "given"), [(7.5, 7.5), (None, find("00.1").deadline_s)])
def test_the_deadline_is_the_teachers_or_else_the_exercises_also_when_it_is_tried_again(
    tmp_path, monkeypatch, asked, given
):
    seen = []

    def noted(exercise, solution, server, folder, deadline_s):
        seen.append(deadline_s)
        return Verdict(exercise=exercise, hint_id="noted", is_undecided=len(seen) == 1)

    monkeypatch.setattr(grading, "judge", noted)
    path = hand_in(tmp_path / "a.ipynb", ("00.1", RIGHT, "my_share"))
    (sheet,) = graded(path, limits=Limits(timeout_s=asked, fenced=FENCED))
    assert seen == [given] * 2 and in_words(sheet) == ["noted"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("lesson", ["04", "05", "10"])
def test_right_solutions_of_a_lesson_have_all_points(tmp_path, lesson):
    (sheet,) = graded(hand_in_variants(tmp_path / "a.ipynb", lesson), limits=Limits(fenced=FENCED))
    assert sheet.points == sheet.of > 0, str(sheet)
