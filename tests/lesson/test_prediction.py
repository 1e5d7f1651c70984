"""The prediction card: the first guess before the answer is kept, and the figure says the same as its sentence.

In the folder of a class: a file a learner and question, and whatever else lies there does no harm.
"""

import json
import os
from collections import Counter

import pytest

from pllab.lesson import calibration, class_guesses, keeping, predict, prediction, send_guess
from pllab.lesson.guesses import Calibration, Kept, keep
from pllab.lesson.keeping import home
from tests.lesson.committed import NOTEBOOKS, code_cells


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The learner's folder, which is not there yet."""
    monkeypatch.setenv("PLLAB_HOME", str(tmp_path / "kept"))
    monkeypatch.delenv("PLLAB_CLASS", raising=False)
    return tmp_path / "kept"


@pytest.fixture
def class_folder(tmp_path, monkeypatch):
    """The folder of the class, which PLLAB_CLASS names."""
    (tmp_path / "class").mkdir()
    monkeypatch.setenv("PLLAB_CLASS", str(tmp_path / "class"))
    return tmp_path / "class"


def _ask(question="How long?"):
    return predict(question, unit="s", low=0, high=4)


def _kept(guess, measured=1.0, spread=None, question="How long?"):
    return Kept(question=question, unit="s", guess=guess, measured=measured, spread=spread, engine="real")


@pytest.mark.parametrize(
    ("guess", "said"),
    [
        (1.12, "Your guess of 1.12 s was right"),
        (0.96, "Your guess of 0.96 s was right"),
        (0.94, "Your guess of 0.94 s was 0.06 s too low"),
        (2.0, "Your guess of 2 s was 1 s too high"),
        ((0.5, 1.0), "Your range of 0.5 to 1 s holds it"),
        ((0.5, 0.99), "Your range of 0.5 to 0.99 s lies 0.01 s too low"),
        ([1.1, 2], "Your range of 1.1 to 2 s lies 0.1 s too high"),
        ((3, 2), "Your range of 2 to 3 s lies 1 s too high"),
        ((2, 2.0), "Your guess of 2 s was 1 s too high"),
    ],
)
def test_a_number_is_judged_against_the_spread_and_a_range_against_the_measurement(guess, said):
    asked = _ask()
    asked.guess = guess
    shown = asked.reveal(1.0, engine="emulated", spread=(0.99, 1.15), simulated=0.9)
    assert shown.alt == f"Measured (emulated): 1 s (0.99 to 1.15). Simulated: 0.9 s. {said}."


@pytest.mark.parametrize(
    ("unit", "guess", "measured", "said"),
    [
        ("s", None, 8.21e-6, "below 0.01 s. You made no guess."),
        ("s", None, 0.0, "0 s. You made no guess."),
        ("s", None, 12345.0, "12,300 s. You made no guess."),
        ("ranks", 2, 1, "1 rank. Your guess of 2 ranks was 1 rank too high."),
        ("micro-batches", 1, 2, "2 micro-batches. Your guess of 1 micro-batch was 1 micro-batch too low."),
        ("of 4 ranks", 2, 1, "1 of 4 ranks. Your guess of 2 of 4 ranks was 1 of 4 ranks too high."),
        ("messages", 38, 40, "40 messages. Your guess of 38 messages was 2 messages too low."),
    ],
)
def test_a_number_is_told_as_people_read_it_and_a_count_is_right_only_if_it_is_exact(unit, guess, measured, said):
    asked = predict("How many?", unit=unit, low=0, high=40, counted=unit != "s")
    if guess is not None:
        asked.guess = guess
    assert asked.reveal(measured, engine="real").alt == f"Measured (real): {said}"


@pytest.mark.parametrize("guess", [None, 2.0, (1.0, 3.0)])
def test_a_measurement_off_the_axis_is_still_drawn(guess):
    asked = _ask()
    if guess is not None:
        asked.guess = guess
    shown = asked.reveal(9.5, engine="real", spread=(9.0, 10.0), simulated=8.0, calculated=7.0)
    assert shown.png.startswith(b"\x89PNG")
    axes = shown.canvas.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()][:3] == ["measured (real)", "simulated", "calculated"]
    assert axes.get_xlim() == (0, 10)
    assert not any(mark.get_clip_on() for mark in axes.lines), "a mark at an end of the axis is drawn whole"
    assert len(axes.patches) == (guess == (1.0, 3.0))
    assert [(bar.get_x(), bar.get_width()) for bar in axes.patches] == [(1.0, 2.0)] * len(axes.patches)


