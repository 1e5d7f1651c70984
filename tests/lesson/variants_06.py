"""Right solutions of lesson 06, written in different ways; each must pass."""

from functools import partial
from itertools import groupby

import torch
import torch.distributed as dist
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

from pllab.comm import all_reduce, all_reduce_async, world_size
from pllab.parallel import average_gradients, plan_buckets

# 06.1


def one_buffer_per_dtype(model):
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    for dtype in dict.fromkeys(g.dtype for g in gradients):
        same = [g for g in gradients if g.dtype == dtype]
        flat = torch.cat([g.reshape(-1) for g in same]) / world_size()
        all_reduce(flat)
        start = 0
        for gradient in same:
            end = start + gradient.numel()
            gradient.copy_(flat[start:end].view(gradient.shape))
            start = end


def in_the_larger_type(model):
    """One message: the smaller type travels in the larger, which loses nothing."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    if not gradients:
        return
    flat = torch.cat([g.flatten().double() for g in gradients])
    all_reduce(flat)
    flat /= world_size()
    for gradient, piece in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(piece.view_as(gradient))


def with_torch_itself(model):
    """The ledger hears direct calls too."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    for dtype in {g.dtype: None for g in gradients}:
        same = [g for g in gradients if g.dtype == dtype]
        flat = torch.cat([g.flatten() for g in same])
        dist.all_reduce(flat)
        for gradient, piece in zip(same, (flat / dist.get_world_size()).split([g.numel() for g in same]), strict=True):
            gradient.copy_(piece.view_as(gradient))


def with_torchs_helpers(model):
    owners = sorted((p for p in model.parameters() if p.grad is not None), key=lambda p: str(p.dtype))
    for _, group in groupby(owners, key=lambda p: str(p.dtype)):
        same = list(group)
        flat = _flatten_dense_tensors([p.grad for p in same])
        all_reduce(flat)
        means = _unflatten_dense_tensors(flat / world_size(), [p.grad for p in same])
        for parameter, mean in zip(same, means, strict=True):
            parameter.grad = mean


# 06.2


def hooks_in_fixed_order(model):  # noqa: C901 - two functions inside
    order = [p for p in model.parameters() if p.requires_grad][::-1]
    ready, sent, works = set(), [], []

    def hook(parameter):
        ready.add(parameter)
        while len(sent) < len(order) and order[len(sent)] in ready:
            works.append(all_reduce_async(order[len(sent)].grad))
            sent.append(order[len(sent)])

    for parameter in order:
        parameter.register_post_accumulate_grad_hook(hook)

    def wait():
        for parameter in order[len(sent) :]:
            if parameter.grad is not None:
                works.append(all_reduce_async(parameter.grad))
                sent.append(parameter)
        for work in works:
            work.wait()
        for parameter in sent:
            parameter.grad /= world_size()
        ready.clear()
        sent.clear()
        works.clear()

    return wait


def with_buckets(model, bucket_bytes=300):
    buckets, works = plan_buckets(model.parameters(), bucket_bytes), []

    def arrived(bucket, index, parameter):
        bucket.store(index, world_size())
        while len(works) < len(buckets) and buckets[len(works)].is_full:
            works.append(all_reduce_async(buckets[len(works)].flat))

    for bucket in buckets:
        for index, parameter in enumerate(bucket.parameters):
            parameter.register_post_accumulate_grad_hook(partial(arrived, bucket, index))

    def wait():
        for bucket in buckets[len(works) :]:
            bucket.store_rest(world_size())
            works.append(all_reduce_async(bucket.flat))
        for bucket, work in zip(buckets, works, strict=True):
            work.wait()
            bucket.empty()
        works.clear()

    return wait


class Overlap:
    """A class with a __call__, dividing before the message leaves."""

    def __init__(self, model):
        self.order = [p for p in reversed(list(model.parameters())) if p.requires_grad]
        self.reset()
        for index, parameter in enumerate(self.order):
            parameter.register_post_accumulate_grad_hook(lambda p, index=index: self.arrived(p, index))

    def reset(self):
        self.next, self.ready, self.works = 0, [False] * len(self.order), []

    def arrived(self, parameter, index):
        parameter.grad.div_(world_size())
        self.ready[index] = True
        self.send(wait_for_turn=True)

    def send(self, wait_for_turn):
        while self.next < len(self.order) and (self.ready[self.next] or not wait_for_turn):
            if self.ready[self.next]:
                self.works.append(all_reduce_async(self.order[self.next].grad))
            self.next += 1

    def __call__(self):
        self.send(wait_for_turn=False)
        for work in self.works:
            work.wait()
        self.reset()


def with_a_class(model):
    return Overlap(model)


# 06.3


def divides_each_loss(model, loss_of, micro_batches):
    for x in micro_batches:
        (loss_of(x) / len(micro_batches)).backward()
    average_gradients(model)


def divides_the_gradients(model, loss_of, micro_batches):
    for x in micro_batches:
        loss_of(x).backward()
    for parameter in model.parameters():
        if parameter.grad is not None:
            all_reduce(parameter.grad)
            parameter.grad /= len(micro_batches) * world_size()


def only_the_last_one_sends(model, loss_of, micro_batches):
    *first, last = micro_batches
    for x in first:
        (loss_of(x) / len(micro_batches)).backward()
    wait = hooks_in_fixed_order(model)
    (loss_of(last) / len(micro_batches)).backward()
    wait()


RIGHT = {
    "06.1": [one_buffer_per_dtype, in_the_larger_type, with_torchs_helpers, with_torch_itself],
    "06.2": [hooks_in_fixed_order, with_buckets, with_a_class],
    "06.3": [divides_each_loss, divides_the_gradients, only_the_last_one_sends],
}
