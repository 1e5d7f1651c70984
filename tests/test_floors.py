"""The architecture as a test: imports go down, each library is imported where it belongs, and a file is a chapter."""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import pllab

PACKAGE = Path(pllab.__file__).parent
FLOORS = {
    "arguments": -1,
    "files": -1,
    "memory": -1,
    "accelerator": -2,
    "schedule": 0,
    "timeline": 0,
    "transfers": 0,
    "autopsy": 0,
    "comm": 1,
    "data": 1,
    "simulate": 1,
    "traces": 1,
    "parallel": 2,
    "pipeline": 2,
    "show": 2,
    "models": 3,
    "train": 4,
    "bench": 4,
    "lesson": 5,
    "cli": 6,
}
THROUGH_PYTORCH = tuple(f"torch.distributed.{name}" for name in ("pipelining", "fsdp", "tensor", "optim", "checkpoint"))
MOST_LINES = 250  # of code, without blanks, comments and docstrings
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.stem in FLOORS)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [str(node.module), *(f"{node.module}.{name.name}" for name in node.names)]
    return found


def rooms_imported(path: Path) -> set[str]:
    parts = [name.split(".") for name in imports(path)]
    return {part[1] for part in parts if part[0] == "pllab" and len(part) > 1 and part[1] in FLOORS}


def test_every_room_has_a_floor() -> None:
    assert {room(path) for path in PACKAGE.rglob("*.py")} - {"__init__", "__main__"} == set(FLOORS)


def test_a_room_imports_itself_and_the_floors_below() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}: floor {FLOORS[room(path)]} imports {other}"
        for path in FILES
        for other in rooms_imported(path) - {room(path)}
        if FLOORS[other] >= FLOORS[room(path)]
    ]
    assert not wrong


def test_no_file_is_in_a_circle_of_imports() -> None:
    """Also of imports inside functions; what is imported for types alone is none when the program runs."""
    names = {".".join(["pllab", *path.relative_to(PACKAGE).with_suffix("").parts]): path for path in FILES}
    reached = {path: {names[name] for name in imports(path) if name in names} for path in FILES}
    for path in FILES:
        for_types = [
            node for node in tree(path).body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        ]
        modules = {each.module for node in for_types for each in ast.walk(node) if isinstance(each, ast.ImportFrom)}
        reached[path] -= {names[name] for name in modules if name in names}
    TopologicalSorter(reached).prepare()  # a CycleError names the files of a circle


def test_one_file_names_cuda_and_nccl() -> None:
    """The pretended GPU takes its place. Traces name both: they read what GPUs elsewhere have recorded."""
    named = [path for path in FILES if re.search(r"torch\.cuda|[\"']nccl[\"']", path.read_text())]
    assert [path.stem for path in named if room(path) != "traces"] == ["accelerator"]


def test_torch_distributed_is_called_in_comm_and_through_pytorchs_parallel_classes() -> None:
    for path in FILES:
        if room(path) != "comm":
            named = [name for name in imports(path) if name.startswith("torch.distributed")]
            assert all(name.startswith(THROUGH_PYTORCH) for name in named), f"{path} imports {named}"
            used = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute)]
            assert not any(node.attr == "distributed" and ast.unparse(node.value) == "torch" for node in used), path


def loaded(modules: str) -> set[str]:
    """Top-level modules in a fresh process after importing the given ones."""
    code = f"import sys, {modules}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return set(result.stdout.split())


@pytest.mark.parametrize(
    ("rooms", "later"),
    [
        ("", "torch numpy matplotlib transformers"),
        ("schedule timeline transfers autopsy simulate traces show", "torch"),
        (  # with the layers of transformers an import takes about three times as long as torch's
            "comm data parallel pipeline models train",
            "datasets ipywidgets anywidget ipyparallel matplotlib docstring_parser IPython tensorboard sacrebleu "
            "transformers",
        ),
    ],
)
def test_what_rooms_do_not_need_is_not_imported(rooms: str, later: str) -> None:
    modules = ", ".join(["pllab", *(f"pllab.{name}" for name in rooms.split())])
    assert not loaded(modules) & {*later.split()}


def test_exported_names_are_there_and_no_module_has_one_of_them() -> None:
    """A module named like what its room exports cannot be reached by that name any more."""
    for path in PACKAGE.glob("*/__init__.py"):
        module = import_module(f"pllab.{path.parent.name}")
        exported = {name: getattr(module, name) for name in getattr(module, "__all__", [])}
        verbs = {name for name, value in exported.items() if not isinstance(value, ModuleType)}
        assert not verbs & {file.stem for file in path.parent.iterdir()}, path


def test_no_two_files_have_the_same_name() -> None:
    counts = Counter(path.name for path in FILES if path.name != "__init__.py")
    assert [name for name, count in counts.items() if count > 1] == []


def code_lines(path: Path) -> set[int]:
    """The lines of a Python file that are neither blank nor comment nor docstring."""
    lines = {
        number
        for number, line in enumerate(path.read_text().split("\n"), 1)
        if line.strip(" #") and line.strip()[0] != "#"
    }
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= {*range(node.lineno, (node.end_lineno or 0) + 1)}
    return lines


def test_a_file_is_a_chapter_that_says_why_it_exists_in_functions_one_can_see_whole() -> None:
    for path in FILES:
        lines = code_lines(path)
        assert ast.get_docstring(tree(path)), f"{path} does not say why it exists"
        assert len(lines) <= MOST_LINES, f"{path} has {len(lines)} lines of code; make two chapters of it"
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef):
                length = len(lines & {*range(node.lineno, (node.end_lineno or 0) + 1)})
                assert length <= 40, f"{path}: {node.name} has {length} lines"


def test_a_class_name_is_one_class() -> None:
    """The checks have names of their own: each lesson's stand alone, and are read with that lesson."""
    places: dict[str, list[str]] = {}
    for path in FILES:
        if "exercises" not in path.parts:
            for node in ast.walk(tree(path)):
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
