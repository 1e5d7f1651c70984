"""Solutions of lesson 03 by somebody who read the lesson alone."""

import math
import statistics
from fractions import Fraction

import numpy as np
import torch
import torch.distributed as dist


# ---------------------------------------------------------------- 03.1 right
def bc_doubling(tensor, root=0):
    world = dist.get_world_size()
    me = (dist.get_rank() - root) % world
    have = 1
    while have < world:
        if me < have:
            if me + have < world:
                dist.send(tensor, (me + have + root) % world)
        elif me < 2 * have:
            dist.recv(tensor, (me - have + root) % world)
        have *= 2


def bc_halving(tensor, root=0):
    """Binary splitting of the range of ranks: the owner sends to the middle."""
    world = dist.get_world_size()
    me = (dist.get_rank() - root + world) % world
    low, high = 0, world
    while high - low > 1:
        middle = (low + high + 1) // 2
        if me == low:
            dist.isend(tensor, (middle + root) % world).wait()
        elif me == middle:
            dist.irecv(tensor, (low + root) % world).wait()
        if me < middle:
            high = middle
        else:
            low = middle


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


# ---------------------------------------------------------------- 03.1 wrong
def bc_ascending(tensor, root=0):
    """Binomial tree, children served from the smallest subtree on."""
    world = dist.get_world_size()
    me = (dist.get_rank() - root) % world
    mask = 1
    while mask < world and not me & mask:
        mask <<= 1
    if me:
        dist.recv(tensor, (me - mask + root) % world)
    step = 1
    while step < mask:
        if me + step < world:
            dist.send(tensor, (me + step + root) % world)
        step <<= 1


def bc_star_isend(tensor, root=0):
    world, rank = dist.get_world_size(), dist.get_rank()
    if rank == root:
        for message in [dist.isend(tensor, other) for other in range(world) if other != root]:
            message.wait()
    else:
        dist.recv(tensor, root)


def bc_chain(tensor, root=0):
    world, rank = dist.get_world_size(), dist.get_rank()
    me = (rank - root) % world
    if me > 0:
        dist.recv(tensor, (rank - 1) % world)
    if me < world - 1:
        dist.send(tensor, (rank + 1) % world)


def bc_xor(tensor, root=0):
    """Renumbered with xor: right for powers of two, and for root 0."""
    world = dist.get_world_size()
    me = dist.get_rank() ^ root
    have = 1
    while have < world:
        if me < have:
            if me + have < world:
                dist.send(tensor, (me + have) ^ root)
        elif me < 2 * have:
            dist.recv(tensor, (me - have) ^ root)
        have *= 2


def bc_floor_log(tensor, root=0):
    world = dist.get_world_size()
    me = (dist.get_rank() - root) % world
    for k in range(int(math.log2(world))):
        have = 2**k
        if me < have and me + have < world:
            dist.send(tensor, (me + have + root) % world)
        elif have <= me < 2 * have:
            dist.recv(tensor, (me - have + root) % world)


def bc_float32(tensor, root=0):
    """Everything travels in float32."""
    world = dist.get_world_size()
    me = (dist.get_rank() - root) % world
    buffer = tensor.float()
    have = 1
    while have < world:
        if me < have:
            if me + have < world:
                dist.send(buffer, (me + have + root) % world)
        elif me < 2 * have:
            dist.recv(buffer, (me - have + root) % world)
        have *= 2
    if me:
        tensor.copy_(buffer)


def bc_adds(tensor, root=0):
    """Adds what comes: right where the others bring zeros."""
    world = dist.get_world_size()
    me = (dist.get_rank() - root) % world
    have = 1
    while have < world:
        if me < have:
            if me + have < world:
                dist.send(tensor, (me + have + root) % world)
        elif me < 2 * have:
            new = torch.empty_like(tensor)
            dist.recv(new, (me - have + root) % world)
            tensor.add_(new)
        have *= 2


def bc_rebind(tensor, root=0):
    world = dist.get_world_size()
    me = (dist.get_rank() - root) % world
    have = 1
    while have < world:
        if me < have:
            if me + have < world:
                dist.send(tensor, (me + have + root) % world)
        elif me < 2 * have:
            new = torch.empty_like(tensor)
            dist.recv(new, (me - have + root) % world)
            tensor = new
        have *= 2
    return tensor


