"""README's commands, and those of the pages under docs, run as they are typed.

The smallest sizes stand behind them, for of two equal flags the last counts.

Those for several machines are parsed, in tests/test_setup.py.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pllab.cli import main
from pllab.lesson.faults import rehearse
from pllab.schedule import one_f_one_b
from pllab.simulate import Costs, simulate
from tests.cli.test_main import TINY
from tests.cli.test_teaching import SHARE
from tests.lesson.handed_in import UNFENCED_FLAG, hand_in
from tests.test_setup import text_of_all_pages
from tests.traces.files import write_run

ROOT = Path(__file__).parents[2]
_MODEL = "--num-layers 2 --width 16 --num-heads 2 --vocab-size 64 --batch-size 4 --num-tokens 8 --repeats 2".split()
_STAGES = [*_MODEL, "--num-layers", "4", "--num-microbatches", "2"]  # interleaved, two stages a rank
SMALL = {
    "autopsy": [],
    "bench data-parallel": [*_MODEL, "--warmup", "1"],
    "bench fidelity": [*_STAGES, "--microbatches", "2"],
    "bench fsdp": [*_MODEL, "--warmup", "1"],
    "bench pipeline": [*_STAGES, "--num-microbatches", "1"],  # two small ones take over twice as long as the whole
    "bench tensor": _MODEL,
    "compare": "--num-steps 3 --batch-size 8 --n-embd 16 --n-head 2".split(),
    "doctor": [],
    "equivalence": "--ranks 2 --num-steps 1".split(),
    "grade": UNFENCED_FLAG,
    "import": [],
    "scale": "--world-size 8 --dp 2 --tp 2 --pp 2 --model tiny".split(),
    "student": ["--notebooks", str(ROOT / "notebooks")],
    "train": [*TINY, "--n-layer", "4", "--workdir", "work"],
}
STARTS_PROCESSES = r"grade|compare|equivalence|bench|train .*(--dp|data_parallel)"


def commands() -> list[tuple[str, str]]:
    """What stands in front of each `-m pllab`, such as torchrun with its flags, and its words."""
    text = text_of_all_pages().replace("\\\n", " ")
    found = re.findall(r"(?:(torchrun [^`\n]*?)|python) -m pllab ([a-z][^`\n#]*)", text)
    return [
        (launcher, " ".join(words.split())) for launcher, words in dict.fromkeys(found) if "--nnodes 2" not in launcher
    ]


def head(words: str) -> str:
    return next(name for name in SMALL if words.startswith(name))


COMMANDS = [
    pytest.param(
        *command,
        id=" ".join(filter(None, command)),
        marks=[pytest.mark.exhaustive] if command[0] or re.match(STARTS_PROCESSES, command[1]) else [],
    )
    for command in commands()
]


def write_files(folder: Path, command: str) -> None:
    """What the command reads, traces or flight records of ranks or notebooks, and the folder of its picture."""
    if command == "import":
        for rank, path in enumerate(write_run(folder, simulate(one_f_one_b(2, 4), Costs(0.002, 0.001, 0.001)))):
            path.rename(folder / f"rank{rank}.json")
    elif command == "autopsy":
        for record in rehearse("skipped collective", 2)[0]:
            (folder / f"rank{record.rank}.json").write_text(json.dumps(record.to_json()))
    elif command == "grade":
        (folder / "handed-in").mkdir()
        hand_in(folder / "handed-in" / "a.ipynb", ("00.1", SHARE, "my_share"))
    (folder / "assets").mkdir()


def test_the_pages_have_all_commands() -> None:
    assert {head(words) for _, words in commands()} == set(SMALL)
    assert {re.match(r"[a-z]+", words)[0] for _, words in commands()} >= {name.split()[0] for name in SMALL}


@pytest.mark.parametrize(("launcher", "words"), COMMANDS)
def test_the_command_runs_as_it_is_typed(launcher, words, tmp_path, monkeypatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, head(words))
    given = [sorted(map(str, Path().glob(word))) if "*" in word else [word] for word in shlex.split(words)]
    typed = [*(word for each in given for word in each), *SMALL[head(words)]]
    if launcher:
        agent = [sys.executable, "-m", "torch.distributed.run", *shlex.split(launcher)[1:], "-m", "pllab", *typed]
        assert subprocess.run(agent, timeout=300, env=os.environ | {"PYTHONPATH": str(ROOT)}).returncode == 0
    else:
        assert main(typed) == 0
        assert capfd.readouterr().out
