"""What a learner has built is kept as plain Python, comes back, and runs without pllab's help."""

import ast
import linecache
import pickle
import re
import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import pllab.parallel
from pllab.lesson import check, extraction, mine, parts
from pllab.lesson.exercise import exercises_of, find
from pllab.lesson.keeping import home, keep
from tests.lesson.committed import NOTEBOOKS, code_cells, read
from tests.lesson.judge import cell


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PLLAB_HOME", str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_pllab", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


SHARE = """
STEP = 1

def every(items, start, step):
    return items[start::step * STEP]

class Dealer:
    def deal(self, items, rank, world_size):
        return every(items, rank, world_size)

def my_share(items, rank, world_size):
    x = Dealer()
    return x.deal(items, rank, world_size)
"""


def kept(exercise_id, code, name="my_share", **names):
    """What is said when the function of that name in a cell is kept."""
    return keep(find(exercise_id), cell(code, **names)[name])


def alone(expression):
    """What a new process prints that has the file and nothing else."""
    words = f"import my_pllab; print({expression})"
    return subprocess.check_output([sys.executable, "-c", words], cwd=home(), text=True).strip()


def test_a_right_solution_is_kept_with_all_it_needs_and_runs_alone(folder):
    names = cell(
        "import math as m\nimport torch\n" + SHARE.replace("step * STEP", "step * m.ceil(STEP)"), x=torch.ones(2)
    )
    verdict = check("00.1", names["my_share"])
    assert verdict.kept == "in my_pllab.py"
    assert "kept: in my_pllab.py" in str(verdict)
    text = (folder / "my_pllab.py").read_text()
    assert "import math as m" in text and "STEP = 1" in text
    assert "import torch" not in text, "what is not used is not kept"
    assert text.index("def every") < text.index("class Dealer") < text.index("def my_share")
    assert alone("my_pllab.my_share([1, 2, 3], 1, 2)") == "[2]"
    assert mine("00.1")(list("abc"), 0, 2) == ["a", "c"]


def test_a_wrong_solution_is_not_kept(folder):
    check("00.1", cell("def my_share(items, rank, world_size):\n    return items\n")["my_share"])
    assert list(folder.iterdir()) == []


def test_a_better_solution_takes_the_place_of_the_old_one_and_the_rest_stays(folder):
    assert kept("00.1", SHARE) == "in my_pllab.py"
    assert kept("05.2", "def average_gradients(model):\n    pass\n", "average_gradients") == "in my_pllab.py"
    path = folder / "my_pllab.py"
    path.write_text(path.read_text().replace('"""\n\n', '"""\n\n# a word of mine\n\n', 1))
    shorter = "def my_share(items, rank, world_size):\n    return items[rank::world_size]\n"
    assert kept("00.1", shorter) == "in my_pllab.py, in place of your earlier one"
    assert kept("00.1", shorter) == "in my_pllab.py"
    text = path.read_text()
    assert text.count("def my_share") == text.count("def average_gradients") == text.count("# a word of mine") == 1
    assert "Dealer" not in text
    functions = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert functions == ["my_share", "average_gradients"]


def test_mine_is_the_newest_also_where_an_older_one_was_used_before():
    for name in ("first", "newest"):
        kept("00.1", f"def {name}(items, rank, world_size):\n    return items\n", name)
        assert mine("00.1").__name__ == name


def test_a_solution_that_uses_an_earlier_one_does_not_repeat_it():
    first = "def average_gradients(model):\n    pass\n"
    names = cell(first + "\ndef my_share(items, rank, world_size):\n    average_gradients(None)\n    return items\n")
    keep(find("05.2"), names["average_gradients"])
    assert keep(find("00.1"), names["my_share"]) == "in my_pllab.py"
    assert (home() / "my_pllab.py").read_text().count("def average_gradients") == 1
    better = "def average_gradients(model):\n    return None\n"
    assert kept("05.2", better, "average_gradients") == "in my_pllab.py, in place of your earlier one"
    later = "def tokens(items):\n    average(None)\n    return items\n"
    assert kept("05.3", later, "tokens", average=mine("05.2")) == "in my_pllab.py"
    assert "average = average_gradients\n" in (home() / "my_pllab.py").read_text()
    assert alone("my_pllab.tokens([1]), my_pllab.my_share([2], 0, 1)") == "[1] [2]"
    told = "not in my_pllab.py, because the file would use average_gradients where it has none; define it in the"
    assert kept("00.1", later, "tokens", average=mine("05.2")).startswith(told), "00.1 stands above 05.2"


