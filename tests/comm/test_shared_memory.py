"""Memory that ranks share, the sum in it against torch's all-reduce, and that nothing of it stays mapped."""

import gc
import os
import sys
from itertools import product
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from pllab import comm
from tests.comm.programs import on_ranks

SIZES = (0, 1, 1023, 2049, 5000, 20_001)
TYPES = (torch.float32, torch.float64, torch.bfloat16)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is shared through /proc and /dev/shm")


def mappings():
    """The lines of this process's map that lie in /dev/shm."""
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if " /dev/shm/" in line]


def descriptors():
    """What this process has open in /dev/shm."""
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [target for link in links if (target := str(link.readlink())).startswith("/dev/shm")]


@on_ranks(2, 3, 4)
def test_same_sum_as_torch_and_the_same_bits_everywhere(number, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comm.shared_memory, "_BLOCK", 700)  # several blocks in a chunk, the last one shorter
        for what in product(SIZES, TYPES):
            buffer, generator = comm.shared_buffer(*what), torch.Generator().manual_seed(number)
            own = buffer.tensor
            assert not own.any(), what
            sent = torch.randint(-3, 4, own.shape, generator=generator).to(own.dtype)  # which no type rounds
            own.copy_(sent)
            for _ in range(2):  # the second shows that the first was over
                buffer.all_reduce()
                comm.all_reduce(sent)
                assert torch.equal(own, sent), what
                own.mul_(number + 1)
                sent.mul_(number + 1)
            own.copy_(torch.rand(own.shape, generator=generator))
            buffer.all_reduce()
            bits = comm.all_gather_object(own.view(torch.uint8).numpy().tobytes())
            assert len({*bits}) == 1, what


@on_ranks(2, 3, 4)
def test_every_rank_gets_its_share_of_the_sum_by_one_message_that_counts_what_is_summed(number, size):
    """Small integers, against torch's all-reduce."""
    for dtype, length in product(TYPES, (1000, 700)):  # all numbers, and the first ones only
        buffer = comm.shared_buffer(size * 1000, dtype)
        sent = torch.randint(-3, 4, (size * length,), generator=torch.Generator().manual_seed(number)).to(dtype)
        buffer.tensor[: size * length].copy_(sent)
        with comm.record_messages() as ledger:
            buffer.reduce_scatter_async(part := torch.empty(length, dtype=dtype)).wait()
        assert ledger.messages == [comm.Message("reduce_scatter", tuple(sent.shape), sent.nbytes, None, 0)]
        comm.all_reduce(sent)
        assert torch.equal(part, sent[number * length :][:length]), (dtype, length)


@on_ranks(2)
def test_the_mappings_go_with_the_buffer_and_the_ledger_has_one_message(number, size):
    buffer = comm.shared_buffer(5000, torch.float64)
    with comm.record_messages() as ledger:
        buffer.all_reduce()
    assert ledger.messages == [comm.Message("all_reduce", (5000,), 40_000, None, 0)]
    assert [line.endswith("(deleted)") for line in mappings()] == [True] and not descriptors()
    view = buffer.tensor[:10]
    comm.barrier()
    del buffer
    gc.collect()
    view.fill_(1)  # a view keeps the memory
    assert len(mappings()) == 1
    del view
    gc.collect()
    assert not mappings()


@on_ranks(2)
def test_ranks_that_ask_for_different_sizes_are_told_so_and_can_go_on(number, size):
    words = "rank 1 asks for a shared buffer of 6 x torch.float32, rank 0 for 5 x torch.float32; ask for the same on"
    with pytest.raises(ValueError, match=words):
        comm.shared_buffer(5 + number, torch.float32)
    assert comm.all_gather_object(number) == [0, 1]


SPOILED = [
    (os, "posix_fallocate", Mock(side_effect=OSError(28, "No space left on device"))),
    (comm.shared_memory, "_BOOT_ID", Path("/proc/self/comm")),  # another host
    (comm.shared_memory, "_identity", lambda descriptor: (0, 0)),  # as if rank 0's pid meant another process here
    (os, "open", Mock(side_effect=PermissionError(13, "Permission denied"))),
]


@on_ranks(2)
def test_when_one_rank_cannot_none_gets_memory(number, size):
    """One rank at a time cannot take part, each for another reason; then both can again."""
    for at, spoiled in enumerate(SPOILED):
        with pytest.MonkeyPatch.context() as patch:
            if number == min(at, 1):  # rank 0 makes room for all
                patch.setattr(*spoiled)
            assert comm.shared_buffer(5000, torch.float32) is None
        assert not mappings() and not descriptors()
    assert comm.shared_buffer(5, torch.float32, torch.device("meta" if number == 1 else "cpu")) is None
    assert comm.shared_buffer(5, torch.float32) is not None
