"""Write README's measured figures from the recorded results, so that nobody types a number.

    python -m pllab.bench.readme README.md assets/results

The text between `<!-- measured: schedules -->` and `<!-- end -->` is made from `schedules_cpu2.json`. Run this again
after recording a bench with `--json assets/results/schedules_cpu2.json`; a test compares README and results.
"""

import json
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pllab.bench import gradient_steps, pipeline_steps
from pllab.bench.marked import between_marks, table
from pllab.bench.measure import Comparison, Spread
from pllab.bench.schedule_steps import ROUND_BY_ROUND

Record = Mapping[str, Any]


def fill(text: str, results: Path) -> str:
    """The text with the results between its marks.

    Example: `fill(Path("README.md").read_text(), Path("assets/results"))` is README again, if it is up to date.

    Raises:
        ValueError: a mark names an unknown bench.
    """
    return between_marks(text, r"measured: (\w+)", lambda mark: _section(mark[2], results))


def main(arguments: Sequence[str]) -> int:
    """Fill a file from a folder of results; 0 when done."""
    if len(arguments) != 2:
        sys.stderr.write("name the file and the folder of results: README.md assets/results\n")
        return 2
    file, results = map(Path, arguments)
    file.write_text(fill(file.read_text(), results))
    return 0


def _section(name: str, results: Path) -> str:
    """The results of one bench with its command, or how to record them."""
    if name not in _WRITERS:
        raise ValueError(f"no bench is named {name!r}; the marks may say {', '.join(_WRITERS)}")
    path = results / f"{name}_cpu2.json"
    if not path.exists():
        command = f"python -m pllab bench {name.replace('_', '-')}"
        return f"`{command}`: not recorded yet; `--json {path.name}` writes the numbers."
    record = json.loads(path.read_text())
    about, *tables = _WRITERS[name](record)
    sentence = textwrap.fill(f"`{record['command']}`: {about}", 120, break_on_hyphens=False, break_long_words=False)
    return "\n\n".join([sentence, *tables])


def _pipeline(record: Record) -> tuple[str, str]:
    comparison, m = _comparison(record), record["workload"]["num_microbatches"]
    labels = {
        pipeline_steps.SEQUENTIAL: "sequential micro-batches, one lane",
        pipeline_steps.PLAIN: "plain model, all cores",
        pipeline_steps.TORCH: "torch.distributed.pipelining, GPipe on 2 ranks",
        pipeline_steps.PIPE: "**`Pipe` on 2 lanes**",
    }
    rows = [(label, comparison.time(way).text(3), _speedup(comparison, way)) for way, label in labels.items()]
    allowed = comparison.time(pipeline_steps.FREE).scaled((m + 1) / m)
    rows.append((f"what the machine allows: {pipeline_steps.FREE}, times {m + 1}/{m}", allowed.text(3), ""))
    about = f"forward and backward of {_layers(record['workload'])}, two stages."
    return about, table(("Way", "Seconds", "Against sequential"), rows)


def _schedules(record: Record) -> tuple[str, str]:
    comparison = _comparison(record)
    about = (
        f"{_layers(record['workload'])}, on 2 gloo ranks, our executor against PyTorch's, both over one rank that runs "
        f"the micro-batches in turn. {ROUND_BY_ROUND}"
    )
    rows = []
    for family in record["ours_over_torch"]:
        pllab_way, torch_way = f"pllab {family}", f"torch {family}"
        name = "interleaved, 2 stages a rank" if family == "interleaved" else family
        ratio = comparison.ratio(pllab_way, torch_way).text(3)
        rows.append((name, _speedup(comparison, pllab_way), _speedup(comparison, torch_way), ratio))
    return about, table(("Schedule", "pllab", "torch.distributed.pipelining", "Time of pllab over torch"), rows)


def _data_parallel(record: Record) -> tuple[str, str]:
    """The ways to average gradients, or to shard."""
    comparison, work = _comparison(record), record["workload"]
    about = (
        f"one step of GPT-2 ({work['num_layers']} layers, width {work['width']}, "
        f"{record['gradient_bytes'] / 1e6:.0f} MB of gradients) on "
        f"{record['world_size']} gloo ranks, {work['batch_size']} x {work['num_tokens']} tokens each."
    )
    ours, theirs = record.get("ours", gradient_steps.OURS), comparison.baseline
    held = {way: f"{num_bytes / 2**20:.1f} MiB" for way, num_bytes in record["peak_bytes"].items()}
    if ours in held and theirs in held:
        about += f" Most memory of a rank: {ours} {held[ours]}, {theirs} {held[theirs]}."
    labels = {way: f"**`{way}`**" if way == ours else way for way in comparison.seconds}
    rows = [(label, comparison.time(way).text(3), comparison.ratio(way).text(2)) for way, label in labels.items()]
    return about, table(("Way", "Seconds", f"Against {comparison.baseline}"), rows)


