"""How good a model is: the loss over the validation examples, and greedy translations with their BLEU.

The loss is the same on any axes, because every target token has the same weight. BLEU asks whether the model
translates, and does not only predict its prompt.
"""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

import torch

from pllab import comm
from pllab.data import Collate, Example, Row, Tokenizer
from pllab.parallel import global_sum, num_target_tokens
from pllab.train.checkpoints import whole_weights
from pllab.train.inputs import Corpus
from pllab.train.trainers import Trainer


def validation_loss(
    trainer: Trainer,
    examples: Sequence[Example | Row],
    collate: Collate,
    batch_size: int,
    share: tuple[int, int] = (0, 1),
) -> float:
    """Mean loss per target token over all examples, in nats. NaN without targets.

    Args:
        trainer: computes the losses, with dropout off.
        examples: all examples, the same on every rank; each rank takes its share.
        collate: makes `input_ids` and `labels` from a list of examples.
        batch_size: rows at a time, on this rank.
        share: the number of this rank's share of the data, and the count of shares.
    """
    number, count = share
    loss_sum, num_targets = 0.0, 0
    mine, most = list(batches(examples[number::count], batch_size)), list(batches(examples[::count], batch_size))
    trainer.model.eval()
    for rows in mine:
        batch = collate(rows)
        loss_sum += trainer.loss_sum(batch)
        num_targets += num_target_tokens(batch["labels"])
    if len(mine) < len(most):
        trainer.loss_sum(collate(list(examples[:1])))  # ranks that share a model run forward equally often
    trainer.model.train()
    if count > 1:
        loss_sum, num_targets = global_sum(loss_sum), int(global_sum(num_targets))
    return loss_sum / num_targets if num_targets else float("nan")


def batches(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    """Cut a sequence into lists of `size`, the last one shorter: 5 items by 2 -> 2, 2, 1."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


def bleu_score(trainer: Trainer, corpus: Corpus, max_length: int, batch_size: int) -> float:
    """Corpus BLEU (0 to 100, sacrebleu's defaults) of greedy translations of all validation examples.

    All ranks call it, because they share the work, and each gets the score.

    Source: Papineni et al. 2002; Post, A Call for Clarity in Reporting BLEU Scores, 2018.
    """
    import sacrebleu  # a second to import, and only translation needs it

    single = plain_model(trainer).eval()
    pairs = []
    for rows in batches(corpus.validation[comm.rank() :: comm.world_size()], batch_size):
        texts = translate(single, corpus.tokenizer, [row.source for row in rows], max_length)
        pairs += list(zip(texts, [row.target for row in rows], strict=True))
    everywhere = [pair for of_rank in comm.all_gather_object(pairs) for pair in of_rank]
    return float(sacrebleu.corpus_bleu([text for text, _ in everywhere], [[target for _, target in everywhere]]).score)


@torch.no_grad()
def plain_model(trainer: Trainer) -> Any:
    """The newest weights of all ranks as transformers' GPT2LMHeadModel, on this rank's device; all ranks call it."""
    from transformers import GPT2LMHeadModel

    plain: Any = GPT2LMHeadModel(trainer.model.config)
    plain.to(trainer.device, trainer.model.dtype)
    parameters = dict(plain.named_parameters())
    for name, weight in whole_weights(trainer):
        parameters[name].copy_(weight)
    return plain


@torch.no_grad()
def translate(model: Any, tokenizer: Tokenizer, sources: Sequence[str], max_length: int) -> list[str]:
    """Translate sentences greedily, until the end token or `max_length` tokens with the source.

    Example: `translate(model, tokenizer, ["zwei"], 16)` -> `["two"]` once the model is trained.

    Args:
        model: a transformers model with `generate`, on one device.
        tokenizer: the tokenizer that the model was trained with.
        sources: a batch of sentences.
        max_length: of source, separator and translation together, in tokens.
    """
    # A long source is cut, so that one token can follow the separator.
    prompts = [[*tokenizer.encode(source)[: max_length - 2], tokenizer.separator_id] for source in sources]
    width = max(map(len, prompts))
    padded = [[tokenizer.pad_id] * (width - len(prompt)) + prompt for prompt in prompts]
    ids = torch.tensor(padded, device=model.device)
    output = model.generate(
        input_ids=ids,
        attention_mask=(ids != tokenizer.pad_id).long(),
        max_length=max_length,
        do_sample=False,
        use_cache=True,
        eos_token_id=tokenizer.end_id,
        pad_token_id=tokenizer.pad_id,
    )
    ends = tokenizer.end_id, tokenizer.pad_id
    return [tokenizer.decode(list(takewhile(lambda token: token not in ends, row[width:].tolist()))) for row in output]
