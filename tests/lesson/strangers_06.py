"""Solutions of lesson 06 by somebody who read the lesson alone."""

# ruff: noqa: B007, B905, C901 - as they were written

import torch
import torch.distributed as dist

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


def w_flat_each(model):
    for p in model.parameters():
        if p.grad is not None:
            all_reduce(p.grad)
            p.grad /= world_size()


def spread(grads, flat):
    for g, piece in zip(grads, flat.split([g.numel() for g in grads])):
        g.copy_(piece.view_as(g))


def grads_of(model):
    return [p.grad for p in model.parameters() if p.grad is not None]


def by_type(grads):
    groups = {}
    for g in grads:
        groups.setdefault(g.dtype, []).append(g)
    return groups


def w_flat_two(model):
    for grads in by_type(grads_of(model)).values():
        flat = torch.cat([g.reshape(-1) for g in grads])
        all_reduce(flat)
        flat /= 2
        spread(grads, flat)


def w_flat_float32(model):
    grads = grads_of(model)
    if grads:
        flat = torch.cat([g.reshape(-1).float() for g in grads])
        all_reduce(flat)
        spread(grads, flat / world_size())


def w_flat_sum(model):
    for grads in by_type(grads_of(model)).values():
        flat = torch.cat([g.reshape(-1) for g in grads])
        all_reduce(flat)
        spread(grads, flat)


def w_flat_no_copy(model):
    for grads in by_type(grads_of(model)).values():
        flat = torch.cat([g.reshape(-1) for g in grads])
        all_reduce(flat)
        flat /= world_size()


def w_flat_zeros(model):
    for p in model.parameters():
        if p.requires_grad and p.grad is None:
            p.grad = torch.zeros_like(p)
    flat_groups(model)


def w_flat_always(model):
    grads = grads_of(model)
    for dtype in (torch.float32, torch.float64):
        ours = [g for g in grads if g.dtype == dtype]
        flat = torch.cat([g.reshape(-1) for g in ours]) if ours else torch.zeros(0, dtype=dtype)
        all_reduce(flat)
        spread(ours, flat / world_size())


def w_flat_two_types(model):
    grads = grads_of(model)
    for dtype in (torch.float32, torch.float64):
        ours = [g for g in grads if g.dtype == dtype]
        if ours:
            flat = torch.cat([g.reshape(-1) for g in ours])
            all_reduce(flat)
            spread(ours, flat / world_size())


def w_flat_no_scalars(model):
    for grads in by_type([g for g in grads_of(model) if g.dim()]).values():
        flat = torch.cat([g.reshape(-1) for g in grads])
        all_reduce(flat)
        spread(grads, flat / world_size())


def w_flat_skip_zero(model):
    for grads in by_type([g for g in grads_of(model) if g.any()]).values():
        flat = torch.cat([g.reshape(-1) for g in grads])
        all_reduce(flat)
        spread(grads, flat / world_size())


def w_flat_transposed(model):
    """sorted by size for the way out, in the old order for the way back"""
    for grads in by_type(grads_of(model)).values():
        out = sorted(grads, key=torch.numel)
        flat = torch.cat([g.reshape(-1) for g in out])
        all_reduce(flat)
        spread(grads, flat / world_size())


def w_flat_runs(model):
    """a new message whenever the type changes: float32, float64, float32 are three"""
    run = []
    for g in [*grads_of(model), None]:
        if run and (g is None or g.dtype != run[0].dtype):
            flat = torch.cat([x.reshape(-1) for x in run])
            all_reduce(flat)
            spread(run, flat / world_size())
            run = []
        run.append(g)


def w_flat_squeezed(model):
    """scalars come back as (1,): p.grad replaced by data with another shape"""
    for dtype in (torch.float32, torch.float64):
        ours = [p for p in model.parameters() if p.grad is not None and p.grad.dtype == dtype]
        if ours:
            flat = torch.cat([p.grad.reshape(-1) for p in ours])
            all_reduce(flat)
            flat /= world_size()
            for p, piece in zip(ours, flat.split([max(1, p.numel()) for p in ours])):
                p.grad = piece.view_as(p)


# ---------------------------------------------------------------- 06.2
def install_buckets(model):
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
        for bucket in buckets:
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


