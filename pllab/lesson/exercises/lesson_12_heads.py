"""The cases of exercise 12.3: `qkv_columns(rank, world_size, num_heads, head_dim)` of a fused [q|k|v] weight.

Attention itself is the oracle: with the columns that a rank is given it must compute, head for head, what the whole
layer computes for the heads of that rank. Ranks are numbers here; nothing is sent.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from pllab.lesson.exercise import Wrong, case

Columns = Callable[[int, int, int, int], Any]

# World size, heads, numbers of a head; w > 1 and head_dim > 1 first, where orders can be told apart.
_SIZES = ((2, 4, 3), (3, 6, 2), (2, 2, 4), (4, 4, 1), (1, 3, 2), (4, 12, 5))
# Heads that cannot be shared, though the columns could be in all but the last.
_REFUSED = ((2, 3, 4), (4, 6, 2), (4, 2, 8), (3, 4, 5))


@case("the columns of a rank make its heads, as the whole attention would")
def makes_its_heads(qkv_columns: Columns) -> None:
    for size, heads, head_dim in _SIZES:
        for rank in range(size):
            _judge_heads(_columns(qkv_columns, rank, size, heads, head_dim), rank, size, heads, head_dim)


@case("all ranks together have every column once")
def every_column_once(qkv_columns: Columns) -> None:
    for size, heads, head_dim in _SIZES:
        found = [c for rank in range(size) for c in _columns(qkv_columns, rank, size, heads, head_dim)]
        if sorted(found) != list(range(3 * heads * head_dim)):
            raise Wrong("not_once", f"{_asked(size, heads, head_dim)} some column belongs to no rank or to two.")


@case("heads that the ranks cannot share are refused with a ValueError that names both numbers, on every rank")
def refuses(qkv_columns: Columns) -> None:
    for size, heads, head_dim in _REFUSED:
        for rank in range(size):
            _judge_refusal(qkv_columns, rank, size, heads, head_dim)


def _asked(size: int, heads: int, head_dim: int) -> str:
    return f"With {heads} heads of {head_dim} over {size} ranks"


def _columns(qkv_columns: Columns, rank: int, size: int, heads: int, head_dim: int) -> list[int]:
    given = qkv_columns(rank, size, heads, head_dim)
    if isinstance(given, torch.Tensor):
        given = given.tolist()
    try:
        found = [int(column) for column in given]
    except (TypeError, ValueError):
        raise Wrong("no_columns", f"Return the numbers of the columns, and not {given!r}.") from None
    if outside := [column for column in found if not 0 <= column < 3 * heads * head_dim]:
        raise Wrong(
            "outside",
            f"{_asked(size, heads, head_dim)} rank {rank} names column {outside[0]}; the weight has columns 0 to "
            f"{3 * heads * head_dim - 1}.",
        )
    return found


def _judge_heads(found: list[int], rank: int, size: int, heads: int, head_dim: int) -> None:
    asked, each = f"{_asked(size, heads, head_dim)} rank {rank}", heads // size * head_dim
    starts = [part * heads * head_dim + rank * each for part in range(3)]
    right = [column for start in starts for column in range(start, start + each)]
    if len(found) != 3 * each:
        told = f"{asked} has {len(found)} columns and needs {3 * each}: q, k and v of its {heads // size} heads."
        raise Wrong("number_of_columns", told)
    if size > 1 and found == list(range(rank * 3 * each, (rank + 1) * 3 * each)):
        raise Wrong(
            "one_block",
            f"{asked} takes one block of columns. The weight is [q|k|v], so such a block holds queries of many heads "
            "and the keys of none of them: q, k and v are shared out each by itself.",
        )
    if sorted(found) == right and found != right:
        raise Wrong(
            "order",
            f"{asked} has the right columns in another order. Attention cuts what comes out into thirds: all its "
            "queries first, then its keys, then its values.",
        )
    if not _attends_alike(found, rank, size, heads, head_dim):
        raise Wrong(
            "other_heads",
            f"{asked} does not compute its own heads, {rank * heads // size} to {(rank + 1) * heads // size - 1}: "
            f"its first columns are {found[:4]}. Heads lie side by side in q, in k and in v.",
        )


def _attends_alike(columns: list[int], rank: int, size: int, heads: int, head_dim: int) -> bool:
    draw = torch.Generator().manual_seed(heads)
    x = torch.randn(2, 5, 7, generator=draw, dtype=torch.float64)
    weight = torch.randn(7, 3 * heads * head_dim, generator=draw, dtype=torch.float64)
    whole = _attend(x @ weight, heads)
    mine = _attend(x @ weight[:, columns], heads // size)
    return torch.allclose(mine, whole[:, rank * heads // size : (rank + 1) * heads // size])


def _attend(fused: torch.Tensor, heads: int) -> torch.Tensor:
    """(rows, time, 3 x width) -> (rows, heads, time, head_dim), as GPT-2 does it."""
    query, key, value = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in fused.chunk(3, -1))
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True)


def _judge_refusal(qkv_columns: Columns, rank: int, size: int, heads: int, head_dim: int) -> None:
    asked = f"{_asked(size, heads, head_dim)} rank {rank}"
    try:
        given = qkv_columns(rank, size, heads, head_dim)
    except NotImplementedError:
        raise
    except ValueError as error:
        if not (str(heads) in str(error) and str(size) in str(error)):
            raise Wrong("unclear", f"{asked} raised {error!r}, which does not name {heads} and {size}.") from None
        return
    except Exception as error:
        raise Wrong("other_error", f"{asked} raised {error!r}; raise a ValueError whose sentence says why.") from None
    raise Wrong(
        "no_error",
        f"{asked} returned {given!r:.60}. A head cannot be cut: its queries and keys meet inside it, and half of "
        "them give another attention. Refuse it before any rank sends a message.",
    )
