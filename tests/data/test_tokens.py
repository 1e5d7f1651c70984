"""Every text comes back, the same texts give the same tokenizer, nothing special sneaks in."""

import pickle
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pllab.data import Tokenizer, docs_examples, texts_of, train_tokenizer

TRAIN = """
import hashlib
from pllab.data import docs_examples, texts_of, train_tokenizer
tokenizer = train_tokenizer(texts_of(docs_examples()[:200]), 400)
print(hashlib.sha256(tokenizer.bpe.to_str().encode()).hexdigest())
"""


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(texts_of(docs_examples()[:200]), 400)


@settings(deadline=None)
@given(text=st.text())
def test_every_text_comes_back(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert all(0 <= token < tokenizer.vocab_size for token in tokenizer.encode(text))


def test_merges_make_known_text_shorter(tokenizer):
    text = docs_examples()[0].target
    assert len(tokenizer.encode(text)) < 0.75 * len(text.encode())
    assert tokenizer.vocab_size == 400


def test_special_tokens_are_three_and_in_the_vocabulary(tokenizer):
    special = {tokenizer.pad_id, tokenizer.end_id, tokenizer.separator_id}
    assert len(special) == 3
    assert max(special) < tokenizer.vocab_size
    assert tokenizer.decode([*special, *tokenizer.encode("text"), *special]) == "text"


@pytest.mark.parametrize("text", ["<pad>", "a<end>b", "<separator>"])
def test_a_text_cannot_spell_a_special_token(tokenizer, text, tmp_path):
    # tokenizers forgets this setting when saved or pickled; a corpus could then end a text early.
    tokenizer.save(tmp_path)
    for one in (tokenizer, Tokenizer.load(tmp_path), pickle.loads(pickle.dumps(tokenizer))):
        assert not {one.pad_id, one.end_id, one.separator_id} & set(one.encode(text))
        assert one.decode(one.encode(text)) == text


def test_encode_all_is_encode_of_each(tokenizer):
    texts = ["one", "", "two words", "<end>", "Größe"]
    assert tokenizer.encode_all(texts) == [tokenizer.encode(text) for text in texts]


def test_training_again_in_another_process_gives_the_same_tokenizer():
    # Hash order differs between processes; merges must not depend on it.
    runs = [
        subprocess.run([sys.executable, "-c", TRAIN], capture_output=True, text=True, timeout=120, check=True)
        for _ in range(2)
    ]
    assert len(runs[0].stdout.strip()) == 64
    assert runs[0].stdout == runs[1].stdout
    assert [run.stderr for run in runs] == ["", ""]  # no progress bar


def test_save_and_load_give_it_back(tokenizer, tmp_path):
    file = tokenizer.save(tmp_path / "new" / "folder")
    assert file == tmp_path / "new" / "folder" / "tokenizer.json"
    assert tokenizer.save(tmp_path / "own.json") == tmp_path / "own.json"
    for path in (file, file.parent, str(tmp_path / "own.json")):
        loaded = Tokenizer.load(path)
        assert loaded.bpe.to_str() == tokenizer.bpe.to_str()
        assert loaded.encode("for example") == tokenizer.encode("for example")


def test_transformers_reads_the_file(tokenizer, tmp_path):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tokenizer.save(tmp_path)))
    assert theirs("for example")["input_ids"] == tokenizer.encode("for example")


def test_the_smallest_vocabulary_is_the_bytes(tokenizer):
    smallest = train_tokenizer(["abc abc"], 259)
    assert smallest.vocab_size == 259
    assert len(smallest.encode("größer")) == len("größer".encode())


@pytest.mark.parametrize("vocab_size", [258, 0, -1])
def test_too_small_a_vocabulary_is_refused(vocab_size):
    with pytest.raises(ValueError, match=f"vocab_size {vocab_size} is too small.* at least 259"):
        train_tokenizer(["text"], vocab_size)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no tokenizer at .*tokenizer.json; train one"):
        Tokenizer.load(tmp_path)


def test_a_file_that_is_no_tokenizer_is_named(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="tokenizer.json holds no tokenizer"):
        Tokenizer.load(tmp_path)


def test_a_tokenizer_without_our_special_tokens_is_refused(tmp_path):
    from tokenizers import Tokenizer as BPE
    from tokenizers import models

    BPE(models.BPE()).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ValueError, match="lacks .*<pad>"):
        Tokenizer.load(tmp_path)
