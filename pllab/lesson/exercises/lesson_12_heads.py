"""The cases of exercise 12.3: `qkv_columns(rank, world_size, num_heads, head_dim)` of a fused [q|k|v] weight.

The oracle is a box of all columns: part, head, number of the head. Ranks are numbers here; nothing is sent.
"""

import operator
from functools import partial
from typing import Any

import torch

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.mistakes import Mistake, compare, must_refuse

# World size, heads, numbers of a head; w > 1 and head_dim > 1 first, where orders can be told apart.
_SIZES = ((2, 4, 3), (3, 6, 2), (2, 2, 4), (4, 4, 1), (1, 3, 2), (4, 12, 5))
# Heads that cannot be shared, though the columns could be in all but the last.
_REFUSED = ((2, 3, 4), (4, 6, 2), (4, 2, 8), (3, 4, 5))
_ASKED = "rank {} of {}, and {} heads of {},"


def _right(rank: int, size: int, heads: int, head_dim: int) -> list[int]:
    box = torch.arange(3 * heads * head_dim).view(3, heads, head_dim)
    return list(map(int, box[:, rank * heads // size : (rank + 1) * heads // size].flatten()))


def _one_block(rank: int, size: int, heads: int, head_dim: int) -> list[int]:
    width = 3 * heads * head_dim // size
    return list(range(rank * width, (rank + 1) * width))


_MISTAKES = [
    Mistake(
        "one_block",
        "One block of [q|k|v] has queries of many heads and none of their keys: divide q, k and v one by one.",
        like=_one_block,
    ),
    Mistake(
        "order",
        "Those are the right columns in another order: first all queries, then all keys, then all values.",
        when=lambda columns, *question: sorted(columns) == _right(*question),
    ),
    Mistake(
        "number_of_columns",
        "A rank has the queries, keys and values of its own heads, and nothing else.",
        when=lambda columns, *question: len(columns) != len(_right(*question)),
    ),
]


def _columns(answer: Any, *_: int) -> list[int]:
    try:
        return list(map(operator.index, answer.tolist() if isinstance(answer, torch.Tensor) else answer))
    except (TypeError, ValueError):
        raise Wrong("no_columns", f"Return the numbers of the columns, not {answer!r}.") from None


@case("every rank has the columns of its heads: queries, keys, values")
def makes_its_heads(qkv_columns: Function) -> None:
    questions = [(rank, *sizes) for sizes in _SIZES for rank in range(sizes[0])]
    compare(qkv_columns, questions, _right, _MISTAKES, asked=_ASKED, read=_columns)


@case("heads that the ranks cannot share are refused with a ValueError that names both numbers, on every rank")
def refuses(qkv_columns: Function) -> None:
    for rank, size, heads, head_dim in ((rank, *sizes) for sizes in _REFUSED for rank in range(sizes[0])):
        asked = _ASKED.format(rank, size, heads, head_dim)
        why = f" that names {heads} and {size}, because a head cannot be cut"
        ask = partial(qkv_columns, rank, size, heads, head_dim)
        error = must_refuse(ask, asked, "no_error", why=why, raised_id="other_error")
        if not (str(heads) in str(error) and str(size) in str(error)):
            raise Wrong("unclear", f"For {asked} your function raised {error!r}; right is a ValueError{why}.")
