"""The figures of docs/measured.md are those of the recorded results."""

import json
from pathlib import Path

from pllab.bench.document import fill, main
from pllab.bench.measure import Comparison
from pllab.bench.rivals import Rivals
from pllab.bench.workloads import Workload

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "assets" / "results"
PAGE = ROOT / "docs" / "measured.md"


def test_the_page_says_of_every_bench_what_the_results_say() -> None:
    text = PAGE.read_text()
    assert fill(text, RESULTS) == text, "run python -m pllab.bench.document docs/measured.md assets/results"
    for name in ("data_parallel", "faults", "fidelity", "fsdp", "pipeline", "tensor"):
        assert f"<!-- measured: {name} -->\n" in text, name


def test_ratios_are_taken_round_by_round_and_stand_with_their_spread(tmp_path: Path) -> None:
    comparison = Comparison({"ours": (2.0, 4.0, 3.0), "theirs": (2.5, 5.0, 2.5), "one": (4.0, 8.0, 4.0)}, "one")
    result = Rivals("a step.", Workload(), "ours", "theirs", comparison)
    record = {"command": "python -m pllab bench rivals", **result.to_json()}
    (tmp_path / "rivals_cpu2.json").write_text(json.dumps(record))
    file = tmp_path / "page.md"
    file.write_text("before\n<!-- measured: rivals -->\nwhat was there\n<!-- end -->\nafter\n")
    main(file, tmp_path)
    text = file.read_text()
    assert text.startswith("before\n") and text.endswith("\n<!-- end -->\nafter\n") and "what was there" not in text
    assert "`python -m pllab bench rivals`: a step." in text
    assert "| **`ours`** | 3.000 (2.500-3.500) | 0.800 (0.800-1.000) |" in text
    assert "| theirs | 2.500 (2.500-3.750) | 1.000 (1.000-1.000) |" in text
