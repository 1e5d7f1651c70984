"""Turn text into token numbers, and make batches with labels for the model to predict.

The tokenizer is a byte-level BPE, trained on the corpus at hand. Byte-level means that every text can be encoded and
comes back unchanged: the 256 bytes are in the vocabulary, and the merges learned from the corpus only make it shorter.

Labels follow the convention of Hugging Face: equal to the input where the token is to be predicted, -100 elsewhere; the
model shifts them by one. Padding is on the right, where a causal model cannot see it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import torch
from torch.nn.utils.rnn import pad_sequence

from pllab.arguments import require
from pllab.data.corpora import Example
from pllab.files import write_whole

if TYPE_CHECKING:
    from tokenizers import Tokenizer as BPE

IGNORED = -100
"""The label of a token that is not to be predicted; cross_entropy's default `ignore_index`."""

SPECIAL_TOKENS = ("<pad>", "<end>", "<separator>")


@dataclass(frozen=True)
class Tokenizer:
    """A byte-level BPE with three special tokens: padding, end of a text, separator of source and target.

    Example: `tokenizer.decode(tokenizer.encode("two words"))` is `"two words"`. `encode` never makes special
    tokens, even of a text that spells one, and `decode` leaves them out. They have the first numbers: `pad_id` fills
    rows up to equal length, `end_id` follows a text, and `separator_id` stands between source and target.
    """

    bpe: "BPE"

    pad_id, end_id, separator_id = range(len(SPECIAL_TOKENS))

    def encode(self, text: str) -> list[int]:
        """Token numbers of a text, without special tokens."""
        # "<end>" written in a text is five characters, not its end. tokenizers neither saves nor pickles this setting.
        if not self.bpe.encode_special_tokens:
            self.bpe.encode_special_tokens = True
        return self.bpe.encode(text, add_special_tokens=False).ids

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of token numbers, without special tokens."""
        return self.bpe.decode(list(tokens), skip_special_tokens=True)

    @property
    def vocab_size(self) -> int:
        """Number of different tokens; the size of the model's embedding."""
        return self.bpe.get_vocab_size()

    def save(self, file: str | Path) -> None:
        """Write the tokenizer as JSON, which transformers' PreTrainedTokenizerFast reads too."""
        write_whole(Path(file), self.bpe.to_str(pretty=True))

    @classmethod
    def load(cls, file: str | Path) -> Self:
        """Read a tokenizer that `save` wrote.

        Raises:
            ValueError: it is not one of our tokenizers.
        """
        from tokenizers import Tokenizer as BPE  # here: a GPU node with torch and transformers runs this room

        bpe = BPE.from_str(Path(file).read_text(encoding="utf-8"))
        is_ours = [bpe.token_to_id(token) for token in SPECIAL_TOKENS] == list(range(len(SPECIAL_TOKENS)))
        names = ", ".join(SPECIAL_TOKENS)
        require(is_ours, f"the tokenizer in {file} does not begin with {names}; use one made by train_tokenizer")
        return cls(bpe)


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Learn the merges of a byte-level BPE from texts; the same texts give the same tokenizer.

    Example: 259 tokens are the bytes and the special ones; each further token joins two that often come together. A
    small corpus may run out of pairs before `vocab_size`; `Tokenizer.vocab_size` is the actual number.

    Raises:
        ValueError: the vocabulary is too small for the bytes and the special tokens.

    Source: Sennrich et al., 2016 (BPE); Radford et al., 2019 (bytes, GPT-2).
    """
    smallest = 256 + len(SPECIAL_TOKENS)
    problem = f"vocab_size {vocab_size} is too small; the bytes and the special tokens are {smallest}"
    require(vocab_size >= smallest, problem)
    # Imported here: a GPU node with torch and transformers runs this room.
    from tokenizers import Tokenizer as BPE
    from tokenizers import decoders, models, pre_tokenizers, trainers

    bpe = BPE(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    return Tokenizer(bpe)


class Row(NamedTuple):
    """A row of a batch as numbers: `Collate.encode` makes one from an example, `pack_text` from many texts."""

    tokens: list[int]
    labels: list[int]


@dataclass(frozen=True)
class Collate:
    """Make a batch of examples or rows: `collate_fn=Collate(tokenizer, max_length=40)`.

    Translation is predicted on the target side only; plain text everywhere. With `|` for the separator, `$`
    for the end and `.` for padding or -100:

        Example("drei", "three")     input_ids   d r e i | t h r e e $
                                     labels      . . . . . t h r e e $
        Example("", "six")           input_ids   s i x $ . . . . . . .
                                     labels      s i x $ . . . . . . .

    Rows are cut to `max_length` tokens at the right and padded to the longest of the batch. A row whose
    source alone fills `max_length` has nothing to predict. Returns `input_ids` and `labels`, both
    (batch, time) int64.

    Source: the target mask of the course's `collate_batch`.
    """

    tokenizer: Tokenizer
    max_length: int

    def __call__(self, rows: Sequence[Example | Row]) -> dict[str, torch.Tensor]:
        """Encode what is not yet encoded, mask, cut and pad."""
        encoded = zip(*map(self.encode, rows), strict=True)
        tokens, labels = ([torch.tensor(row) for row in column] for column in encoded)
        return {
            "input_ids": pad_sequence(tokens, batch_first=True, padding_value=self.tokenizer.pad_id),
            "labels": pad_sequence(labels, batch_first=True, padding_value=IGNORED),
        }

    def encode(self, row: Example | Row) -> Row:
        """Tokens and labels of one row; a row that is encoded already stays as it is."""
        if isinstance(row, Row):
            return row
        prompt = [*self.tokenizer.encode(row.source), self.tokenizer.separator_id] if row.source else []
        predicted = [*self.tokenizer.encode(row.target), self.tokenizer.end_id]
        tokens = (prompt + predicted)[: self.max_length]
        labels = ([IGNORED] * len(prompt) + predicted)[: self.max_length]
        return Row(tokens, labels)


def pack_text(examples: Iterable[Example], tokenizer: Tokenizer, block_size: int) -> list[Row]:
    """Join plain texts and cut them into rows of equal length, so that nothing is padding.

    Texts `six` and `ten`, `block_size=3`, `$` the end of a text:

        s i x | $ t e | n $          the last row is not full and is left out

    Every token is to be predicted. The rows go through `Collate(tokenizer, block_size)` like examples do.

    Raises:
        ValueError: an example has a source, or the text does not fill one block.

    Source: the usual way to feed a language model, as in GPT-2 and in nanoGPT.
    """
    stream: list[int] = []
    for example in examples:
        if example.source:
            raise ValueError(f"pack_text takes plain text, but {example} has a source; give it to Collate directly")
        stream += [*tokenizer.encode(example.target), tokenizer.end_id]
    told = f"{len(stream)} tokens do not fill one block of block_size {block_size}"
    require(len(stream) >= block_size, f"{told}; use a smaller block or more text")
    starts = range(0, len(stream) - block_size + 1, block_size)
    blocks = [stream[start : start + block_size] for start in starts]
    return [Row(block, labels=block) for block in blocks]