def each_frame(
    model,
    *,
    order=None,
    hook_sends=True,
    divisor=None,
    wait_in_hook=False,
    forget=True,
    wait_for=lambda started: started,
    rest=lambda rest: rest,
    only_arrived=False,
):
    order = order or [p for p in model.parameters() if p.requires_grad][::-1]
    arrived, started = {}, []

    def start(q):
        message = all_reduce_async(q.grad) if q.grad is not None else None
        started.append((q, message))
        if wait_in_hook and message is not None:
            message.wait()

    def hook(p):
        arrived[id(p)] = p
        while hook_sends and len(started) < len(order) and id(order[len(started)]) in arrived:
            start(order[len(started)])

    for p in order:
        p.register_post_accumulate_grad_hook(hook)

    def wait():
        left = order[len(started) :]
        if only_arrived:
            left = [p for p in arrived.values() if any(p is q for q in left)]
        for q in rest(left):
            start(q)
        for q, message in wait_for(started):
            if message is not None:
                message.wait()
        for q, message in started:
            if message is not None:
                q.grad /= divisor or world_size()
        if forget:
            arrived.clear()
            started.clear()

    return wait


def w_install_sync(model):
    return each_frame(model, wait_in_hook=True)


def w_install_late(model):
    return each_frame(model, hook_sends=False)


def w_install_two(model):
    return each_frame(model, divisor=2)


def w_install_no_reset(model):
    return each_frame(model, forget=False)


def w_install_last_only(model):
    return each_frame(model, wait_for=lambda started: started[-1:])


def w_install_first_only(model):
    return each_frame(model, wait_for=lambda started: started[:1])


def w_install_no_rest(model):
    return each_frame(model, rest=lambda rest: [])


def w_install_rest_by_arrival(model):
    return each_frame(model, only_arrived=True)


def w_install_arrival(model):
    started = []

    def hook(p):
        started.append((p, all_reduce_async(p.grad)))

    for p in model.parameters():
        if p.requires_grad:
            p.register_post_accumulate_grad_hook(hook)

    def wait():
        for p, message in started:
            message.wait()
            p.grad /= world_size()
        started.clear()

    return wait


def w_install_forward_order(model):
    return each_frame(model, order=[p for p in model.parameters() if p.requires_grad])


def w_install_big(model):
    buckets = plan_buckets(model.parameters(), 25e6)
    return bucket_frame(buckets)


def bucket_frame(buckets, *, twice=False, rest=True, empty=True, full_only=False, start_early=True):
    place = {p: (b, i) for b in buckets for i, p in enumerate(b.parameters)}
    pending = []

    def hook(p):
        bucket, index = place[p]
        bucket.store(index, world_size())
        while start_early and len(pending) < len(buckets) and buckets[len(pending)].is_full:
            pending.append(all_reduce_async(buckets[len(pending)].flat))

    for p in place:
        p.register_post_accumulate_grad_hook(hook)

    def wait():
        for bucket in buckets[len(pending) :]:
            if full_only and not bucket.is_full:
                continue
            if rest:
                bucket.store_rest(world_size())
            pending.append(all_reduce_async(bucket.flat))
        for message in pending:
            message.wait()
        pending.clear()
        for bucket in buckets:
            if twice:
                bucket.flat.div_(world_size())
            if empty:
                bucket.empty()

    return wait


def w_install_divided_twice(model):
    return bucket_frame(plan_buckets(model.parameters(), 256), twice=True)


def w_install_full_only(model):
    return bucket_frame(plan_buckets(model.parameters(), 600), full_only=True)


def w_install_not_emptied(model):
    return bucket_frame(plan_buckets(model.parameters(), 256), empty=False)


def w_install_reset_in_hook(model):
    """the count goes back to zero when all have come: never, where one parameter is unused"""
    order = [p for p in model.parameters() if p.requires_grad][::-1]
    arrived, started, flight = set(), [], []

    def hook(p):
        arrived.add(id(p))
        while len(started) < len(order) and id(order[len(started)]) in arrived:
            q = order[len(started)]
            started.append(q)
            flight.append((q, all_reduce_async(q.grad)))
        if len(arrived) == len(order):
            arrived.clear()
            started.clear()

    for p in order:
        p.register_post_accumulate_grad_hook(hook)

    def wait():
        if started:
            for q in order[len(started) :]:
                if q.grad is not None:
                    started.append(q)
                    flight.append((q, all_reduce_async(q.grad)))
        for q, message in flight:
            message.wait()
            q.grad /= world_size()
        flight.clear()

    return wait


