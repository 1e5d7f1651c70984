"""Wrong solutions of lesson 06, each with the hint that must refuse it."""

import torch

from pllab.comm import all_reduce, all_reduce_async, rank, world_size
from pllab.parallel import average_gradients
from tests.lesson.judge import with_switches
from tests.lesson.strangers_06 import install_buckets

# 06.1 average_flat(model)


def _gradients(model):
    return [p.grad for p in model.parameters() if p.grad is not None]


def _by_dtype(gradients):
    return [[g for g in gradients if g.dtype == dtype] for dtype in dict.fromkeys(g.dtype for g in gradients)]


def _put_back(gradients, flat):
    pieces = flat.split([g.numel() for g in gradients])
    for gradient, piece in zip(gradients, pieces, strict=True):
        gradient.copy_(piece.view_as(gradient))


def _mean(gradients, ranks=world_size):
    flat = torch.cat([g.flatten() for g in gradients])
    all_reduce(flat)
    return flat / ranks()


def _averaged(model, ranks=world_size):
    for gradients in _by_dtype(_gradients(model)):
        _put_back(gradients, _mean(gradients, ranks))


def _two():
    """Instead of the number of ranks."""
    return 2


def two_ranks(model):
    _averaged(model, _two)


def message_per_parameter(model):
    average_gradients(model)


def sum_not_mean(model):
    _averaged(model, lambda: 1)


def restored_in_reverse(model):
    for gradients in _by_dtype(_gradients(model)):
        flat = _mean(gradients)
        for gradient in gradients[::-1]:
            piece, flat = flat.split([gradient.numel(), flat.numel() - gradient.numel()])
            gradient.copy_(piece.view_as(gradient))


def dtype_lost(model):
    gradients = _gradients(model)
    _put_back(gradients, _mean([g.float() for g in gradients]))


def forgets_none(model):
    gradients = [p.grad for p in model.parameters()]
    _put_back(gradients, _mean(gradients))


def zeros_for_none(model):
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    _averaged(model)


def never_written_back(model):
    for gradients in _by_dtype(_gradients(model)):
        _mean(gradients)


def types_in_another_order_on_each_rank(model):
    """What a set of data types does in some processes, here in all."""
    groups = _by_dtype(_gradients(model))
    for gradients in groups[:: 1 if rank() == 0 else -1]:
        _put_back(gradients, _mean(gradients))


def needs_a_gradient(model):
    gradients = _gradients(model)
    _put_back(gradients, _mean([g.double() for g in gradients]))


def float16_on_the_wire(model):
    for gradients in _by_dtype(_gradients(model)):
        _put_back(gradients, _mean([g.half() if g.dtype == torch.float32 else g for g in gradients]))


# 06.2 install(model)


def _trained(model):
    return [p for p in model.parameters() if p.requires_grad][::-1]


@with_switches
def hooks_that(mistakes, model):  # noqa: C901 - one switch per mistake
    """Messages start in hooks, in one order on all ranks, with one thing done wrong."""
    order = _trained(model)
    ready, sent, works = set(), [], []

    def send(parameter):
        start = all_reduce if "block" in mistakes else all_reduce_async
        work = start(parameter if "send_the_argument" in mistakes else parameter.grad)
        sent.append(parameter)
        if work is not None and "wait_on_nothing" not in mistakes:
            works.append(work)

    def hook(parameter):
        ready.add(parameter)
        while len(sent) < len(order) and order[len(sent)] in ready:
            send(order[len(sent)])

    for parameter in order:
        parameter.register_post_accumulate_grad_hook(send if "send_as_they_come" in mistakes else hook)

    def wait():
        for parameter in () if "leave_the_unused" in mistakes else order[len(sent) :]:
            if parameter.grad is not None:
                send(parameter)
        for work in works:
            work.wait()
        for parameter in sent:
            parameter.grad /= 1 if "sum" in mistakes else 2 if "count_two_ranks" in mistakes else world_size()
        if "never_reset" not in mistakes:
            for memory in (ready, sent, works):
                memory.clear()

    return wait


