"""Solutions of lesson 05 by somebody who read the lesson alone."""

# ruff: noqa: B007, B905, C901 - as they were written

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

from pllab import comm
from pllab.lesson import mine


# ---------------------------------------------------------------- 05.1
def start_loop(model):
    for tensor in [*model.parameters(), *model.buffers()]:
        dist.broadcast(tensor.detach(), 0)


def start_objects(model):
    tensors = list(model.parameters()) + list(model.buffers())
    box = [[t.detach().clone() for t in tensors] if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(box, src=0)
    with torch.no_grad():
        for old, new in zip(tensors, box[0]):
            old.copy_(new)


@torch.no_grad()
def start_send(model):
    def everything():
        yield from (p.data for p in model.parameters())
        for module in model.modules():
            for buffer in module._buffers.values():
                if buffer is not None:
                    yield buffer

    seen = set()
    for tensor in everything():
        if tensor.data_ptr() in seen and tensor.numel():
            continue
        seen.add(tensor.data_ptr())
        copy = tensor.clone().contiguous()
        if dist.get_rank() == 0:
            for other in range(1, dist.get_world_size()):
                dist.send(copy, other)
        else:
            dist.recv(copy, 0)
            tensor.copy_(copy)


@torch.no_grad()
def start_zero_sum(model):
    for tensor in [*model.parameters(), *model.buffers()]:
        if dist.get_rank() != 0:
            tensor.zero_()
        dist.all_reduce(tensor.data)


def w_start_float32(model):
    tensors = [t.detach() for t in (*model.parameters(), *model.buffers())]
    flat = torch.cat([t.flatten().float() for t in tensors])
    dist.broadcast(flat, 0)
    for t, piece in zip(tensors, flat.split([t.numel() for t in tensors])):
        t.copy_(piece.view_as(t))


def w_start_mean_buffers(model):
    for p in model.parameters():
        dist.broadcast(p.data, 0)
    for b in model.buffers():
        if b.is_floating_point():
            dist.all_reduce(b)
            b /= dist.get_world_size()
        else:
            dist.broadcast(b, 0)


def w_start_no_wait(model):
    for t in [*model.parameters(), *model.buffers()]:
        dist.broadcast(t.data, 0, async_op=True)


# ---------------------------------------------------------------- 05.2
def mean_loop(model):
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()


def mean_async(model):
    with torch.no_grad():
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        works = [dist.all_reduce(g.div_(dist.get_world_size()), async_op=True) for g in grads]
        for work in works:
            work.wait()


def mean_gather(model):
    for _, p in model.named_parameters():
        if p.grad is None:
            continue
        all_of_them = [torch.empty_like(p.grad) for _ in range(dist.get_world_size())]
        dist.all_gather(all_of_them, p.grad)
        p.grad = torch.stack(all_of_them).mean(0)


def mean_flat(model):
    by_type = {}
    for p in model.parameters():
        if p.grad is not None:
            by_type.setdefault(p.grad.dtype, []).append(p)
    for ps in by_type.values():
        flat = torch.cat([p.grad.reshape(-1) for p in ps])
        comm.all_reduce(flat)
        flat /= comm.world_size()
        for p, piece in zip(ps, flat.split([p.numel() for p in ps])):
            p.grad.copy_(piece.reshape(p.shape))


def w_mean_float32(model):
    for p in model.parameters():
        if p.grad is not None:
            g = p.grad.float()
            dist.all_reduce(g)
            p.grad.copy_(g / dist.get_world_size())


def w_mean_no_wait(model):
    for p in model.parameters():
        if p.grad is not None:
            p.grad /= dist.get_world_size()
            dist.all_reduce(p.grad, async_op=True)


# ---------------------------------------------------------------- 05.3
def tokens_gather(loss_sum, num_tokens):
    counts = [None] * dist.get_world_size()
    dist.all_gather_object(counts, int(num_tokens))
    return loss_sum * (len(counts) / sum(counts))


def tokens_list_tensor(loss_sum, num_tokens):
    total = torch.tensor([num_tokens])
    comm.all_reduce(total)
    return loss_sum / total * comm.world_size()  # a tensor with one number, of shape (1,)


def tokens_share(loss_sum, num_tokens):
    mean_count = torch.as_tensor(num_tokens, dtype=torch.float64) / dist.get_world_size()
    dist.all_reduce(mean_count)
    return loss_sum / mean_count.item()


def w_tokens_max_one(loss_sum, num_tokens):
    total = torch.tensor(float(max(num_tokens, 1)))
    dist.all_reduce(total)
    return loss_sum * dist.get_world_size() / total


def w_tokens_leaf_zero(loss_sum, num_tokens):
    total = torch.tensor(float(num_tokens))
    dist.all_reduce(total)
    if num_tokens == 0:
        return torch.zeros((), requires_grad=True)
    return loss_sum * dist.get_world_size() / total


def w_tokens_bf16(loss_sum, num_tokens):
    total = torch.tensor(float(num_tokens), dtype=torch.bfloat16)
    dist.all_reduce(total)
    return loss_sum * dist.get_world_size() / total.item()


def w_tokens_byte(loss_sum, num_tokens):
    total = torch.tensor(num_tokens, dtype=torch.uint8)
    dist.all_reduce(total)
    return loss_sum * dist.get_world_size() / total.item()


# ---------------------------------------------------------------- 05.4
def train_mine(rank, world_size, model, dataset, num_steps, batch_size, lr):
    mine("05.1")(model)
    loader = mine("04.2")(rank, world_size, dataset, batch_size)
    optimizer = torch.optim.SGD(model.parameters(), lr)
    losses, epoch = [], 0
    while len(losses) < num_steps:
        loader.set_epoch(epoch)
        epoch += 1
        for x, y in loader:
            if len(losses) == num_steps:
                break
            optimizer.zero_grad()
            loss = cross_entropy(model(x).flatten(0, -2), y.flatten())
            loss.backward()
            mine("05.2")(model)
            optimizer.step()
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            losses.append(mean.item() / world_size)
    return losses


def indices_for_ever(n, world_size, batch_size):
    while True:
        order = list(range(n))
        order += order[: -n % world_size]
        for start in range(0, len(order), batch_size):
            yield order[start : start + batch_size]


def stacked(dataset, indices):
    xs, ys = zip(*(dataset[i] for i in indices))
    return torch.stack(xs), torch.stack(ys)


def loss_of(model, x, y):
    logits = model(x)
    return cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))


