"""Recordings of the guide's moments: what is written is what is read, labelled, and nothing else is accepted."""

import dataclasses
import json
import pickle
from pathlib import Path

import pytest

from pllab.lesson import Run, recorded
from pllab.lesson.moments import live, record
from pllab.lesson.recordings import MOMENTS, MOST_BYTES, Staircase
from pllab.schedule import one_f_one_b
from pllab.simulate import Costs, simulate

RUN = Run(
    moment="golf",
    engine="emulated",
    date="2026-11-23",
    command="python -m pllab record FOLDER --moments golf",
    machine={"cpu": "Some <CPU>", "cores": 2, "torch": "2.13.0"},
    sentence="It ran.",
    columns=("what", "how long"),
    rows=(("one", "1"), ("two", "2")),
    timelines={"1F1B": simulate(one_f_one_b(2, 3), Costs(0.25, 0.25, 0.25))},
)
STAIRS = Staircase("GPipe", "ms", "MB held", {"stage 0": ((0.0, 0.0), (1.5, 2.0), (3.0, 0.0))})
LABEL = "recorded on Some <CPU>, 2 cores, torch 2.13.0, 2026-11-23; engine emulated"


def written(folder: Path, run: Run = RUN) -> Run:
    (folder / f"{run.moment}.json").write_text(run.to_text(), encoding="utf-8")
    return recorded(run.moment, folder)


def test_what_is_written_is_what_is_read(tmp_path):
    run = dataclasses.replace(RUN, staircases=(STAIRS,))
    assert written(tmp_path, run) == dataclasses.replace(run, is_recorded=True)


def test_what_record_writes_is_what_recorded_reads(tmp_path):
    path = record("late-binding", tmp_path)
    assert path == tmp_path / "late-binding.json"
    seen = recorded("late-binding", tmp_path)
    assert seen.rows == live("late-binding").rows
    assert seen.machine["cores"] >= 1
    assert json.loads(path.read_text())["command"] == "python -m pllab record FOLDER --moments late-binding"


def test_the_label_is_on_everything_that_is_shown(tmp_path):
    shown = written(tmp_path)
    assert shown.label == LABEL
    assert repr(shown).startswith(f"{LABEL}\n")
    table_alone = dataclasses.replace(shown, timelines={})  # a picture has the label in its caption
    assert table_alone.picture() is None
    assert LABEL.replace("<CPU>", "&lt;CPU&gt;") in table_alone._repr_html_()
    for run in (shown, written(tmp_path, dataclasses.replace(RUN, staircases=(STAIRS,)))):
        picture = run.picture()
        assert picture is not None and picture.caption == LABEL and picture.alt.startswith(LABEL)


def test_a_run_of_now_does_not_say_that_it_is_recorded():
    assert RUN.label == "run now on this machine; engine emulated"


def changed(**parts):
    return json.dumps({**RUN.to_json(), **parts})


SPAN = {"engine": "real", "num_ranks": 2}


@pytest.mark.parametrize(
    "text",
    [
        "",
        RUN.to_text()[:-20],
        "[]",
        "null",
        '{"traceEvents": []}',
        "[" * 100_000,
        changed(format="pllab recording 2"),
        changed(engine="dreamt"),
        changed(machine={}),
        changed(machine=[1]),
        changed(rows=[["one"]]),
        changed(rows=[["one", 1]]),
        changed(columns="ab"),
        changed(sentence=None),
        changed(timelines={"1F1B": {**SPAN, "spans": [[2, "0F0", 0, 1]]}}),
        changed(timelines={"1F1B": {**SPAN, "spans": [[0, "0F0", 1, 0]]}}),
        changed(timelines={"1F1B": {**SPAN, "spans": [[0, "run", 0, 1]]}}),
        changed(timelines={"1F1B": {**SPAN, "spans": [[0, "0F0", 0, float("nan")]]}}),
        changed(staircases=[{"title": "t", "x_label": "x", "y_label": "y", "curves": {"a": [[0, True]]}}]),
        changed(staircases=[{"title": "t"}]),
        changed(moment="hang"),
    ],
)
def test_a_broken_or_foreign_file_is_refused_in_a_sentence(text, tmp_path):
    path = tmp_path / "golf.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"golf\.json") as refusal:
        recorded("golf", tmp_path)
    assert "\n" not in str(refusal.value)
    assert f"python -m pllab record {tmp_path}" in str(refusal.value)


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_recording_is_json_and_nothing_that_could_run(tmp_path):
    (tmp_path / "golf.json").write_bytes(pickle.dumps(Trap(tmp_path / "trapped")))
    with pytest.raises(ValueError, match="make it again"):
        recorded("golf", tmp_path)
    assert not (tmp_path / "trapped").exists()


def test_a_missing_recording_and_a_missing_moment_name_the_way_out(tmp_path):
    with pytest.raises(ValueError, match=r"hang\.json is not there; make it with python -m pllab record"):
        recorded("hang", tmp_path)
    for ask in (recorded, live):
        with pytest.raises(ValueError, match=r"'hnag' is no moment of the guide; choose one of late-binding"):
            ask("hnag")


def test_a_recording_that_is_too_large_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr("pllab.lesson.moments.MOST_BYTES", 100)
    with pytest.raises(ValueError, match="more than 100"):
        record("late-binding", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_committed_recordings_are_small_and_readable(moment):
    folder = Path(__file__).parents[2] / "notebooks" / "recorded"
    assert recorded(moment, folder).is_recorded
    assert (folder / f"{moment}.json").stat().st_size <= MOST_BYTES


# The moments themselves show what the guide says of them.


def test_late_binding_ruins_all_tasks_but_the_last():
    rows = live("late-binding").rows
    assert [asked == bare for asked, bare, _ in rows] == [False] * 7 + [True]
    assert all(asked == bound for asked, _, bound in rows)


def test_the_staircase_of_1f1b_is_lower():
    (_, bubble, *gpipe), (_, same_bubble, *one_f_one_b_row) = live("memory-staircase").rows
    assert bubble == same_bubble
    assert (gpipe[0], gpipe[2], one_f_one_b_row[0], one_f_one_b_row[2]) == ("8", "8", "4", "1")
    for at in (1, 3):
        assert float(one_f_one_b_row[at].split()[0]) < 0.7 * float(gpipe[at].split()[0])


def test_a_skipped_call_gives_a_wrong_sum_first_and_stops_the_others_a_step_later():
    rows = live("hang").rows
    assert [row[1:5] for row in rows] == [
        ("0", "30", "70", "waits"),
        ("0", "30", "skipped", "70"),
        ("0", "30", "70", "waits"),
    ]
    assert all("waited until its deadline" in rows[rank][5] for rank in (0, 2))


def test_a_clock_stopped_too_early_is_refused():
    verdicts = [verdict for *_, verdict in live("impossible-number").rows]
    assert [verdict != "can be" for verdict in verdicts][1:] == [True, True, True]


def test_golf_has_its_par_and_a_shorter_order_with_more_room():
    assert [row[1] for row in live("golf").rows] == ["48", "40", "38"]
