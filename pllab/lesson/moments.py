"""The five rehearsed moments of the instructor's guide: each really runs, in seconds, and says what it saw.

`live` runs one in front of a class; `python -m pllab record FOLDER` writes the same runs into files, which `recorded`
shows when the machine of the day does not do what it did at home. All five are wrong in a way that raises no error at
the place of the mistake: that is what makes them worth a class's time.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import torch
from torch import nn

from pllab import comm
from pllab.comm.devices import describe_machine
from pllab.files import write_whole
from pllab.lesson.recordings import MOMENTS, MOST_BYTES, Run, Staircase
from pllab.pipeline import LaneExecutor, Task, clock_cycles, create_workers, live_saved_bytes, run_emulated
from pllab.schedule import Schedule, gpipe, one_f_one_b, peak_in_flight, zb_h1, zero_bubble
from pllab.simulate import Costs, simulate
from pllab.timeline import Engine, Timeline

_WAIT_S = 10.0
_STEP_S = 0.3


@dataclass(frozen=True, kw_only=True)
class SeenLive:
    """What a moment saw: the part of a `Run` that the run itself makes."""

    sentence: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    engine: Engine = "real"
    timelines: dict[str, Timeline] = field(default_factory=dict)
    staircases: tuple[Staircase, ...] = ()


def live(moment: str) -> Run:
    """Run one of the guide's moments now, and show what it saw.

    Example: `live("hang")` as the last line of a cell takes some 8 s and shows ranks that wait.

    Raises:
        ValueError: there is no such moment.
    """
    if moment not in _MAKERS:
        raise ValueError(f"{moment!r} is no moment of the guide; choose one of {', '.join(MOMENTS)}")
    seen = _MAKERS[moment]()
    date = datetime.now(UTC).date().isoformat()
    command = f"python -m pllab record FOLDER --moments {moment}"
    return Run(moment=moment, date=date, command=command, machine=describe_machine(), **vars(seen))


def record(moment: str, folder: Path) -> Path:
    """Run one moment and write it into the folder; return the file, which `recorded` reads.

    Raises:
        ValueError: there is no such moment, or its recording is too large to be kept with the lessons.
        OSError: the file cannot be written.
    """
    text = live(moment).to_text()
    path = folder / f"{moment}.json"
    if len(text.encode()) > MOST_BYTES:
        raise ValueError(f"the recording of {moment} has {len(text.encode())} bytes, more than {MOST_BYTES}")
    write_whole(path, text)
    return path


def late_binding(bind: Callable[[Callable[[int, int], str], int, int], Callable[[], str]] | None = None) -> list[str]:
    """Hand eight tasks to two workers that are held back; return what each task worked on.

    Without `bind` each task is the lambda that everybody writes first.
    """
    go = threading.Event()

    def work(i: int, j: int) -> str:
        go.wait(_WAIT_S)
        return f"micro-batch {i}, stage {j}"

    cells = [cell for cells in clock_cycles(4, 2) for cell in cells]
    with create_workers(["cpu:0", "cpu:1"]) as (in_queues, out_queues):
        for i, j in cells:
            in_queues[j].put(Task(bind(work, i, j) if bind else lambda: work(i, j)))  # noqa: B023 - the bug
        go.set()
        return [out_queues[j].get(timeout=_WAIT_S)[1] for _, j in cells]


def _see_late_binding() -> SeenLive:
    asked = [f"micro-batch {i}, stage {j}" for cells in clock_cycles(4, 2) for i, j in cells]
    bare, bound = late_binding(), late_binding(partial)
    wrong = sum(one != other for one, other in zip(asked, bare, strict=True))
    return SeenLive(
        sentence=f"{wrong} of {len(asked)} tasks worked on the wrong pair, and nothing raised an error.",
        columns=("asked for", "lambda: work(i, j)", "partial(work, i, j)"),
        rows=tuple(zip(asked, bare, bound, strict=True)),
    )


def held_bytes(schedule: Schedule) -> Staircase:
    """One step of a small GPT-2 on four lanes under this schedule: the bytes that the first and last stage hold."""
    from pllab.models import GPT2LMHeadModelParallel, gpt2_config, layers_of  # with all of transformers

    torch.manual_seed(0)
    layers = layers_of(GPT2LMHeadModelParallel(gpt2_config(vocab_size=512, n_layer=4, n_embd=96, n_head=4)))
    stages = [nn.Sequential(*layers[:2]), layers[2], layers[3], nn.Sequential(*layers[4:])]
    ids = torch.randint(512, (2 * schedule.num_microbatches, 64))
    with live_saved_bytes(stages) as saved, LaneExecutor(schedule, stages, _mean_loss) as executor:
        executor.step((ids, ids), ids)
    curves = {f"stage {stage}": tuple(_thinned(saved.over_time(stage))) for stage in (0, 3)}
    return Staircase(f"{schedule.name} (real)", "milliseconds", "MB held", curves)


def _mean_loss(losses: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    return losses.mean() / 63  # a row of 64 tokens has 63 targets


def _thinned(steps: Sequence[tuple[float, int]]) -> list[tuple[float, float]]:
    """The staircase in milliseconds and MB, with the highest step of each half millisecond."""
    highest: dict[int, float] = {}
    for seconds, held in steps:
        slot = int(2000 * seconds)
        highest[slot] = max(highest.get(slot, 0.0), round(held / 1e6, 3))
    if steps:
        highest[int(2000 * steps[-1][0]) + 1] = round(steps[-1][1] / 1e6, 3)
    return [(slot / 2, held) for slot, held in sorted(highest.items())]


def _see_memory() -> SeenLive:
    schedules = [gpipe(4, 8), one_f_one_b(4, 8)]
    staircases = tuple(map(held_bytes, schedules))
    rows = []
    for schedule, stairs in zip(schedules, staircases, strict=True):
        peaks = [f"{max(held for _, held in points):.1f} MB" for points in stairs.curves.values()]
        counts = peak_in_flight(schedule)
        bubble = simulate(schedule, Costs(1, 1, 1)).bubble_fraction
        rows.append((schedule.name, f"{bubble:.1%}", f"{counts[0]:g}", peaks[0], f"{counts[3]:g}", peaks[1]))
    return SeenLive(
        sentence="The same bubble, and another height: 4 stages, 8 micro-batches of a small GPT-2, one step.",
        columns=(
            "schedule",
            "bubble fraction (simulated)",
            "stage 0 holds at most",
            "in bytes (real)",
            "stage 3 holds at most",
            "in bytes (real) ",
        ),
        rows=tuple(rows),
        staircases=staircases,
    )


@dataclass(frozen=True)
class Calls:
    """What one rank saw: by step its sum, when each of its steps was over, and how it ended."""

    sums: dict[int, float]
    done_s: tuple[float, ...]
    end: str
    ended_s: float


def skip_one_call(rank: int, world_size: int, folder: str, deadline_s: float) -> Calls:
    """Four steps with a sum over all ranks in each; in step 2 rank 1 leaves it out and goes on. Runs in a rank.

    The calls go over sockets, in a group whose waits end after `deadline_s` seconds.
    """
    comm.teardown()
    comm.setup(rank, world_size, "gloo", init_file=f"{folder}/meeting", timeout_s=deadline_s)
    sums, done_s = {}, []
    start, end = time.monotonic(), "all steps done"
    try:
        for step in range(4):
            time.sleep(_STEP_S)  # forward and backward
            if rank != 1 or step != 2:  # "my loss is small, I need no update"
                number = torch.tensor(10.0 * step)
                comm.all_reduce(number)
                sums[step] = number.item()
            done_s.append(time.monotonic() - start)
    except comm.PeerError as error:
        end = str(error).partition(";")[0]
    ended_s = time.monotonic() - start
    if rank == 1:
        time.sleep(deadline_s + 1)  # it works on: its connections stay, so nobody learns anything
    return Calls(sums, tuple(done_s), end, ended_s)


def _see_hang(deadline_s: float = 2.0) -> SeenLive:
    with tempfile.TemporaryDirectory(prefix="pllab-moment-") as folder:
        calls: list[Calls] = comm.launch(skip_one_call, 3, folder, deadline_s, backend="gloo", timeout_s=90.0)
    last_s = max(one.ended_s for one in calls)
    rows, curves = [], {}
    for rank, one in enumerate(calls):
        without = ["skipped" if step < len(one.done_s) else "waits" for step in range(4)]
        cells = [f"{one.sums[step]:g}" if step in one.sums else without[step] for step in range(4)]
        rows.append((f"rank {rank}", *cells, f"{one.end} (after {one.ended_s:.1f} s)"))
        steps = [(0.0, 0.0), *((round(at, 3), float(count)) for count, at in enumerate(one.done_s, start=1))]
        curves[f"rank {rank}"] = (*steps, (round(last_s, 3), steps[-1][1]))
    return SeenLive(
        sentence=(
            "Right sums are 0, 30, 60 and 90. Rank 1 left out step 2: ranks 0 and 2 added its number of step 3 to "
            f"theirs of step 2, went on with a wrong sum, and waited in step 3. The deadline is {deadline_s:g} s."
        ),
        columns=("", "step 0", "step 1", "step 2", "step 3", "end"),
        rows=tuple(rows),
        staircases=(Staircase("a rank that leaves out a call (real)", "seconds", "steps done", curves),),
    )


def _see_impossible() -> SeenLive:
    from pllab.bench import compare  # the bench loads slowly, and ranks that run moments do without

    matrix = torch.rand(256, 256)

    def task() -> None:
        for _ in range(4):
            matrix @ matrix

    def hand_out(lanes: Sequence[ThreadPoolExecutor]) -> list["Future[None]"]:
        return [lanes[number % len(lanes)].submit(task) for number in range(24)]

    def finish(lanes: Sequence[ThreadPoolExecutor]) -> None:
        for work in hand_out(lanes):
            work.result(_WAIT_S)

    one, two = (ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,)) for _ in range(2))
    with one, two:
        runs: dict[str, Callable[[], object]] = {
            "one lane, waited for": partial(finish, [one]),
            "two lanes, waited for": partial(finish, [one, two]),
            "two lanes, clock stopped when all is handed out": partial(hand_out, [one, two]),
        }
        # What was only handed out must not run into the next round.
        before = {name: lambda: [lane.submit(int).result(_WAIT_S) for lane in (one, two)] for name in runs}
        times = compare(runs, repeats=7, before=before)
    rows = [_judged(f"this machine: {name}", times.ratio(name).median) for name in list(runs)[1:]]
    rows += [_judged("a course's report, from times", 1 / 2.39), _judged("the same run, from throughputs", 1 / 14.43)]
    refused = sum(verdict != "can be" for _, _, verdict in rows)
    return SeenLive(
        sentence=f"{refused} of {len(rows)} speed-ups on 2 devices are refused.",
        columns=("reported", "times as fast", "verdict"),
        rows=tuple(rows),
    )


def _judged(name: str, ratio: float) -> tuple[str, str, str]:
    from pllab.bench.measure import Implausible, check_speedup

    try:
        check_speedup(1 / ratio, num_devices=2, name="it")
    except Implausible as error:
        return name, f"{1 / ratio:,.2f}", str(error)
    return name, f"{1 / ratio:,.2f}", "can be"


def _see_golf() -> SeenLive:
    costs, unit_s = Costs(0.03, 0.03, 0.02), 0.01
    played = [one_f_one_b(3, 4), zb_h1(3, 4), zero_bubble(3, 4, costs, 6, makespan_first=True)]
    names = ["1F1B", "ZB-H1, par with room for 3", "the search, par with room for 6"]
    timelines, rows = {}, []
    for name, schedule in zip(names, played, strict=True):
        ran, predicted = run_emulated(schedule, costs, unit_s=1.0), simulate(schedule, costs)
        timelines[name] = ran.from_zero()
        held = f"{max(peak_in_flight(schedule)):g}"
        rows.append((name, f"{predicted.makespan / unit_s:g}", f"{ran.makespan / unit_s:.1f}", held))
    return SeenLive(
        engine="emulated",
        sentence="3 ranks, 4 micro-batches, F and I take 3 units of 10 ms and W takes 2: one step, in units.",
        columns=("schedule", "simulated", "emulated", "a rank holds at most"),
        rows=tuple(rows),
        timelines=timelines,
    )


_MAKERS: dict[str, Callable[[], SeenLive]] = dict(
    zip(MOMENTS, (_see_late_binding, _see_memory, _see_hang, _see_impossible, _see_golf), strict=True)
)
