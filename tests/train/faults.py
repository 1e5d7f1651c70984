"""Kill ranks and agents of torchrun in the middle of training, and see what is left.

    python -m tests.train.faults --json assets/results/faults_cpu2.json

Each try trains a small GPT-2 under torchrun, on one agent with two ranks or on two agents with one, and kills a rank
once, by SIGKILL, at a chosen moment of a chosen step; some tries kill a whole agent instead. The run must end by itself
with the losses of a run without faults.
"""

import argparse
import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from pllab import cli, comm
from pllab.train import loop

ROOT = Path(__file__).parents[2]
AXES = {
    "zero 3": "--dp 2 --zero 3",
    "pipeline": "--mode pipeline --schedule 1f1b",
    "data parallel": "--mode data_parallel",
    "any size": "--mode data_parallel --dropout 0",
}
NUM_STEPS = 24
HANG_S = 70.0  # the ranks' deadline and ten seconds
WORDS = (
    "--dataset numbers --batch-size 8 --samples-per-epoch 64 --validation-samples 8 --max-length 32 --n-layer 2 "
    "--n-embd 32 --n-head 2 --vocab-size 300 --num-epochs 3 --no-bleu --quiet --device cpu --dropout 0.1 "
    "--timeout-s 60 --peak-flops 1e9 --checkpoint --checkpoint-interval 3 --resume --name run"
).split()


@dataclass(frozen=True)
class Try:
    """One kill: what was trained on how many agents, the moment, the step (from 0) and the rank, or an agent.

    A moment that never comes kills nobody.
    """

    axes: str
    num_agents: int
    moment: str
    step: int
    victim: int


@dataclass(frozen=True)
class Outcome(Try):
    """What was left of one try."""

    is_complete: bool
    """Whether every step's loss after the kill is that of the run without faults."""
    repeated_steps: int
    recovery_s: float
    """From the kill to the first step after it."""
    orphans: int


def tries() -> list[Try]:
    """Twenty kills of ranks over all moments, and two of agents."""
    kills = []
    for number in range(20):
        moment = list(MOMENTS)[number % len(MOMENTS)]
        axes = list(AXES)[number // len(MOMENTS)]
        victim = 0 if moment in ("checkpoint", "move") else number % 2  # rank 0 writes
        step = 0 if moment == "setup" else 2 + 5 * number % 13
        kills.append(Try(axes, 1 + number % 2, moment, step, victim))
    return [*kills, Try("any size", 2, "agent", 7, 1), Try("any size", 2, "agent", 13, 1)]


def run(each: Try, folder: Path) -> tuple[list[float], list[dict], int]:
    """The losses that the last attempt has, the log of all attempts, and the processes left behind."""
    mark = uuid.uuid4().hex
    env = os.environ | {"PLLAB_TEST_MARK": mark, "TMPDIR": str(folder), "OMP_NUM_THREADS": "1"}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]  # where the agents meet
    agents = []
    for number in range(each.num_agents):
        with (folder / f"agent{number}.txt").open("wb") as out:
            words = command(each, folder, number, port)
            agents.append(subprocess.Popen(words, env=env, cwd=ROOT, stdout=out, stderr=out))
    try:
        if each.moment == "agent":
            kill_agent(agents[each.victim], folder, each.step)
            agents.pop(each.victim).wait()
        for agent in agents:
            agent.wait(timeout=240)
        time.sleep(1.5)
        left = orphans(mark)
    finally:
        for agent in agents:
            agent.kill()
    said = [(folder / f"agent{number}.txt").read_text() for number in range(each.num_agents)]
    if any(agent.returncode for agent in agents) or "".join(said).count("validation loss  ") != 1:  # rank 0 alone tells
        raise RuntimeError(f"{each} did not end well: {''.join(text[-6000:] for text in said)}")
    result = json.loads((folder / "run.json").read_text())
    return result["steps"]["loss"], log_of(folder), left


