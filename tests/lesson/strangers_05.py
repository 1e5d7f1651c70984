"""Solutions of lesson 05 by somebody who read the lesson alone."""

# ruff: noqa: B007, B905, C901 - as they were written

import math
import random

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


def w_start_parameters(model):
    for p in model.parameters():
        dist.broadcast(p.data, 0)


def w_start_state_dict(model):
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, 0)


def w_start_trainable(model):
    for p in model.parameters():
        if p.requires_grad:
            dist.broadcast(p.data, 0)
    for b in model.buffers():
        dist.broadcast(b, 0)


def w_start_float_buffers(model):
    for p in model.parameters():
        dist.broadcast(p.data, 0)
    for b in model.buffers():
        if b.is_floating_point():
            dist.broadcast(b, 0)


def w_start_new_parameter(model):
    for module in model.modules():
        for name, p in list(module._parameters.items()):
            if p is not None:
                new = p.detach().clone()
                dist.broadcast(new, 0)
                setattr(module, name, torch.nn.Parameter(new, requires_grad=p.requires_grad))
    for b in model.buffers():
        dist.broadcast(b, 0)


def w_start_new_buffer(model):
    for p in model.parameters():
        dist.broadcast(p.data, 0)
    for module in model.modules():
        for name, b in list(module._buffers.items()):
            if b is not None:
                new = b.clone()
                dist.broadcast(new, 0)
                module._buffers[name] = new


def w_start_float32(model):
    tensors = [t.detach() for t in (*model.parameters(), *model.buffers())]
    flat = torch.cat([t.flatten().float() for t in tensors])
    dist.broadcast(flat, 0)
    for t, piece in zip(tensors, flat.split([t.numel() for t in tensors])):
        t.copy_(piece.view_as(t))


def w_start_mean(model):
    for t in [*model.parameters(), *model.buffers()]:
        t = t.data
        dist.all_reduce(t)
        if t.is_floating_point():
            t /= dist.get_world_size()
        else:
            t //= dist.get_world_size()


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


def w_start_set(model):
    for t in set(model.parameters()) | set(model.buffers()):
        dist.broadcast(t.data, 0)


def w_start_top_buffers(model):
    for p in model.parameters():
        dist.broadcast(p.data, 0)
    for child in model.children():
        for b in child.buffers(recurse=False):
            dist.broadcast(b, 0)


def w_start_last(model):
    for t in [*model.parameters(), *model.buffers()]:
        dist.broadcast(t.data, dist.get_world_size() - 1)


def w_start_thaws(model):
    for p in model.parameters():
        p.requires_grad_(False)
        dist.broadcast(p, 0)
        p.requires_grad_(True)
    for b in model.buffers():
        dist.broadcast(b, 0)


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


def w_mean_sum(model):
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)


def w_mean_two(model):
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)
            p.grad /= 2


def w_mean_tied_twice(model):
    for _, p in model.named_parameters(remove_duplicate=False):
        if p.grad is not None:
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()


def w_mean_modules(model):
    for module in model.modules():
        for p in module.parameters():
            if p.grad is not None:
                dist.all_reduce(p.grad)
                p.grad /= dist.get_world_size()


def w_mean_children(model):
    done = set()
    for child in model.children():
        for p in child.parameters():
            if p.grad is not None and p not in done:
                done.add(p)
                dist.all_reduce(p.grad)
                p.grad /= dist.get_world_size()


def w_mean_zeros(model):
    for p in model.parameters():
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()


def w_mean_requires_grad(model):
    for p in model.parameters():
        if p.requires_grad:
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()


def w_mean_zeros_unused(model):
    for p in model.parameters():
        if p.requires_grad:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()


def w_mean_skip_zero(model):
    for p in model.parameters():
        if p.grad is not None and p.grad.any():
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()


def w_mean_float32(model):
    for p in model.parameters():
        if p.grad is not None:
            g = p.grad.float()
            dist.all_reduce(g)
            p.grad.copy_(g / dist.get_world_size())