def w_install_learned(model):
    """takes the order in which gradients came in its own first backward"""
    order, arrived, started = [], set(), []
    fixed = [False]

    def hook(p):
        if not fixed[0]:
            order.append(p)
        arrived.add(id(p))
        while len(started) < len(order) and id(order[len(started)]) in arrived:
            q = order[len(started)]
            started.append((q, all_reduce_async(q.grad)))

    for p in model.parameters():
        if p.requires_grad:
            p.register_post_accumulate_grad_hook(hook)

    def wait():
        fixed[0] = True
        for q in order[len(started) :]:
            started.append((q, all_reduce_async(q.grad)))
        for q, message in started:
            message.wait()
            q.grad /= world_size()
        arrived.clear()
        started.clear()

    return wait


def w_install_written_off(model):
    """what had no gradient in the first step is left out for ever"""
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
            if q.grad is not None:
                started.append((q, all_reduce_async(q.grad)))
        order[:] = [q for q in order if q.grad is not None]
        for q, message in started:
            message.wait()
            q.grad /= world_size()
        arrived.clear()
        started.clear()

    return wait


def w_install_stale_none(model):
    """wait() skips what did not arrive, though another rank's order is the same: drops held-back ones that came"""
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
        k = len(started)
        while k < len(order) and order[k].grad is None:
            k += 1
        if k < len(order) and order[k].grad is not None:  # sends one of those behind the gap only
            started.append((order[k], all_reduce_async(order[k].grad)))
        for q, message in started:
            message.wait()
            q.grad /= world_size()
        arrived.clear()
        started.clear()

    return wait


def w_install_divides_under_way(model):
    order = [p for p in model.parameters() if p.requires_grad][::-1]
    arrived, started = set(), []

    def send(q):
        started.append(all_reduce_async(q.grad))
        q.grad /= world_size()

    def hook(p):
        arrived.add(id(p))
        while len(started) < len(order) and id(order[len(started)]) in arrived:
            send(order[len(started)])

    for p in order:
        p.register_post_accumulate_grad_hook(hook)

    def wait():
        for q in order[len(started) :]:
            if q.grad is not None:
                send(q)
        for message in started:
            message.wait()
        arrived.clear()
        started.clear()

    return wait


def w_install_hook_once(model):
    """the hooks take themselves away after the first step"""
    order = [p for p in model.parameters() if p.requires_grad][::-1]
    arrived, started, handles = set(), [], []

    def hook(p):
        arrived.add(id(p))
        while len(started) < len(order) and id(order[len(started)]) in arrived:
            q = order[len(started)]
            started.append((q, all_reduce_async(q.grad)))

    handles.extend(p.register_post_accumulate_grad_hook(hook) for p in order)

    def wait():
        for q in order[len(started) :]:
            if q.grad is not None:
                started.append((q, all_reduce_async(q.grad)))
        for q, message in started:
            message.wait()
            q.grad /= world_size()
        arrived.clear()
        started.clear()
        for handle in handles:
            handle.remove()

    return wait


def w_install_barrier(model):
    """backward waits for the other rank: a barrier at the first gradient"""
    wait_inner = install_each(model)
    first = [p for p in model.parameters() if p.requires_grad][-1]
    first.register_post_accumulate_grad_hook(lambda p: dist.barrier())
    return wait_inner


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


def w_accumulate_sum(model, loss_of, micro_batches):
    for x in micro_batches:
        loss_of(x).backward()
    flat_groups(model)


def w_accumulate_each(model, loss_of, micro_batches):
    for x in micro_batches:
        (loss_of(x) / len(micro_batches)).backward()
        flat_groups(model)


def w_accumulate_one_backward(model, loss_of, micro_batches):
    sum(loss_of(x) for x in micro_batches).div(len(micro_batches)).backward()
    flat_groups(model)


