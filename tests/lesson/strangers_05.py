"""Solutions of lesson 05 by somebody who read the lesson alone."""

# ruff: noqa: B007, B905, C901 - as they were written

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

from pllab import comm
from pllab.lesson import mine
from tests.lesson.variants_05 import sum_and_divide, two_loops

# ---------------------------------------------------------------- 05.1


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


# ---------------------------------------------------------------- 05.2


def mean_async(model):
    with torch.no_grad():
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        works = [dist.all_reduce(g.div_(dist.get_world_size()), async_op=True) for g in grads]
        for work in works:
            work.wait()


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


# ---------------------------------------------------------------- 05.3


def tokens_list_tensor(loss_sum, num_tokens):
    total = torch.tensor([num_tokens])
    comm.all_reduce(total)
    return loss_sum / total * comm.world_size()  # a tensor with one number, of shape (1,)


def tokens_share(loss_sum, num_tokens):
    mean_count = torch.as_tensor(num_tokens, dtype=torch.float64) / dist.get_world_size()
    dist.all_reduce(mean_count)
    return loss_sum / mean_count.item()


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
    two_loops(model)
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
    two_loops(model)
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
    two_loops(model)
    sgd = torch.optim.SGD(model.parameters(), lr=lr)
    losses, at = [], 0
    for _ in range(num_steps):
        batch = [(at + i) % len(dataset) for i in range(batch_size)]
        at += batch_size
        x, y = stacked(dataset, batch[rank::world_size])
        sgd.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        sum_and_divide(model)
        sgd.step()
        losses.append(over_all(loss))
    return losses


RIGHT = {
    "05.1": [start_objects, start_send],
    "05.2": [mean_async, mean_flat],
    "05.3": [tokens_list_tensor, tokens_share],
    "05.4": [train_mine, train_by_hand, train_mean_weights, train_wraps],
}