def _tensor(record: Record) -> tuple[str, str]:
    rows = []
    for name, part in record["models"].items():
        comparison = _comparison(part)
        rows += [(name, way, comparison.time(way).text(3), comparison.ratio(way).text(2)) for way in comparison.seconds]
    about = "forward and backward of layers split over 2 gloo ranks, and of the whole model on each; below 1 is faster."
    return about, table(("Model", "Way", "Seconds", "Against DTensor"), rows)


def _fidelity(record: Record) -> tuple[str]:
    num_cases = Counter(case["engine"] for case in record["cases"])
    figures = "; ".join(
        f"{engine}, median error {100 * median:.2f} %, largest {100 * record['largest_error'][engine]:.2f} % "
        f"of {num_cases[engine]} cases"
        for engine, median in record["median_error"].items()
    )
    return (f"a step predicted from costs calibrated on the machine, against the step as it ran: {figures}.",)


def _simulate(record: Record) -> tuple[str]:
    sizes = f"{record['num_ranks']} ranks and {record['num_microbatches']} micro-batches"
    figures = "; ".join(
        f"{family} {Spread(**numbers['seconds']).text(3, ' s')}"
        + (f", aim {numbers['aim_s']} s" if numbers["aim_s"] else "")
        for family, numbers in record["families"].items()
    )
    held = f"{sum(row['holds'] for row in record['judges'])} of {len(record['judges'])} rows of theory and print"
    aims = "Aims are a tenth of what the fastest other program took on two such cores."
    return (f"a schedule of {sizes}, made and simulated: {figures}; {held} hold in the simulator. {aims}",)


def _faults(record: Record) -> tuple[str, str]:
    tries: list[dict[str, Any]] = record["tries"]
    rows = []
    for moment in dict.fromkeys(each["moment"] for each in tries):
        those = [each for each in tries if each["moment"] == moment]
        off = max(abs(each["goodput_counted"] / each["goodput_injected"] - 1) for each in those)
        waits = [each["recovery_s"] for each in those]
        lost = sum(not each["is_complete"] for each in those)
        sums = [sum(each[name] for each in those) for name in ("repeated_steps", "orphans")]
        hangs = sum(wait > _HANG_S for wait in waits)
        rows.append((moment, *map(str, (len(those), lost, *sums, hangs)), f"{max(waits):.1f}", f"{off:.2%}"))
    head = (
        "Killed in",
        "Tries",
        "With other losses",
        "Steps repeated",
        "Orphans",
        "Hangs",
        "Longest s to go on",
        "Goodput off",
    )
    about = (
        "training under torchrun on one agent with 2 ranks or two agents with one each, a checkpoint every 3 steps; a "
        "rank or an agent is killed once. Goodput is compared with a log that the ranks write of begin, steps and end. "
        "In set-up, a rank that waits for one of another agent goes on at its deadline, here 60 s."
    )
    return about, table(head, rows)


_HANG_S = 70.0  # the ranks' deadline and ten seconds
_WRITERS: dict[str, Callable[[Record], tuple[str, ...]]] = {
    "pipeline": _pipeline,
    "schedules": _schedules,
    "data_parallel": _data_parallel,
    "fidelity": _fidelity,
    "fsdp": _data_parallel,
    "tensor": _tensor,
    "simulate": _simulate,
    "faults": _faults,
}


def _comparison(record: Record) -> Comparison:
    """The seconds of all rounds as they were measured."""
    return Comparison({name: tuple(run["seconds"]) for name, run in record["runs"].items()}, record["baseline"])


def _speedup(comparison: Comparison, way: str) -> str:
    """Per round, the baseline's time over this way's."""
    return comparison.ratio(comparison.baseline, way).text(2, "x")


def _layers(work: Record) -> str:
    batch = f"{work['batch_size']} x {work['num_tokens']} tokens in {work['num_microbatches']} micro-batches"
    return f"{work['num_layers']} GPT-2 blocks of width {work['width']}, {batch}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
