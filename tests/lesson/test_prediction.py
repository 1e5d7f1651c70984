"""The prediction card: the guess is kept, and the figure says the same numbers as its sentence."""

import pytest

from pllab.lesson import predict
from pllab.lesson.prediction import Answer


def _ask():
    return predict("How long?", unit="s", low=0, high=4)


def test_without_a_guess_everything_works_and_says_so():
    asked = _ask()
    assert repr(asked) == "Predict: How long? (no guess yet)"
    shown = asked.reveal(1.234, engine="real", spread=(1.1, 1.4))
    assert shown.alt == "Measured (real): 1.23 s (1.1 to 1.4). You made no guess."
    assert 'alt="Measured (real): 1.23 s' in shown.to_html()


@pytest.mark.parametrize(
    ("guess", "said"),
    [(1.12, "was right"), (0.96, "was right"), (0.94, "was 0.06 s too low"), (2.0, "was 1 s too high")],
)
def test_the_guess_is_judged_against_measurement_and_spread(guess, said):
    asked = _ask()
    asked.guess = guess
    sentence = Answer(asked, 1.0, "emulated", spread=(0.99, 1.15), simulated=0.9).sentence()
    assert sentence.startswith("Measured (emulated): 1 s (0.99 to 1.15). Simulated: 0.9 s. Your guess of ")
    assert sentence.endswith(f"{said}.")


@pytest.mark.parametrize(
    ("measured", "said"), [(8.21e-6, "below 0.001 s"), (0.0, "0 s"), (0.0012, "0.0012 s"), (12345.0, "12,300 s")]
)
def test_numbers_are_written_as_people_read_them(measured, said):
    assert Answer(_ask(), measured, "real").sentence() == f"Measured (real): {said}. You made no guess."


def test_a_measurement_off_the_axis_is_still_drawn():
    shown = _ask().reveal(9.5, engine="real")
    assert shown.png.startswith(b"\x89PNG")


def test_the_button_notes_the_number():
    asked = _ask()
    bundle = asked._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert bundle["text/plain"] == "Predict: How long? (no guess yet)"
    question, row, said = asked._card.children
    number, button = row.children
    number.value = 1.5
    button.click()
    assert asked.guess == 1.5
    assert said.value == "Noted: 1.5 s."
    assert "How long?" in question.value


def test_impossible_cards_and_guesses_are_refused():
    with pytest.raises(ValueError, match="low < high, not 4 and 0"):
        predict("How long?", unit="s", low=4, high=0)
    with pytest.raises(ValueError, match="a guess of 5 lies outside"):
        _ask().guess = 5
