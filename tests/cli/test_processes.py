import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

WORDS = (
    "train --mode data_parallel --world-size 2 --num-epochs 1000 --samples-per-epoch 64 --validation-samples 8 "
    "--batch-size 8 --max-length 16 --n-layer 2 --n-embd 16 --n-head 2 --vocab-size 260 --device cpu"
).split()


@pytest.mark.exhaustive
def test_ctrl_c_ends_all_ranks_with_one_line(tmp_path):
    """A terminal's Ctrl-C goes to every process of the group, and the ranks must not add tracebacks of theirs."""
    scratch, told = tmp_path / "scratch", tmp_path / "told"
    scratch.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "pllab", *WORDS, "--workdir", str(tmp_path / "work")],
        stderr=told.open("wb"),
        # torch makes a folder for compiled code when it first optimizes, and leaves it.
        env={**os.environ, "TMPDIR": str(scratch), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "compiled")},
        start_new_session=True,
    )
    try:
        until = time.monotonic() + 120
        while "epoch 1/1000" not in told.read_text() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        ranks = psutil.Process(process.pid).children(recursive=True)
        assert len(ranks) >= 2
        os.killpg(process.pid, signal.SIGINT)
        process.wait(60)
    finally:
        process.kill()
        process.wait()
    text = told.read_text()
    assert process.returncode == 130, text
    assert text.rstrip().endswith("interrupted; every rank and worker has ended")
    assert "Traceback" not in text
    _, alive = psutil.wait_procs(ranks, timeout=10)
    assert not alive
    assert not list(scratch.iterdir())
