"""Write README's measured figures from the recorded results, so that nobody types a number.

    python -m pllab.bench.readme README.md assets/results

Between `<!-- measured: schedules -->` and `<!-- end -->` stands what `schedules_cpu2.json` says. After a bench was
recorded with `--json assets/results/schedules_cpu2.json`, run it again; a test says where README and results differ.
"""

import json
import re
import statistics
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pllab.bench import data_parallel, pipeline, schedules
from pllab.bench.measure import Comparison, Spread, write_spread

Record = Mapping[str, Any]
_SECTION = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill(text: str, results: Path) -> str:
    """The text with what the results say between its marks.

    Example: `fill(Path("README.md").read_text(), Path("assets/results"))` is README again, when it is up to date.

    Raises:
        ValueError: a mark names a bench whose result nobody knows how to write.
    """
    return _SECTION.sub(lambda found: f"{found[1]}\n{_section(found[2], results)}\n\n{found[3]}", text)


def main(arguments: Sequence[str]) -> int:
    """Fill a file from a folder of results; 0 when done."""
    if len(arguments) != 2:
        sys.stderr.write("name the file and the folder of results: README.md assets/results\n")
        return 2
    file, results = map(Path, arguments)
    file.write_text(fill(file.read_text(), results))
    return 0


def _section(name: str, results: Path) -> str:
    """What one bench measured, with its command, or how to record it."""
    if name not in _WRITERS:
        raise ValueError(f"no bench is named {name!r}; the marks may say {', '.join(_WRITERS)}")
    path = results / f"{name}_cpu2.json"
    if not path.exists():
        command = f"python -m pllab bench {name.replace('_', '-')}"
        return f"`{command}`: not recorded yet; `--json {path.name}` writes the numbers."
    record = json.loads(path.read_text())
    told, *tables = _WRITERS[name](record)
    sentence = textwrap.fill(f"`{record['command']}`: {told}", 120, break_on_hyphens=False, break_long_words=False)
    return "\n\n".join([sentence, *tables])


def _pipeline(record: Record) -> tuple[str, str]:
    comparison, work = _comparison(record), record["workload"]
    m = work["num_microbatches"]
    told = f"forward and backward of {_layers(work)}, two stages."
    ways = {
        pipeline.SEQUENTIAL: "sequential micro-batches, one lane",
        pipeline.PLAIN: "plain model, all cores",
        pipeline.TORCH: "torch.distributed.pipelining, GPipe on 2 ranks",
        pipeline.PIPE: "**`Pipe` on 2 lanes**",
    }
    rows = [
        (label, write_spread(comparison.time(way), 3), write_spread(_speedup(comparison, way), 2, "x"))
        for way, label in ways.items()
    ]
    allowed = Spread(*(seconds * (m + 1) / m for seconds in comparison.time(pipeline.FREE)))
    rows.append((f"what the machine allows: {pipeline.FREE}, times {m + 1}/{m}", write_spread(allowed, 3), ""))
    return told, _table(("Way", "Seconds", "Against sequential"), rows)


def _schedules(record: Record) -> tuple[str, str]:
    comparison = _comparison(record)
    told = (
        f"{_layers(record['workload'])}, on 2 gloo ranks, our executor against PyTorch's, both over one rank that runs "
        f"the micro-batches in turn. {schedules.ROUND_BY_ROUND}"
    )
    names = {"interleaved": "interleaved, 2 stages a rank"}
    rows = [
        (
            names.get(family, family),
            write_spread(_speedup(comparison, f"pllab {family}"), 2, "x"),
            write_spread(_speedup(comparison, f"torch {family}"), 2, "x"),
            write_spread(comparison.ratio(f"pllab {family}", f"torch {family}"), 3),
        )
        for family in record["ours_over_torch"]
    ]
    return told, _table(("Schedule", "pllab", "torch.distributed.pipelining", "Time of pllab over torch"), rows)


def _data_parallel(record: Record) -> tuple[str, str]:
    comparison, work = _comparison(record), record["workload"]
    told = (
        f"one step of GPT-2 ({work['num_layers']} layers, width {work['width']}, "
        f"{record['gradient_bytes'] / 1e6:.0f} MB of gradients) on "
        f"{record['world_size']} gloo ranks, {work['batch_size']} x {work['num_tokens']} tokens each."
    )
    rows = [
        (
            f"**`{way}`**" if way == data_parallel.OURS else way,
            write_spread(comparison.time(way), 3),
            write_spread(comparison.ratio(way), 2),
        )
        for way in comparison.seconds
    ]
    return told, _table(("Way", "Seconds", f"Against {comparison.baseline}"), rows)


def _fidelity(record: Record) -> tuple[str]:
    errors: dict[str, list[float]] = {}
    for case in record["cases"]:
        errors.setdefault(case["engine"], []).append(100 * abs(case["error"]["median"]))
    figures = "; ".join(
        f"{engine}, median error {statistics.median(found):.2f} %, largest {max(found):.2f} % of {len(found)} cases"
        for engine, found in errors.items()
    )
    return (f"a step predicted from costs calibrated on the machine, against the step as it ran: {figures}.",)


def _simulate(record: Record) -> tuple[str]:
    sizes = f"{record['num_ranks']} ranks and {record['num_microbatches']} micro-batches"
    figures = "; ".join(
        f"{family} {write_spread(Spread(**found['seconds']), 3, ' s')}"
        + (f", aim {found['aim_s']} s" if found["aim_s"] else "")
        for family, found in record["families"].items()
    )
    held = f"{sum(row['holds'] for row in record['judges'])} of {len(record['judges'])} rows of theory and print"
    aims = "Aims are a tenth of what the fastest other program took on two such cores."
    return (f"a schedule of {sizes}, made and simulated: {figures}; {held} hold in the simulator. {aims}",)


_WRITERS: dict[str, Callable[[Record], tuple[str, ...]]] = {
    "pipeline": _pipeline,
    "schedules": _schedules,
    "data_parallel": _data_parallel,
    "fidelity": _fidelity,
    "simulate": _simulate,
}


def _comparison(record: Record) -> Comparison:
    """The seconds of all rounds as they were measured."""
    seconds = {name: tuple(run["seconds"]) for name, run in record["runs"].items()}
    return Comparison(seconds, record["baseline"])


def _speedup(comparison: Comparison, way: str) -> Spread:
    """Per round, the baseline's time over this way's."""
    return comparison.ratio(comparison.baseline, way)


def _layers(work: Record) -> str:
    batch = f"{work['batch_size']} x {work['num_tokens']} tokens in {work['num_microbatches']} micro-batches"
    return f"{work['num_layers']} GPT-2 blocks of width {work['width']}, {batch}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
