"""Training on the pretended GPU equals training on the CPU, under every layout, from ranks to lanes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pretend_gpu import environment
from tests.tiers import exhaustive

ROOT = Path(__file__).parents[1]
DROPPED = ("dropout", "bfloat16")  # such rows draw or round in another order, and are to train, no more


def rows_on_gpus(num_ranks: int, chosen: str, folder: Path) -> list[dict]:
    """What came out of the rows, in a process with four GPUs."""
    file = folder / "rows.json"
    command = [sys.executable, "-m", "tests.gpu_rows", str(num_ranks), chosen, str(file)]
    done = subprocess.run(command, cwd=ROOT, env=environment(4), capture_output=True, text=True, timeout=2400)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(file.read_text())


@pytest.mark.parametrize(
    ("num_ranks", "chosen"), [(1, "quick"), *exhaustive((2, "quick"), (1, "every"), (2, "every"), (4, "every"))]
)
def test_layouts_train_on_gpus_as_on_the_cpu(num_ranks: int, chosen: str, tmp_path: Path) -> None:
    reference, *others = rows_on_gpus(num_ranks, chosen, tmp_path)
    for row in others:
        if not any(word in row["label"] for word in DROPPED):
            assert row["losses"] == pytest.approx(reference["losses"], rel=1e-5), row["label"]
            assert row["validation"] == pytest.approx(reference["validation"], rel=1e-5), row["label"]


@pytest.mark.exhaustive
def test_the_tests_of_gpus_pass_on_the_pretended_one() -> None:
    """All but what it does not have: compilation, pinned memory, fused attention, a GPT-2 of 124M, several devices."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "cuda and not real_gpu"]
    command += ["tests/test_cuda.py", "tests/comm/test_cuda.py"]
    done = subprocess.run(command, cwd=ROOT, env=environment(4), capture_output=True, text=True, timeout=2400)
    assert done.returncode == 0 and " passed" in done.stdout and "skipped" not in done.stdout, done.stdout[-4000:]
