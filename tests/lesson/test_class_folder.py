"""The folder of a class: a file a learner and question, and whatever else lies there does no harm."""

import json
import os

import pytest

from pllab.lesson import class_guesses, predict, prediction, send_guess


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The folder of the class, which PLLAB_CLASS names."""
    (tmp_path / "class").mkdir()
    monkeypatch.setenv("PLLAB_HOME", str(tmp_path / "kept"))
    monkeypatch.setenv("PLLAB_CLASS", str(tmp_path / "class"))
    return tmp_path / "class"


def _ask(question="How long?"):
    return predict(question, unit="s", low=0, high=4)


def _send(asked, *guesses):
    for number, guess in enumerate(guesses):
        assert send_guess(asked, guess, learner=f"learner {number}") == ""


def test_the_card_sends_the_guess_and_a_later_one_replaces_it(folder):
    asked = _ask()
    asked.guess = 1
    (path,) = folder.iterdir()
    assert json.loads(path.read_text()) == 1.0
    asked.guess = (2, 3)
    assert [json.loads(one.read_text()) for one in folder.iterdir()] == [[2.0, 3.0]]
    assert os.environ["PLLAB_HOME"] not in path.name and path.stat().st_mode & 0o777 == 0o644


def test_nothing_is_sent_where_no_class_is(folder, monkeypatch):
    monkeypatch.delenv("PLLAB_CLASS")
    asked = _ask()
    asked.guess = 1
    assert asked.noted == "Noted: 1 s."
    assert not list(folder.iterdir())
    with pytest.raises(ValueError, match="no folder of a class is named; set PLLAB_CLASS"):
        class_guesses(asked)


def test_a_folder_that_cannot_be_used_is_said_and_stops_nothing(folder, monkeypatch):
    folder.rmdir()
    asked = _ask()
    asked.guess = 1
    assert asked.noted == "Noted: 1 s. Your guess was not sent to the class: No such file or directory."
    with pytest.raises(FileNotFoundError):
        class_guesses(asked)
    monkeypatch.setenv("PLLAB_CLASS", str(folder.parent))
    monkeypatch.delenv("PLLAB_HOME")
    monkeypatch.delenv("CI", raising=False)
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()  # the learner's own
    asked.guess = 2
    assert asked.noted == "Noted: 2 s. Your guess was not sent to the class: No such file or directory."


def test_two_learners_of_one_machine_have_a_file_each(folder, monkeypatch):
    for name in "ada", "grace":
        monkeypatch.setenv("JUPYTERHUB_USER", name)
        _ask().guess = 1
    monkeypatch.setenv("PLLAB_HOME", str(folder.parent / "elsewhere"))
    _ask().guess = 1
    assert len(list(folder.iterdir())) == 3
    assert class_guesses(_ask()).alt.startswith("3 learners guessed: 3 from 0.8 to 1.2;")


def test_the_picture_is_its_sentence():
    asked = _ask()
    _send(asked, 0, 1, 1.1, (1, 1.3), 4)
    _send(_ask("Another?"), 3)
    shown = class_guesses(asked)
    assert (
        shown.alt == "5 learners guessed: 1 from 0 to 0.4, 3 from 0.8 to 1.2, 1 from 3.6 to 4; the middle one is 1.1 s."
    )
    assert [bar.get_height() for bar in shown.canvas.axes[0].patches] == [1, 0, 3, 0, 0, 0, 0, 0, 0, 1]
    assert shown.caption == f"How long? {shown.alt}"


@pytest.mark.parametrize(("low", "high"), [(0, 4), (0, 3), (1, 8), (0.1, 0.7)])
def test_a_guess_between_two_bars_counts_in_the_one_that_begins_there(low, high):
    asked = predict("How long?", unit="s", low=low, high=high)
    _send(asked, *(low + (high - low) * number / 10 for number in range(10)), high)
    assert [bar.get_height() for bar in class_guesses(asked).canvas.axes[0].patches] == [1] * 9 + [2]


def test_what_is_counted_has_a_bar_for_each_number():
    asked = predict("How many?", unit="ranks", low=0, high=60, counted=True)
    _send(asked, 1, 1, 60)
    assert class_guesses(asked).alt == "3 learners guessed: 2 at 1, 1 at 60; the middle one is 1 ranks."


def test_what_others_wrote_is_left_out_and_counted(folder, tmp_path):
    asked = _ask()
    _send(asked, 1.0)
    (good,) = folder.iterdir()
    key = good.name.partition("-")[0]
    bad = ["", "{", "[]", "null", "5", "[1, 2, 3]", "NaN", '{"guess": 1}', "[" * 150, "9" * 190]
    for number, text in enumerate(bad):
        (folder / f"{key}-bad{number}.json").write_text(text)
    (folder / f"{key}-bytes.json").write_bytes(b"\xff")
    (folder / f"{key}-large.json").write_text("[" + "1, " * 100 + "1]")
    os.mkfifo(folder / f"{key}-pipe.json")
    (tmp_path / "elsewhere").write_text("1")
    (folder / f"{key}-link.json").symlink_to(tmp_path / "elsewhere")
    (folder / f"{key}-folder.json").mkdir()
    (folder / "notes.txt").write_text("1")
    left_out = f"{len(bad) + 5} files could not be used."
    said = f"1 learner guessed: 1 from 0.8 to 1.2; the middle one is 1 s. {left_out}"
    assert class_guesses(asked).alt == said


@pytest.mark.filterwarnings("error")
def test_only_so_many_files_are_read(folder, monkeypatch):
    monkeypatch.setattr(prediction, "MOST_FILES", 3)
    asked = _ask()
    _send(asked, *[1.0] * 5)
    assert class_guesses(asked).alt.startswith("3 learners guessed")