def test_what_cannot_be_kept_is_said():
    kept("05.2", "def helper():\n    return 1\n\ndef average_gradients(m):\n    helper()\n", "average_gradients")
    other = "def helper():\n    return 2\n\ndef my_share(i, r, w):\n    helper()\n"
    told = "not in my_pllab.py, because 05.2 has another helper; give one of them another name"
    assert kept("00.1", other) == told
    solution = "def average_gradients(m):\n    return 2\n\ndef my_share(i, r, w):\n    average_gradients(i)\n"
    assert kept("00.1", solution) == told.replace("helper;", "average_gradients;")
    tensor = "def my_share(i, r, w):\n    return table[r]\n"
    assert "it uses table, which is no plain constant" in kept("00.1", tensor, table=torch.ones(3))
    nested = cell("def makes():\n    def my_share(i, r, w): ...\n    return my_share\n")["makes"]()
    told = "not found; write it with def or class, at the top of a cell"
    assert f"the source of my_share was {told}" in keep(find("00.1"), nested)
    for made in ("x = lambda r: r\n", "from collections import namedtuple\nx = namedtuple('Some', 'a')\n"):
        assert told in kept("05.1", f"{made}def f(): return x\n", "f")
    for made in ("@dataclass\nclass Config:\n    n: int = 1\nx = Config()\n", "class E(Enum):\n    A = 1\nx = E.A\n"):
        code = f"from dataclasses import dataclass\nfrom enum import Enum\n{made}def f(): return x\n"
        assert "it uses x, which is no plain constant" in kept("05.1", code, "f")
    assert "it has no name" in keep(find("00.1"), lambda items, rank, world_size: items)


@pytest.mark.parametrize(
    "code",
    {
        "a name of Python's": "def slice(n):\n    return n + 1\ndef f(n):\n    return slice(n)",
        "a name of Python's, imported": "from math import pow\ndef f(n):\n    return int(pow(n + 1, 1)) + len([]) ",
        "a decorator": "import functools\n@functools.cache\ndef g(n):\n    return n + 1\ndef f(n):\n    return g(n)",
        "a value of the package's": "from pllab.comm import MAX\ndef f(n):\n    return n + 1 if MAX else 0",
        "another try below": "def f(n):\n    return 0\ndef f(n):\n    return n + 1",
        "another name": "def g(n):\n    return n + 1\ntake = g\ndef f(n):\n    return take(n)",
        "a base": "class Base:\n    def go(self, n):\n        return n + 1\nclass f(Base):\n    def __new__(cls, n):\n"
        "        return Base.go(cls, n)",
        "a library's methods": "from typing import NamedTuple\nclass Pair(NamedTuple):\n    n: int\n"
        "def f(n):\n    return Pair(n).n + 1",
        "an odd line": "def f(n):\n    # \u2028 \f\n    return n + 1",
    }.values(),
)
def test_what_is_kept_computes_the_same_in_a_new_process(monkeypatch, code):
    monkeypatch.setattr(sys.modules["__main__"], "NamedTuple", NamedTuple, raising=False)  # as in a notebook
    assert kept("05.1", code, "f") == "in my_pllab.py"
    assert alone("my_pllab.f(2)") == "3"


