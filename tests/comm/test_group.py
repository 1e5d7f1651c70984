"""The plan of a backend, and entering and leaving the group: in this process, and under torchrun."""

import os
import socket
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist

from pllab.arguments import deadline, thread_count, whole_number
from pllab.comm import PeerError, plan_backend, rank, setup, shared_buffer, teardown, world_size
from tests.tiers import exhaustive

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


@pytest.mark.parametrize(
    ("size", "num_gpus", "backend", "name", "reason"),
    [
        (1, 0, None, "gloo", "there is no GPU"),
        (1, 1, None, "nccl", "1 rank and 1 GPU"),
        (2, 1, None, "gloo", "2 ranks would share 1 GPU"),
        (2, 2, None, "nccl", "2 ranks and 2 GPUs"),
        (2, 2, "gloo", "gloo", "as asked"),
        (4, 2, None, "gloo", "4 ranks would share 2 GPUs"),
        (4, 8, None, "nccl", "4 ranks and 8 GPUs"),
    ],
)
def test_nccl_only_with_one_gpu_per_rank_and_a_reason(size, num_gpus, backend, name, reason):
    for number in range(size):
        plan = plan_backend(number, size, backend, num_gpus=num_gpus)
        device = torch.device("cuda", number) if name == "nccl" else torch.device("cpu")
        assert (plan.name, plan.device) == (name, device) and reason in plan.reason
    of_the_second_host = plan_backend(5, 8, local_rank=1, local_world_size=4, num_gpus=4)
    assert (of_the_second_host.name, of_the_second_host.device) == ("nccl", torch.device("cuda", 1))


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((0, 2), {"backend": "nccl", "num_gpus": 1}, "2 ranks and 1 GPU"),
        ((0, 2), {"backend": "mpi"}, "'mpi' is unknown"),
        ((2, 2), {}, "rank 2 is not in a world of 2"),
        ((-1, 2), {}, "rank is -1"),
        ((0, 0), {}, "world_size is 0"),
        ((0, "2"), {}, "world_size is '2'; give a whole number"),
        ((0.0, 2), {}, "rank is 0.0; give a whole number"),
    ],
)
def test_bad_input_names_the_value(arguments, options, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        plan_backend(*arguments, **options)
    if "num_gpus" not in options:
        with pytest.raises(ValueError, match=words):
            setup(*arguments, **options, init_file=tmp_path / "meeting")


def test_a_deadline_is_a_number_of_seconds_that_torch_can_wait():
    assert [deadline(seconds) for seconds in (1, 0.5, 2_000_000)] == [1.0, 0.5, 2_000_000.0]
    for wrong in (0, -1, float("nan"), float("inf"), 3e6, "60", None, True):
        with pytest.raises(ValueError, match=r"timeout_s is .*; give the longest wait in seconds, a number above 0"):
            deadline(wrong)
    setup(0, 1, "gloo", timeout_s=2_000_000)
    with pytest.raises(ValueError, match="timeout_s is nan"):
        setup(0, 1, "gloo", timeout_s=float("nan"))


def test_whole_numbers_of_any_library_and_no_others():
    number = whole_number("count", torch.tensor(4))
    assert (number, type(number)) == (4, int)
    for wrong in (0, 2.0, "2", None, True):
        with pytest.raises(ValueError, match="count is .*; give a whole number of at least 1"):
            whole_number("count", wrong)
    for wrong in (0, 100_000, 1.5):
        with pytest.raises(ValueError, match="num_threads is .*; give a whole number from 1 to"):
            thread_count(wrong)
    assert thread_count(64) == 64


def test_a_world_of_one_needs_nothing_and_is_entered_once(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    plan = setup(0, 1, "gloo")
    with pytest.raises(RuntimeError, match=r"already rank 0 of 1; call teardown\(\) first"):
        setup(0, 1, "gloo")
    assert (rank(), world_size(), plan.device) == (0, 1, torch.device("cpu"))
    assert os.environ["GLOO_SOCKET_IFNAME"] in ("lo", "lo0")
    assert shared_buffer(3, torch.float32) is None
    teardown()
    teardown()
    assert not dist.is_initialized()
    assert dist.distributed_c10d.default_pg_timeout.total_seconds() == 1800.0  # as it was before
    assert os.environ["GLOO_SOCKET_IFNAME"] == "eth7"


def test_an_occupied_port_is_named_with_the_way_out(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        monkeypatch.setattr("pllab.comm.group._keep_on_loopback", None)  # not where there are two hosts
        place = {"RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        for name, value in (TORCHRUN | place).items():
            monkeypatch.setenv(name, value)
        with pytest.raises(OSError, match=rf"another program has port {port} .* torchrun --standalone"):
            setup(0, 2, "gloo", timeout_s=5)
    assert not dist.is_initialized()


@pytest.mark.parametrize(
    ("environment", "options", "sentence"),
    [
        ({}, {}, r"pllab.comm.launch, or with torchrun --nproc-per-node 2"),
        ({}, {"init_file": "nowhere/meeting"}, "'nowhere/meeting' is in a folder that does not exist"),
        (TORCHRUN | {"RANK": "0"}, {}, "torchrun made this process rank 0 of 2"),
    ],
)
def test_ranks_that_cannot_meet_are_told_why(environment, options, sentence, monkeypatch):
    for name in TORCHRUN:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=sentence):
        setup(1, 2, **options)


def test_waiting_for_a_rank_that_never_comes_has_a_deadline_and_leaves_nothing(tmp_path):
    before = os.environ.get("GLOO_SOCKET_IFNAME")
    with pytest.raises(PeerError, match="the meeting of 2 ranks on rank 0 waited until its deadline"):
        setup(0, 2, "gloo", init_file=tmp_path / "meeting", timeout_s=1)
    assert not dist.is_initialized()
    assert os.environ.get("GLOO_SOCKET_IFNAME") == before
    setup(0, 1, "gloo")  # and the process can go on


@pytest.mark.parametrize("is_torchrun", [True, *exhaustive(False)])
def test_ranks_that_a_launcher_started_meet_and_stay_on_loopback(is_torchrun, tmp_path):
    """The agent of torchrun keeps the store; with another launcher rank 0 does."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = TORCHRUN | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    agent = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"] if is_torchrun else []
    started = [
        subprocess.Popen(
            [sys.executable, *agent, str(program), str(tmp_path)],
            env=os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": "."} | more,  # torchrun leaves a folder for logs
        )
        for more in ([{}] if is_torchrun else [place | {"RANK": str(number)} for number in range(2)])
    ]
    assert {process.wait(120) for process in started} == {0}
    written = [(tmp_path / str(number)).read_text().split() for number in range(2)]
    assert [words[0] for words in written] == ["2.0", "2.0"]
    assert {words[2] for words in written} <= {"lo", "lo0"}