def command(each: Try, folder: Path, number: int, port: int) -> list[str]:
    words = ["-m", "torch.distributed.run", "--nproc-per-node", str(2 // each.num_agents)]
    if each.num_agents == 1:
        words += ["--standalone", "--max-restarts", "1"]
    else:
        nodes = "1:2" if each.moment == "agent" else "2"
        quick = "keep_alive_interval=1,keep_alive_max_attempt=2,last_call_timeout=2"
        words += ["--nnodes", nodes, "--max-restarts", "3", "--rdzv-backend", "c10d", "--rdzv-id", "faults"]
        words += ["--rdzv-endpoint", f"127.0.0.1:{port}", "--local-addr", "127.0.0.1"]
        words += ["--rdzv-conf", f"is_host={int(number == 0)},{quick}"]
    kill = [each.moment, str(each.step), str(each.victim)]
    train = ["train", *WORDS, *AXES[each.axes].split(), "--workdir", str(folder)]
    return [sys.executable, *words, "-m", "tests.train.faults", "--as-rank", str(folder), *kill, *train]


def kill_agent(agent: subprocess.Popen, folder: Path, step: int) -> None:
    """Kill it once rank 0 has taken so many steps; its ranks must end by themselves."""
    until = time.monotonic() + 120
    while sum(event["what"] == "step" for event in log_of(folder)) < step and time.monotonic() < until:
        time.sleep(0.02)
    note(folder, "kill")
    agent.kill()


def orphans(mark: str) -> int:
    """Processes that this try has started and that still live."""
    environments = (process.info["environ"] or {} for process in psutil.process_iter(["environ"]))
    return sum(environment.get("PLLAB_TEST_MARK") == mark for environment in environments)


def log_of(folder: Path) -> list[dict]:
    file = folder / "log.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def note(folder: Path, what: str) -> None:
    with (folder / "log.jsonl").open("a") as file:  # one write of a line is atomic
        file.write(json.dumps({"what": what, "time": time.time()}) + "\n")


def attempt(each: Try, expected: list[float]) -> Outcome:
    """One try in a folder of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        losses, log, left = run(each, folder)
    times = {what: [event["time"] for event in log if event["what"] == what] for what in ("begin", "step", "kill")}
    bound = 1e-5 if each.moment == "agent" else 0.0  # one rank in place of two sums in another order
    tail = expected[-len(losses) :]
    again = min(begun for begun in times["begin"] if begun > times["kill"][0])
    after = min(taken for taken in times["step"] if taken > again)
    return Outcome(
        **asdict(each),
        is_complete=all(abs(a - b) <= bound * abs(b) for a, b in zip(losses, tail, strict=True)),
        repeated_steps=len(times["step"]) - NUM_STEPS,
        recovery_s=after - times["kill"][0],
        orphans=left,
    )


def reference(axes: str) -> list[float]:
    with tempfile.TemporaryDirectory() as name:
        return run(Try(axes, 1, "never", 0, 0), Path(name))[0]


def as_rank(folder: Path, moment: str, step: int, victim: int, words: list[str]) -> int:
    """Train as torchrun's rank; log what rank 0 does, and die once, if this is the rank and the moment comes."""
    taken = [0]
    is_first = int(os.environ["RANK"]) == 0

    def after_step(*_):
        taken[0] += 1
        if is_first:
            note(folder, "step")
        elif moment == "agent" and taken[0] == step:
            time.sleep(300)  # until it ends with its agent: a quick run would be complete before

    register_optimizer_step_post_hook(after_step)
    if is_first:
        make = loop.make_trainer
        loop.make_trainer = lambda *a: (note(folder, "begin"), make(*a))[1]
    if int(os.environ["RANK"]) == victim and moment not in ("never", "agent"):
        MOMENTS[moment](lambda: die(folder) if taken[0] >= step else None)
    return cli.main(words)


def die(folder: Path) -> None:
    """Once in a try."""
    try:
        (folder / "killed").touch(exist_ok=False)
    except FileExistsError:
        return
    note(folder, "kill")
    os.kill(os.getpid(), signal.SIGKILL)


def at_setup(strike) -> None:
    setup = comm.setup
    comm.setup = lambda *a, **k: (strike(), setup(*a, **k))[1]


def at_forward(strike) -> None:
    def on_input(module, _args):
        if module.training:
            strike()

    register_module_forward_pre_hook(on_input)


def at_backward(strike) -> None:
    def on_output(_module, _args, output):
        if isinstance(output, torch.Tensor) and output.requires_grad:
            output.register_hook(lambda _: strike())

    register_module_forward_hook(on_output)


def at_collective(strike) -> None:
    ledger = comm.record_messages(lambda _: strike())
    ledger.__enter__()
    atexit.register(ledger.__exit__, None, None, None)  # who drops it closes it


def at_file(event, strike) -> None:
    """When a file of a checkpoint is opened, or its folder is moved into place."""
    sys.addaudithook(lambda name, args: strike() if name == event and ".draft-" in str(args[0]) else None)


MOMENTS = {  # each calls a function whenever it comes
    "setup": at_setup,
    "forward": at_forward,
    "collective": at_collective,
    "backward": at_backward,
    "optimizer": lambda strike: register_optimizer_step_pre_hook(lambda *_: strike()),
    "checkpoint": lambda strike: at_file("open", strike),
    "move": lambda strike: at_file("os.rename", strike),
}


def summary(outcomes: list[Outcome]) -> dict[str, object]:
    """What docs/measured.md says of them: a sentence, and a row for each moment."""
    rows = []
    for moment in dict.fromkeys(each.moment for each in outcomes):
        those = [each for each in outcomes if each.moment == moment]
        waits = [each.recovery_s for each in those]
        counts = (
            len(those),
            sum(not each.is_complete for each in those),
            sum(each.repeated_steps for each in those),
            sum(each.orphans for each in those),
            sum(wait > HANG_S for wait in waits),
        )
        rows.append([moment, *map(str, counts), f"{max(waits):.1f}"])
    about = (
        "training under torchrun on one agent with 2 ranks or two agents with one each, a checkpoint every 3 steps; a "
        "rank or an agent is killed once. In set-up, a rank that waits for a rank of another agent goes on at the "
        "deadline of that wait, here 60 s."
    )
    counted = ["Tries", "With other losses", "Steps repeated", "Orphans", "Hangs"]
    return {"about": about, "head": ["Killed in", *counted, "Longest s to go on"], "rows": rows}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    expected = {axes: reference(axes) for axes in AXES}
    outcomes = []
    for each in tries():
        outcomes.append(attempt(each, expected[each.axes]))
        sys.stdout.write(f"{outcomes[-1]}\n")
    if options.json:
        record = {"command": "python -m tests.train.faults", **summary(outcomes)}
        record["tries"] = [asdict(each) for each in outcomes]
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--as-rank"]:
        place, when, at, who, *rest = sys.argv[2:]
        sys.exit(as_rank(Path(place), when, int(at), int(who), rest))
    sys.exit(main())
