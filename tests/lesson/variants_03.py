"""Right solutions of lesson 03 that look different."""

import statistics

import numpy as np
import torch
import torch.distributed as dist

# 03.1


def numbers_from_the_root(tensor, root=0):
    size = dist.get_world_size()
    me, have = (dist.get_rank() - root) % size, 1
    while have < size:
        if me < have and me + have < size:
            dist.send(tensor, (me + have + root) % size)
        elif have <= me < 2 * have:
            dist.recv(tensor, (me - have + root) % size)
        have *= 2


def lowest_bits_last(tensor, root=0):
    """The tree of MPICH: the largest distance first."""
    size = dist.get_world_size()
    me, distance = (dist.get_rank() - root) % size, 1
    while distance < size and not me & distance:
        distance *= 2
    if me:
        dist.recv(tensor, (me - distance + root) % size)
    distance //= 2
    while distance:
        if me + distance < size:
            dist.send(tensor, (me + distance + root) % size)
        distance //= 2


def halves(tensor, root=0):
    """Whoever has the numbers hands half of its people to the first of them."""
    size = dist.get_world_size()
    rank, people = dist.get_rank(), [(root + number) % size for number in range(size)]
    while len(people) > 1:
        middle = (len(people) + 1) // 2
        mine, theirs = people[:middle], people[middle:]
        if rank == people[0]:
            dist.isend(tensor, theirs[0]).wait()
        elif rank == theirs[0]:
            dist.irecv(tensor, people[0]).wait()
        people = theirs if rank in theirs else mine
    return tensor


def received_elsewhere_and_copied(tensor, root=0):
    size = dist.get_world_size()
    me = (dist.get_rank() - root) % size
    if me:
        got = torch.empty_like(tensor)
        dist.recv(got, (me - 2 ** (me.bit_length() - 1) + root) % size)
        tensor.copy_(got)
    for power in range(me.bit_length(), (size - 1).bit_length()):
        if me + 2**power < size:
            dist.send(tensor, (me + 2**power + root) % size)


# 03.2


def two_loops(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(2 * size - 2):
        out, own = chunks[(rank - step) % size], chunks[(rank - step - 1) % size]
        sending = dist.isend(out, (rank + 1) % size)
        new = torch.empty_like(own)
        dist.recv(new, (rank - 1) % size)
        sending.wait()
        if step < size - 1:
            own += new
        else:
            own.copy_(new)
    tensor.copy_(flat.view(tensor.shape))


def the_other_direction_on_a_copy(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    if size == 1:
        return tensor
    flat = tensor.detach().clone(memory_format=torch.contiguous_format).view(-1)
    bounds = [number * flat.numel() // size for number in range(size + 1)]
    part = [flat[low:high] for low, high in zip(bounds, bounds[1:], strict=False)]
    for k in range(size - 1):
        new = torch.empty_like(part[(rank + k + 1) % size])
        works = [dist.irecv(new, (rank + 1) % size), dist.isend(part[(rank + k) % size], (rank - 1) % size)]
        [work.wait() for work in works]
        part[(rank + k + 1) % size] += new
    for k in range(size - 1):
        new = torch.empty_like(part[(rank + k) % size])
        works = [dist.irecv(new, (rank + 1) % size), dist.isend(part[(rank + k - 1) % size], (rank - 1) % size)]
        [work.wait() for work in works]
        part[(rank + k) % size][:] = new
    tensor[...] = flat.view_as(tensor)
    return tensor


def padded(tensor):
    """Every chunk has the same size, with zeros at the end."""
    rank, size = dist.get_rank(), dist.get_world_size()
    each = -(-tensor.numel() // size)
    board = torch.zeros(size, each, dtype=tensor.dtype)
    board.view(-1)[: tensor.numel()] = tensor.flatten()
    for step in range(2 * (size - 1)):
        new = torch.empty(each, dtype=tensor.dtype)
        operations = [
            dist.P2POp(dist.isend, board[(rank - step) % size], (rank + 1) % size),
            dist.P2POp(dist.irecv, new, (rank - 1) % size),
        ]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        place = (rank - step - 1) % size
        board[place] = board[place] + new if step < size - 1 else new
    tensor.copy_(board.view(-1)[: tensor.numel()].view(tensor.shape))


def empty_chunks_stay_at_home(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    flat = tensor.contiguous().view(-1)
    chunks = [flat[-(-flat.numel() // size) * number :][: -(-flat.numel() // size)] for number in range(size)]
    for step in range(2 * size - 2):
        out, own = chunks[(rank - step) % size], chunks[(rank - step - 1) % size]
        new, works = torch.empty_like(own), []
        if out.numel():
            works.append(dist.isend(out, (rank + 1) % size))
        if own.numel():
            works.append(dist.irecv(new, (rank - 1) % size))
        for work in works:
            work.wait()
        own.copy_(own + new if step < size - 1 else new)
    tensor.copy_(flat.view(tensor.shape))


# 03.3


def by_polyfit(sizes, times):
    if len(set(sizes)) < 2:
        raise ValueError(f"sizes {sizes} fix no line; measure two different ones")
    middle = np.array([statistics.median(each) for each in times])
    beta, alpha = np.polyfit(sizes, middle, 1, w=1 / middle)
    return alpha, beta


def by_lstsq(sizes, times):
    if max(sizes) == min(sizes):
        raise ValueError("one size fixes no line")
    middle = torch.tensor([statistics.median(each) for each in times], dtype=torch.float64)
    columns = torch.stack([1 / middle, torch.tensor(sizes, dtype=torch.float64) / middle], dim=1)
    return torch.linalg.lstsq(columns, torch.ones(len(sizes), 1, dtype=torch.float64)).solution.flatten().tolist()


def by_hand(sizes, times):
    if len(set(sizes)) < 2:
        raise ValueError("no line")
    middle = [float(np.median(each)) for each in times]
    weights = [1 / time**2 for time in middle]
    total = sum(weights)
    mean_n = sum(w * n for w, n in zip(weights, sizes, strict=True)) / total
    mean_t = sum(w * t for w, t in zip(weights, middle, strict=True)) / total
    spread = sum(w * (n - mean_n) ** 2 for w, n in zip(weights, sizes, strict=True))
    beta = sum(w * (n - mean_n) * (t - mean_t) for w, n, t in zip(weights, sizes, middle, strict=True)) / spread
    return np.array([mean_t - beta * mean_n, beta])


RIGHT = {
    "03.1": [numbers_from_the_root, lowest_bits_last, halves, received_elsewhere_and_copied],
    "03.2": [two_loops, the_other_direction_on_a_copy, padded, empty_chunks_stay_at_home],
    "03.3": [by_polyfit, by_lstsq, by_hand],
}
