"""Memory that ranks share, the sum in it against torch's all-reduce, and that nothing of it stays behind."""

import gc
import os
import signal
import sys
import time
from itertools import product
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from pllab import comm

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


def free_bytes():
    """What is left of /dev/shm."""
    status = os.statvfs("/dev/shm")
    return status.f_bfree * status.f_frsize


def sums(number, size):
    """For every size and type what `_sums_in` says of a new buffer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comm.shared_memory, "_BLOCK", 700)  # several blocks in a chunk, the last one shorter
        return {what: _sums_in(comm.shared_buffer(*what), number) for what in product(SIZES, TYPES)}


def _sums_in(buffer, number):
    """Whether it begins with zeros, whether two sums are torch's, and whether all ranks have a third to the bit."""
    own, generator = buffer.tensor, torch.Generator().manual_seed(number)
    is_right = [not own.any()]
    sent = torch.randint(-3, 4, own.shape, generator=generator).to(own.dtype)  # which no type rounds
    own.copy_(sent)
    for _ in range(2):  # the second shows that the first was over
        buffer.all_reduce()
        comm.all_reduce(sent)
        is_right.append(torch.equal(own, sent))
        own.mul_(number + 1)
        sent.mul_(number + 1)
    own.copy_(torch.rand(own.shape, generator=generator))
    buffer.all_reduce()
    bits = comm.all_gather_object(own.view(torch.uint8).numpy().tobytes())
    return [*is_right, len({*bits}) == 1]


def shares_of_sums(number, size):
    """For every type, whether this rank's shares of two sums of small integers are those of torch's all-reduce, by one
    message that counts what is summed."""
    outcome = {}
    for dtype in TYPES:
        buffer = comm.shared_buffer(size * 1000, dtype)
        for length in (1000, 700):  # all numbers, and the first ones only
            sent = torch.randint(-3, 4, (size * length,), generator=torch.Generator().manual_seed(number)).to(dtype)
            buffer.tensor[: size * length].copy_(sent)
            with comm.record_messages() as ledger:
                buffer.reduce_scatter_async(part := torch.empty(length, dtype=dtype)).wait()
            counted = [comm.Message("reduce_scatter", tuple(sent.shape), sent.nbytes, None, 0)]
            comm.all_reduce(sent)
            is_sum = torch.equal(part, sent[number * length :][:length])
            outcome[dtype, length] = is_sum and ledger.messages == counted
    return outcome


def sums_in_turn(number, size):
    """Eight sums in two buffers in turn, each read when the next is written; in some turns a rank reads late."""
    buffers, sums, under_way = [comm.shared_buffer(size * 1000, torch.float32) for _ in range(2)], [], []
    for turn in range(8):
        time.sleep(0.02 if turn % size == number else 0)
        for pending in under_way:
            pending.wait()
        buffers[turn % 2].tensor.fill_(10 * turn + number)
        sums.append(torch.empty(1000))
        under_way = [buffers[turn % 2].reduce_scatter_async(sums[-1])]
    under_way[0].wait()
    return [part.unique().tolist() for part in sums]


def share_and_let_go(number, size):
    """One sum of two ranks with its ledger, what is mapped and open before and after, and other sizes refused."""
    buffer = comm.shared_buffer(5000, torch.float64)
    with comm.record_messages() as ledger:
        buffer.all_reduce()
    view = buffer.tensor[:10]
    mapped = [len(mappings())]
    nameless = all(line.endswith("(deleted)") for line in mappings())
    comm.barrier()
    del buffer
    gc.collect()
    mapped.append(len(mappings()))
    view.fill_(1)  # a view keeps the memory
    del view
    gc.collect()
    mapped.append(len(mappings()))
    with pytest.raises(ValueError) as caught:
        comm.shared_buffer(5 + number, torch.float32)
    return ledger.messages, mapped, nameless, descriptors(), str(caught.value), comm.all_gather_object(comm.rank())


SPOILED = [
    (os, "posix_fallocate", Mock(side_effect=OSError(28, "No space left on device"))),
    (comm.shared_memory, "_BOOT_ID", Path("/proc/self/comm")),  # another host
    (comm.shared_memory, "_identity", lambda descriptor: (0, 0)),  # as if rank 0's pid meant another process here
    (os, "open", Mock(side_effect=PermissionError(13, "Permission denied"))),
]


def refused(number, size):
    """One rank at a time cannot take part, each for another reason; then both can again."""
    gets = []
    for at, spoiled in enumerate(SPOILED):
        with pytest.MonkeyPatch.context() as patch:
            if number == min(at, 1):  # rank 0 makes room for all
                patch.setattr(*spoiled)
            gets.append(comm.shared_buffer(5000, torch.float32))
        gets.append(len(mappings()) + len(descriptors()))
    device = torch.device("meta" if number == 1 else "cpu")
    return [*gets, comm.shared_buffer(5, torch.float32, device), comm.shared_buffer(5, torch.float32) is None]


def run_all(number, size):
    """Every program once, in one group."""
    return {
        "sums": sums(number, size),
        "shares": shares_of_sums(number, size),
        "in turn": sums_in_turn(number, size),
        "refused": refused(number, size) if size == 2 else None,
        "let go": share_and_let_go(number, size) if size == 2 else None,
    }


def killed(number, size, failing):
    buffer = comm.shared_buffer(2**24, torch.float32)  # 64 MiB, to be told from what others do on this machine
    buffer.all_reduce()
    if number == failing:
        os.kill(os.getpid(), signal.SIGKILL)
    buffer.all_reduce()


@pytest.fixture(scope="module")
def seen():
    """Per number of ranks, and per rank, what each program returned."""
    return {size: comm.launch(run_all, size, backend="gloo", timeout_s=60) for size in (2, 3, 4)}


def test_same_sum_as_torch_and_the_same_bits_everywhere(seen):
    for ranks in seen.values():
        for outcome in ranks:
            assert [what for what, is_right in outcome["sums"].items() if not all(is_right)] == []


def test_every_rank_gets_its_share_of_the_sum(seen):
    for ranks in seen.values():
        assert all(all(one["shares"].values()) for one in ranks)


def test_with_two_buffers_in_turn_nobody_writes_what_another_has_yet_to_read(seen):
    for size, ranks in seen.items():
        sums = [[float(size * 10 * turn + sum(range(size)))] for turn in range(8)]
        assert [one["in turn"] for one in ranks] == [sums] * size


def test_the_mappings_go_with_the_buffer_and_the_ledger_has_one_message(seen):
    sentence = (
        "rank 1 asks for a shared buffer of 6 x torch.float32, rank 0 for 5 x torch.float32; "
        "ask for the same on every rank"
    )
    message = comm.Message("all_reduce", (5000,), 40_000, None, 0)
    assert [one["let go"] for one in seen[2]] == [([message], [1, 1, 0], True, [], sentence, [0, 1])] * 2


def test_when_one_rank_cannot_none_gets_memory(seen):
    assert [one["refused"] for one in seen[2]] == [[None, 0] * 4 + [None, False]] * 2


def test_a_killed_rank_leaves_nothing_behind(nothing_left):
    before = free_bytes()
    with pytest.raises(comm.RankError, match="rank 1 was killed by signal 9"):
        comm.launch(killed, 2, 1, backend="gloo", timeout_s=60)
    assert free_bytes() > before - 2**26
