import math
from types import SimpleNamespace

import pytest
import sacrebleu
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from pllab.comm import launch
from pllab.data import Collate, Example, train_tokenizer
from pllab.train import TrainConfig, evaluation
from pllab.train.evaluation import translate, validation_loss
from pllab.train.trainers import make_trainer

EXAMPLES = [Example("", "a " * length + "end") for length in (1, 9, 3, 14, 5)]


@pytest.mark.parametrize("mode", [{}, {"mode": "pipeline", "world_size": 2, "num_microbatches": 2}])
def test_the_mean_over_tokens_is_that_of_one_big_batch_without_dropout(mode):
    """The last batch has one row, which is one micro-batch."""
    tokenizer = train_tokenizer([example.target for example in EXAMPLES], 260)
    config = TrainConfig(n_layer=2, n_embd=16, n_head=2, max_length=32, dropout=0.5, device="cpu", **mode)
    trainer, collate = make_trainer(config, tokenizer.vocab_size), Collate(tokenizer, 32)
    trainer.model.train()
    found = validation_loss(trainer, EXAMPLES, collate, 2)
    assert trainer.model.training
    with torch.no_grad():
        expected = trainer.model.eval()(**collate(EXAMPLES)).loss.item()
    trainer.close()
    assert found == pytest.approx(expected, rel=1e-5)


def test_nothing_to_predict_is_nan():
    tokenizer = train_tokenizer(["a"], 260)
    config = TrainConfig(n_layer=1, n_embd=16, n_head=2, max_length=4, device="cpu")
    rows = [Example("a long source", "b")]
    assert math.isnan(validation_loss(make_trainer(config, tokenizer.vocab_size), rows, Collate(tokenizer, 4), 2))


NUMBERS = [Example(str(number), f"the number {number} is {'odd' if number % 2 else 'even'}") for number in range(5)]


def bleu_on_a_rank(rank, world_size):
    """The score, and the sources this rank was asked for, of a model that calls every number odd."""
    asked = []

    def translate(model, tokenizer, sources, max_length):
        asked.extend(sources)
        return [f"the number {source} is odd" for source in sources]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "plain_model", lambda _: torch.nn.Identity())
        patch.setattr(evaluation, "translate", translate)
        return evaluation.bleu_score(None, SimpleNamespace(validation=NUMBERS, tokenizer=None), 8, 2), asked


def test_ranks_share_the_translations_and_have_the_score_of_all():
    (score, mine), (same, theirs) = launch(bleu_on_a_rank, 2, backend="gloo", timeout_s=60)
    assert sorted(mine + theirs) == [pair.source for pair in NUMBERS] and abs(len(mine) - len(theirs)) == 1
    texts = [f"the number {pair.source} is odd" for pair in NUMBERS]
    assert score == same == sacrebleu.corpus_bleu(texts, [[pair.target for pair in NUMBERS]]).score < 100


PAIRS = [Example("eins", "one"), Example("dreizehn", "thirteen"), Example("zwei", "two")]


@pytest.fixture(scope="module")
def trained():
    """A plain GPT-2 that has learned three pairs by heart."""
    torch.manual_seed(0)
    tokenizer = train_tokenizer([text for pair in PAIRS for text in (pair.source, pair.target)], 300)
    config = GPT2Config(vocab_size=tokenizer.vocab_size, n_positions=40, n_layer=1, n_embd=32, n_head=2)
    model = GPT2LMHeadModel(config).eval()
    batch = Collate(tokenizer, 24)(PAIRS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(60):
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, tokenizer


def test_what_was_learned_is_translated_back(trained):
    """Padding on the left, the mask, the separator and the end token all have to be right for this."""
    model, tokenizer = trained
    assert translate(model, tokenizer, [pair.source for pair in PAIRS], 24) == [pair.target for pair in PAIRS]


def test_padding_changes_no_translation(trained):
    """Unseen words, so that only the tokens themselves decide, and not what was learned by heart."""
    model, tokenizer = trained
    sources = ["elf", "siebenundvierzig", "o"]
    alone = [translate(model, tokenizer, [source], 40)[0] for source in sources]
    together = translate(model, tokenizer, sources, 40)
    assert [text[:8] for text in together] == [text[:8] for text in alone]


def test_a_long_source_is_cut_and_still_answered(trained):
    model, tokenizer = trained
    (text,) = translate(model, tokenizer, ["dreizehn" * 20], 24)
    assert isinstance(text, str)