def w_accumulate_forward_first(model, loss_of, micro_batches):
    losses = [loss_of(x) / len(micro_batches) for x in micro_batches]
    for loss in losses:
        loss.backward()
    flat_groups(model)


def w_accumulate_cat(model, loss_of, micro_batches):
    loss_of(torch.cat(micro_batches)).backward()
    flat_groups(model)


def w_accumulate_world_twice(model, loss_of, micro_batches):
    for x in micro_batches:
        (loss_of(x) / (len(micro_batches) * world_size())).backward()
    flat_groups(model)


def w_accumulate_last(model, loss_of, micro_batches):
    for x in micro_batches:
        model.zero_grad()
        loss_of(x).backward()
    flat_groups(model)


def w_accumulate_rows(model, loss_of, micro_batches):
    for x in micro_batches:
        (loss_of(x) / len(x)).backward()
    flat_groups(model)


def w_accumulate_before_last(model, loss_of, micro_batches):
    for k, x in enumerate(micro_batches):
        loss = loss_of(x) / len(micro_batches)
        if k == len(micro_batches) - 1:
            flat_groups(model)
        loss.backward()


def w_accumulate_retain(model, loss_of, micro_batches):
    total = 0
    for x in micro_batches:
        total = total + loss_of(x) / len(micro_batches)
        total.backward(retain_graph=True)
    flat_groups(model)


def w_accumulate_not_alone(model, loss_of, micro_batches):
    for x in micro_batches:
        (loss_of(x) / len(micro_batches)).backward()
    if len(micro_batches) > 1:
        flat_groups(model)


def w_accumulate_none(model, loss_of, micro_batches):
    for x in micro_batches:
        loss_of(x).backward()
    for p in model.parameters():
        if p.requires_grad:
            p.grad /= len(micro_batches)
    flat_groups(model)


def w_accumulate_divided_after_each(model, loss_of, micro_batches):
    """divides the sum after every backward: earlier ones are divided again and again"""
    for x in micro_batches:
        loss_of(x).backward()
        for p in model.parameters():
            if p.grad is not None:
                p.grad /= len(micro_batches)
    flat_groups(model)


def w_accumulate_two(model, loss_of, micro_batches):
    for x in micro_batches:
        (loss_of(x) / len(micro_batches)).backward()
    for grads in by_type(grads_of(model)).values():
        flat = torch.cat([g.reshape(-1) for g in grads])
        all_reduce(flat)
        spread(grads, flat / 2)


def w_accumulate_running_mean(model, loss_of, micro_batches):
    """the last one counts half: a mean of means"""
    for x in micro_batches:
        for p in model.parameters():
            if p.grad is not None:
                p.grad /= 2
        first = x is micro_batches[0]
        (loss_of(x) / (1 if first else 2)).backward()
    flat_groups(model)


def w_accumulate_twice_sent(model, loss_of, micro_batches):
    """averages after the loop and once more, because a second mean changes no number"""
    accumulate_scaled(model, loss_of, micro_batches)
    flat_groups(model)


def w_install_last_sent_only(model):
    """waits for the last message that was started; gloo may finish it before the others"""
    return each_frame(model, wait_for=lambda s: [x for x in s if x[1] is not None][-1:])


def wrong_flat_into_a_copy(model):
    by_type = {}
    for parameter in model.parameters():
        if parameter.grad is not None:
            by_type.setdefault(parameter.grad.dtype, []).append(parameter.grad)
    for grads in by_type.values():
        flat = torch.cat([grad.reshape(-1) for grad in grads])
        all_reduce(flat)
        flat /= world_size()
        for grad, piece in zip(grads, flat.split([grad.numel() for grad in grads])):
            grad.reshape(-1).copy_(piece)


def wrong_flat_three_types(model):
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        grads = [p.grad for p in model.parameters() if p.grad is not None and p.grad.dtype == dtype]
        if not grads:
            continue
        flat = torch.cat([grad.flatten() for grad in grads])
        all_reduce(flat)
        flat /= world_size()
        for grad, piece in zip(grads, flat.split([grad.numel() for grad in grads])):
            grad.copy_(piece.view_as(grad))


