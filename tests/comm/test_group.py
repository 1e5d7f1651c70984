"""Entering and leaving the group in this process, and under torchrun."""

import os
import socket
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist

from pllab.comm import PeerError, all_reduce, rank, setup, teardown, world_size

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
PROGRAM = """
import os, sys
from pathlib import Path
import torch
from pllab.comm import all_reduce, setup, teardown

plan = setup(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
x = torch.ones(1)
all_reduce(x)
Path(sys.argv[1], os.environ["RANK"]).write_text(f"{x.item()} {plan.name} {os.environ.get('GLOO_SOCKET_IFNAME')}")
teardown()
"""


@pytest.fixture(autouse=True)
def no_group():
    teardown()
    yield
    teardown()


def test_a_world_of_one_needs_nothing(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    plan = setup(0, 1, "gloo")
    assert (rank(), world_size(), plan.device) == (0, 1, torch.device("cpu"))
    assert os.environ["GLOO_SOCKET_IFNAME"] in ("lo", "lo0")
    x = torch.ones(2)
    all_reduce(x)
    assert x.tolist() == [1, 1]
    teardown()
    teardown()
    assert not dist.is_initialized()
    assert os.environ["GLOO_SOCKET_IFNAME"] == "eth7"


def test_twice_is_an_error_that_names_the_group_there_is():
    setup(0, 1, "gloo")
    with pytest.raises(RuntimeError, match=r"already rank 0 of 1; call teardown\(\) first"):
        setup(0, 1, "gloo")


def test_an_occupied_port_is_named_with_the_way_out(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for name, value in (TORCHRUN | {"RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}).items():
            monkeypatch.setenv(name, value)
        with pytest.raises(OSError, match=rf"another program has port {port} .* torchrun --standalone"):
            setup(0, 2, "gloo", timeout_s=5)
    assert not dist.is_initialized()


def test_two_ranks_without_a_meeting_point_are_told_the_two_ways(monkeypatch):
    for name in TORCHRUN:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match=r"pllab.comm.launch, or with torchrun --nproc-per-node 2"):
        setup(0, 2)


def test_a_rank_that_torchrun_did_not_give_is_refused(monkeypatch):
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="torchrun made this process rank 1 of 2"):
        setup(0, 2)


@pytest.mark.parametrize("arguments", [(2, 2), (-1, 1), (0, 0)])
def test_out_of_range(arguments):
    with pytest.raises(ValueError, match="rank|world_size"):
        setup(*arguments)


def test_waiting_for_a_rank_that_never_comes_has_a_deadline_and_leaves_nothing(tmp_path):
    before = os.environ.get("GLOO_SOCKET_IFNAME")
    with pytest.raises(PeerError, match="the meeting of 2 ranks on rank 0 waited until its deadline"):
        setup(0, 2, "gloo", init_file=tmp_path / "meeting", timeout_s=1)
    assert not dist.is_initialized()
    assert os.environ.get("GLOO_SOCKET_IFNAME") == before
    setup(0, 1, "gloo")  # and the process can go on


@pytest.mark.ranks
def test_torchrun(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, str(program), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"TMPDIR": str(tmp_path)},  # torchrun leaves a folder for logs behind
    )
    assert done.returncode == 0, done.stderr
    written = [(tmp_path / str(number)).read_text().split() for number in range(2)]
    assert [words[0] for words in written] == ["2.0", "2.0"]
    assert {words[2] for words in written} <= {"lo", "lo0"}
