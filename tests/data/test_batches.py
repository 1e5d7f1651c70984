"""Which tokens are predicted: held against a loop written out by hand and against transformers' loss."""

import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pllab.data import (
    IGNORED,
    Block,
    Collate,
    Example,
    docs_examples,
    pack_text,
    partition_dataset,
    prompt_tokens,
    train_tokenizer,
)

words = st.text(alphabet="abcde ", min_size=1, max_size=12)


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(["ab ab abc abcde"], 262)


def test_translation_is_predicted_after_the_separator_only(tokenizer):
    batch = Collate(tokenizer, 40)([Example("dd", "ee"), Example("d", "e")])
    d, e = tokenizer.encode("d")[0], tokenizer.encode("e")[0]
    end, bar, pad = tokenizer.end_id, tokenizer.separator_id, tokenizer.pad_id
    assert batch["input_ids"].tolist() == [[d, d, bar, e, e, end], [d, bar, e, end, pad, pad]]
    assert batch["labels"].tolist() == [
        [IGNORED, IGNORED, IGNORED, e, e, end],
        [IGNORED, IGNORED, e, end, IGNORED, IGNORED],
    ]
    assert {tensor.dtype for tensor in batch.values()} == {torch.int64}


def test_plain_text_is_predicted_everywhere(tokenizer):
    batch = Collate(tokenizer, 40)([Example("", "de")])
    assert batch["labels"].tolist() == batch["input_ids"].tolist()
    assert batch["input_ids"][0].tolist() == [*tokenizer.encode("de"), tokenizer.end_id]


@settings(deadline=None)
@given(pairs=st.lists(st.tuples(words, words), min_size=1, max_size=5), max_length=st.integers(2, 20))
def test_rows_are_cut_padded_and_masked(tokenizer, pairs, max_length):
    batch = Collate(tokenizer, max_length)([Example(source, target) for source, target in pairs])
    whole = [len(prompt_tokens(tokenizer, s)) + len(tokenizer.encode(t)) + 1 for s, t in pairs]
    assert batch["input_ids"].shape == batch["labels"].shape == (len(pairs), min(max_length, max(whole)))
    for row, (source, _) in enumerate(pairs):
        given_tokens = len(tokenizer.encode(source)) + 1
        kept = min(max_length, whole[row])
        for time in range(batch["labels"].shape[1]):
            token, label = batch["input_ids"][row, time], batch["labels"][row, time]
            if time >= kept:
                assert token == tokenizer.pad_id and label == IGNORED
            elif time < given_tokens:
                assert label == IGNORED and token != tokenizer.pad_id
            else:
                assert label == token
        if kept == whole[row]:
            assert batch["labels"][row, kept - 1] == tokenizer.end_id


def test_the_loss_does_not_see_the_source_or_the_padding(tokenizer):
    # transformers shifts the labels itself; labels shifted here as well would train on the wrong tokens.
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=tokenizer.vocab_size, n_positions=16, n_embd=8, n_layer=1, n_head=1)
    model = transformers.GPT2LMHeadModel(config).eval()
    batch = Collate(tokenizer, 16)([Example("dd", "ee"), Example("d", "eeee")])
    logits = model(batch["input_ids"]).logits.log_softmax(-1)
    expected = []
    for row, (start, stop) in enumerate([(3, 6), (2, 7)]):  # target and end, padding not
        expected += [-logits[row, t - 1, batch["input_ids"][row, t]] for t in range(start, stop)]
    torch.testing.assert_close(model(**batch).loss, torch.stack(expected).mean())


def test_collate_takes_blocks_too_and_travels_to_another_process(tokenizer):
    collate = pickle.loads(pickle.dumps(Collate(tokenizer, 3)))
    batch = collate([Block((5, 6, 7)), Block((8, 9, 10))])
    assert batch["input_ids"].tolist() == batch["labels"].tolist() == [[5, 6, 7], [8, 9, 10]]


def test_pack_text_loses_only_the_last_ragged_block(tokenizer):
    texts = ["abc ab", "d", "eeeee"]
    stream = [token for text in texts for token in [*tokenizer.encode(text), tokenizer.end_id]]
    for block_size in range(2, len(stream) + 1):
        blocks = pack_text([Example("", text) for text in texts], tokenizer, block_size)
        assert all(len(block.tokens) == block_size for block in blocks)
        packed = [token for block in blocks for token in block.tokens]
        assert packed == stream[: len(stream) // block_size * block_size]


def test_packed_docs_fill_every_row_of_every_rank():
    tokenizer = train_tokenizer([example.target for example in docs_examples()[:100]], 300)
    blocks = pack_text(docs_examples()[:20], tokenizer, 32)
    for rank in range(2):
        for batch in partition_dataset(rank, 2, blocks, 8, Collate(tokenizer, 32)):
            assert batch["input_ids"].shape[1] == 32
            assert (batch["labels"] != IGNORED).all()


def test_the_prompt_is_the_start_of_the_training_row(tokenizer):
    # Generation must begin exactly where the mask of training ends.
    prompt = prompt_tokens(tokenizer, "dd")
    batch = Collate(tokenizer, 40)([Example("dd", "ee")])
    assert batch["input_ids"][0, : len(prompt)].tolist() == prompt
    assert (batch["labels"][0] != IGNORED).nonzero()[0].item() == len(prompt)
    assert prompt_tokens(tokenizer, "") == []


def test_lengths_without_a_next_token_are_refused(tokenizer):
    with pytest.raises(ValueError, match="max_length 1 leaves no next token"):
        Collate(tokenizer, 1)
    with pytest.raises(ValueError, match="block_size 1 leaves no next token"):
        pack_text([Example("", "abc")], tokenizer, 1)


def test_packing_refuses_translations_and_too_little_text(tokenizer):
    with pytest.raises(ValueError, match="takes plain text, but Example.source='d'"):
        pack_text([Example("d", "e")], tokenizer, 4)
    with pytest.raises(ValueError, match="2 tokens do not fill one block of block_size 4"):
        pack_text([Example("", "d")], tokenizer, 4)
