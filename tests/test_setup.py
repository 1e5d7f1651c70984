"""The set-up files say one thing: dependencies once, versions once, two commands."""

import ast
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest

from pllab.cli.flags import bind
from pllab.cli.training import run

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


REQUIRED = [*PROJECT["dependencies"], *chain.from_iterable(PROJECT["optional-dependencies"].values())]
NAMED = [normal(re.split(r"[\[<>=! ;]", line, maxsplit=1)[0]) for line in REQUIRED if not line.startswith("pllab")]


def test_every_dependency_is_pinned_to_what_was_tested() -> None:
    lines = (ROOT / "constraints.txt").read_text().split()
    pins = {normal(name): version for name, _, version in (line.partition("==") for line in lines)}
    assert set(NAMED) <= set(pins), f"not in constraints.txt: {set(NAMED) - set(pins)}"
    assert pins["torch"] == "2.13.0"


def test_every_package_that_the_code_imports_is_named() -> None:
    """Also those that another package happens to bring: it may stop bringing them."""
    sources = [path.read_text() for path in (ROOT / "pllab").rglob("*.py")]
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    modules = [name.name for node in nodes if isinstance(node, ast.Import) for name in node.names]
    modules += [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    foreign = {name.partition(".")[0] for name in modules} - sys.stdlib_module_names - {"pllab"}
    brought = packages_distributions()
    wanted = {normal(name) for module in foreign for name in brought.get(module, [module])}
    assert {"torch", "numpy"} <= wanted
    assert wanted <= set(NAMED), f"not in pyproject.toml: {wanted - set(NAMED)}"


def text_of_all_pages() -> str:
    return "\n".join(page.read_text() for page in PAGES)


each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def test_the_words_for_other_codes_flags_are_typed_as_they_work() -> None:
    table = text_of_all_pages().partition("| Other codes say | Here |")[2].partition("\n\n")[0]
    ours = [words for row in table.splitlines() for words in re.findall(r"`(--[^`]+)`", row.rpartition(" | ")[2])]
    commands = [
        words.replace(" N", " 2").replace("tinyshakespeare\\|openwebtext", "tinyshakespeare")
        for words in ours
        if words.split()[0] not in ("--deferred-init", "--zero")  # flags that are named, and go with others
    ]
    assert len(commands) >= 9
    for command in commands:
        assert bind([run], shlex.split(command), "train"), command


def test_nothing_is_required_twice() -> None:
    assert len(NAMED) == len(set(NAMED))


def test_conda_users_get_the_package_and_no_second_list() -> None:
    text = (ROOT / "environment.yml").read_text()
    entries = re.findall(r"^\s+- (.+)$", text, flags=re.MULTILINE)
    assert entries == [
        "conda-forge",
        f"python{PROJECT['requires-python']}",
        "pip",
        "pip:",
        "-c constraints.txt",
        "-e .[lab,test]",
    ]


@pytest.mark.parametrize("command", ["make lab", "make test"])
def test_both_commands_are_in_the_readme_and_in_the_makefile(command: str) -> None:
    assert command in (ROOT / "README.md").read_text()
    assert re.search(rf"^{command.split()[1]}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)


def test_ci_runs_the_readmes_test_command() -> None:
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("make test")


def links_of(page: Path) -> list[Path]:
    """The files that a page links or shows."""
    found = re.findall(r'\]\(([^)#]+)|(?:href|src|srcset)="([^"#]+)"', page.read_text())
    return [page.parent / (first or second) for first, second in found if "://" not in first + second]


@each_page
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    missing = [target for target in links_of(page) if not target.exists()]
    assert not missing


def test_the_readme_leads_to_every_page_and_every_lesson() -> None:
    targets = {target.resolve() for target in links_of(ROOT / "README.md")}
    assert {*PAGES[1:], *(ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")} <= targets


@each_page
def test_every_picture_of_a_page_has_a_text(page: Path) -> None:
    pictures = re.findall(r"!\[|<img", page.read_text())
    texts = re.findall(r'!\[([^\]]*)\]|<img[^>]* alt="([^"]*)"', page.read_text())
    assert len(texts) == len(pictures) >= (page.name in ("README.md", "measured.md"))
    assert all(len(first or second) > 30 for first, second in texts)


def test_no_machine_path_is_committed() -> None:
    """But in `test_notebooks.py`, which shows such a path to the check of notebooks."""
    files = ["*.py", "*.md", "*.ipynb", "*.json", "*.toml", ":!*/test_notebooks.py"]
    words = ["git", "grep", "-nE", "(/home/|/root/|/Users/)[a-z]", "--", *files]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout[:500]) == (1, "")


@pytest.mark.parametrize("number", range(4))
def test_python_runs_as_it_is_pasted(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the last block writes studio.html
    blocks = re.findall(r"^```python\n(.*?)^```", text_of_all_pages(), flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    exec(compile(blocks[number], f"block {number}", "exec"), {})


def test_training_commands_are_accepted() -> None:
    """Also those for machines that are not here: axes, sizes and options fit each other."""
    commands = re.findall(r"-m pllab train (--[^`\n]*)", text_of_all_pages().replace("\\\n", " "))
    assert len(commands) >= 9
    for command in commands:
        assert bind([run], shlex.split(command), "train"), command
