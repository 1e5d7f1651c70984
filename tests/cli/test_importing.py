import pytest

from pllab.cli import main
from pllab.schedule import one_f_one_b
from pllab.simulate import Costs, simulate
from pllab.timeline import Timeline
from tests.show.pages import unpacked
from tests.traces.files import write_run

RUN = simulate(one_f_one_b(2, 4), Costs(0.0021, 0.0017, 0.0013, p2p=0.0004))


def test_a_line_per_fact_and_a_page(tmp_path, capsys):
    first, second = map(str, write_run(tmp_path, RUN))
    page = tmp_path / "run.html"
    assert main(["import", first, "--step=3", second, "-o", str(page)]) == 0  # flags may stand between traces
    lines = capsys.readouterr().out.splitlines()
    names = ["ranks", "schedule", "micro-batches", "step", "clock", "makespan", "bubble fraction", "idle time"]
    causes = ["start-up", "action", "message", "launch", "drain"]
    assert [line[:16].strip() for line in lines[:-1]] == names + causes
    assert lines[-1] == f"page in {page}" and lines[3] == "step             3 of 3"
    makespan = f"{RUN.makespan * 1e3:.3f} ms"
    assert lines[5].endswith(f"{makespan} real, {makespan} simulated; measured over predicted 1.000")
    shares = [float(line.split("%")[0].split()[-1]) for line in lines[8:13]]
    assert sum(shares) == pytest.approx(100, abs=0.1)
    _, runs, _ = unpacked(page.read_text(encoding="utf-8"))
    measured = runs["measured"]
    assert "CPU" in measured["note"]
    assert sum(one["seconds"] for one in measured["causes"]) == pytest.approx(RUN.idle, rel=1e-3)
    predicted = runs[f"{measured['name']}|2|4"]
    assert predicted["step"]["length_s"] == pytest.approx(RUN.makespan) == pytest.approx(measured["step"]["length_s"])
    assert lines[1].endswith(" 1F1B")
    assert lines[7].split()[2] == f"{RUN.idle * 1e3:.3f}"


def test_what_outlasts_an_estimated_message_is_a_launch(tmp_path, capsys):
    *others, last = sorted(RUN.spans, key=lambda span: span.end)
    late = last._replace(start=last.start + 0.001, end=last.end + 0.001)
    paths = write_run(tmp_path, Timeline.of([*others, late], "real", 2))
    assert main(["import", *map(str, paths)]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = {line[:16].strip(): line.split("%")[1].split(",")[0].strip() for line in lines[8:]}
    assert told["launch"] == "1.000 ms" and told["message"] == "1.600 ms"
