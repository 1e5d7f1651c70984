"""Wrong solutions of lesson 05, each with the hint that must refuse it; several were seen in public solutions."""

import time
from itertools import islice, repeat

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

from tests.lesson.judge import with_switches
from tests.lesson.variants_05 import batches_of, sum_and_divide, two_loops, world_over_total

# 05.1 broadcast_parameters(model)


def nothing_at_all(model):
    return model


def source_is_own_rank(model):
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=dist.get_rank())


def source_is_the_last_rank(model):
    for tensor in [*model.parameters(), *model.buffers()]:
        dist.broadcast(tensor.data, src=dist.get_world_size() - 1)


def only_rank_0_broadcasts(model):
    if dist.get_rank() == 0:
        two_loops(model)


def buffers_forgotten(model):
    for parameter in model.parameters():
        dist.broadcast(parameter.data, 0)


def only_what_is_trained(model):
    for parameter in model.parameters():
        if parameter.requires_grad:
            dist.broadcast(parameter.data, 0)
    for buffer in model.buffers():
        dist.broadcast(buffer, 0)


def _average(tensor):
    dist.all_reduce(tensor)
    tensor /= dist.get_world_size()


def average_of_the_starts(model):
    for parameter in model.parameters():
        _average(parameter.data)


def average_of_the_buffers(model):
    for parameter in model.parameters():
        dist.broadcast(parameter.data, 0)
    for buffer in model.buffers():
        if buffer.is_floating_point():
            _average(buffer)
        else:
            dist.broadcast(buffer, 0)


def all_in_one_float32(model):
    tensors = [tensor.data for tensor in (*model.parameters(), *model.buffers())]
    flat = torch.cat([tensor.flatten().float() for tensor in tensors])
    dist.broadcast(flat, 0)
    for tensor, piece in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
        tensor.copy_(piece.view_as(tensor))


def started_and_not_waited_for(model):
    for tensor in [*model.parameters(), *model.buffers()]:
        dist.broadcast(tensor.data, 0, async_op=True)


def new_parameters(model):
    with torch.no_grad():
        for module in model.modules():
            for name, parameter in list(module.named_parameters(recurse=False)):
                copy = parameter.detach().clone()
                dist.broadcast(copy, 0)
                setattr(module, name, torch.nn.Parameter(copy, requires_grad=parameter.requires_grad))
        for buffer in model.buffers():
            dist.broadcast(buffer, 0)


def everything_is_trained_now(model):
    two_loops(model)
    model.requires_grad_(True)


def each_rank_in_its_own_order(model):
    parameters = list(model.parameters())
    for parameter in parameters[:: -1 if dist.get_rank() else 1]:
        dist.broadcast(parameter.data, 0)


def receives_what_nobody_sends(model):
    for parameter in model.parameters():
        if dist.get_rank():
            dist.recv(parameter.data, src=0)
        else:
            time.sleep(60)


# 05.2 average_gradients(model)


def _gradients(model):
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def sum_for_mean(model):
    for gradient in _gradients(model):
        dist.all_reduce(gradient)


def divides_by_three(model):
    for gradient in _gradients(model):
        dist.all_reduce(gradient)
        gradient /= 3


def gradients_in_float32(model):
    for gradient in _gradients(model):
        rounded = gradient.float()
        _average(rounded)
        gradient.copy_(rounded)


def never_waits(model):
    for gradient in _gradients(model):
        gradient /= dist.get_world_size()
        dist.all_reduce(gradient, async_op=True)


