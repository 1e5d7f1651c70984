"""Where to cut a list of layers so that the slowest stage is as fast as it can be."""

from collections.abc import Sequence
from itertools import accumulate


def balance(costs: Sequence[float], num_stages: int) -> list[int]:
    """Return how many consecutive layers each stage gets so that the largest sum of costs is smallest.

    Example: `balance([1, 1, 1, 1, 4], 2)` -> `[4, 1]`: four cheap layers weigh as much as the dear one.

    Raises:
        ValueError: there are more stages than layers, or no stage at all.

    Source: the linear partition problem, solved by dynamic programming. Lesson 07.
    """
    if num_stages < 1:
        raise ValueError(f"{num_stages} stages cannot hold a model; give at least 1")
    if num_stages > len(costs):
        raise ValueError(f"{num_stages} stages are more than the {len(costs)} layers; use at most {len(costs)} devices")
    total = [0.0, *accumulate(costs)]
    # best[n] = (largest stage cost, sizes of the stages) for the first n layers and the stages so far
    best = {n: (total[n], [n]) for n in range(1, len(costs) + 1)}
    for stage in range(2, num_stages + 1):
        best = {
            n: min((max(best[cut][0], total[n] - total[cut]), [*best[cut][1], n - cut]) for cut in range(stage - 1, n))
            for n in range(stage, len(costs) + 1)
        }
    return best[len(costs)][1]