def bc_never_waits(tensor, root=0):
    world = dist.get_world_size()
    me = (dist.get_rank() - root) % world
    have = 1
    while have < world:
        if me < have:
            if me + have < world:
                dist.isend(tensor, (me + have + root) % world)
        elif me < 2 * have:
            dist.recv(tensor, (me - have + root) % world)
        have *= 2


def bc_heap(tensor, root=0):
    """Children 2i+1 and 2i+2: 4 rounds for 7 ranks, where ceil(log2 7) is 3."""
    world = dist.get_world_size()
    me = (dist.get_rank() - root) % world
    if me:
        dist.recv(tensor, ((me - 1) // 2 + root) % world)
    for child in (2 * me + 1, 2 * me + 2):
        if child < world:
            dist.send(tensor, (child + root) % world)


def bc_through_zero(tensor, root=0):
    """The root hands over to rank 0, and rank 0 starts the tree."""
    world, rank = dist.get_world_size(), dist.get_rank()
    if root != 0:
        if rank == root:
            dist.send(tensor, 0)
        elif rank == 0:
            dist.recv(tensor, root)
    have = 1
    while have < world:
        if rank < have and rank + have < world:
            dist.send(tensor, rank + have)
        elif have <= rank < 2 * have:
            dist.recv(tensor, rank - have)
        have *= 2


def bc_wraps(tensor, root=0):
    """Forgot "if there is such a rank": the last round wraps around."""
    world = dist.get_world_size()
    me = (dist.get_rank() - root) % world
    have = 1
    while have < world:
        if me < have:
            dist.send(tensor, (me + have + root) % world)
        elif me < 2 * have:
            dist.recv(tensor, (me - have + root) % world)
        have *= 2


# ---------------------------------------------------------------- 03.2 right
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


# ---------------------------------------------------------------- 03.2 wrong
def _ring(chunks, w, me, rounds2=None, second_start=1):
    for k in range(w - 1):
        out, into = (me - k) % w, (me - k - 1) % w
        sending = dist.isend(chunks[out], (me + 1) % w)
        new = torch.empty_like(chunks[into])
        dist.recv(new, (me - 1) % w)
        sending.wait()
        chunks[into].add_(new)
    for k in range(w - 1 if rounds2 is None else rounds2):
        out, into = (me + second_start - k) % w, (me + second_start - 1 - k) % w
        sending = dist.isend(chunks[out], (me + 1) % w)
        new = torch.empty_like(chunks[into])
        dist.recv(new, (me - 1) % w)
        sending.wait()
        chunks[into].copy_(new)


def rr_no_copy_back(tensor):
    w, me = dist.get_world_size(), dist.get_rank()
    _ring(torch.tensor_split(tensor.reshape(-1), w), w, me)


def rr_torch_chunk(tensor):
    w, me = dist.get_world_size(), dist.get_rank()
    flat = tensor.reshape(-1).clone()
    _ring(flat.chunk(w), w, me)
    tensor.copy_(flat.view(tensor.shape))


def rr_whole_tensor(tensor):
    w, me = dist.get_world_size(), dist.get_rank()
    total = tensor.clone()
    x = tensor.contiguous()
    for _ in range(w - 1):
        sending = dist.isend(x, (me + 1) % w)
        new = torch.empty_like(x)
        dist.recv(new, (me - 1) % w)
        sending.wait()
        total += new
        x = new
    tensor.copy_(total)


def rr_reduce_then_around(tensor):
    """Whole tensor once around to add up, once around to hand out."""
    w, me = dist.get_world_size(), dist.get_rank()
    if w == 1:
        return
    x = tensor.contiguous().clone()
    if me > 0:
        new = torch.empty_like(x)
        dist.recv(new, me - 1)
        x += new
    dist.send(x, (me + 1) % w) if me < w - 1 else None
    if me == w - 1:
        dist.send(x, 0)
    else:
        dist.recv(x, (me - 1) % w)
        if me < w - 2:
            dist.send(x, me + 1)
    tensor.copy_(x)


def rr_second_starts_own(tensor):
    w, me = dist.get_world_size(), dist.get_rank()
    flat = tensor.reshape(-1).clone()
    _ring(torch.tensor_split(flat, w), w, me, second_start=0)
    tensor.copy_(flat.view(tensor.shape))


def rr_round_too_many(tensor):
    """The second loop goes once more around: harmless numbers, one message too many."""
    w, me = dist.get_world_size(), dist.get_rank()
    flat = tensor.reshape(-1).clone()
    if w > 1:
        _ring(torch.tensor_split(flat, w), w, me, rounds2=w)
    tensor.copy_(flat.view(tensor.shape))


def rr_pads_always(tensor):
    """Chunks of n // w + 1 numbers: one too many where n is a multiple of w."""
    w, me = dist.get_world_size(), dist.get_rank()
    if w == 1:
        return
    n = tensor.numel()
    size = n // w + 1
    table = torch.zeros(w, size, dtype=tensor.dtype)
    table.view(-1)[:n] = tensor.reshape(-1)
    _ring(list(table), w, me)
    tensor.copy_(table.view(-1)[:n].view(tensor.shape))


def rr_there_and_back(tensor):
    """Reduce-scatter to the next rank, all-gather to the previous one."""
    w, me = dist.get_world_size(), dist.get_rank()
    flat = tensor.reshape(-1).clone()
    chunks = torch.tensor_split(flat, w)
    for k in range(w - 1):
        out, into = (me - k) % w, (me - k - 1) % w
        sending = dist.isend(chunks[out], (me + 1) % w)
        new = torch.empty_like(chunks[into])
        dist.recv(new, (me - 1) % w)
        sending.wait()
        chunks[into].add_(new)
    for k in range(w - 1):
        out, into = (me + 1 + k) % w, (me + 2 + k) % w
        sending = dist.isend(chunks[out], (me - 1) % w)
        new = torch.empty_like(chunks[into])
        dist.recv(new, (me + 1) % w)
        sending.wait()
        chunks[into].copy_(new)
    tensor.copy_(flat.view(tensor.shape))


def rr_float32(tensor):
    """Adds up in float32 whatever came in."""
    w, me = dist.get_world_size(), dist.get_rank()
    flat = tensor.reshape(-1).to(torch.float32).clone()
    _ring(torch.tensor_split(flat, w), w, me)
    if w > 1:
        tensor.copy_(flat.view(tensor.shape))


def rr_as_strided(tensor):
    """The memory of the tensor as a flat view: wrong where ranks bring different strides."""
    w, me = dist.get_world_size(), dist.get_rank()
    flat = tensor.as_strided((tensor.numel(),), (1,))
    _ring(torch.tensor_split(flat, w), w, me)


def rr_untransposes(tensor):
    """Takes the transpose back: only for two dimensions, and only where all ranks bring one."""
    w, me = dist.get_world_size(), dist.get_rank()
    flat = tensor.view(-1) if tensor.is_contiguous() else tensor.t().view(-1)
    _ring(torch.tensor_split(flat, w), w, me)


def rr_never_waits(tensor):
    w, me = dist.get_world_size(), dist.get_rank()
    flat = tensor.reshape(-1).clone()
    chunks = torch.tensor_split(flat, w)
    for k in range(w - 1):
        into = (me - k - 1) % w
        dist.isend(chunks[(me - k) % w], (me + 1) % w)
        new = torch.empty_like(chunks[into])
        dist.recv(new, (me - 1) % w)
        chunks[into].add_(new)
    for k in range(w - 1):
        dist.isend(chunks[(me + 1 - k) % w], (me + 1) % w)
        dist.recv(chunks[(me - k) % w], (me - 1) % w)
    tensor.copy_(flat.view(tensor.shape))


def rr_send_first(tensor):
    w, me = dist.get_world_size(), dist.get_rank()
    flat = tensor.reshape(-1).clone()
    chunks = torch.tensor_split(flat, w)
    for k in range(2 * (w - 1)):
        into = (me - k - 1) % w
        dist.send(chunks[(me - k) % w], (me + 1) % w)
        new = torch.empty_like(chunks[into])
        dist.recv(new, (me - 1) % w)
        chunks[into].add_(new) if k < w - 1 else chunks[into].copy_(new)
    tensor.copy_(flat.view(tensor.shape))


def rr_only_send_before_recv_rank0(tensor):
    """Receives into the chunk that it is about to add to: the own summand is lost."""
    w, me = dist.get_world_size(), dist.get_rank()
    flat = tensor.reshape(-1).clone()
    chunks = torch.tensor_split(flat, w)
    new = torch.empty_like(chunks[0])  # one buffer for all chunks, as long as the first
    for k in range(2 * (w - 1)):
        into = (me - k - 1) % w
        sending = dist.isend(chunks[(me - k) % w], (me + 1) % w)
        part = new[: len(chunks[into])]
        dist.recv(part, (me - 1) % w)
        sending.wait()
        if k < w - 2:  # one round of adding too few
            chunks[into].add_(part)
        else:
            chunks[into].copy_(part)
    tensor.copy_(flat.view(tensor.shape))


def rr_new_storage(tensor):
    """The tensor gets a new memory: whoever holds a view of the old one, as a transpose does, sees nothing."""
    w, me = dist.get_world_size(), dist.get_rank()
    flat = tensor.reshape(-1).clone()
    _ring(torch.tensor_split(flat, w), w, me)
    tensor.data = flat.view(tensor.shape)


# ---------------------------------------------------------------- 03.3 right
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


# ---------------------------------------------------------------- 03.3 wrong
def fit_squared_weights(sizes, times):
    if len(set(sizes)) < 2:
        raise ValueError
    m = np.array([np.median(r) for r in times])
    beta, alpha = np.polyfit(sizes, m, 1, w=1 / m**2)
    return alpha, beta


def fit_absolute(sizes, times):
    if len(set(sizes)) < 2:
        raise ValueError
    beta, alpha = np.polyfit(sizes, [np.median(r) for r in times], 1)
    return alpha, beta


def fit_torch_median(sizes, times):
    """torch.median takes the lower one of the two in the middle."""
    if len(set(sizes)) < 2:
        raise ValueError
    m = np.array([torch.tensor(r, dtype=torch.float64).median().item() for r in times])
    beta, alpha = np.polyfit(sizes, m, 1, w=1 / m)
    return alpha, beta


def fit_pools_equal_sizes(sizes, times):
    """A size that comes twice counts once, with all its rounds."""
    pooled = {}
    for n, r in zip(sizes, times, strict=False):
        pooled.setdefault(n, []).extend(r)
    if len(pooled) < 2:
        raise ValueError
    m = np.array([np.median(r) for r in pooled.values()])
    beta, alpha = np.polyfit(list(pooled), m, 1, w=1 / m)
    return alpha, beta


def fit_sorts_in_place(sizes, times):
    if len(set(sizes)) < 2:
        raise ValueError
    m = []
    for r in times:
        r.sort()
        m.append((r[(len(r) - 1) // 2] + r[len(r) // 2]) / 2)
    m = np.array(m)
    beta, alpha = np.polyfit(sizes, m, 1, w=1 / m)
    return alpha, beta


def fit_counts_entries(sizes, times):
    """Refuses fewer than two sizes, not fewer than two different ones."""
    if len(sizes) < 2:
        raise ValueError
    m = np.array([np.median(r) for r in times])
    beta, alpha = np.polyfit(sizes, m, 1, w=1 / m)
    return alpha, beta


def fit_all_rounds(sizes, times):
    """Fits all rounds, each with one over its own median as weight."""
    if len(set(sizes)) < 2:
        raise ValueError
    n = [s for s, r in zip(sizes, times, strict=False) for _ in r]
    t = [x for r in times for x in r]
    weights = [1 / np.median(r) for r in times for _ in r]
    beta, alpha = np.polyfit(n, t, 1, w=weights)
    return alpha, beta


def fit_never_negative(sizes, times):
    if len(set(sizes)) < 2:
        raise ValueError
    m = np.array([np.median(r) for r in times])
    beta, alpha = np.polyfit(sizes, m, 1, w=1 / m)
    return max(alpha, 0.0), max(beta, 0.0)


def fit_empty_passes(sizes, times):
    """One different size is refused, none is not: numpy raises a TypeError."""
    if len(set(sizes)) == 1:
        raise ValueError
    m = np.array([np.median(r) for r in times])
    beta, alpha = np.polyfit(sizes, m, 1, w=1 / m)
    return alpha, beta


def fit_sorts_sizes_alone(sizes, times):
    if len(set(sizes)) < 2:
        raise ValueError
    m = np.array(sorted(np.median(r) for r in times))
    beta, alpha = np.polyfit(sorted(sizes), m, 1, w=1 / m)
    return alpha, beta


def fit_two_ends(sizes, times):
    if len(set(sizes)) < 2:
        raise ValueError
    m = [statistics.median(r) for r in times]
    a, b = sizes.index(min(sizes)), sizes.index(max(sizes))
    beta = (m[b] - m[a]) / (sizes[b] - sizes[a])
    return m[a] - beta * sizes[a], beta


def fit_sqrt_weights(sizes, times):
    """Believes that polyfit's weights are not squared: takes one over the root."""
    if len(set(sizes)) < 2:
        raise ValueError
    m = np.array([np.median(r) for r in times])
    beta, alpha = np.polyfit(sizes, m, 1, w=1 / np.sqrt(m))
    return alpha, beta


def fit_swapped(sizes, times):
    if len(set(sizes)) < 2:
        raise ValueError
    m = np.array([np.median(r) for r in times])
    return tuple(np.polyfit(sizes, m, 1, w=1 / m))


RIGHT = [
    ("03.1", bc_doubling),
    ("03.1", bc_halving),
    ("03.1", bc_lowest_bit_swapped),
    ("03.1", bc_recursive),
    ("03.2", rr_hint),
    ("03.2", rr_padded_other_way),
    ("03.2", rr_parity_skips_empty),
    ("03.2", rr_waits_at_end),
    ("03.3", fit_polyfit),
    ("03.3", fit_by_hand),
    ("03.3", fit_torch_lstsq),
]
WRONG = [
    ("03.1", bc_ascending, "children in the wrong order"),
    ("03.1", bc_star_isend, "root sends to all itself"),
    ("03.1", bc_chain, "w - 1 rounds, a chain"),
    ("03.1", bc_xor, "xor numbering, not modulo world"),
    ("03.1", bc_floor_log, "floor of the logarithm"),
    ("03.1", bc_float32, "travels in float32, loses digits"),
    ("03.1", bc_adds, "adds instead of copying"),
    ("03.1", bc_rebind, "own tensor stays as was"),
    ("03.1", bc_never_waits, "sends never waited for"),
    ("03.1", bc_heap, "four rounds for seven ranks"),
    ("03.1", bc_through_zero, "one message more, through zero"),
    ("03.1", bc_wraps, "last round wraps around"),
    ("03.2", rr_no_copy_back, "transpose: sum not copied back"),
    ("03.2", rr_torch_chunk, "chunk makes fewer than w"),
    ("03.2", rr_whole_tensor, "whole tensors go around"),
    ("03.2", rr_reduce_then_around, "whole tensors, reduce then broadcast"),
    ("03.2", rr_second_starts_own, "second loop starts one early"),
    ("03.2", rr_round_too_many, "one message too many"),
    ("03.2", rr_pads_always, "n // w + 1 per chunk"),
    ("03.2", rr_there_and_back, "sends to both neighbours"),
    ("03.2", rr_float32, "float32 sums of wider types"),
    ("03.2", rr_as_strided, "ranks' strides may differ"),
    ("03.2", rr_untransposes, "2-D only, same strides only"),
    ("03.2", rr_never_waits, "sends never waited for"),
    ("03.2", rr_send_first, "all ranks send first"),
    ("03.2", rr_only_send_before_recv_rank0, "one adding round too few"),
    ("03.2", rr_new_storage, "new storage, base not summed"),
    ("03.3", fit_squared_weights, "weights squared twice"),
    ("03.3", fit_absolute, "absolute errors, not relative"),
    ("03.3", fit_torch_median, "lower median of even rounds"),
    ("03.3", fit_pools_equal_sizes, "equal sizes pooled, count once"),
    ("03.3", fit_sorts_in_place, "sorts the caller's lists"),
    ("03.3", fit_counts_entries, "same size twice not refused"),
    ("03.3", fit_all_rounds, "all rounds, no median fitted"),
    ("03.3", fit_never_negative, "clips alpha and beta at zero"),
    ("03.3", fit_empty_passes, "empty list is no ValueError"),
    ("03.3", fit_sorts_sizes_alone, "pairs lost by sorting both"),
    ("03.3", fit_two_ends, "line through two sizes alone"),
    ("03.3", fit_sqrt_weights, "weights are one over root"),
    ("03.3", fit_swapped, "returns beta before alpha"),
]
