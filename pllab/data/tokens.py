"""Turn text into numbers: a byte-level BPE, trained on the corpus at hand.

Byte-level means that every text can be encoded and comes back unchanged: the 256 bytes are in the vocabulary,
and the merges learned from the corpus only make it shorter.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from tokenizers import Tokenizer as BPE

_PAD, _END, _SEPARATOR = SPECIAL_TOKENS = ("<pad>", "<end>", "<separator>")
_NUM_BYTES = 256
_FILE_NAME = "tokenizer.json"


@dataclass(frozen=True)
class Tokenizer:
    """A byte-level BPE with three special tokens: padding, end of a text, separator of source and target.

    Example: `tokenizer.decode(tokenizer.encode("two words"))` is `"two words"`. `encode` never makes special
    tokens, even of a text that spells one, and `decode` leaves them out.
    """

    bpe: "BPE"

    def __post_init__(self) -> None:
        # "<end>" written in a text is five characters, not its end. tokenizers does not save this setting.
        self.bpe.encode_special_tokens = True

    def encode(self, text: str) -> list[int]:
        """Token numbers of a text, without special tokens."""
        return self.bpe.encode(text, add_special_tokens=False).ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Token numbers of many texts, quicker than one by one."""
        return [encoding.ids for encoding in self.bpe.encode_batch(list(texts), add_special_tokens=False)]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of token numbers, without special tokens."""
        return self.bpe.decode(list(tokens), skip_special_tokens=True)

    @property
    def vocab_size(self) -> int:
        """Number of different tokens; the size of the model's embedding."""
        return self.bpe.get_vocab_size()

    @property
    def pad_id(self) -> int:
        """The token that fills rows up to equal length."""
        return self._id(_PAD)

    @property
    def end_id(self) -> int:
        """The token after the last of a text."""
        return self._id(_END)

    @property
    def separator_id(self) -> int:
        """The token between source and target."""
        return self._id(_SEPARATOR)

    def save(self, path: str | Path) -> Path:
        """Write `tokenizer.json` into a folder (made if missing), or into the named `.json` file.

        Returns the file. transformers' PreTrainedTokenizerFast reads it too.
        """
        file = _file(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.bpe.to_str(pretty=True), encoding="utf-8")
        return file

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file is no tokenizer, or not one of ours.
        """
        file = _file(path)
        if not file.is_file():
            raise FileNotFoundError(f"no tokenizer at {file}; train one with train_tokenizer and save it there")
        return cls._from_text(file.read_text(encoding="utf-8"), str(file))

    @classmethod
    def _from_text(cls, text: str, origin: str = "memory") -> Self:
        """Read the JSON form."""
        from tokenizers import Tokenizer as BPE  # here: a GPU node with torch and transformers runs this room

        try:
            tokenizer = cls(BPE.from_str(text))
        except Exception as error:  # tokenizers raises plain Exception
            raise ValueError(f"{origin} holds no tokenizer ({error}); save one with Tokenizer.save") from error
        missing = [token for token in SPECIAL_TOKENS if tokenizer.bpe.token_to_id(token) is None]
        if missing:
            raise ValueError(f"the tokenizer in {origin} lacks {missing}; use one made by train_tokenizer")
        return tokenizer

    def _id(self, token: str) -> int:
        number = self.bpe.token_to_id(token)
        assert number is not None, f"{token} is missing, though training and loading make sure of it"
        return number

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """Travel to another process as JSON; the setting of `__post_init__` would be lost otherwise."""
        return type(self)._from_text, (self.bpe.to_str(),)


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Learn the merges of a byte-level BPE from texts; the same texts give the same tokenizer.

    Example: 259 tokens are the bytes and the special ones; each further token joins two that often meet. A
    small corpus may run out of pairs before `vocab_size`; `Tokenizer.vocab_size` is what was reached.

    Raises:
        ValueError: the vocabulary is too small for the bytes and the special tokens.

    Source: Sennrich et al., 2016 (BPE); Radford et al., 2019 (bytes, GPT-2).
    """
    smallest = _NUM_BYTES + len(SPECIAL_TOKENS)
    if vocab_size < smallest:
        raise ValueError(
            f"vocab_size {vocab_size} is too small; "
            f"{_NUM_BYTES} bytes and {len(SPECIAL_TOKENS)} special tokens need at least {smallest}"
        )
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


def _file(path: str | Path) -> Path:
    """`work` -> `work/tokenizer.json`; `work/small.json` stays."""
    path = Path(path)
    return path if path.suffix == ".json" else path / _FILE_NAME