def w_mean_half(model):
    for p in model.parameters():
        if p.grad is not None:
            g = p.grad.bfloat16()
            dist.all_reduce(g)
            p.grad.copy_(g / dist.get_world_size())


def w_mean_copy(model):
    for p in model.parameters():
        if p.grad is not None:
            g = p.grad.clone()
            dist.all_reduce(g)
            g /= dist.get_world_size()


def w_mean_no_wait(model):
    for p in model.parameters():
        if p.grad is not None:
            p.grad /= dist.get_world_size()
            dist.all_reduce(p.grad, async_op=True)


def w_mean_only_rank0(model):
    for p in model.parameters():
        if p.grad is not None:
            dist.reduce(p.grad, 0)
            p.grad /= dist.get_world_size()


def w_mean_count_active(model):
    for p in model.parameters():
        if p.grad is not None:
            active = p.grad.abs().sum() > 0
            count = active.to(p.grad.dtype)
            dist.all_reduce(count)
            dist.all_reduce(p.grad)
            p.grad /= count.clamp(min=1)


# ---------------------------------------------------------------- 05.3
def tokens_float(loss_sum, num_tokens):
    total = torch.tensor(float(num_tokens))
    dist.all_reduce(total)
    return loss_sum * dist.get_world_size() / total


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


def w_tokens_mean(loss_sum, num_tokens):
    return loss_sum / max(num_tokens, 1)


def w_tokens_no_factor(loss_sum, num_tokens):
    total = torch.tensor(float(num_tokens))
    dist.all_reduce(total)
    return loss_sum / total


def w_tokens_early(loss_sum, num_tokens):
    if num_tokens == 0:
        return loss_sum * 0
    total = torch.tensor(float(num_tokens))
    dist.all_reduce(total)
    return loss_sum * dist.get_world_size() / total


def w_tokens_max_one(loss_sum, num_tokens):
    total = torch.tensor(float(max(num_tokens, 1)))
    dist.all_reduce(total)
    return loss_sum * dist.get_world_size() / total


def w_tokens_active(loss_sum, num_tokens):
    both = torch.tensor([float(num_tokens), float(num_tokens > 0)])
    dist.all_reduce(both)
    return loss_sum * both[1] / both[0]


def w_tokens_nan(loss_sum, num_tokens):
    total = torch.tensor(float(num_tokens))
    dist.all_reduce(total)
    return loss_sum / num_tokens * (num_tokens * dist.get_world_size() / total)


def w_tokens_leaf_zero(loss_sum, num_tokens):
    total = torch.tensor(float(num_tokens))
    dist.all_reduce(total)
    if num_tokens == 0:
        return torch.zeros((), requires_grad=True)
    return loss_sum * dist.get_world_size() / total


def w_tokens_item(loss_sum, num_tokens):
    total = torch.tensor(float(num_tokens))
    dist.all_reduce(total)
    return torch.tensor(loss_sum.item() * dist.get_world_size() / total.item(), requires_grad=True)


def w_tokens_bf16(loss_sum, num_tokens):
    total = torch.tensor(float(num_tokens), dtype=torch.bfloat16)
    dist.all_reduce(total)
    return loss_sum * dist.get_world_size() / total.item()


def w_tokens_byte(loss_sum, num_tokens):
    total = torch.tensor(num_tokens, dtype=torch.uint8)
    dist.all_reduce(total)
    return loss_sum * dist.get_world_size() / total.item()