def over_all(loss):
    number = torch.tensor(loss.item(), dtype=torch.float64)
    dist.all_reduce(number)
    return number.item() / dist.get_world_size()


def train_by_hand(rank, world_size, model, dataset, num_steps, batch_size, lr):
    """No shuffling, no optimizer: same order each epoch, p -= lr * grad."""
    start_loop(model)
    batches = indices_for_ever(len(dataset), world_size, batch_size)
    losses = []
    for _ in range(num_steps):
        x, y = stacked(dataset, next(batches)[rank::world_size])
        model.zero_grad(set_to_none=True)
        loss = loss_of(model, x, y)
        loss.backward()
        losses.append(over_all(loss))
        with torch.no_grad():
            for p in model.parameters():
                if p.grad is not None:
                    dist.all_reduce(p.grad)
                    p -= lr * p.grad / world_size
    return losses


def train_mean_weights(rank, world_size, model, dataset, num_steps, batch_size, lr):
    """Each rank steps alone, then the weights are averaged: the same for plain SGD. Left-overs are dropped."""
    start_loop(model)
    sgd = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=lr)
    losses, epoch, queue = [], 0, []
    n = len(dataset) // world_size * world_size
    while len(losses) < num_steps:
        if not queue:
            order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(7 + epoch)).tolist()[:n]
            queue = [order[k : k + batch_size] for k in range(0, n, batch_size)]
            epoch += 1
        batch = queue.pop(0)
        share = len(batch) // world_size
        x, y = stacked(dataset, batch[rank * share : (rank + 1) * share])
        sgd.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        sgd.step()
        with torch.no_grad():
            for p in model.parameters():
                if p.grad is not None:
                    dist.all_reduce(p.data)
                    p.data /= world_size
        losses.append(over_all(loss))
    return losses


def train_wraps(rank, world_size, model, dataset, num_steps, batch_size, lr):
    """Every consecutive n samples of the stream are an epoch: no step is ever smaller."""
    start_loop(model)
    sgd = torch.optim.SGD(model.parameters(), lr=lr)
    losses, at = [], 0
    for _ in range(num_steps):
        batch = [(at + i) % len(dataset) for i in range(batch_size)]
        at += batch_size
        x, y = stacked(dataset, batch[rank::world_size])
        sgd.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        mean_loop(model)
        sgd.step()
        losses.append(over_all(loss))
    return losses


def w_mean_literal_three(model):
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)
            p.grad /= 3


def w_tokens_literal_three(loss_sum, num_tokens):
    total = torch.tensor(float(num_tokens))
    dist.all_reduce(total)
    return loss_sum * 3 / total


RIGHT = {
    "05.1": [start_loop, start_objects, start_send, start_zero_sum],
    "05.2": [mean_loop, mean_async, mean_gather, mean_flat],
    "05.3": [tokens_gather, tokens_list_tensor, tokens_share],
    "05.4": [train_mine, train_by_hand, train_mean_weights, train_wraps],
}
WRONG = [
    ("05.1", w_start_float32, "all goes through float32"),
    ("05.1", w_start_mean_buffers, "buffers averaged, not copied"),
    ("05.1", w_start_no_wait, "started and never waited for"),
    ("05.2", w_mean_literal_three, "literal three for world_size"),
    ("05.2", w_mean_float32, "float64 goes through float32"),
    ("05.2", w_mean_no_wait, "never waited for"),
    ("05.3", w_tokens_max_one, "empty rank counts one"),
    ("05.3", w_tokens_leaf_zero, "empty rank gets no gradient"),
    ("05.3", w_tokens_bf16, "counts in bfloat16"),
    ("05.3", w_tokens_byte, "counts in uint8"),
    ("05.3", w_tokens_literal_three, "literal three for world_size"),
]
