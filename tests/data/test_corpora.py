"""The embedded corpora, and sets by name and path: small files of the real shapes, one sentence for what goes wrong."""

import os
import re
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from num2words import num2words

from pllab.data import DatasetError, Example, corpora, load_examples

datasets = pytest.importorskip("datasets")

TALKS = [Example("guten tag", "good day"), Example("danke", "thank you"), Example("null", "NA")]
NESTED = [{"translation": {"de": talk.source, "en": talk.target}} for talk in TALKS]
FLAT = [{"id": i, "de": talk.source, "en": talk.target} for i, talk in enumerate(TALKS)]
WEB = [{"text": "first page"}, {"text": ""}, {"text": "second page"}]


def test_docs_are_prose_enough_to_train_on():
    texts = [example.target for example in load_examples() + load_examples("docs", "validation")]
    assert sum(len(text) for text in texts) > 150_000
    assert all(example.source == "" for example in load_examples())
    for text in texts:
        assert "\n" not in text and "  " not in text
        assert not re.search(r"::=|>>>|====|\+---|\bpost- mortem", text), text  # hyphens at line ends are joined


def test_docs_splits_share_no_paragraph_and_hold_out_a_tenth():
    train, validation = load_examples("docs"), load_examples("docs", "validation")
    assert load_examples("docs", limit=3) == train[:3]
    assert len({*train, *validation}) == len(train) + len(validation)
    assert 0.08 < len(validation) / (len(train) + len(validation)) < 0.12


@pytest.fixture(scope="module")
def number_words():
    return {split: load_examples("numbers", split) for split in ("train", "validation", "test")}


def test_numbers_are_translations(number_words):
    # The words alone must name the number: look German up in a table of all of them below 1000.
    numbers = {num2words(n, lang="de"): num2words(n, lang="en") for n in range(1000)}
    small = [example for part in number_words.values() for example in part if example.source in numbers]
    assert len(small) == 1000
    assert all(numbers[example.source] == example.target for example in small)
    large = "einhundertsiebenundachtzigtausendachtzig"
    assert Example(large, "one hundred and eighty-seven thousand and eighty") in number_words["train"]


def test_number_splits_are_disjoint_and_repeatable(number_words):
    assert list(map(len, number_words.values())) == [8000, 1000, 1000]
    assert len({example for part in number_words.values() for example in part}) == 10_000
    assert load_examples("numbers", "test") == number_words["test"]
    assert load_examples("numbers", "test", limit=5) == number_words["test"][:5]


def write(file: Path, rows):
    """Write rows in the format that the file's ending names."""
    table = datasets.Dataset.from_list(rows)
    writers = {".jsonl": table.to_json, ".json": partial(table.to_json, lines=False)}
    writers |= {".csv": table.to_csv, ".parquet": table.to_parquet}
    writers[file.suffix](file)
    return file


@pytest.mark.parametrize("ending", ["jsonl", "json", "csv", "parquet"])
def test_talks_with_flat_columns_or_a_translation_column(tmp_path, ending):
    for rows in (FLAT, NESTED) if ending != "csv" else (FLAT,):
        path = write(tmp_path / f"talks.{ending}", rows)
        assert load_examples(str(path)) == TALKS
        assert load_examples(str(path), limit=2) == TALKS[:2]


def test_a_play_is_cut_into_speeches(tmp_path):
    play = "ROMEO:\nIs the day so young?\n\n\nBENVOLIO:\nBut new struck nine.\n \n\n"
    path = tmp_path / "play.txt"
    path.write_text(play, encoding="utf-8-sig")  # as editors of Windows write it, with a mark at the beginning
    assert [example.target for example in load_examples(str(path))] == [
        "ROMEO:\nIs the day so young?",
        "BENVOLIO:\nBut new struck nine.",
    ]