def w_tokens_mean_count(loss_sum, num_tokens):
    total = torch.tensor(int(num_tokens))
    dist.all_reduce(total)
    return loss_sum / (total // dist.get_world_size())


def w_tokens_three(loss_sum, num_tokens):
    total = torch.tensor(float(num_tokens))
    dist.all_reduce(total)
    return loss_sum * 2 / total


def w_tokens_summed_loss(loss_sum, num_tokens):
    total, loss = torch.tensor(float(num_tokens)), loss_sum.detach().clone()
    dist.all_reduce(total)
    dist.all_reduce(loss)
    return (loss / total).requires_grad_()


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


def indices_for_ever(n, world_size, batch_size, seed=None):
    epoch = 0
    while True:
        order = list(range(n))
        if seed is not None:
            random.Random(seed + epoch).shuffle(order)
        order += order[: -n % world_size]
        for start in range(0, len(order), batch_size):
            yield order[start : start + batch_size]
        epoch += 1


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


def frame(
    rank,
    world_size,
    model,
    dataset,
    num_steps,
    batch_size,
    lr,
    *,
    start=start_loop,
    batches=None,
    optimizer=None,
    average=mean_loop,
    note=over_all,
    clear=True,
    cut=None,
):
    start(model)
    optimizer = (optimizer or torch.optim.SGD)(model.parameters(), lr=lr)
    batches = batches or indices_for_ever(len(dataset), world_size, batch_size, 5)
    cut = cut or (lambda batch: batch[rank::world_size])
    losses = []
    for _ in range(num_steps):
        x, y = stacked(dataset, cut(next(batches)))
        if clear:
            optimizer.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        average(model)
        optimizer.step()
        losses.append(note(loss))
    return losses


def w_train_own_loss(*args):
    return frame(*args, note=lambda loss: loss.item())


def w_train_tensor_losses(*args):
    def note(loss):
        loss = loss.detach().clone()
        dist.all_reduce(loss)
        return loss / dist.get_world_size()

    return frame(*args, note=note)


def w_train_parameters_only(*args):
    return frame(*args, start=w_start_parameters)


def w_train_frozen_apart(*args):
    return frame(*args, start=w_start_trainable)


def w_train_momentum(*args):
    return frame(*args, optimizer=lambda ps, lr: torch.optim.SGD(ps, lr=lr, momentum=0.9))


def w_train_decay(*args):
    return frame(*args, optimizer=lambda ps, lr: torch.optim.SGD(ps, lr=lr, weight_decay=0.01))


def w_train_lr_scaled(*args):
    return frame(*args, optimizer=lambda ps, lr: torch.optim.SGD(ps, lr=lr * dist.get_world_size()))


def w_train_no_clear(*args):
    return frame(*args, clear=False)


def w_train_clears_zero(rank, world_size, model, dataset, num_steps, batch_size, lr):
    """clear by zeros, and unused parameters get zero gradients; weight decay 0, so that is the same"""
    return frame(rank, world_size, model, dataset, num_steps, batch_size, lr, average=w_mean_sum)


def w_train_own_order(rank, world_size, model, dataset, num_steps, batch_size, lr):
    def batches():
        while True:
            order = torch.randperm(len(dataset)).tolist()
            order += order[: -len(order) % world_size]
            for k in range(0, len(order), batch_size):
                yield order[k : k + batch_size]

    return frame(rank, world_size, model, dataset, num_steps, batch_size, lr, batches=batches())


def w_train_drop_last(rank, world_size, model, dataset, num_steps, batch_size, lr):
    def batches():
        epoch = 0
        while True:
            order = random.Random(epoch).sample(range(len(dataset)), len(dataset))
            epoch += 1
            for k in range(len(order) // batch_size):
                yield order[k * batch_size : (k + 1) * batch_size]

    return frame(rank, world_size, model, dataset, num_steps, batch_size, lr, batches=batches())


def w_train_pad_batch(rank, world_size, model, dataset, num_steps, batch_size, lr):
    def batches():
        epoch = 0
        while True:
            order = random.Random(epoch).sample(range(len(dataset)), len(dataset))
            epoch += 1
            order += order[: -len(order) % batch_size]
            for k in range(0, len(order), batch_size):
                yield order[k : k + batch_size]

    return frame(rank, world_size, model, dataset, num_steps, batch_size, lr, batches=batches())


def w_train_replacement(rank, world_size, model, dataset, num_steps, batch_size, lr):
    generator = random.Random(0)

    def batches():
        while True:
            yield generator.sample(range(len(dataset)), min(batch_size, len(dataset) // world_size * world_size))

    return frame(rank, world_size, model, dataset, num_steps, batch_size, lr, batches=batches())


def w_train_uneven(rank, world_size, model, dataset, num_steps, batch_size, lr):
    def batches():
        epoch = 0
        while True:
            order = random.Random(epoch).sample(range(len(dataset)), len(dataset))
            epoch += 1
            for k in range(0, len(order), batch_size):
                if len(order[k : k + batch_size]) >= world_size:
                    yield order[k : k + batch_size]

    return frame(rank, world_size, model, dataset, num_steps, batch_size, lr, batches=batches())


def w_train_local_batch(rank, world_size, model, dataset, num_steps, batch_size, lr):
    return frame(rank, world_size, model, dataset, num_steps, batch_size * world_size, lr)


def w_train_same_share(*args):
    world_size = args[1]
    return frame(*args, cut=lambda batch: batch[0::world_size])


def w_train_one_epoch(rank, world_size, model, dataset, num_steps, batch_size, lr):
    steps = math.ceil(len(dataset) / batch_size)
    return frame(rank, world_size, model, dataset, min(num_steps, steps), batch_size, lr)


def w_train_to_the_end(rank, world_size, model, dataset, num_steps, batch_size, lr):
    per_epoch = math.ceil(math.ceil(len(dataset) / world_size) * world_size / batch_size)
    more = math.ceil(num_steps / per_epoch) * per_epoch
    return frame(rank, world_size, model, dataset, more, batch_size, lr)[:num_steps]


def w_train_loss_after(rank, world_size, model, dataset, num_steps, batch_size, lr):
    start_loop(model)
    sgd = torch.optim.SGD(model.parameters(), lr=lr)
    batches, losses = indices_for_ever(len(dataset), world_size, batch_size, 5), []
    for _ in range(num_steps):
        x, y = stacked(dataset, next(batches)[rank::world_size])
        sgd.zero_grad()
        loss_of(model, x, y).backward()
        mean_loop(model)
        sgd.step()
        with torch.no_grad():
            losses.append(over_all(loss_of(model, x, y)))
    return losses


def w_train_average_at_end(rank, world_size, model, dataset, num_steps, batch_size, lr):
    losses = frame(rank, world_size, model, dataset, num_steps, batch_size, lr, average=lambda model: None)
    for p in model.parameters():
        dist.all_reduce(p.data)
        p.data /= world_size
    return losses


def w_train_start_mean(rank, world_size, model, dataset, num_steps, batch_size, lr):
    return frame(rank, world_size, model, dataset, num_steps, batch_size, lr, start=w_start_mean)


def w_train_eval(rank, world_size, model, dataset, num_steps, batch_size, lr):
    """an epoch ends: its first sample is skipped in the next (iterator rebuilt wrongly)"""

    def batches():
        n = len(dataset) // world_size * world_size
        first = True
        while True:
            order = list(range(n))
            for k in range(0 if first else batch_size, n, batch_size):
                yield order[k : k + batch_size]
            first = False

    return frame(rank, world_size, model, dataset, num_steps, batch_size, lr, batches=batches())


def w_mean_literal_three(model):
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)
            p.grad /= 3


def w_tokens_literal_three(loss_sum, num_tokens):
    total = torch.tensor(float(num_tokens))
    dist.all_reduce(total)
    return loss_sum * 3 / total


RIGHT = [
    ("05.1", start_loop),
    ("05.1", start_objects),
    ("05.1", start_send),
    ("05.1", start_zero_sum),
    ("05.2", mean_loop),
    ("05.2", mean_async),
    ("05.2", mean_gather),
    ("05.2", mean_flat),
    ("05.3", tokens_float),
    ("05.3", tokens_gather),
    ("05.3", tokens_list_tensor),
    ("05.3", tokens_share),
    ("05.4", train_mine),
    ("05.4", train_by_hand),
    ("05.4", train_mean_weights),
    ("05.4", train_wraps),
]
WRONG = [
    ("05.1", w_start_parameters, "buffers forgotten"),
    ("05.1", w_start_state_dict, "non-persistent buffers forgotten"),
    ("05.1", w_start_trainable, "frozen parameters forgotten"),
    ("05.1", w_start_float_buffers, "integer buffers forgotten"),
    ("05.1", w_start_new_parameter, "new parameter objects"),
    ("05.1", w_start_new_buffer, "new buffer objects"),
    ("05.1", w_start_float32, "all goes through float32"),
    ("05.1", w_start_mean_buffers, "buffers averaged, not copied"),
    ("05.1", w_start_no_wait, "started and never waited for"),
    ("05.1", w_start_set, "order of a set differs"),
    ("05.1", w_start_top_buffers, "only buffers of top children"),
    ("05.1", w_start_last, "source is the last rank"),
    ("05.1", w_start_thaws, "frozen parameters become trainable"),
    ("05.2", w_mean_sum, "never divided"),
    ("05.2", w_mean_literal_three, "literal three for world_size"),
    ("05.2", w_mean_two, "divided by literal two"),
    ("05.2", w_mean_tied_twice, "tied weight travels twice"),
    ("05.2", w_mean_modules, "nested parameters travel several times"),
    ("05.2", w_mean_children, "parameters of the root missed"),
    ("05.2", w_mean_zeros, "None becomes zeros"),
    ("05.2", w_mean_zeros_unused, "unused get zeros, frozen not"),
    ("05.2", w_mean_requires_grad, "unused parameter has no gradient"),
    ("05.2", w_mean_skip_zero, "zero gradient on one rank"),
    ("05.2", w_mean_float32, "float64 goes through float32"),
    ("05.2", w_mean_half, "bfloat16 on the way"),
    ("05.2", w_mean_copy, "a copy is averaged"),
    ("05.2", w_mean_no_wait, "never waited for"),
    ("05.2", w_mean_only_rank0, "reduce to rank 0 only"),
    ("05.2", w_mean_count_active, "divides by ranks with nonzero"),
    ("05.3", w_tokens_mean, "mean of means"),
    ("05.3", w_tokens_no_factor, "factor world_size forgotten"),
    ("05.3", w_tokens_early, "empty rank does not join"),
    ("05.3", w_tokens_max_one, "empty rank counts one"),
    ("05.3", w_tokens_active, "multiplies by non-empty ranks"),
    ("05.3", w_tokens_nan, "0/0 on empty rank"),
    ("05.3", w_tokens_leaf_zero, "empty rank gets no gradient"),
    ("05.3", w_tokens_item, "cut from the graph"),
    ("05.3", w_tokens_bf16, "counts in bfloat16"),
    ("05.3", w_tokens_byte, "counts in uint8"),
    ("05.3", w_tokens_mean_count, "integer division of the count"),
    ("05.3", w_tokens_literal_three, "literal three for world_size"),
    ("05.3", w_tokens_three, "literal two for world_size"),
    ("05.4", w_train_own_loss, "own loss, not the mean"),
    ("05.4", w_train_tensor_losses, "tensors, not floats"),
    ("05.4", w_train_parameters_only, "buffers not rank 0's"),
    ("05.4", w_train_frozen_apart, "frozen ones not rank 0's"),
    ("05.4", w_train_momentum, "momentum 0.9"),
    ("05.4", w_train_decay, "weight decay 0.01"),
    ("05.4", w_train_lr_scaled, "learning rate times world_size"),
    ("05.4", w_train_no_clear, "gradients never cleared"),
    ("05.4", w_train_clears_zero, "gradients summed"),
    ("05.4", w_train_own_order, "own order on each rank"),
    ("05.4", w_train_drop_last, "smaller last step left out"),
    ("05.4", w_train_pad_batch, "padded to the batch size"),
    ("05.4", w_train_replacement, "fresh sample each step"),
    ("05.4", w_train_uneven, "uneven shares in last step"),
    ("05.4", w_train_local_batch, "batch_size on each rank"),
    ("05.4", w_train_same_share, "all take rank 0's share"),
    ("05.4", w_train_one_epoch, "stops after one epoch"),
    ("05.4", w_train_to_the_end, "finishes the epoch, cuts losses"),
    ("05.4", w_train_loss_after, "loss after the step"),
    ("05.4", w_train_average_at_end, "weights averaged at end only"),
    ("05.4", w_train_eval, "later epochs miss first batch"),
]