@pytest.mark.parametrize(
    ("lower", "upper", "noted"),
    [("1.5", "", 1.5), ("", "1.5", 1.5), ("2", "2.0", 2.0), ("1", " 2 ", (1.0, 2.0)), ("3", "1", (1.0, 3.0))],
)
def test_the_button_notes_a_number_or_both_ends(lower, upper, noted):
    asked = _ask("How long < 2?")
    bundle = asked._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert bundle["text/plain"] == "Predict: How long < 2? (no guess yet)"
    question, row, how, said = asked._card.children
    low, high, unit, button = row.children
    assert [low.value, high.value, unit.value] == ["", "", "s"], "a number in a box is an anchor"
    assert "From 0 to 4: a number, or a range" in how.value and "How long &lt; 2?" in question.value
    low.value, high.value = lower, upper
    button.click()
    assert asked.guess == noted
    assert said.value == f"Noted: {asked.write_guess()}."
    low.value = "<1>"
    button.click()
    assert said.value.startswith("Not noted: a guess is a number or a range (low, high), not [&#x27;&lt;1&gt;&#x27;")
    asked.reveal(1.0, engine="real")
    button.click()
    assert said.value == "Not noted: the answer was revealed before, so a guess does not count any more."
    assert asked.guess == noted


@pytest.mark.parametrize(
    ("guess", "why"),
    [
        (5, "a guess of 5 lies outside"),
        ((1, 5), "a guess of 5 lies outside"),
        (float("nan"), "a guess of nan lies outside"),
        *((guess, "a number or a range") for guess in ("a lot", (1, 2, 3), [], None)),
        *((guess, "the answer is counted; choose a whole number") for guess in (2.5, (1, 3.5))),
    ],
)
def test_an_impossible_guess_is_refused_and_the_one_before_stays(guess, why):
    asked = predict("How many?", unit="ranks", low=0, high=4, counted=True)
    asked.guess = (1, 4)
    with pytest.raises(ValueError, match=why):
        asked.guess = guess
    assert asked.guess == (1, 4)


@pytest.mark.parametrize("measured", [float("nan"), float("inf")])
def test_a_measurement_that_is_no_number_is_refused_and_the_guess_stays_open(folder, measured):
    asked = _ask()
    asked.guess = 2.0
    with pytest.raises(ValueError, match=f"the measurement is {measured}; measure again"):
        asked.reveal(measured, engine="real")
    asked.guess = 3.0
    assert asked.guess == 3.0 and not folder.exists()


def test_the_first_guess_and_its_outcome_are_kept(folder):
    asked = _ask()
    asked.guess = (1, 2)
    assert asked.reveal(1.5, engine="emulated", spread=(1, 2)).alt.endswith("Your range of 1 to 2 s holds it.")
    again = _ask()  # the cell was run again, or the kernel was
    again.guess = 2.5
    again.reveal(2.5, engine="real")
    other = _ask("And how long now?")
    other.guess = 2
    other.reveal(4, engine="calculated")
    first, second = json.loads((folder / "predictions.json").read_text())
    assert (first["guess"], first["measured"], first["spread"]) == ([1.0, 2.0], 1.5, [1.0, 2.0])
    assert (second["guess"], second["measured"], second["spread"]) == (2.0, 4.0, None)
    assert [one.guess for one in calibration().kept] == [(1.0, 2.0), 2.0]
    assert [path.name for path in folder.iterdir()] == ["predictions.json"]


@pytest.mark.parametrize(
    "text",
    ["{", "3", "null", "[3]", '[{"question": "x"}]', "[" * 100_000, "\ud800", json.dumps([{"guess": "NaN"}])],
    ids=range(8),
)
def test_a_file_that_is_not_ours_is_left_alone_and_said(folder, text):
    folder.mkdir()
    path = folder / "predictions.json"
    path.write_bytes(text.encode(errors="surrogatepass"))
    asked = _ask()
    asked.guess = 2
    told = "predictions.json is not a list of guesses; move it away."
    assert asked.reveal(1, engine="real").alt.endswith(f"too high. Your guess was not kept: {told}")
    with pytest.raises(ValueError, match="is not a list of guesses"):
        calibration()
    assert path.read_bytes() == text.encode(errors="surrogatepass")