def stores_what_all_reduce_returns(model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad = dist.all_reduce(parameter.grad)


def divides_what_all_reduce_returns(model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad = dist.all_reduce(parameter.grad) / dist.get_world_size()


def only_rank_0_averages(model):
    if dist.get_rank() == 0:
        sum_and_divide(model)


def no_guard(model):
    for parameter in model.parameters():
        _average(parameter.grad)


def leaves_the_loop_at_the_first_none(model):
    for parameter in model.parameters():
        if parameter.grad is None:
            break
        _average(parameter.grad)


def zeros_for_none(model):
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        _average(parameter.grad)


def averages_a_copy(model):
    for gradient in _gradients(model):
        _average(gradient.clone())


def order_of_the_rank(model):
    for gradient in _gradients(model)[:: -1 if dist.get_rank() else 1]:
        _average(gradient)


def sends_a_tied_weight_twice(model):
    for _, parameter in model.named_parameters(remove_duplicate=False):
        if parameter.grad is not None:
            _average(parameter.grad)


def first_step_only(model):
    if not hasattr(model, "averaged"):
        model.averaged = True
        sum_and_divide(model)


# 05.3 token_weighted(loss_sum, num_tokens)


def mean_of_means(loss_sum, num_tokens):
    return loss_sum / max(1, num_tokens)


def keeps_the_sum(loss_sum, num_tokens):
    return loss_sum


def _total(num_tokens, dtype=torch.float32):
    total = torch.tensor(num_tokens, dtype=dtype)
    dist.all_reduce(total)
    return total.item()


def forgets_the_averaging(loss_sum, num_tokens):
    return loss_sum / _total(num_tokens)


def three_ranks_always(loss_sum, num_tokens):
    return loss_sum * 3 / _total(num_tokens)


def none_counts_as_one(loss_sum, num_tokens):
    return loss_sum * dist.get_world_size() / _total(max(num_tokens, 1))


def counts_in_bfloat16(loss_sum, num_tokens):
    return loss_sum * dist.get_world_size() / _total(num_tokens, torch.bfloat16)


def counts_in_bytes(loss_sum, num_tokens):
    return loss_sum * dist.get_world_size() / _total(num_tokens, torch.uint8)


def a_number(loss_sum, num_tokens):
    return world_over_total(loss_sum, num_tokens).item()


def cut_off(loss_sum, num_tokens):
    return world_over_total(loss_sum, num_tokens).detach()


def weighs_own_mean(loss_sum, num_tokens):
    return loss_sum / num_tokens * (num_tokens / _total(num_tokens)) * dist.get_world_size()


def an_empty_rank_stays_away(loss_sum, num_tokens):
    if num_tokens == 0:
        return loss_sum
    return world_over_total(loss_sum, num_tokens)


def an_empty_rank_has_a_zero_of_its_own(loss_sum, num_tokens):
    loss = world_over_total(loss_sum, num_tokens)
    return loss if num_tokens else torch.zeros((), requires_grad=True)


# 05.4 train(rank, world_size, model, dataset, num_steps, batch_size, lr)


@with_switches
def training_that(mistakes, rank, world_size, model, dataset, num_steps, batch_size, lr):  # noqa: C901
    """A right training with one thing done wrong."""
    if "starts_from_the_last" in mistakes:
        source_is_the_last_rank(model)
    elif "starts_apart" not in mistakes:
        two_loops(model)
    rows = batch_size * world_size if "takes_the_whole_batch" in mistakes else batch_size
    batches = batches_of(rank, world_size, dataset, rows)
    if "repeats_the_first_batch" in mistakes:
        batches = repeat(next(batches))
    if "ends_with_the_epoch" in mistakes:
        batches = islice(batches, -(-len(dataset) // batch_size))
    optimizer, losses = torch.optim.SGD(model.parameters(), lr), []
    for x, y in islice(batches, num_steps):
        if "never_clears" not in mistakes:
            optimizer.zero_grad()
        loss = cross_entropy(model(x).flatten(0, -2), y.flatten())
        loss.backward()
        if "steps_on_the_sum" in mistakes:
            sum_for_mean(model)
        elif "never_averages" not in mistakes:
            sum_and_divide(model)
        optimizer.step()
        mean = loss.detach().clone()
        if "returns_own_losses" not in mistakes:
            _average(mean)
        losses.append(mean.item())
    return losses[-1] if "returns_the_last_loss" in mistakes else losses


def rows_of_the_first_dim(rank, world_size, model, dataset, num_steps, batch_size, lr):
    """Takes the logits for (batch, classes); in a sequence the second dim is time."""
    two_loops(model)
    for _, (x, y) in zip(range(num_steps), batches_of(rank, world_size, dataset, batch_size), strict=False):
        cross_entropy(model(x), y).backward()


WRONG = [
    ("05.1", "wrong", nothing_at_all),
    ("05.1", "own_source", source_is_own_rank),
    ("05.1", "wrong_source", source_is_the_last_rank),
    ("05.1", "not_all_ranks", only_rank_0_broadcasts),
    ("05.1", "buffers_forgotten", buffers_forgotten),
    ("05.1", "frozen_forgotten", only_what_is_trained),
    ("05.1", "averaged", average_of_the_starts),
    ("05.1", "replaced", new_parameters),
    ("05.1", "wrong", everything_is_trained_now),
    ("05.1", "other_order", each_rank_in_its_own_order),
    ("05.1", "hang", receives_what_nobody_sends),
    ("05.1", "digits_lost", all_in_one_float32),
    ("05.1", "averaged", average_of_the_buffers),
    ("05.1", "not_waited", started_and_not_waited_for),
    ("05.2", "sum_not_mean", sum_for_mean),
    ("05.2", "wrong", stores_what_all_reduce_returns),
    ("05.2", "raised", divides_what_all_reduce_returns),
    ("05.2", "not_all_ranks", only_rank_0_averages),
    ("05.2", "none_gradient", no_guard),
    ("05.2", "not_averaged", leaves_the_loop_at_the_first_none),
    ("05.2", "invented_gradient", zeros_for_none),
    ("05.2", "not_averaged", averages_a_copy),
    ("05.2", "other_order", order_of_the_rank),
    ("05.2", "sent_twice", sends_a_tied_weight_twice),
    ("05.2", "wrong", first_step_only),
    ("05.2", "literal_world_size", divides_by_three),
    ("05.2", "digits_lost", gradients_in_float32),
    ("05.2", "not_waited", never_waits),
    ("05.3", "mean_of_means", mean_of_means),
    ("05.3", "wrong", keeps_the_sum),
    ("05.3", "averaged_away", forgets_the_averaging),
    ("05.3", "no_loss", a_number),
    ("05.3", "cut_off", cut_off),
    ("05.3", "not_finite", weighs_own_mean),
    ("05.3", "not_all_ranks", an_empty_rank_stays_away),
    ("05.3", "wrong", none_counts_as_one),
    ("05.3", "cut_off", an_empty_rank_has_a_zero_of_its_own),
    ("05.3", "digits_lost", counts_in_bfloat16),
    ("05.3", "raised", counts_in_bytes),
    ("05.3", "literal_world_size", three_ranks_always),
    ("05.4", "number_of_steps", training_that("ends_with_the_epoch")),
    ("05.4", "shares", training_that("takes_the_whole_batch")),
    ("05.4", "epochs", training_that("repeats_the_first_batch")),
    ("05.4", "raised", rows_of_the_first_dim),
    ("05.4", "own_start", training_that("starts_apart")),
    ("05.4", "wrong", training_that("starts_from_the_last")),
    ("05.4", "wrong", training_that("never_averages")),
    ("05.4", "sum_not_mean", training_that("steps_on_the_sum")),
    ("05.4", "not_zeroed", training_that("never_clears")),
    ("05.4", "own_losses", training_that("returns_own_losses")),
    ("05.4", "no_losses", training_that("returns_the_last_loss")),
]
