"""Hostile submissions of exercise 00.1 as cells of a notebook: each may lose its own points and nobody else's.

Some hand back a right answer as well, where they get that far; those that change their own process do not, since that
is all they could gain.
"""

SHARE = "return items[rank::world_size]"

_ENDLESS = """
def my_share(items, rank, world_size):
    while True:
        pass
"""

_FORK = """
import os

def my_share(items, rank, world_size):
    for _ in range(1000):
        os.fork()
    return items[rank::world_size]
"""

_MEMORY = """
def my_share(items, rank, world_size):
    held = bytearray(20 << 30)
    for place in range(0, len(held), 4096):
        held[place] = 1
    return items[rank::world_size]
"""

_SLOW_MEMORY = """
def my_share(items, rank, world_size):
    held = []
    while True:
        held.append(bytearray(b"x") * (8 << 20))
"""

_SHARED_MEMORY = """
import mmap, time

def my_share(items, rank, world_size):
    held = mmap.mmap(-1, 2 << 30)  # which counts as a file
    for place in range(0, len(held), 4096):
        held[place] = 1
    time.sleep(2)
    return items[rank::world_size]
"""

_THREADS = """
import threading, time

def my_share(items, rank, world_size):
    threading.stack_size(1 << 16)
    for _ in range(6000):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    time.sleep(5)
    return items[rank::world_size]
"""

_DEEP = """
import os, tempfile
from pathlib import Path

def my_share(items, rank, world_size):
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
    return items[rank::world_size]
"""

_PATCHED = """
from pllab.lesson import answering, exercise

def my_share(items, rank, world_size):
    answering.encode = lambda *_: None
    exercise.Wrong.__init__ = lambda *_: None
    return items
"""

_PATCHED_BEFORE = """
import pllab.lesson.asking as judging

class Travelling:
    def __reduce__(self):
        return (setattr, (judging, "judge", print))

judging.judge = print
patch = Travelling()

def my_share(items, rank, world_size, patch=patch):
    return []
"""

_LEAVES = """
import os

def my_share(items, rank, world_size):
    os._exit(0)
"""

_EXITS_IN_A_CELL = """
import sys

def my_share(items, rank, world_size):
    return items[rank::world_size]

my_share.done = sys.exit(0)
"""

_DELETES = """
import os, shutil

def my_share(items, rank, world_size):
    shutil.rmtree(VICTIM, ignore_errors=True)
    os.system("rm -rf " + VICTIM)
    return items[rank::world_size]
"""

_FORGES = """
import os

def my_share(items, rank, world_size):
    for number in range(3, 100):
        try:
            os.write(number, b'{"value": [], "after": null}\\n' * 9)
        except OSError:
            pass
    os._exit(0)
"""

_KILLS = """
import os, signal

def my_share(items, rank, world_size):
    pid = os.getppid()
    while pid > 1:
        with open(f"/proc/{pid}/stat") as stat:
            above = int(stat.read().rpartition(")")[2].split()[1])
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
        pid = above
    return items[rank::world_size]
"""

_HIDES = """
import subprocess, sys, threading

def my_share(items, rank, world_size):
    try:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
    except Exception:
        pass
    return items[rank::world_size]
"""

_PEEKS = """
import sys

def my_share(items, rank, world_size):
    look = {}
    exec("import sys; frame = sys._getframe(1)", look)
    while frame := look["frame"]:
        frame.f_locals.update(result=items, value=items)
        look["frame"] = frame.f_back
    return []
"""

_LINKS = """
import glob, os, tempfile

def my_share(items, rank, world_size):
    for folder in glob.glob(tempfile.gettempdir() + "/*"):
        for name in ("asked", "printed", "stack", "solution"):
            if os.path.lexists(f"{folder}/{name}"):
                os.unlink(f"{folder}/{name}")
            os.symlink(VICTIM + "/grades.csv", f"{folder}/{name}")
    print("mine")
    os.abort()
"""

# Name, cell, the hint ids that may be its verdict; on a busy machine an endless loop is undecided, without a hint.
# One answers rightly and would delete files on its way: it has its points, and the files are there.
HOSTILE: list[tuple[str, str, set[str]]] = [
    ("endless loop", _ENDLESS, {"hang", ""}),
    ("fork", _FORK, {"limit"}),
    ("20 GB", _MEMORY, {"raised", "limit"}),
    ("patched checker", _PATCHED, {"no_list"}),  # its answer is no longer encoded, so nothing comes
    ("os._exit", _LEAVES, {"crashed"}),
    ("deleted files", _DELETES, {"right"}),
    ("sys.exit in a cell", _EXITS_IN_A_CELL, {"raised"}),
    ("forged answers", _FORGES, {"lost", "crashed"}),
    ("killed parents", _KILLS, {"crashed"}),
    ("hidden child", _HIDES, {"limit"}),
]
MORE: list[tuple[str, str, set[str]]] = [
    ("memory bit by bit", _SLOW_MEMORY, {"limit", "raised"}),
    ("shared memory", _SHARED_MEMORY, {"limit"}),
    ("threads", _THREADS, {"limit"}),
    ("deep folders", _DEEP, {"right"}),
    ("patched before", _PATCHED_BEFORE, {"cannot_travel", "lost"}),
    ("peeks from a text", _PEEKS, {"lost"}),
    ("links in the way", _LINKS, {"crashed", "raised"}),
]
