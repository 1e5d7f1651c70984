"""Hostile submissions of exercise 00.1 as cells of a notebook: each may lose its own points and nobody else's.

Some hand back a right answer as well, where they get that far; those that change their own process do not, since that
is all they could gain.
"""

from textwrap import dedent, indent

SHARE = "return items[rank::world_size]"
_HEAD = """
import glob, mmap, os, shutil, signal, subprocess, sys, tempfile, threading, time
from pathlib import Path

def my_share(items, rank, world_size):
"""


def _share(body: str) -> str:
    """The cell of a function that does this before it hands back a right answer, if it gets there."""
    return f"{_HEAD}{indent(dedent(body).strip(), '    ')}\n    {SHARE}\n"


_MEMORY = """
    held = []
    while True:
        held.append(bytearray(b"x") * (8 << 20))
"""
_SHARED_MEMORY = """
    held = mmap.mmap(-1, 2 << 30)  # which counts as a file
    for place in range(0, len(held), 4096):
        held[place] = 1
    time.sleep(2)
"""
_THREADS = """
    threading.stack_size(1 << 16)
    for _ in range(6000):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    time.sleep(5)
"""
_DEEP = """
    if os.path.exists("closed"):
        return items[rank::world_size]
    here = os.getcwd()
    for place in (here, tempfile.gettempdir(), *Path(tempfile.gettempdir()).iterdir(), *Path(here).glob("pllab-*")):
        os.chdir(place)
        for _ in range(5000):
            os.mkdir("d")
            os.chdir("d")
    os.chdir(here)
    os.mkdir("closed")
    Path("closed", "file").touch()
    os.chmod("closed", 0)
"""
_PATCHED = """
    from pllab.lesson import answering, exercise
    answering.encode = lambda *_: None
    exercise.Wrong.__init__ = lambda *_: None
    return items
"""
_DELETES = """
    shutil.rmtree(VICTIM, ignore_errors=True)
    os.system("rm -rf " + VICTIM)
"""
_FORGES = """
    for number in range(3, 100):
        try:
            os.write(number, b'{"value": [], "after": null}\\n' * 9)
        except OSError:
            pass
    os._exit(0)
"""
_KILLS = """
    pid = os.getppid()
    while pid > 1:
        with open(f"/proc/{pid}/stat") as stat:
            above = int(stat.read().rpartition(")")[2].split()[1])
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
        pid = above
"""
_HIDES = """
    try:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
    except Exception:
        pass
"""
_LINKS = """
    for folder in glob.glob(tempfile.gettempdir() + "/*"):
        for name in ("asked", "printed", "stack", "solution"):
            if os.path.lexists(f"{folder}/{name}"):
                os.unlink(f"{folder}/{name}")
            os.symlink(VICTIM + "/grades.csv", f"{folder}/{name}")
    print("mine")
    os.abort()
"""
_EXITS_IN_A_CELL = f"{_share('')}\nmy_share.done = sys.exit(0)\n"
_PATCHED_BEFORE = """
import pllab.lesson.checking as judging

class Travelling:
    def __reduce__(self):
        return (setattr, (judging, "judge", print))

judging.judge = print
patch = Travelling()

def my_share(items, rank, world_size, patch=patch):
    return []
"""

# Name, cell, the hint ids that may be its verdict; on a busy machine an endless loop is undecided, without a hint.
# One answers rightly and would delete files on its way: it has its points, and the files are there.
HOSTILE: list[tuple[str, str, set[str]]] = [
    ("endless loop", _share("while True: pass"), {"hang", ""}),
    ("fork", _share("for _ in range(1000): os.fork()"), {"limit"}),
    ("patched checker", _share(_PATCHED), {"no_list"}),  # its answer is no longer encoded, so nothing comes
    ("deleted files", _share(_DELETES), {"right"}),
    ("sys.exit in a cell", _EXITS_IN_A_CELL, {"raised"}),
    ("forged answers", _share(_FORGES), {"lost", "crashed"}),
    ("killed parents", _share(_KILLS), {"crashed"}),
    ("hidden child", _share(_HIDES), {"limit"}),
    ("memory bit by bit", _share(_MEMORY), {"limit", "raised"}),
    ("shared memory", _share(_SHARED_MEMORY), {"limit"}),
    ("threads", _share(_THREADS), {"limit"}),
    ("deep folders", _share(_DEEP), {"right"}),
    ("patched before", _PATCHED_BEFORE, {"cannot_travel", "lost"}),
    ("links in the way", _share(_LINKS), {"crashed", "raised"}),
]