@pytest.mark.parametrize("cells", [["00001", "2"], ["0.50", "1e5"], ["true", "FALSE"], ["NA", "null"], ["nan", "inf"]])
def test_a_cell_of_a_csv_is_its_text_also_if_all_of_a_column_look_like_something_else(tmp_path, cells):
    path = tmp_path / "train.csv"
    path.write_text("id,de,en\n" + "".join(f'{n},"{cell}",{cell}\n' for n, cell in enumerate(cells)), "utf-8-sig")
    assert load_examples(str(path)) == load_examples(str(tmp_path)) == [Example(cell, cell) for cell in cells]


@pytest.mark.parametrize(("ending", "text"), [("csv", "de,en\nnull,NA\n"), ("txt", "a\nb\n\n\nc\n")])
def test_a_folder_is_read_as_its_files_are(tmp_path, ending, text):
    path = tmp_path / f"train.{ending}"
    path.write_text(text)
    assert load_examples(str(tmp_path)) == load_examples(str(path)) != []


def test_a_folder_of_files_named_after_their_splits(tmp_path, monkeypatch):
    write(tmp_path / "train.jsonl", FLAT)
    write(tmp_path / "validation.jsonl", FLAT[:1])
    assert load_examples(str(tmp_path)) == TALKS
    assert load_examples(str(tmp_path), split="validation") == TALKS[:1]
    monkeypatch.chdir(tmp_path)
    assert load_examples(".") == TALKS


def test_columns_named_by_hand(tmp_path):
    path = write(tmp_path / "faq.jsonl", [{"question": "Why?", "answer": "Because.", "score": 3}])
    assert load_examples(str(path), columns=("question", "answer")) == [Example("Why?", "Because.")]
    assert load_examples(str(path), columns="answer") == [Example("", "Because.")]
    assert load_examples(str(path), columns=["score"]) == [Example("", "3")]


def test_validation_is_held_out_of_train_where_there_is_none(tmp_path):
    path = write(tmp_path / "web.jsonl", [{"text": f"page {i}"} for i in range(60)])
    train, validation = (load_examples(str(path), split=split) for split in ("train", "validation"))
    assert (len(train), len(validation)) == (57, 3)
    assert not set(train) & set(validation)
    assert load_examples(str(path), split="validation", limit=2) == validation[:2]