RIGHT = [
    ("06.1", flat_groups),
    ("06.1", flat_views),
    ("06.1", flat_promoted),
    ("06.2", install_buckets),
    ("06.2", install_each),
    ("06.2", install_class),
    ("06.3", accumulate_scaled),
    ("06.3", accumulate_grads_divided),
    ("06.3", accumulate_autograd),
    ("06.3", accumulate_cleared),
    ("06.3", accumulate_counted),
]
WRONG = [
    ("06.1", w_flat_each, "one message per parameter"),
    ("06.1", w_flat_two, "literal two for world_size"),
    ("06.1", w_flat_float32, "float64 through float32"),
    ("06.1", w_flat_sum, "not divided"),
    ("06.1", w_flat_no_copy, "result not copied back"),
    ("06.1", w_flat_zeros, "unused get zeros"),
    ("06.1", w_flat_always, "sends empty messages"),
    ("06.1", w_flat_two_types, "only two hard-coded types"),
    ("06.1", w_flat_no_scalars, "scalars left out"),
    ("06.1", w_flat_skip_zero, "zero gradients left out"),
    ("06.1", w_flat_transposed, "other order on way back"),
    ("06.1", w_flat_runs, "message per run of types"),
    ("06.1", w_flat_squeezed, "empty parameter breaks the split"),
    ("06.2", w_install_sync, "waits in the hook"),
    ("06.2", w_install_late, "everything sent in wait()"),
    ("06.2", w_install_two, "literal two for world_size"),
    ("06.2", w_install_no_reset, "second step not begun empty"),
    ("06.2", w_install_last_only, "waits for last one only"),
    ("06.2", w_install_last_sent_only, "waits for last message sent"),
    ("06.2", w_install_first_only, "waits for first one only"),
    ("06.2", w_install_no_rest, "held-back ones never sent"),
    ("06.2", w_install_rest_by_arrival, "held-back sent by arrival"),
    ("06.2", w_install_arrival, "messages in order of arrival"),
    ("06.2", w_install_forward_order, "first to last: nothing overlaps"),
    ("06.2", w_install_big, "one large bucket"),
    ("06.2", w_install_divided_twice, "divided twice"),
    ("06.2", w_install_full_only, "half-full bucket never sent"),
    ("06.2", w_install_not_emptied, "buckets never emptied"),
    ("06.2", w_install_reset_in_hook, "reset only when all came"),
    ("06.2", w_install_learned, "own first order on each rank"),
    ("06.2", w_install_written_off, "unused once, left out for ever"),
    ("06.2", w_install_stale_none, "only one behind the gap"),
    ("06.2", w_install_divides_under_way, "divides while under way"),
    ("06.2", w_install_hook_once, "hooks removed after one step"),
    ("06.2", w_install_barrier, "barrier in backward"),
    ("06.3", w_accumulate_sum, "not divided by number"),
    ("06.3", w_accumulate_each, "averaged after each backward"),
    ("06.3", w_accumulate_one_backward, "all forwards first"),
    ("06.3", w_accumulate_forward_first, "all forwards, then all backwards"),
    ("06.3", w_accumulate_cat, "joined to one batch"),
    ("06.3", w_accumulate_world_twice, "divided by world twice"),
    ("06.3", w_accumulate_last, "only last micro-batch counts"),
    ("06.3", w_accumulate_rows, "divided by rows, not number"),
    ("06.3", w_accumulate_before_last, "averaged before last backward"),
    ("06.3", w_accumulate_retain, "earlier losses counted again"),
    ("06.3", w_accumulate_not_alone, "single micro-batch not averaged"),
    ("06.3", w_accumulate_none, "unused parameter has None"),
    ("06.3", w_accumulate_divided_after_each, "divided after every backward"),
    ("06.3", w_accumulate_two, "literal two for world_size"),
    ("06.3", w_accumulate_running_mean, "running mean with weight half"),
    ("06.3", w_accumulate_twice_sent, "two sets of messages"),
    ("06.1", wrong_flat_into_a_copy, "writes into reshape(-1), a copy for transposed gradients"),
    ("06.1", wrong_flat_three_types, "knows three data types only, float16 is forgotten"),
]
