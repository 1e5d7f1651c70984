"""Greedy translation and its BLEU: does the model translate, and not only predict its prompt?"""

from collections.abc import Sequence
from typing import Any

import torch

from pllab import comm
from pllab.data import Example, Tokenizer, prompt_tokens
from pllab.models import GPT2LMHeadModelParallel
from pllab.train.checkpoints import plain_model


def bleu_score(
    model: GPT2LMHeadModelParallel,
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    max_length: int,
    batch_size: int,
    device: torch.device,
) -> float:
    """Corpus BLEU (0 to 100, sacrebleu's defaults) of greedy translations; the ranks share the work.

    Source: Papineni et al. 2002; Post, A Call for Clarity in Reporting BLEU Scores, 2018.
    """
    import sacrebleu  # a second to import, and only translation needs it

    share = examples[comm.rank() :: comm.world_size()]
    single = plain_model(model).to(device).eval()
    pairs = []
    for start in range(0, len(share), batch_size):
        rows = share[start : start + batch_size]
        texts = translate(single, tokenizer, [row.source for row in rows], max_length)
        pairs += list(zip(texts, [row.target for row in rows], strict=True))
    everywhere = [pair for of_rank in comm.all_gather_object(pairs) for pair in of_rank]
    return float(sacrebleu.corpus_bleu([text for text, _ in everywhere], [[target for _, target in everywhere]]).score)


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
    prompts = [_prompt(tokenizer, source, max_length) for source in sources]
    width = max(map(len, prompts))
    rows = [[tokenizer.pad_id] * (width - len(prompt)) + prompt for prompt in prompts]
    mask = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    output = model.generate(
        input_ids=torch.tensor(rows, device=model.device),
        attention_mask=torch.tensor(mask, device=model.device),
        max_length=max_length,
        do_sample=False,
        use_cache=True,
        eos_token_id=tokenizer.end_id,
        pad_token_id=tokenizer.pad_id,
    )
    return [_text(tokenizer, row[width:].tolist()) for row in output]


def _prompt(tokenizer: Tokenizer, source: str, max_length: int) -> list[int]:
    """Source and separator, cut so that one token can follow."""
    return [*prompt_tokens(tokenizer, source)[:-1][: max_length - 2], tokenizer.separator_id]


def _text(tokenizer: Tokenizer, tokens: list[int]) -> str:
    """The text before the end token."""
    ends = [place for place, token in enumerate(tokens) if token in (tokenizer.end_id, tokenizer.pad_id)]
    return tokenizer.decode(tokens[: ends[0]] if ends else tokens)
