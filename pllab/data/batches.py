"""Make rectangles of token numbers, and say which of them the model has to predict.

Labels follow the convention of Hugging Face: equal to the input where the token is to be predicted, -100
elsewhere; the model shifts them by one. Padding is on the right, where a causal model cannot see it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from pllab.data.example import Example
from pllab.data.tokens import Tokenizer

IGNORED = -100
"""The label of a token that is not to be predicted; cross_entropy's default `ignore_index`."""


class Block(NamedTuple):
    """A row that is tokens already, as `pack_text` makes them: every one is to be predicted."""

    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Collate:
    """Make a batch of examples or blocks: `collate_fn=Collate(tokenizer, max_length=40)`.

    Translation is predicted on the target side only; plain text everywhere. With `|` for the separator, `$`
    for the end and `.` for padding or -100:

        Example("drei", "three")     input_ids   d r e i | t h r e e $
                                     labels      . . . . . t h r e e $
        Example("", "six")           input_ids   s i x $ . . . . . . .
                                     labels      s i x $ . . . . . . .

    Rows are cut to `max_length` tokens at the right and padded to the longest of the batch. A row whose
    source alone fills `max_length` has nothing to predict. Returns `input_ids` and `labels`, both
    (batch, time) int64.

    Raises:
        ValueError: `max_length` is below 2; there would be no next token.

    Source: the target mask of the course's `collate_batch`.
    """

    tokenizer: Tokenizer
    max_length: int

    def __post_init__(self) -> None:
        if self.max_length < 2:
            raise ValueError(f"max_length {self.max_length} leaves no next token to predict; use at least 2")

    def __call__(self, rows: Sequence[Example | Block]) -> dict[str, torch.Tensor]:
        """Encode, mask, cut and pad."""
        pairs = [self._encode(row) for row in rows]
        return {
            "input_ids": _rectangle([tokens for tokens, _ in pairs], self.tokenizer.pad_id),
            "labels": _rectangle([labels for _, labels in pairs], IGNORED),
        }

    def _encode(self, row: Example | Block) -> tuple[list[int], list[int]]:
        """Tokens and labels of one row."""
        if isinstance(row, Block):
            given, predicted = [], list(row.tokens)
        else:
            given = prompt_tokens(self.tokenizer, row.source)
            predicted = [*self.tokenizer.encode(row.target), self.tokenizer.end_id]
        tokens = (given + predicted)[: self.max_length]
        labels = ([IGNORED] * len(given) + predicted)[: self.max_length]
        return tokens, labels


def prompt_tokens(tokenizer: Tokenizer, source: str) -> list[int]:
    """What the model is given before it writes the target: source and separator; nothing for plain text."""
    return [*tokenizer.encode(source), tokenizer.separator_id] if source else []


def pack_text(examples: Iterable[Example], tokenizer: Tokenizer, block_size: int) -> list[Block]:
    """Put plain texts one after another and cut them into rows of equal length, so that nothing is padding.

    Texts `six` and `ten`, `block_size=3`, `$` the end of a text:

        s i x | $ t e | n $          the last row is not full and is left out

    The blocks go through `Collate(tokenizer, block_size)` like examples do.

    Raises:
        ValueError: an example has a source, `block_size` is below 2, or the text does not fill one block.

    Source: the usual way to feed a language model, as in GPT-2 and in nanoGPT.
    """
    if block_size < 2:
        raise ValueError(f"block_size {block_size} leaves no next token to predict; use at least 2")
    examples = list(examples)
    for example in examples:
        if example.source:
            raise ValueError(f"pack_text takes plain text, but {example} has a source; give it to Collate directly")
    stream: list[int] = []
    for tokens in tokenizer.encode_all([example.target for example in examples]):
        stream += [*tokens, tokenizer.end_id]
    if len(stream) < block_size:
        raise ValueError(
            f"{len(stream)} tokens do not fill one block of block_size {block_size}; use a smaller block or more text"
        )
    starts = range(0, len(stream) - block_size + 1, block_size)
    return [Block(tuple(stream[start : start + block_size])) for start in starts]


def _rectangle(rows: Sequence[Sequence[int]], fill: int) -> torch.Tensor:
    """Rows of different length -> (rows, longest) int64, filled up on the right."""
    longest = max((len(row) for row in rows), default=0)
    return torch.tensor([[*row, *[fill] * (longest - len(row))] for row in rows], dtype=torch.int64)
