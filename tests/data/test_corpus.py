"""The embedded corpora: enough text, the same each time, and no validation text seen in training."""

import re

import pytest
from num2words import num2words

from pllab.data import DatasetError, Example, docs_examples, load_examples, number_examples


def test_docs_are_prose_enough_to_train_on():
    texts = [example.target for example in docs_examples() + docs_examples("validation")]
    assert sum(len(text) for text in texts) > 150_000
    assert all(example.source == "" for example in docs_examples())
    for text in texts:
        assert "\n" not in text and "  " not in text
        assert not re.search(r"::=|>>>|====|\+---", text), text


def test_docs_hyphens_at_the_end_of_a_line_are_joined():
    # "post-\nmortem" came out as "post- mortem" once.
    assert not [e.target for e in docs_examples() if re.search(r"\bpost- mortem", e.target)]


def test_docs_splits_share_no_paragraph_and_hold_out_a_tenth():
    train = [example.target for example in docs_examples()]
    validation = [example.target for example in docs_examples("validation")]
    assert len(set(train) | set(validation)) == len(train) + len(validation)
    assert 0.08 < len(validation) / (len(train) + len(validation)) < 0.12


def test_numbers_are_translations():
    # The words alone must name the number: look German up in a table of all of them below 1000.
    numbers = {num2words(n, lang="de"): num2words(n, lang="en") for n in range(1000)}
    small = [e for split in ("train", "validation", "test") for e in number_examples(split) if e.source in numbers]
    assert len(small) == 1000
    assert all(numbers[example.source] == example.target for example in small)
    large = "einhundertsiebenundachtzigtausendachtzig"
    assert Example(large, "one hundred and eighty-seven thousand and eighty") in number_examples()


def test_number_splits_are_disjoint_and_repeatable():
    splits = {split: number_examples(split) for split in ("train", "validation", "test")}
    assert {split: len(examples) for split, examples in splits.items()} == {
        "train": 8000,
        "validation": 1000,
        "test": 1000,
    }
    assert len({example for examples in splits.values() for example in examples}) == 10_000
    assert number_examples("test") == splits["test"]
    assert number_examples("test", limit=5) == splits["test"][:5]
    assert number_examples("test", limit=5, seed=2) != splits["test"][:5]


def test_load_examples_serves_both_by_name():
    assert load_examples() == docs_examples()
    assert load_examples("docs", "validation", limit=3) == docs_examples("validation")[:3]
    assert load_examples("numbers", "test", limit=4) == number_examples("test", 4)


@pytest.mark.parametrize(
    ("name", "split", "message"),
    [
        ("docs", "test", "data set 'docs' has no split 'test'; it has train, validation"),
        ("numbers", "dev", "data set 'numbers' has no split 'dev'; it has train, validation, test"),
    ],
)
def test_a_split_that_is_not_there_is_refused_with_those_there_are(name, split, message):
    with pytest.raises(DatasetError, match=message):
        load_examples(name, split)
