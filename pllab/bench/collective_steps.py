"""Collectives made of messages, measured against gloo's own, and against what alpha and beta of this machine predict.

Alpha and beta are fitted in the same launch, to messages that all ranks pass on at the same time. Ranks that share
cores share their time, too, so a tree, in which few ranks send at once, takes less than predicted. Adding up takes no
time in the prediction.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch

from pllab import comm, transfers
from pllab.arguments import whole_number
from pllab.bench.measure import Comparison, check_rounds, compare
from pllab.bench.message_costs import SIZES, cost_of
from pllab.show import Figure
from pllab.simulate import MessageCost, simulate_transfers
from pllab.transfers import Collective

NUM_BYTES = (2**12, 2**18, 2**22)  # bytes of the tensors: mostly latency, both, mostly bytes
GLOO, GLOO_BROADCAST = "gloo's all_reduce", "gloo's broadcast"


@dataclass(frozen=True)
class CollectivesBench:
    """Times of collectives by the bytes of the tensor, and the cost of a message on the same ranks."""

    world_size: int
    cost: MessageCost
    by_bytes: Mapping[int, Comparison]

    def simulated_s(self) -> dict[int, dict[str, float]]:
        """What the virtual clock says, by bytes and name; gloo's own collectives are no list of transfers."""
        ours = _collectives(self.world_size)
        return {
            num_bytes: {one.name: simulate_transfers(one, num_bytes, self.cost).makespan for one in ours}
            for num_bytes in self.by_bytes
        }

    def table(self) -> str:
        """A line for each collective and size, each number with its engine."""
        cost = f"alpha {self.cost.alpha_s * 1e6:.1f} us, beta {self.cost.beta_s * 1e9:.3f} ns per byte (real, fitted)"
        heading = f"{'bytes':8} {'collective':18}  {'real, ms (quartiles)':21}  simulated, ms"
        lines = [f"{self.world_size} gloo ranks, {cost}", heading]
        for num_bytes, simulated in self.simulated_s().items():
            for name in self.by_bytes[num_bytes].seconds:
                took = self.by_bytes[num_bytes].time(name).scaled(1e3).text(3)
                predicted = f"{simulated[name] * 1e3:.3f}" if name in simulated else "-"
                lines.append(f"{num_bytes:<8} {name:18}  {took:21}  {predicted}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`."""
        return {
            "world_size": self.world_size,
            "cost": asdict(self.cost),
            "real": {str(num_bytes): one.to_json() for num_bytes, one in self.by_bytes.items()},
            "simulated_s": {str(num_bytes): times for num_bytes, times in self.simulated_s().items()},
        }

    def picture(self) -> Figure:
        """The times of the largest tensor as bars, with the quartiles as whiskers."""
        return self.by_bytes[NUM_BYTES[-1]].picture(f"Collectives of {NUM_BYTES[-1]} bytes on {self.world_size} ranks")


def bench_collectives(*, world_size: int = 2, repeats: int = 21, timeout_s: float = 300.0) -> CollectivesBench:
    """Measure ring and tree from send and receive, and gloo's own collectives, on gloo ranks of this host.

    Example: `print(bench_collectives(world_size=4).table())` takes some seconds; `bench_collectives().cost` alone is
    alpha and beta for `simulate_transfers`.

    Args:
        world_size: the number of ranks, at least two.
        repeats: rounds that count.
        timeout_s: the most seconds the measurement may take.

    Raises:
        ValueError: there are no rounds, or fewer than two ranks.
    """
    check_rounds(repeats, 0)
    whole_number("world_size", world_size, least=2)
    passes, by_bytes = comm.launch(_measure, world_size, repeats, backend="gloo", timeout_s=timeout_s)[0]
    return CollectivesBench(world_size, cost_of(passes), by_bytes)


def _measure(rank: int, world_size: int, repeats: int) -> tuple[Comparison, dict[int, Comparison]]:
    del rank
    passes = {str(size): partial(comm.ring_pass, torch.zeros(size // 4)) for size in SIZES}
    by_bytes = {}
    for num_bytes in NUM_BYTES:
        tensor = torch.zeros(num_bytes // 4)
        runs: dict[str, Any] = {one.name: partial(comm.run_transfers, one, tensor) for one in _collectives(world_size)}
        runs |= {GLOO: partial(comm.all_reduce, tensor), GLOO_BROADCAST: partial(comm.broadcast, tensor)}
        by_bytes[num_bytes] = compare(runs, repeats, 3, baseline=GLOO, in_step=True)
    return compare(passes, 2 * repeats, 3, in_step=True), by_bytes


def _collectives(world_size: int) -> list[Collective]:
    makers = (transfers.ring_all_reduce, transfers.tree_all_reduce, transfers.tree_broadcast)
    return [make(world_size) for make in makers]