def test_a_folder_that_cannot_be_used_is_said_without_its_name(folder):
    folder.write_text("a file")
    told = keep(_kept(1.0))
    assert told == "Your guess was not kept: Not a directory."


def test_the_score_of_a_course():
    for number, guess in enumerate([(0.5, 1.5), (0.9, 1.0), (2.0, 4.0), 1.3, 1.2, 0.0]):
        assert keep(_kept(guess, spread=(0.8, 1.25), question=f"Number <{number}>?")) == ""
    score = calibration()
    assert [one.held for one in score.kept] == [True, True, False, False, True, False]
    assert score.sentences() == [
        "2 of 3 ranges held the measurement; promised were 80 %, that is 2.4. "
        "That agrees, as far as 3 ranges can tell.",
        "1 of 3 single numbers were right: within the spread, or within 5 % of the measurement.",
        "Your typical guess was off by a factor of 1.20 (the median).",
    ]
    assert "missed: Number <2>? guess 2 to 4 s, measured 1 s (0.8 to 1.25), real, factor 2.83" in repr(score)
    lines = repr(score).splitlines()
    assert len(lines) == 3 + 6 + 1 and max(map(len, lines)) <= 96 and lines[1] == "  ranges can tell."


@pytest.mark.parametrize(
    ("held", "count", "verdict"),
    [
        *[(0, 1, "That agrees"), (1, 1, "That agrees"), (0, 2, "too narrow"), (2, 5, "too narrow")],
        *[(3, 5, "That agrees"), (10, 10, "That agrees"), (11, 11, "could be narrower"), (6, 11, "too narrow")],
    ],
)
def test_a_verdict_needs_more_than_chance(held, count, verdict):
    score = Calibration(tuple(_kept((0.5, 1.5) if number < held else (2.0, 3.0)) for number in range(count)))
    assert verdict in score.sentences()[0]


@pytest.mark.parametrize(("guess", "factor"), [(2.0, 4.0), ((0.25, 1.0), 1.0), ((0.0, 1.0), 1.0), (0.0, None)])
def test_the_factor_off_is_that_of_the_middle(guess, factor):
    assert _kept(guess, measured=0.5).factor == factor


def test_the_learners_folder(monkeypatch, tmp_path):
    assert home() == tmp_path / "kept"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PLLAB_HOME", "~/work")
    assert home() == tmp_path / "work"
    monkeypatch.delenv("PLLAB_HOME")
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.chdir(tmp_path)
    assert home() == tmp_path


@pytest.mark.filterwarnings("ignore:Implicitly cleaning up")
def test_the_folder_under_ci_is_there_until_python_lets_go_of_it(monkeypatch):
    """At the latest when Python lets go of everything, as the end of a process does."""
    monkeypatch.delenv("PLLAB_HOME")
    monkeypatch.setenv("CI", "1")
    folder = home()
    assert folder.is_dir() and home() == folder
    keeping._temporary.cache_clear()
    assert not folder.exists()


def test_no_two_lessons_ask_the_same_question():
    """The first guess to a question is kept, so the second lesson's would be lost."""
    cells = [cell for path in NOTEBOOKS for cell in code_cells(path)]
    shown = [output.get("data", {}).get("text/plain", "") for cell in cells for output in cell.outputs]
    asked = [text for text in shown if text.startswith("Predict: ")]
    assert asked and {text: count for text, count in Counter(asked).items() if count > 1} == {}


def _send(asked, *guesses):
    for number, guess in enumerate(guesses):
        assert send_guess(asked, guess, learner=f"learner {number}") == ""


def test_the_card_sends_the_guess_and_a_later_one_replaces_it(class_folder):
    asked = _ask()
    asked.guess = 1
    (path,) = class_folder.iterdir()
    assert json.loads(path.read_text()) == 1.0
    asked.guess = (2, 3)
    assert [json.loads(one.read_text()) for one in class_folder.iterdir()] == [[2.0, 3.0]]
    assert os.environ["PLLAB_HOME"] not in path.name and path.stat().st_mode & 0o777 == 0o644


