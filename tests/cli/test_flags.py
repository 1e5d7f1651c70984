"""Flags from signatures, and the one sentence for what is wrong with them."""

from dataclasses import dataclass, field
from typing import Literal

import pytest

from pllab.cli.flags import bind, parse
from pllab.train import TrainConfig


@dataclass(frozen=True, kw_only=True)
class Inner:
    """What is inside."""

    kind: Literal["plain", "fancy"] = "plain"
    """Which kind."""
    rows: int | None = 4
    """How many."""
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.rows == 0:
            raise ValueError("rows is 0; give 1 or more")


@dataclass(frozen=True)
class Outer:
    """A record in a record."""

    inner: Inner = field(default_factory=Inner)
    loud: bool = False


def measure(inner: Inner = Inner(rows=7), *, seconds: float = 1.0) -> tuple[Inner, float]:  # noqa: B008
    """Do nothing."""
    return inner, seconds


def test_every_kind_of_field_is_read_with_dashes_or_underscores() -> None:
    words = "--kind fancy --rows=3 --names a b --loud".split()
    assert parse(Outer, words, "x") == Outer(Inner(kind="fancy", rows=3, names=("a", "b")), True)
    assert parse(Outer, ["--rows", "None", "--no-loud"], "x") == Outer(Inner(rows=None))
    given = parse(TrainConfig, ["--batch_size=8", "--learning-rate", "1e-2"], "train")
    assert given == TrainConfig(batch_size=8, learning_rate=0.01)


def test_a_functions_record_has_the_defaults_that_it_gives() -> None:
    assert parse(measure, [], "x") == (Inner(rows=7), 1.0)
    assert parse(measure, ["--kind", "fancy", "--seconds", "2"], "x") == (Inner(kind="fancy", rows=7), 2.0)


def test_records_refuse_at_once_and_calls_wait() -> None:
    late, config = bind((measure, TrainConfig), ["--rows", "2", "--batch-size", "8"], "x")
    assert (late(), config()) == ((Inner(rows=2), 1.0), TrainConfig(batch_size=8))
    with pytest.raises(ValueError, match="rows is 0; give 1 or more"):
        bind((measure,), ["--rows", "0"], "x")


def test_words_that_stand_alone_are_one_parameter_wherever_they_stand() -> None:
    for words in ("a b --rows 3", "--rows 3 a b", "a --rows=3 b"):
        assert parse(Inner, words.split(), "x", alone="names") == Inner(rows=3, names=("a", "b"))
    assert parse(Inner, [], "x", alone="names") == Inner()
    with pytest.raises(ValueError, match="unrecognized arguments: --names"):
        parse(Inner, ["--names", "a"], "x", alone="names")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--row", "3"], "unrecognized arguments: --row 3; python -m pllab x --help lists the flags"),
        (["--rows", "two"], "argument --rows: 'two' is no int; "),
        (["--rows", "9" * 5000], "is no int; "),
        (["--rows"], "argument --rows: expected one argument; "),
        (["--kind", "odd"], "argument --kind: invalid choice: 'odd' .*fancy"),
        (["more"], "unrecognized arguments: more; "),
    ],
)
def test_what_is_wrong_is_one_sentence(words: list[str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as error:
        parse(Outer, words, "x")
    assert "\n" not in str(error.value)
