import os
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest

WORDS = (
    "train --mode data_parallel --world-size 2 --num-epochs 1000 --samples-per-epoch 64 --validation-samples 8 "
    "--batch-size 8 --max-length 16 --n-layer 2 --n-embd 16 --n-head 2 --vocab-size 260 --device cpu"
).split()


def wait_for(process, text, deadline_s=120.0):
    """Read stderr until the text stands there."""
    seen, until = b"", time.monotonic() + deadline_s
    while text not in seen and time.monotonic() < until:
        piece = os.read(process.stderr.fileno(), 4096)
        if not piece:
            break
        seen += piece
    assert text in seen, seen.decode()
    return seen


@pytest.mark.exhaustive
@pytest.mark.ranks
@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is a signal here")
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
        seen = wait_for(process, b"rank 1 epoch 1/1000")
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


@pytest.mark.exhaustive
@pytest.mark.ranks
def test_torchrun_trains_with_the_same_command(tmp_path):
    """On two nodes, of which each has an agent that starts one rank; docs/training.md's command is for one node."""
    words = [word if word != "1000" else "1" for word in WORDS]
    with socket.create_server(("127.0.0.1", 0)) as free:
        meeting = f"--rdzv-backend c10d --rdzv-endpoint 127.0.0.1:{free.getsockname()[1]} --local-addr 127.0.0.1"
    command = ["-m", "torch.distributed.run", *meeting.split(), "--nnodes=2", "--nproc-per-node=1", "-m", "pllab"]
    agents = [
        subprocess.Popen(
            [sys.executable, *command, *words, "--quiet", "--workdir", str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": str(tmp_path)},  # torchrun leaves a folder for logs behind
        )
        for _ in range(2)
    ]
    said = [agent.communicate(timeout=240) for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0], said
    summary = "".join(out for out, _ in said)
    assert summary.count("validation loss  ") == 1  # rank 0 alone tells
    assert "2 devices together" in summary
    assert (tmp_path / "data_parallel-2.json").exists()
