"""DualPipeV: two stages a rank in a V, and a forward of one paired with a backward of the other."""

from pllab.schedule.action import Action
from pllab.schedule.pause import collector_paused
from pllab.schedule.schedule import Schedule
from pllab.schedule.sizes import check_sizes
from pllab.schedule.v_letters import read_letters


@collector_paused()
def dual_pipe_v(num_ranks: int, num_microbatches: int) -> Schedule:
    """Every rank pairs a forward with a backward of its other stage, so that one computes while the other sends.

    Rank `r` of `p` has the stages `r` and `2p - 1 - r`. Two ranks, four micro-batches, F, I and W of one unit:

        rank 0  0F0 0F1 0F2 3F0 3I0 3W0 3F1 0F3 3B1 3B1 3F2 0B0 0B0 3B2 3B2 3F3  .  0B1 0B1 3B3 3B3 0I2 0W2 0I3 0W3
        rank 1   .  1F0 2F0 1F1 2F1 1F2 2B0 2B0 2F2 1B0 1B0 1F3 2B1 2B1 2F3 1B1 1B1 2B2 2B2 1B2 1B2 2I3 1I3 2W3 1W3

    Here a pair is two actions in turn, and an engine that runs a pair at once hides its messages. Backwards are whole
    in the pairs, and split where a rank fills or drains. A rank holds `2p + 1` activations of its half-size stages at
    most; with F, I and W equal it idles `p - 1` units from `m = 2p` on.

    Raises:
        ValueError: a size below 1.

    Source: DualPipeV in github.com/deepseek-ai/DualPipe (2025), Sea AI Lab's "cut-in-half" of the DualPipe in the
    DeepSeek-V3 Technical Report (2024), section 3.2.1.
    """
    check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches)
    return Schedule(tuple(tuple(_row(rank, num_ranks, num_microbatches)) for rank in range(num_ranks)), "DualPipeV")


def _row(rank: int, num_ranks: int, num_microbatches: int) -> list[Action]:
    """The eight steps of its authors; below `2p` micro-batches the row of `2p`, less those that are not there."""
    inside = num_ranks - rank - 1
    num_pairs = max(num_microbatches, 2 * num_ranks) - 2 * num_ranks + rank + 1
    steps = (
        "f" * 2 * inside,
        "fF" * (rank + 1),
        "IwF" * inside,
        "fBFb" * num_pairs,
        "BFb" * inside,
        _half_split(rank + 1),
        "wi" * inside,
        "w" * (rank + 1),
    )
    return read_letters("".join(steps), rank, num_ranks, num_microbatches)


def _half_split(num_pairs: int) -> str:
    """Backwards of both stages in turn, the first half whole and the second split, to fill the drain: `BbIi`."""
    return ("Bb" * num_pairs)[:num_pairs] + ("Ii" * num_pairs)[num_pairs:]
