"""README's figures are those of the recorded results."""

import json
from pathlib import Path

import pytest

from pllab.bench.measure import Comparison
from pllab.bench.readme import fill, main

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "assets" / "results"


def test_readme_says_what_the_results_say() -> None:
    text = (ROOT / "README.md").read_text()
    assert fill(text, RESULTS) == text, "run python -m pllab.bench.readme README.md assets/results"


def test_every_bench_has_its_place() -> None:
    for name in ("data_parallel", "fidelity", "fsdp", "pipeline", "schedules", "simulate", "tensor"):
        assert f"<!-- measured: {name} -->\n" in (ROOT / "README.md").read_text(), name


def written(name: str, record: object, folder: Path) -> str:
    (folder / f"{name}_cpu2.json").write_text(json.dumps(record))
    file = folder / "README.md"
    file.write_text(f"before\n<!-- measured: {name} -->\nwhat was there\n<!-- end -->\nafter\n")
    assert main([str(file), str(folder)]) == 0
    text = file.read_text()
    assert text.startswith("before\n") and text.endswith("\n<!-- end -->\nafter\n") and "what was there" not in text
    assert main([str(file), str(folder)]) == 0 and file.read_text() == text
    return text


def test_speed_ups_stand_with_their_spread_and_ratios_are_taken_round_by_round(tmp_path: Path) -> None:
    seconds = {"one": (4.0, 8.0, 4.0), "pllab ZBV": (2.0, 4.0, 3.0), "torch ZBV": (2.5, 5.0, 2.5)}
    work = {"num_layers": 8, "width": 256, "batch_size": 16, "num_tokens": 128, "num_microbatches": 8}
    record = {
        "command": "python -m pllab bench schedules",
        "workload": work,
        "ours_over_torch": {"ZBV": {}},
        **Comparison(seconds, "one").to_json(),
    }
    text = written("schedules", record, tmp_path)
    assert "| ZBV | 2.00x (1.67-2.00) | 1.60x (1.60-1.60) | 0.800 (0.800-1.000) |" in text
    assert "All ratios are taken round by round" in " ".join(text.split())


def test_fidelity_is_a_line_per_engine(tmp_path: Path) -> None:
    record = {
        "command": "python -m pllab bench fidelity",
        "cases": [{"engine": engine} for engine in ("real", "real", "real", "emulated")],
        "median_error": {"real": 0.02, "emulated": 0.001},
        "largest_error": {"real": 0.04, "emulated": 0.001},
    }
    text = " ".join(written("fidelity", record, tmp_path).split())
    assert "real, median error 2.00 %, largest 4.00 % of 3 cases; emulated, median error 0.10 %" in text


def test_simulate_says_the_seconds_and_how_many_rows_hold(tmp_path: Path) -> None:
    spread = {"median": 0.2, "low": 0.19, "high": 0.21}
    record = {
        "command": "python -m pllab bench simulate",
        "num_ranks": 64,
        "num_microbatches": 512,
        "families": {"1F1B": {"seconds": spread, "aim_s": 0.23}, "ZB-H1": {"seconds": spread, "aim_s": None}},
        "judges": [{"holds": True}, {"holds": False}],
    }
    text = written("simulate", record, tmp_path)
    text = " ".join(text.split())
    assert "64 ranks and 512 micro-batches" in text and "1F1B 0.200 s (0.190-0.210), aim 0.23 s; ZB-H1 0.200 s" in text
    assert "1 of 2 rows of theory and print hold in the simulator" in text


def test_what_is_not_recorded_says_how_to_record_it(tmp_path: Path) -> None:
    text = fill("<!-- measured: data_parallel -->\n<!-- end -->", tmp_path)
    assert "`python -m pllab bench data-parallel`: not recorded yet" in text and "data_parallel_cpu2.json" in text


def test_a_mark_of_no_bench_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no bench is named 'weather'"):
        fill("<!-- measured: weather -->\n<!-- end -->", tmp_path)
    assert main(["README.md"]) == 2