@pytest.mark.parametrize("first", ["x = 4", "import math as x", "def x():\n    return 3", "class x: ..."])
@pytest.mark.parametrize("second", ["x = 8", "import operator as x", "def x():\n    return 5"])
def test_a_name_has_one_meaning_in_the_whole_file(first, second):
    assert kept("05.1", f"{first}\ndef one():\n    return x", "one") == "in my_pllab.py"
    told = "not in my_pllab.py, because 05.1 has another x; give one of them another name"
    assert kept("05.2", f"{second}\ndef two():\n    return x", "two") == told


def test_a_solution_works_as_before_when_one_that_shares_a_helper_is_replaced():
    helper = "class Base:\n    step = 1\ndef flat(n):\n    return n + Base.step\n"
    for number, name in (("05.2", "two"), ("05.1", "one")):
        assert kept(number, f"{helper}def {name}(n):\n    return flat(n)", name) == "in my_pllab.py"
    assert kept("05.1", "def one(n):\n    return n", "one").endswith("in place of your earlier one")
    assert alone("my_pllab.one(1), my_pllab.two(1)") == "1 2"


@pytest.mark.parametrize("order", [("08.1", "09.3"), ("09.3", "08.1")])
def test_what_the_package_lent_is_the_learners_own_once_it_is_there(order):
    """Lesson 09 imports the package's clock for a solution that uses it."""
    codes = {
        "08.1": ("def clock_cycles(m, p):\n    yield [(m, p)]", "clock_cycles"),
        "09.3": ("from pllab.pipeline import clock_cycles\ndef f(m):\n    return list(clock_cycles(m, 1))", "f"),
    }
    for number in order:
        assert kept(number, *codes[number]) == "in my_pllab.py"
    assert alone("my_pllab.f(7)") == "[[(7, 1)]]"
    assert mine("08.1").__module__ == "my_pllab"


@pytest.mark.exhaustive
def test_the_solutions_of_all_lessons_are_kept_one_beside_the_other(monkeypatch):
    """Each with what its notebook has made or imported, which may be the package's version of an earlier one."""
    monkeypatch.setattr(extraction, "pack", lambda solution: solution)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # where another one is put
    for path in NOTEBOOKS[:-1]:
        texts = {cell.id: cell.source for cell in read(path).cells}
        for cell_id in [one for one in texts if one.endswith("-solution")]:
            (texts[cell_id.replace("solution", "stub")],) = re.findall(
                r"```python\n(.*?)```", texts[cell_id], re.DOTALL
            )
        source = [(f"cell {one.id}", texts[one.id].splitlines(keepends=True)) for one in code_cells(path)]
        for name, lines in source:
            monkeypatch.setitem(linecache.cache, name, (0, None, lines, name))
        for exercise in exercises_of(path.name[:2]):
            assert keep(exercise, extraction.pack_cells(exercise.id, source)) == "in my_pllab.py", exercise.id
    assert alone("my_pllab.clock_cycles.__module__, my_pllab.average_gradients.__module__") == "my_pllab my_pllab"


def test_what_a_timed_cell_defines_is_kept(folder, monkeypatch):
    """IPython runs it under a name of no file."""
    monkeypatch.setitem(sys.modules, "__main__", main := ModuleType("__main__"))
    config = Config(HistoryManager={"enabled": False})
    shell = InteractiveShell(user_module=main, ipython_dir=str(folder), config=config)
    for text in (
        f"%%time\n{SHARE.replace('every', 'each')}",
        f"%%time\n{SHARE}",
        "%%writefile /dev/null\ndef my_share(): ...",
    ):
        shell.run_cell(text, store_history=True)
    assert keep(find("00.1"), main.my_share) == "in my_pllab.py"
    assert "each" not in (home() / "my_pllab.py").read_text(), "the cell that was run last"
    assert alone("my_pllab.my_share([1, 2, 3], 1, 2)") == "[2]"


