import os
import signal
import subprocess
import sys
import time
from multiprocessing.connection import wait

import psutil
import pytest

WORDS = (
    "train --mode data_parallel --world-size 2 --num-epochs 1000 --samples-per-epoch 64 --validation-samples 8 "
    "--batch-size 8 --max-length 16 --n-layer 2 --n-embd 16 --n-head 2 --vocab-size 260 --device cpu"
).split()


def wait_for(process, text, deadline_s=120.0):
    """Read stderr until the text stands there."""
    seen, until = b"", time.monotonic() + deadline_s
    while text not in seen and wait([process.stderr], until - time.monotonic()):
        piece = os.read(process.stderr.fileno(), 4096)
        if not piece:
            break
        seen += piece
    assert text in seen, seen.decode()
    return seen


@pytest.mark.exhaustive
def test_ctrl_c_ends_all_ranks_with_one_line(tmp_path):
    """A terminal's Ctrl-C goes to every process of the group, and the ranks must not add tracebacks of theirs."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "pllab", *WORDS, "--workdir", str(tmp_path / "work")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # torch makes a folder for compiled code when it first optimizes, and leaves it.
        env={**os.environ, "TMPDIR": str(scratch), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "compiled")},
        start_new_session=True,
    )
    try:
        seen = wait_for(process, b"epoch 1/1000")
        ranks = psutil.Process(process.pid).children(recursive=True)
        assert len(ranks) >= 2
        os.killpg(process.pid, signal.SIGINT)
        _, rest = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    text = (seen + rest).decode()
    assert process.returncode == 130, text
    assert text.rstrip().endswith("interrupted; every rank and worker has ended")
    assert "Traceback" not in text
    _, alive = psutil.wait_procs(ranks, timeout=10)
    assert not alive
    assert not list(scratch.iterdir())
