"""Sizes of GPT-2 that a lesson, a benchmark and a GPU can name."""

from typing import Any

from transformers import GPT2Config

# name: layers, width, heads
_SIZES = {"tiny": (4, 64, 4), "small": (6, 256, 8), "medium": (8, 384, 6), "gpt2": (12, 768, 12)}


def gpt2_config(size: str = "tiny", vocab_size: int = 2048, dropout: float = 0.0, **changes: Any) -> GPT2Config:
    """Make a GPT-2 configuration: "tiny" (4 x 64), "small" (6 x 256), "medium" (8 x 384) or "gpt2" (12 x 768).

    Example: `gpt2_config("gpt2", vocab_size=50257)` is GPT-2 124M without dropout; every field of
    `transformers.GPT2Config` can be given as a keyword. With dropout, attention is computed in its eager form,
    because the fused kernel draws its masks from a generator that lanes would share.

    Raises:
        ValueError: the size is not one of the four.
    """
    if size not in _SIZES:
        raise ValueError(f"size {size!r} is none of {', '.join(_SIZES)}")
    n_layer, n_embd, n_head = _SIZES[size]
    fields: dict[str, Any] = {
        "vocab_size": vocab_size,
        "n_layer": n_layer,
        "n_embd": n_embd,
        "n_head": n_head,
        "n_positions": 1024,
        "resid_pdrop": dropout,
        "embd_pdrop": dropout,
        "attn_pdrop": dropout,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
        "attn_implementation": "eager" if dropout else "sdpa",
    }
    return GPT2Config(**(fields | changes))