@pytest.mark.parametrize("order", [[0, 1], [1, 0], [0, 1, 0]])
def test_a_class_without_methods_is_the_one_that_was_run_last(monkeypatch, order):
    texts = [f"class Step:\n    size = {size}\ndef f():\n    return Step.size\n" for size in (0, 1)]
    cells_run = SimpleNamespace(input_hist_raw=["", *(texts[number] for number in order)])
    shell = SimpleNamespace(history_manager=cells_run)
    monkeypatch.setattr(sys.modules["__main__"], "get_ipython", lambda: shell, raising=False)
    made = [cell(text)["f"] for text in texts]  # a cell that is run again has its old place in linecache
    assert keep(find("05.1"), made[order[-1]]) == "in my_pllab.py"
    assert alone("my_pllab.f()") == str(order[-1])


def test_a_file_that_the_learner_has_changed_is_told_apart_in_a_sentence(folder):
    path = folder / "my_pllab.py"
    path.write_text("# only a word of mine\n")
    assert kept("00.1", SHARE) == "in my_pllab.py"
    assert path.read_text().startswith("# only a word of mine\n")
    path.write_text(path.read_text().replace("def my_share", "def our_share"))
    with pytest.raises(ValueError, match="my_pllab.py has no my_share any more; run the check of 00.1 again"):
        mine("00.1")
    assert str(parts()) == ""
    path.write_text(f"\ufeff{SHARE}", "utf-8")  # as editors of Windows do
    assert kept("00.1", SHARE) == "in my_pllab.py"
    assert parts("00.1").endswith("yours: my_share") and mine("00.1")("abc", 0, 2) == "ac"


@pytest.mark.parametrize(
    ("content", "told"),
    {
        "another encoding": (b"# caf\xe9\n", "'utf-8' codec can't decode byte"),
        "no Python": (b"\ndef broken(:\n", "invalid syntax (my_pllab.py, line 2)"),
        "a null byte": (b"a = 1\0\n", "source code string cannot contain null bytes"),
        "a mark inside": (
            b"# ==== 05.2 Two: f ====\ndef f():\n    '''My plan:\n# ==== 05.1 One: g ====\n    '''\n",
            "(detected at line 3) (05.2, line 3)",
        ),
        "a folder": (None, "[Errno 21] Is a directory"),
    }.values(),
)
def test_a_file_that_cannot_be_read_stays_and_the_verdict_says_why(folder, content, told):
    path = folder / "my_pllab.py"
    path.mkdir() if content is None else path.write_bytes(content)
    said = kept("05.3", SHARE)
    assert said.startswith("not in my_pllab.py, because ") and told in said
    assert path.is_dir() if content is None else path.read_bytes() == content
    for ask in (lambda: mine("00.1"), lambda: parts("00.1")):
        with pytest.raises(ValueError, match=re.escape(told) + ".*; repair it, or set PLLAB_HOME to another folder"):
            ask()


def test_lessons_borrow_what_the_learner_has_not_built():
    assert mine("05.2") is pllab.parallel.average_gradients
    with pytest.raises(ValueError, match="my_pllab.py has no 00.1"):
        mine("00.1")
    kept("00.1", SHARE)
    assert str(parts("00.1", "05.2")).splitlines() == [
        "00.1 My share of the work   yours: my_share",
        "05.2 The same gradient      borrowed from the package: pllab.parallel.average_gradients",
    ]


@pytest.mark.parametrize("error", ["KeyError: 'mine'", "SystemExit: 3"])
def test_a_file_that_does_not_import_is_one_sentence(error):
    kept("00.1", SHARE)
    path = home() / "my_pllab.py"
    path.write_text(path.read_text() + "\nraise {}({})\n".format(*error.split(": ")))
    with pytest.raises(ValueError, match=f"cannot be imported .{error}.; repair that line"):
        mine("00.1")


def test_two_parts_taken_one_after_the_other_can_both_travel_to_ranks(folder):
    (folder / "my_pllab.py").write_text(
        "# ==== 05.1 One: f ====\ndef f(): ...\n# ==== 05.2 Two: g ====\ndef g(): ...\n"
    )
    first, second = mine("05.1"), mine("05.2")
    assert pickle.loads(pickle.dumps([first, second])) == [first, second]