def hooks_the_frozen(model):
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda parameter: all_reduce_async(parameter.grad))
    return lambda: None


def buckets_are_never_emptied(model):
    return install_buckets(model, empties=False)


# 06.3 accumulate(model, loss_of, micro_batches)


def after_every_backward(model, loss_of, micro_batches):
    for x in micro_batches:
        (loss_of(x) / len(micro_batches)).backward()
        average_gradients(model)


def never_divided(model, loss_of, micro_batches):
    for x in micro_batches:
        loss_of(x).backward()
    average_gradients(model)


def _backward(loss_of, micro_batches):
    for x in micro_batches:
        (loss_of(x) / len(micro_batches)).backward()


def sum_over_ranks(model, loss_of, micro_batches):
    _backward(loss_of, micro_batches)
    for gradient in _gradients(model):
        all_reduce(gradient)


def mean_over_two_ranks(model, loss_of, micro_batches):
    _backward(loss_of, micro_batches)
    _averaged(model, _two)


def averages_twice(model, loss_of, micro_batches):
    """After the loop and once more, because a second mean changes no number."""
    _backward(loss_of, micro_batches)
    _averaged(model)
    _averaged(model)


def divides_none(model, loss_of, micro_batches):
    for x in micro_batches:
        loss_of(x).backward()
    for parameter in _trained(model):
        parameter.grad /= len(micro_batches)
    _averaged(model)


def zeroes_in_between(model, loss_of, micro_batches):
    for x in micro_batches:
        model.zero_grad()
        (loss_of(x) / len(micro_batches)).backward()
    average_gradients(model)


def one_backward_for_all(model, loss_of, micro_batches):
    (sum(loss_of(x) for x in micro_batches) / len(micro_batches)).backward()
    average_gradients(model)


def only_the_first(model, loss_of, micro_batches):
    loss_of(micro_batches[0]).backward()
    average_gradients(model)


WRONG = [
    ("06.1", "message_each", message_per_parameter),
    ("06.1", "sum", sum_not_mean),
    ("06.1", "wrong", restored_in_reverse),
    ("06.1", "dtype_lost", dtype_lost),
    ("06.1", "raised", forgets_none),
    ("06.1", "none_filled", zeros_for_none),
    ("06.1", "left_out", never_written_back),
    ("06.1", "other_order", types_in_another_order_on_each_rank),
    ("06.1", "nothing_to_send", needs_a_gradient),
    ("06.1", "literal_world_size", two_ranks),
    ("06.2", "wrong", hooks_that("sum")),
    ("06.2", "not_waited", hooks_that("wait_on_nothing")),
    ("06.2", "starts_late", hooks_that("never_reset")),
    ("06.2", "blocks_backward", hooks_that("block")),
    ("06.2", "order_differs", hooks_that("send_as_they_come", "leave_the_unused")),
    ("06.2", "wrong", hooks_that("send_the_argument")),
    ("06.2", "raised", hooks_the_frozen),
    ("06.2", "held_back", hooks_that("leave_the_unused")),
    ("06.2", "literal_world_size", hooks_that("count_two_ranks")),
    ("06.2", "sent_too_early", buckets_are_never_emptied),
    ("06.3", "every_backward", after_every_backward),
    ("06.3", "not_divided", never_divided),
    ("06.3", "wrong", sum_over_ranks),
    ("06.3", "only_last", zeroes_in_between),
    ("06.3", "graphs_kept", one_backward_for_all),
    ("06.3", "not_every_batch", only_the_first),
    ("06.3", "raised", divides_none),
    ("06.3", "literal_world_size", mean_over_two_ranks),
    ("06.3", "sent_twice", averages_twice),
]

# Accepted once.
LET_THROUGH = [("06.1", "dtype_lost", float16_on_the_wire)]
