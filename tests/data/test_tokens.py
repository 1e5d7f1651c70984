"""Every text comes back, nothing special sneaks in; which tokens are predicted."""

import pickle
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pllab.data import (
    IGNORED,
    Collate,
    Example,
    Row,
    Tokenizer,
    load_examples,
    pack_text,
    texts_of,
    train_tokenizer,
)

words = st.text(alphabet="abcde ", max_size=12)

FRESH = """
import sys
from pllab.data import load_examples, partition_dataset, texts_of, train_tokenizer
list(partition_dataset(0, 2, load_examples("docs"), 4, list))
print(*sys.modules)
print(train_tokenizer(texts_of(load_examples("docs")[:200]), 400).bpe.to_str())
"""


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(texts_of(load_examples()[:200]), 400)


def test_encoded_rows_make_the_batch_of_their_examples(tokenizer):
    rows = [Example("drei", "three"), Example("", "a longer text than the other"), Row([7, 8, 9], [7, 8, 9])]
    collate = pickle.loads(pickle.dumps(Collate(tokenizer, 6)))  # as to another process
    encoded = [collate.encode(row) for row in rows]
    assert [collate.encode(row) for row in encoded] == encoded
    for name, tensor in collate(rows).items():
        assert torch.equal(collate(encoded)[name], tensor)


@given(text=st.text())
def test_every_text_comes_back(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert all(0 <= token < tokenizer.vocab_size for token in tokenizer.encode(text))


def test_no_text_can_spell_a_special_token(tokenizer, tmp_path):
    # tokenizers forgets this setting when saved or pickled; a corpus could then end a text early.
    names = "<pad>", "<end>", "<separator>"
    special = [tokenizer.pad_id, tokenizer.end_id, tokenizer.separator_id]
    assert special == [tokenizer.bpe.token_to_id(name) for name in names] == [0, 1, 2]
    assert tokenizer.decode([*special, *tokenizer.encode("text"), *special]) == "text"
    tokenizer.save(tmp_path / "saved.json")
    for one in (tokenizer, Tokenizer.load(tmp_path / "saved.json"), pickle.loads(pickle.dumps(tokenizer))):
        for text in (*names, "a<end>b"):
            assert not {*special} & {*one.encode(text)}, text
            assert one.decode(one.encode(text)) == text


def test_another_process_loads_with_torch_alone_and_training_there_gives_the_same_tokenizer(tokenizer):
    # Hash order differs between processes; merges must not depend on it.
    run = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, timeout=120, check=True)
    modules, trained = run.stdout.splitlines()
    others = "datasets tokenizers num2words transformers huggingface_hub ipywidgets anywidget ipyparallel"
    assert "torch" in modules.split() and not set(modules.split()) & set(others.split())
    assert (trained, run.stderr) == (tokenizer.bpe.to_str(), "")  # no progress bar


def test_save_and_load_give_it_back_and_transformers_reads_it_too(tokenizer, tmp_path):
    transformers = pytest.importorskip("transformers")
    file = tmp_path / "tokenizer.json"
    tokenizer.save(file)
    assert Tokenizer.load(str(file)).bpe.to_str() == tokenizer.bpe.to_str()
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(file))
    assert theirs("for example")["input_ids"] == tokenizer.encode("for example")


def test_the_smallest_vocabulary_is_the_bytes():
    smallest = train_tokenizer(["abc abc"], 259)
    assert smallest.vocab_size == 259
    assert len(smallest.encode("größer")) == len("größer".encode())
    with pytest.raises(ValueError, match="vocab_size 258 is too small"):
        train_tokenizer(["abc abc"], 258)


@pytest.mark.parametrize("special", [[], ["<end>", "<pad>", "<separator>"]])
def test_another_tokenizer_is_refused(tmp_path, special):
    from tokenizers import Tokenizer as BPE
    from tokenizers import models

    other = BPE(models.BPE())
    other.add_special_tokens(special)
    other.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ValueError, match="does not begin with <pad>, <end>, <separator>; use one made by"):
        Tokenizer.load(tmp_path / "tokenizer.json")


@pytest.fixture(scope="module")
def letters():
    return train_tokenizer(["ab ab abc abcde"], 262)


@given(pairs=st.lists(st.tuples(words, words), min_size=1, max_size=5), max_length=st.integers(2, 20))
def test_a_translation_is_predicted_after_the_separator_and_plain_text_everywhere(letters, pairs, max_length):
    batch = Collate(letters, max_length)([Example(source, target) for source, target in pairs])
    inputs, labels = batch["input_ids"], batch["labels"]
    assert inputs.dtype == labels.dtype == torch.int64
    prompts = [[*letters.encode(source), letters.separator_id] if source else [] for source, _ in pairs]
    targets = [[*letters.encode(target), letters.end_id] for _, target in pairs]
    width = min(max_length, max(len(prompt + target) for prompt, target in zip(prompts, targets, strict=True)))
    for row, (prompt, target) in enumerate(zip(prompts, targets, strict=True)):
        padding = [letters.pad_id] * (width - len(prompt + target))
        assert inputs[row].tolist() == (prompt + target + padding)[:width]
        # Not shifted: transformers' model does that itself.
        assert labels[row].tolist() == ([IGNORED] * len(prompt) + target + [IGNORED] * len(padding))[:width]


def test_pack_text_loses_only_the_last_ragged_block(letters):
    texts = ["abc ab", "d", "eeeee"]
    stream = [token for text in texts for token in [*letters.encode(text), letters.end_id]]
    for block_size in range(2, len(stream) + 1):
        blocks = pack_text([Example("", text) for text in texts], letters, block_size)
        assert all(len(block.tokens) == block_size for block in blocks)
        assert all(block.labels == block.tokens for block in blocks)
        packed = [token for block in blocks for token in block.tokens]
        assert packed == stream[: len(stream) // block_size * block_size]


@pytest.mark.parametrize(
    ("example", "sentence"),
    [
        (Example("d", "e"), "takes plain text, but Example.source='d'"),
        (Example("", "d"), "2 tokens do not fill one block of block_size 4"),
    ],
)
def test_what_cannot_be_packed_is_refused(letters, example, sentence):
    with pytest.raises(ValueError, match=sentence):
        pack_text([example], letters, 4)
