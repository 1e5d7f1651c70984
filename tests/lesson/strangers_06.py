"""Solutions of lesson 06 by somebody who read the lesson alone."""

# ruff: noqa: B007, B905, C901 - as they were written

import torch

from pllab.comm import all_reduce, all_reduce_async, world_size
from pllab.lesson import mine
from pllab.parallel import plan_buckets


# ---------------------------------------------------------------- 06.1
def flat_groups(model):
    groups = {}
    for p in model.parameters():
        if p.grad is not None:
            groups.setdefault(p.grad.dtype, []).append(p.grad)
    for grads in groups.values():
        flat = torch.cat([g.reshape(-1) for g in grads])
        all_reduce(flat)
        flat /= world_size()
        for g, piece in zip(grads, flat.split([g.numel() for g in grads])):
            g.copy_(piece.view_as(g))


def flat_views(model):
    """the gradients become views of the message"""
    having = [p for p in model.parameters() if p.grad is not None]
    for dtype in sorted({p.grad.dtype for p in having}, key=str):
        ours = [p for p in having if p.grad.dtype == dtype]
        flat = torch.empty(sum(p.numel() for p in ours), dtype=dtype)
        at = 0
        for p in ours:
            view = flat[at : at + p.numel()].view(p.shape)
            view.copy_(p.grad)
            p.grad = view
            at += p.numel()
        flat.div_(world_size())
        all_reduce(flat)


def flat_promoted(model):
    """torch.cat makes float64 of a mixture: one message for all, and no digit is lost"""
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    if not grads:
        return
    flat = torch.cat([g.flatten() for g in grads])
    all_reduce(flat)
    flat = flat / world_size()
    at = 0
    with torch.no_grad():
        for g in grads:
            g[...] = flat[at : at + g.numel()].reshape(g.shape)
            at += g.numel()


# ---------------------------------------------------------------- 06.2
def install_buckets(model, empties=True):
    buckets = plan_buckets(model.parameters(), 300)
    place = {p: (b, i) for b in buckets for i, p in enumerate(b.parameters)}
    pending = []

    def send_next():
        bucket = buckets[len(pending)]
        pending.append(all_reduce_async(bucket.flat))

    def hook(p):
        bucket, index = place[p]
        bucket.store(index, world_size())
        while len(pending) < len(buckets) and buckets[len(pending)].is_full:
            send_next()

    for p in place:
        p.register_post_accumulate_grad_hook(hook)

    def wait():
        while len(pending) < len(buckets):
            buckets[len(pending)].store_rest(world_size())
            send_next()
        for message in pending:
            message.wait()
        pending.clear()
        for bucket in buckets if empties else ():
            bucket.empty()

    return wait


def install_each(model):
    order = [p for p in model.parameters() if p.requires_grad][::-1]
    arrived, started = set(), []

    def hook(p):
        arrived.add(id(p))
        while len(started) < len(order) and id(order[len(started)]) in arrived:
            q = order[len(started)]
            started.append((q, all_reduce_async(q.grad)))

    for p in order:
        p.register_post_accumulate_grad_hook(hook)

    def wait():
        for q in order[len(started) :]:
            started.append((q, all_reduce_async(q.grad) if q.grad is not None else None))
        for q, message in started:
            if message is not None:
                message.wait()
                q.grad /= world_size()
        arrived.clear()
        started.clear()

    return wait


class Overlap:
    def __init__(self, model):
        self.order = list(reversed([p for p in model.parameters() if p.requires_grad]))
        self.ready = [False] * len(self.order)
        self.next = 0
        self.flight = []
        for k, p in enumerate(self.order):
            p.register_post_accumulate_grad_hook(self.make_hook(k))

    def make_hook(self, k):
        def hook(_):
            self.ready[k] = True
            while self.next < len(self.order) and self.ready[self.next]:
                self.start()

        return hook

    def start(self):
        p = self.order[self.next]
        copy = torch.zeros_like(p) if p.grad is None else p.grad / world_size()
        copy = copy.detach()
        self.flight.append((p, copy, all_reduce_async(copy)))
        self.next += 1

    def wait(self):
        while self.next < len(self.order):
            self.start()
        for p, copy, message in self.flight:
            message.wait()
            if p.grad is not None:
                p.grad = copy
        self.flight = []
        self.ready = [False] * len(self.order)
        self.next = 0


def install_class(model):
    return Overlap(model).wait


# ---------------------------------------------------------------- 06.3
def accumulate_scaled(model, loss_of, micro_batches):
    for x in micro_batches:
        (loss_of(x) / len(micro_batches)).backward()
    flat_groups(model)


def accumulate_grads_divided(model, loss_of, micro_batches):
    for x in micro_batches:
        loss_of(x).backward()
    for p in model.parameters():
        if p.grad is not None:
            p.grad.div_(len(micro_batches))
    mine("05.2")(model)


def accumulate_autograd(model, loss_of, micro_batches):
    """sums kept by hand, then one flat average over ranks and micro-batches"""
    ps = [p for p in model.parameters() if p.requires_grad]
    sums = [None] * len(ps)
    for x in micro_batches:
        for k, g in enumerate(torch.autograd.grad(loss_of(x), ps, allow_unused=True)):
            if g is not None:
                sums[k] = g if sums[k] is None else sums[k] + g
    for p, g in zip(ps, sums):
        if g is not None:
            p.grad = g / len(micro_batches)
    flat_groups(model)


def accumulate_cleared(model, loss_of, micro_batches):
    model.zero_grad()
    for x in micro_batches:
        loss = loss_of(x) / len(micro_batches)
        loss.backward()
    mine("05.2")(model)


def accumulate_counted(model, loss_of, micro_batches):
    """right also where ranks have another number of micro-batches"""
    for x in micro_batches:
        loss_of(x).backward()
    count = torch.tensor(float(len(micro_batches)))
    all_reduce(count)
    for p in model.parameters():
        if p.grad is not None:
            p.grad *= world_size() / count.item()
    flat_groups(model)


RIGHT = {
    "06.1": [flat_groups, flat_views, flat_promoted],
    "06.2": [install_buckets, install_each, install_class],
    "06.3": [accumulate_scaled, accumulate_grads_divided, accumulate_autograd, accumulate_cleared, accumulate_counted],
}
