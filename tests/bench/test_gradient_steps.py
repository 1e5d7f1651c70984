"""The benchmark on a model small enough to say nothing about speed: that all ways run and are told apart."""

import json
import sys
from pathlib import Path

import pytest
import torch

from pllab.bench.gradient_steps import (
    DDP,
    NO_COMMUNICATION,
    OURS,
    PER_PARAMETER,
    WAYS,
    DataParallelBench,
    bench_data_parallel,
    check_same_work,
)
from pllab.bench.measure import Comparison, Implausible
from pllab.bench.workloads import Workload
from pllab.comm import barrier, held_for_others, launch, shared_buffer

TINY = Workload(num_layers=1, width=8, num_heads=2, vocab_size=32, batch_size=2, num_tokens=8)


@pytest.mark.ranks
def test_all_ways_run_and_train_the_same_model() -> None:
    result = bench_data_parallel(TINY, repeats=2, with_memory=False, backend="gloo", timeout_s=120.0)
    assert tuple(result.comparison.seconds) == WAYS
    assert {len(seconds) for seconds in result.comparison.seconds.values()} == {2}
    assert result.comparison.tokens == 2 * 2 * 8  # ranks, rows, tokens per row
    assert result.reason.startswith("shared" if sys.platform == "linux" else "flat")
    assert json.loads(json.dumps(result.to_json()))["workload"]["num_layers"] == 1


def example() -> DataParallelBench:
    seconds = {NO_COMMUNICATION: (0.5, 0.6), OURS: (0.55, 0.66), DDP: (1.1, 1.32), PER_PARAMETER: (2.0, 2.0)}
    return DataParallelBench(TINY, 2, "flat: because", Comparison(seconds, DDP), {OURS: 2**20, DDP: 2**21}, 22_000_000)


def test_the_two_ratios_are_to_ddp_and_to_no_communication() -> None:
    result = example()
    assert result.ratio_to_torch == pytest.approx(0.5)
    assert result.ratio_to_no_communication == pytest.approx(1.1)


def test_the_table_tells_memory_and_reason() -> None:
    table = example().table()
    assert "peak memory, DataParallel: 1.0 MiB" in table
    assert "flat: because" in table
    assert "gradients: 22.0 MB" in table


def test_a_way_that_trains_another_model_is_refused() -> None:
    check_same_work({DDP: 2.0, OURS: 2.001})
    with pytest.raises(Implausible, match="DataParallel has loss 2.5000 and torch DDP 2.0000"):
        check_same_work({DDP: 2.0, OURS: 2.5})
    with pytest.raises(Implausible):
        check_same_work({DDP: 2.0, OURS: float("nan")})


SMAPS = """\
7f6cc77ba000-7f6cc87ba000 rw-s 00000000 00:1b 427                        /dev/shm/#427 (deleted)
Size:              16384 kB
Rss:               16384 kB
Pss:                9000 kB
Pss_Dirty:          9000 kB
7f6cc87ba000-7f6cc97ba000 r-xp 00000000 fe:00 5424994                    /usr/lib/libshm.so
Rss:               16384 kB
Pss:                1000 kB
"""


def test_memory_shared_by_ranks_is_counted_once_and_libraries_are_left_alone() -> None:
    assert held_for_others(SMAPS) == (16384 - 9000) * 1024
    assert held_for_others("") == 0


@pytest.mark.ranks
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_all_ranks_together_hold_what_they_reserved() -> None:
    # Each rank touches its own 8 MiB and half of the peer's, so 12 MiB are resident and 4 are counted elsewhere.
    for held in launch(share_eight_mib, 2, backend="gloo", timeout_s=60.0):
        assert held == pytest.approx(4 * 2**20, rel=0.01)


def share_eight_mib(rank: int, world_size: int) -> int:
    buffer = shared_buffer(2**21, torch.float32)
    assert buffer is not None
    buffer.tensor.fill_(1)
    buffer.all_reduce()
    held = held_for_others(Path("/proc/self/smaps").read_text())
    barrier()
    return held
