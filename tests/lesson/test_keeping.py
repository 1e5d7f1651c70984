"""What a learner has built is kept as plain Python, comes back, and runs without pllab's help."""

import ast
import pickle
import subprocess
import sys

import pytest
import torch

import pllab.parallel
from pllab.lesson import check, mine, parts
from pllab.lesson.exercise import find
from pllab.lesson.keeping import home, keep
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
    words = "import my_pllab; print(my_pllab.my_share([1, 2, 3], 1, 2))"
    assert subprocess.check_output([sys.executable, "-c", words], cwd=folder, text=True) == "[2]\n"
    assert mine("00.1")(list("abc"), 0, 2) == ["a", "c"]


def test_a_wrong_solution_is_not_kept(folder):
    check("00.1", lambda items, rank, world_size: items)
    assert list(folder.iterdir()) == []
    check("00.1", cell(SHARE)["my_share"])
    accepted = (folder / "my_pllab.py").read_text()
    check("00.1", cell("def my_share(items, rank, world_size):\n    return items\n")["my_share"])
    assert (folder / "my_pllab.py").read_text() == accepted, "a wrong one leaves what was accepted before"


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
    borrowed = mine("05.2")
    later = "def my_share(items, rank, world_size):\n    average(None)\n    return items\n"
    assert kept("00.1", later, average=borrowed) == "in my_pllab.py, in place of your earlier one"
    assert mine("00.1")([1], 0, 1) == [1]


def test_what_cannot_be_kept_is_said():
    kept("05.2", "def helper():\n    return 1\n\ndef average_gradients(m):\n    helper()\n", "average_gradients")
    other = "def helper():\n    return 2\n\ndef my_share(i, r, w):\n    helper()\n"
    told = "not in my_pllab.py, because 05.2 has another helper; give one of them another name"
    assert kept("00.1", other) == told
    tensor = "def my_share(i, r, w):\n    return table[r]\n"
    assert "it uses table, which is no plain constant" in kept("00.1", tensor, table=torch.ones(3))
    nested = cell("def makes():\n    def my_share(i, r, w): ...\n    return my_share\n")["makes"]()
    assert "the source of my_share was not found; define it at the top of a cell" in keep(find("00.1"), nested)
    assert "it has no name" in keep(find("00.1"), lambda items, rank, world_size: items)
    (home() / "my_pllab.py").write_text("def broken(:\n")
    assert "line 1 of the file is not valid Python" in kept("00.1", other)


def test_lessons_borrow_what_the_learner_has_not_built():
    assert mine("05.2") is pllab.parallel.average_gradients
    with pytest.raises(ValueError, match="my_pllab.py has no 00.1"):
        mine("00.1")
    kept("00.1", SHARE)
    assert str(parts("00.1", "05.2")).splitlines() == [
        "00.1 My share of the work   yours: my_share",
        "05.2 The same gradient      borrowed from the package: pllab.parallel.average_gradients",
    ]


def test_a_file_that_does_not_import_is_one_sentence():
    kept("00.1", SHARE)
    path = home() / "my_pllab.py"
    path.write_text(path.read_text() + "\nraise KeyError('mine')\n")
    with pytest.raises(ValueError, match="cannot be imported .KeyError: 'mine'.; repair that line"):
        mine("00.1")


def test_two_parts_taken_one_after_the_other_can_both_travel_to_ranks(folder):
    (folder / "my_pllab.py").write_text(
        "# ==== 05.1 One: f ====\ndef f(): ...\n# ==== 05.2 Two: g ====\ndef g(): ...\n"
    )
    first, second = mine("05.1"), mine("05.2")
    assert pickle.loads(pickle.dumps([first, second])) == [first, second]


def test_a_value_of_the_package_is_imported_from_its_room(folder):
    share = "def my_share(items, rank, world_size):\n    return items[rank::world_size] if MAX else []"
    assert kept("00.1", f"from pllab.comm import MAX\n{share}") == "in my_pllab.py"
    assert "from pllab.comm import MAX\n" in (folder / "my_pllab.py").read_text()