@pytest.mark.parametrize(
    ("path", "columns", "message"),
    [
        ("web.jsonl", ("de", "en"), "has the columns text but not de and en"),
        ("talks.jsonl", "text", "has the columns id, de, en but not text"),
        ("faq.jsonl", None, "has the columns question, answer but not de and en, nor text"),
        ("faq.jsonl", ("question", "reply"), "has the columns question, answer but not question and reply"),
        ("web.jsonl", ("a", "b", "c"), "not one column of text nor a source and a target"),
        ("missing.jsonl", None, "missing.jsonl' is not known; give one of docs, numbers, .* or a path"),
        ("missing", None, "missing' is not known"),
        ("web.xlsx", None, "web.xlsx' could not be loaded .KeyError"),
        ("broken.jsonl", None, "broken.jsonl' could not be loaded"),
        ("empty.txt", None, "empty.txt' has no text for split 'train'"),
        ("latin.txt", None, "latin.txt' could not be loaded .UnicodeDecodeError"),
        ("folder", None, "folder' could not be loaded"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_sentence(tmp_path, path, columns, message):
    write(tmp_path / "web.jsonl", WEB)
    write(tmp_path / "talks.jsonl", FLAT)
    write(tmp_path / "faq.jsonl", [{"question": "Why?", "answer": "Because."}])
    (tmp_path / "web.xlsx").touch()
    (tmp_path / "empty.txt").touch()
    (tmp_path / "latin.txt").write_bytes("größe".encode("latin-1"))
    (tmp_path / "broken.jsonl").write_text('{"text": ')
    (tmp_path / "folder").mkdir()
    with pytest.raises(DatasetError, match=message) as caught:
        load_examples(str(tmp_path / path), columns=columns)
    assert "\n" not in str(caught.value)


def test_a_split_that_is_not_there_is_refused_with_those_there_are(tmp_path):
    path = write(tmp_path / "web.jsonl", WEB)
    with pytest.raises(DatasetError, match="data set 'numbers' has no split 'dev'; it has train, validation, test"):
        load_examples("numbers", "dev")
    with pytest.raises(DatasetError, match="^data set '.*web.jsonl' has no split 'test'; it has train"):
        load_examples(str(path), split="test")
    with pytest.raises(DatasetError, match="has no text for split 'validation'"):
        load_examples(str(path), split="validation")


def test_without_a_network_local_files_are_copied_nowhere_and_the_embedded_default_is_named(tmp_path):
    """In a fresh process with a home of its own. datasets copies a local file into its cache unless it is streamed."""
    (tmp_path / "folder").mkdir()
    write(tmp_path / "web.jsonl", WEB)
    write(tmp_path / "folder" / "train.jsonl", WEB)
    names = ["iwslt14-de-en", "tinyshakespeare", "openwebtext", "nobody/nothing"]
    script = f"""
from pathlib import Path
from pllab.data import DatasetError, load_examples
print(len(load_examples("web.jsonl")), len(load_examples("folder")))
print([file for file in Path("home").rglob("*") if file.is_file()])
for name in {names!r}:
    try:
        load_examples(name, limit=2)
    except DatasetError as error:
        print(error)
"""
    home = tmp_path / "home"
    home.mkdir()
    environment = {**os.environ, "HOME": str(home), "HF_HOME": str(home), "HF_HUB_OFFLINE": "1"}
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert result.stderr == ""
    read, copied, *sentences = result.stdout.splitlines()
    assert (read, copied) == ("2 2", "[]")
    for name, line in zip(names, sentences, strict=True):
        assert line.startswith(f"data set {name!r} could not be loaded")
        assert "use the embedded 'docs' or 'numbers'" in line


@pytest.fixture
def hub(monkeypatch):
    """A hub in this process: it answers load_dataset and records what was asked."""
    asked = []

    def load_dataset(path, **options):
        asked.append((path, options))
        rows = WEB if path == "Skylion007/openwebtext" else NESTED
        return datasets.DatasetDict({"train": datasets.Dataset.from_list(rows)})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return asked


def test_hub_names_lead_to_their_repositories(hub):
    assert load_examples("iwslt14-de-en") == TALKS
    assert load_examples("openwebtext", limit=2) == [Example("", "first page"), Example("", "second page")]
    assert load_examples("owner/set:small", limit=2) == TALKS[:2]
    assert hub == [
        ("bbaaaa/iwslt14-de-en-preprocess", {"name": None, "streaming": False}),
        ("Skylion007/openwebtext", {"name": None, "streaming": True}),
        ("owner/set", {"name": "small", "streaming": True}),
    ]


def test_the_speeches_of_a_page_are_read_with_what_is_installed(tmp_path, monkeypatch):
    """From a server of this machine in the place of the real one."""
    (tmp_path / "input.txt").write_text("ROMEO:\nIs the day so young?\n\nBENVOLIO:\nBut new struck nine.\n")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setitem(corpora._ONLINE, "tinyshakespeare", f"http://127.0.0.1:{server.server_port}/input.txt")
        examples = [example.target for example in load_examples("tinyshakespeare")]
        monkeypatch.setitem(corpora._ONLINE, "tinyshakespeare", f"http://127.0.0.1:{server.server_port}/nothing")
        with pytest.raises(DatasetError, match="'tinyshakespeare' could not be loaded .*404"):
            load_examples("tinyshakespeare")
        server.shutdown()
    assert examples == ["ROMEO:\nIs the day so young?", "BENVOLIO:\nBut new struck nine."]


def test_a_name_that_nothing_has_is_told_with_those_there_are_before_the_network_is_asked(hub):
    with pytest.raises(DatasetError, match="data set 'shakespeare' is not known; give one of docs, numbers, .*tinysh"):
        load_examples("shakespeare")
    assert not hub


def test_a_name_with_brackets_is_that_file_and_no_pattern(tmp_path):
    (tmp_path / "q1.txt").write_text("another file")
    (tmp_path / "q[1].txt").write_text("this file")
    assert [one.target for one in load_examples(str(tmp_path / "q[1].txt"))] == ["this file"]