def test_nothing_is_sent_where_no_class_is(class_folder, monkeypatch):
    monkeypatch.delenv("PLLAB_CLASS")
    asked = _ask()
    asked.guess = 1
    assert asked.noted == "Noted: 1 s."
    assert not list(class_folder.iterdir())
    with pytest.raises(ValueError, match="no folder of a class is named; set PLLAB_CLASS"):
        class_guesses(asked)


def test_a_folder_that_cannot_be_used_is_said_and_stops_nothing(class_folder, monkeypatch):
    class_folder.rmdir()
    asked = _ask()
    asked.guess = 1
    assert asked.noted == "Noted: 1 s. Your guess was not sent to the class: No such file or directory."
    with pytest.raises(FileNotFoundError):
        class_guesses(asked)
    monkeypatch.setenv("PLLAB_CLASS", str(class_folder.parent))
    monkeypatch.delenv("PLLAB_HOME")
    monkeypatch.delenv("CI", raising=False)
    class_folder.mkdir()
    monkeypatch.chdir(class_folder)
    class_folder.rmdir()  # the learner's own
    asked.guess = 2
    assert asked.noted == "Noted: 2 s. Your guess was not sent to the class: No such file or directory."


def test_two_learners_of_one_machine_have_a_file_each(class_folder, monkeypatch):
    for name in "ada", "grace":
        monkeypatch.setenv("JUPYTERHUB_USER", name)
        _ask().guess = 1
    monkeypatch.setenv("PLLAB_HOME", str(class_folder.parent / "elsewhere"))
    _ask().guess = 1
    assert len(list(class_folder.iterdir())) == 3
    assert class_guesses(_ask()).alt.startswith("3 learners guessed: 3 from 0.8 to 1.2;")


def test_the_picture_is_its_sentence(class_folder):
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
def test_a_guess_between_two_bars_counts_in_the_one_that_begins_there(low, high, class_folder):
    asked = predict("How long?", unit="s", low=low, high=high)
    _send(asked, *(low + (high - low) * number / 10 for number in range(10)), high)
    assert [bar.get_height() for bar in class_guesses(asked).canvas.axes[0].patches] == [1] * 9 + [2]


def test_what_is_counted_has_a_bar_for_each_number(class_folder):
    asked = predict("How many?", unit="ranks", low=0, high=60, counted=True)
    _send(asked, 1, 1, 60)
    assert class_guesses(asked).alt == "3 learners guessed: 2 at 1, 1 at 60; the middle one is 1 rank."


def test_what_others_wrote_is_left_out_and_counted(class_folder, tmp_path):
    asked = _ask()
    _send(asked, 1.0)
    (good,) = class_folder.iterdir()
    key = good.name.partition("-")[0]
    bad = ["", "{", "[]", "null", "5", "[1, 2, 3]", "NaN", '{"guess": 1}', "[" * 150, "9" * 190]
    for number, text in enumerate(bad):
        (class_folder / f"{key}-bad{number}.json").write_text(text)
    (class_folder / f"{key}-bytes.json").write_bytes(b"\xff")
    (class_folder / f"{key}-large.json").write_text("[" + "1, " * 100 + "1]")
    os.mkfifo(class_folder / f"{key}-pipe.json")
    (tmp_path / "elsewhere").write_text("1")
    (class_folder / f"{key}-link.json").symlink_to(tmp_path / "elsewhere")
    (class_folder / f"{key}-class_folder.json").mkdir()
    (class_folder / "notes.txt").write_text("1")
    left_out = f"{len(bad) + 5} files could not be used."
    said = f"1 learner guessed: 1 from 0.8 to 1.2; the middle one is 1 s. {left_out}"
    assert class_guesses(asked).alt == said


@pytest.mark.filterwarnings("error")
def test_only_so_many_files_are_read(class_folder, monkeypatch):
    monkeypatch.setattr(prediction, "MOST_FILES", 3)
    asked = _ask()
    _send(asked, *[1.0] * 5)
    assert class_guesses(asked).alt.startswith("3 learners guessed")
