"""What the widgets' button starts: GPT-2 on real ranks, measured, and laid under the prediction."""

from pathlib import Path

import pytest

from pllab.comm import launch
from pllab.schedule import Schedule, one_f_one_b
from pllab.show import BubbleStudio, ScheduleEditor
from pllab.timeline import Timeline
from tests.pipeline import programs

pytestmark = pytest.mark.ranks


def run_on_ranks(schedule: Schedule) -> Timeline:
    """What an instructor writes to run the schedule on screen on real ranks."""
    return launch(programs.gpt2_on_ranks, schedule.num_ranks, schedule, backend="gloo", timeout_s=100)[0]


def test_the_editor_runs_an_edited_order_on_real_ranks() -> None:
    editor = ScheduleEditor(one_f_one_b(2, 3), memory_limit=2, run=run_on_ranks)
    editor.do("split", "1B0")
    measured = editor.run_it()
    assert measured.engine == "real"
    for rank, row in enumerate(editor.schedule.rows):
        assert tuple(span.action for span in measured.of_rank(rank)) == row
    assert "1I0" in str(editor.schedule)
    assert editor.state()["measured_makespan_s"] == measured.makespan > 0
    assert "real" in editor.view["measured"]


def test_the_studio_lays_real_ranks_under_the_prediction(tmp_path: Path) -> None:
    studio = BubbleStudio("ZB-H1", 2, 4, run=run_on_ranks)
    studio.order = {"what": "run", "number": 1}
    predicted, measured = studio.state()["runs"]
    assert (predicted["engine"], measured["engine"]) == ("simulated", "real")
    assert not studio.view["problem"]
    assert "ZB-H1, real" in studio.export_chrome_trace(tmp_path / "run.json")
