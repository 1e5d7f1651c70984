"""Solutions of lesson 03 by somebody who read the lesson alone."""

import statistics
from fractions import Fraction

import numpy as np
import torch
import torch.distributed as dist

# ---------------------------------------------------------------- 03.1


def bc_lowest_bit_swapped(tensor, root=0):
    """MPI style: parent is the number without its lowest bit; root and rank 0 have swapped numbers."""
    world, rank = dist.get_world_size(), dist.get_rank()

    def swap(r):
        return {root: 0, 0: root}.get(r, r)

    me, mask = swap(rank), 1
    while mask < world and not me & mask:
        mask <<= 1
    if me:
        fresh = torch.empty_like(tensor)
        dist.recv(fresh, src=swap(me - mask))
        tensor.copy_(fresh)
    mask >>= 1
    while mask:
        if me + mask < world:
            dist.send(tensor, dst=swap(me + mask))
        mask >>= 1


def bc_recursive(tensor, root=0):
    """A list of who has it, written as a plan first."""
    world, rank = dist.get_world_size(), dist.get_rank()
    order = [(root + k) % world for k in range(world)]
    having, missing = order[:1], order[1:]
    while missing:
        pairs = list(zip(having, missing, strict=False))
        for source, target in pairs:
            if rank == source:
                dist.send(tensor, target)
            if rank == target:
                dist.recv(tensor, source)
        having = having + [target for _, target in pairs]
        missing = missing[len(pairs) :]


# ---------------------------------------------------------------- 03.2
def rr_hint(tensor):
    world, rank = dist.get_world_size(), dist.get_rank()
    flat = tensor.reshape(-1)
    chunks = list(torch.tensor_split(flat, world))
    right, left = (rank + 1) % world, (rank - 1) % world
    for k in range(world - 1):
        out, into = (rank - k) % world, (rank - k - 1) % world
        sending = dist.isend(chunks[out], right)
        new = torch.empty_like(chunks[into])
        dist.recv(new, left)
        sending.wait()
        chunks[into] += new
    for k in range(world - 1):
        out, into = (rank + 1 - k) % world, (rank - k) % world
        sending = dist.isend(chunks[out], right)
        dist.recv(chunks[into], left)
        sending.wait()
    if flat.data_ptr() != tensor.data_ptr() or not tensor.is_contiguous():
        tensor.copy_(flat.reshape(tensor.shape))


def rr_padded_other_way(tensor):
    """Pads to a multiple of the world; goes to the lower neighbour, as in the lesson's picture."""
    w, me = dist.get_world_size(), dist.get_rank()
    n = tensor.numel()
    size = -(-n // w)
    table = tensor.new_zeros(w * size)
    table[:n] = tensor.flatten()
    table = table.reshape(w, size)
    for step in range(2 * (w - 1)):
        out, into = (me + 1 + step) % w, (me + 2 + step) % w
        fresh = torch.empty(size, dtype=tensor.dtype)
        handles = [dist.isend(table[out].clone(), (me - 1) % w), dist.irecv(fresh, (me + 1) % w)]
        for handle in handles:
            handle.wait()
        if step < w - 1:
            table[into] += fresh
        else:
            table[into] = fresh
    tensor.copy_(table.reshape(-1)[:n].view(tensor.shape))


def rr_parity_skips_empty(tensor):  # noqa: C901 (as it was handed in)
    """Blocking calls, even ranks first; empty chunks are left out; the last chunk takes the rest."""
    w, me = dist.get_world_size(), dist.get_rank()
    if w == 1:
        return tensor
    work = tensor.contiguous().clone().view(-1)
    size = len(work) // w
    parts = [work[k * size : (k + 1) * size if k < w - 1 else None] for k in range(w)]

    def swap(out, into):
        fresh = torch.zeros_like(parts[into])

        def give():
            if len(parts[out]):
                dist.send(parts[out], (me + 1) % w)

        def take():
            if len(parts[into]):
                dist.recv(fresh, (me - 1) % w)

        for call in (give, take) if me % 2 == 0 else (take, give):
            call()
        return fresh

    for k in range(w - 1):
        parts[(me - k - 1) % w].add_(swap((me - k) % w, (me - k - 1) % w))
    for k in range(w - 1):
        parts[(me - k) % w].copy_(swap((me + 1 - k) % w, (me - k) % w))
    tensor.copy_(work.view(tensor.shape))
    return tensor


def rr_waits_at_end(tensor):
    """All handles are kept and waited for before it returns; every send leaves from a copy."""
    w, me = dist.get_world_size(), dist.get_rank()
    flat = tensor.clone().reshape(-1)
    cuts = [len(flat) * k // w for k in range(w + 1)]
    handles, kept = [], []
    travelling = flat[cuts[me] : cuts[me + 1]].clone()
    for k in range(1, 2 * w - 1):
        kept.append(travelling)
        handles.append(dist.isend(travelling, (me + 1) % w))
        c = (me - k) % w
        new = flat.new_empty(cuts[c + 1] - cuts[c])
        dist.recv(new, (me - 1) % w)
        if k < w:
            new += flat[cuts[c] : cuts[c + 1]]
        flat[cuts[c] : cuts[c + 1]] = new
        travelling = new
    for handle in handles:
        handle.wait()
    tensor[...] = flat.reshape(tensor.shape)


# ---------------------------------------------------------------- 03.3
def fit_polyfit(sizes, times):
    if len(set(sizes)) < 2:
        raise ValueError("at least two different sizes are needed")
    medians = [statistics.median(rounds) for rounds in times]
    beta, alpha = np.polyfit(sizes, medians, 1, w=[1 / t for t in medians])
    return float(alpha), float(beta)


def fit_by_hand(sizes, times):
    if len(set(sizes)) <= 1:
        raise ValueError("one size says nothing of the slope")
    t = []
    for rounds in times:
        s = sorted(rounds)
        h = len(s) // 2
        t.append(s[h] if len(s) % 2 else (s[h - 1] + s[h]) / 2)
    weight = [Fraction(1) / Fraction(x) ** 2 for x in t]
    total = sum(weight)
    n0 = sum(w * n for w, n in zip(weight, sizes, strict=False)) / total
    t0 = sum(w * Fraction(x) for w, x in zip(weight, t, strict=False)) / total
    beta = sum(w * (n - n0) * (Fraction(x) - t0) for w, n, x in zip(weight, sizes, t, strict=False)) / sum(
        w * (n - n0) ** 2 for w, n in zip(weight, sizes, strict=False)
    )
    return float(t0 - beta * n0), float(beta)


def fit_torch_lstsq(sizes, times):
    n = torch.tensor(sizes, dtype=torch.float64)
    if n.unique().numel() < 2:
        raise ValueError("sizes")
    t = torch.stack([torch.quantile(torch.tensor(r, dtype=torch.float64), 0.5) for r in times])
    scale = n.max()
    rows = torch.stack([1 / t, n / scale / t], dim=1)
    alpha, beta = torch.linalg.lstsq(rows, torch.ones(len(t), 1, dtype=torch.float64)).solution.flatten()
    return alpha.item(), (beta / scale).item()


RIGHT = {
    "03.1": [bc_lowest_bit_swapped, bc_recursive],
    "03.2": [rr_hint, rr_padded_other_way, rr_parity_skips_empty, rr_waits_at_end],
    "03.3": [fit_polyfit, fit_by_hand, fit_torch_lstsq],
}
