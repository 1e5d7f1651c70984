"""The architecture as a test: imports go down, and each library is imported where it belongs."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pllab

PACKAGE = Path(pllab.__file__).parent
FLOORS = {
    "schedule": 0,
    "timeline": 0,
    "comm": 1,
    "data": 1,
    "simulate": 1,
    "parallel": 2,
    "pipeline": 2,
    "show": 2,
    "models": 3,
    "train": 4,
    "bench": 4,
    "lesson": 5,
    "cli": 5,
}


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports by dots; write the whole name"
            module = node.module or ""
            yield module
            yield from (f"{module}.{name.name}" for name in node.names)


def rooms_imported(path: Path) -> set[str]:
    parts = [name.split(".") for name in imports(path)]
    return {part[1] for part in parts if part[0] == "pllab" and len(part) > 1 and part[1] in FLOORS}


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.stem in FLOORS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_itself_and_the_floors_below(path: Path) -> None:
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert room in FLOORS, f"{room} has no floor; give it one here and in the package's docstring"
    for other in rooms_imported(path) - {room}:
        assert FLOORS[other] < FLOORS[room], f"{path.name}: {room} (floor {FLOORS[room]}) imports {other}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_torch_distributed_is_called_in_comm_and_through_pytorchs_parallel_classes(path: Path) -> None:
    if path.relative_to(PACKAGE).parts[0] == "comm":
        return
    allowed = ("torch.distributed.pipelining", "torch.distributed.fsdp", "torch.distributed.tensor")
    for name in imports(path):
        assert not name.startswith("torch.distributed") or name.startswith(allowed), f"{path} imports {name}"
    used = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)]
    assert not any(node.attr == "distributed" and ast.unparse(node.value) == "torch" for node in used)


def loaded(modules: str) -> set[str]:
    """Top-level modules in a fresh process after importing the given ones."""
    code = f"import sys, {modules}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return set(result.stdout.split())


def test_the_drawing_rooms_import_no_torch() -> None:
    rooms = [name for name in ("schedule", "timeline", "simulate", "show") if list(PACKAGE.glob(f"{name}*"))]
    assert "torch" not in loaded(", ".join(f"pllab.{name}" for name in rooms))


def test_the_torch_rooms_import_without_the_notebook_and_dataset_libraries() -> None:
    found = loaded("pllab.comm, pllab.data, pllab.parallel, pllab.pipeline, pllab.models")
    assert not found & {"datasets", "ipywidgets", "anywidget", "ipyparallel", "matplotlib", "tyro", "IPython"}


def test_importing_pllab_imports_nothing_else() -> None:
    assert not loaded("pllab") & {"torch", "numpy", "matplotlib", "transformers"}


@pytest.mark.parametrize("room", sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py")))
def test_public_names_are_there(room: str) -> None:
    tree = ast.parse((PACKAGE / room / "__init__.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names = ast.literal_eval(node.value)
            module = __import__(f"pllab.{room}", fromlist=names)
            assert all(hasattr(module, name) for name in names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_stay_short_and_say_why_they_exist(path: Path) -> None:
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text)), f"{path} does not say why it exists"
    assert len(text.splitlines()) <= 350, f"{path} is too long; one verb, one file"
