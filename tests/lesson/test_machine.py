"""Who takes every folded solution of the notebooks owns a file that trains on two ranks and as a pipe, and races."""

import re
import subprocess
import sys

import pytest
import torch

from pllab.bench.entrants import Track, own_entrants, package_entrants
from pllab.bench.racing import race
from pllab.lesson import check, mine, parts
from pllab.lesson.exercise import EXERCISES
from tests.lesson.committed import NOTEBOOKS, read
from tests.lesson.judge import cell

pytestmark = pytest.mark.exhaustive

SCRIPT = """
import os
import torch
from my_pllab import train
from pllab.comm import setup, teardown
from pllab.models import GPT2LMHeadModelParallel, gpt2_config, layers_of

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
setup(rank, world_size)
torch.manual_seed(rank)
model = torch.nn.Sequential(*layers_of(GPT2LMHeadModelParallel(gpt2_config("tiny", vocab_size=50, n_layer=2))))
rows = torch.randint(50, (16, 9), generator=torch.Generator().manual_seed(0))
losses = train(rank, world_size, model, [(row[:-1], row[1:]) for row in rows], 6, 8, 0.3)
assert losses[-1] < losses[0], losses
print(f"rank {rank} of {world_size}: {losses[-1]:.4f}")
teardown()
"""


def solutions():
    """Exercise, code, and the name of the function that the notebook gives to `check`."""
    for path in NOTEBOOKS:
        cells = {cell.id: cell.source for cell in read(path).cells}
        for number, name in re.findall(r'check\("(\d\d\.\d)", (\w+)\)', "\n".join(cells.values())):
            folded = cells[f"{number.replace('.', '-ex')}-solution"]
            yield number, "\n\n".join(re.findall(r"```python\n(.*?)\n```", folded, re.DOTALL)), name


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a learner who has put every folded solution to its check, which says right."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLLAB_HOME", str(folder))
        patch.setattr(sys, "path", list(sys.path))
        patch.delitem(sys.modules, "my_pllab", raising=False)
        kept = {number: check(number, cell(code)[name], deadline_s=90.0) for number, code, name in solutions()}
        assert {str(verdict) for verdict in kept.values() if verdict.kept != "in my_pllab.py"} == set()
        yield folder


def test_every_part_is_the_learners_own(folder):
    told = parts(*(exercise.id for exercise in EXERCISES)).splitlines()
    assert len(told) == len(EXERCISES) and all("   yours: " in line for line in told)
    assert mine("00.1")(["a", "b", "c"], 1, 2) == ["b"]


def test_the_file_trains_on_two_ranks_under_torchrun(folder):
    (folder / "train_it.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train_it.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    losses = re.findall(r"rank [01] of 2: (\d+\.\d{4})", done.stdout)  # the ranks' lines may run into each other
    assert len(losses) == 2
    assert len(set(losses)) == 1


def test_the_learners_trainings_race_beside_the_packages(folder):
    rows = torch.randint(50, (16, 17), generator=torch.Generator().manual_seed(0))
    track = Track(dataset=[(row[:-1], row[1:]) for row in rows], vocab_size=50, num_layers=2, width=32)
    own, missing = own_entrants(track, mine)
    assert len(own) == 2 and not missing
    result = race(package_entrants(track) | own, track, num_rounds=2)
    assert set(own) < set(result.losses)
