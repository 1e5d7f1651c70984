"""The figures of docs/measured.md are those of the recorded results."""

import json
from pathlib import Path

import pytest

from pllab.bench.document import fill, main
from pllab.bench.fidelity import FidelityBench
from pllab.bench.measure import Comparison
from pllab.bench.rivals import Rivals
from pllab.bench.workloads import PipelineWorkload, Workload

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "assets" / "results"
PAGE = ROOT / "docs" / "measured.md"


def test_the_page_says_what_the_results_say() -> None:
    text = PAGE.read_text()
    assert fill(text, RESULTS) == text, "run python -m pllab.bench.document docs/measured.md assets/results"


def test_every_bench_has_its_place() -> None:
    for name in ("data_parallel", "faults", "fidelity", "fsdp", "pipeline", "tensor"):
        assert f"<!-- measured: {name} -->\n" in PAGE.read_text(), name


def written(name: str, record: object, folder: Path) -> str:
    (folder / f"{name}_cpu2.json").write_text(json.dumps(record))
    file = folder / "page.md"
    file.write_text(f"before\n<!-- measured: {name} -->\nwhat was there\n<!-- end -->\nafter\n")
    assert main([str(file), str(folder)]) == 0
    text = file.read_text()
    assert text.startswith("before\n") and text.endswith("\n<!-- end -->\nafter\n") and "what was there" not in text
    assert main([str(file), str(folder)]) == 0 and file.read_text() == text
    return text


def test_ratios_are_taken_round_by_round_and_stand_with_their_spread(tmp_path: Path) -> None:
    comparison = Comparison({"ours": (2.0, 4.0, 3.0), "theirs": (2.5, 5.0, 2.5), "one": (4.0, 8.0, 4.0)}, "one")
    result = Rivals("a step.", Workload(), "ours", "theirs", comparison)
    text = written("rivals", {"command": "python -m pllab bench rivals", **result.to_json()}, tmp_path)
    assert "`python -m pllab bench rivals`: a step." in text
    assert "| **`ours`** | 3.000 (2.500-3.500) | 0.800 (0.800-1.000) |" in text
    assert "| theirs | 2.500 (2.500-3.750) | 1.000 (1.000-1.000) |" in text


def test_fidelity_is_a_sentence(tmp_path: Path) -> None:
    record: dict[str, object] = {
        "command": "python -m pllab bench fidelity",
        **FidelityBench(PipelineWorkload(), {"gpipe, m=2": (0.02, 0.03)}, {}).to_json(),
    }
    text = " ".join(written("fidelity", record, tmp_path).split())
    assert "as it ran: median error 2.50 %, largest 2.50 % of 1 cases." in text


def test_rows_are_a_table(tmp_path: Path) -> None:
    record = {"command": "x", "about": "kills.", "head": ["Killed in", "Tries"], "rows": [["setup", "3"]]}
    assert "`x`: kills.\n\n| Killed in | Tries |\n| --- | ---: |\n| setup | 3 |\n" in written("kills", record, tmp_path)


def test_what_is_not_recorded_is_refused_with_the_way_to_record_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'weather' is not recorded; run its bench with --json .*weather_cpu2.json"):
        fill("<!-- measured: weather -->\n<!-- end -->", tmp_path)
    assert main(["page.md"]) == 2
