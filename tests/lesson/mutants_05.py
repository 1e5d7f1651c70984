"""Wrong solutions of lesson 05, each with the hint that must refuse it; several were seen in public solutions."""

import time
from itertools import count

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Subset

from tests.lesson.variants_05 import batches_of, sum_and_divide, two_loops

# 05.1 broadcast_parameters(model)


def nothing_at_all(model):
    return model


def only_the_first_parameter(model):
    dist.broadcast(next(model.parameters()).data, 0)


def source_is_own_rank(model):
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=dist.get_rank())


def source_is_the_last_rank(model):
    for tensor in [*model.parameters(), *model.buffers()]:
        dist.broadcast(tensor.data, src=dist.get_world_size() - 1)


def only_rank_0_broadcasts(model):
    if dist.get_rank() == 0:
        for parameter in model.parameters():
            dist.broadcast(parameter.data, 0)


def buffers_forgotten(model):
    for parameter in model.parameters():
        dist.broadcast(parameter.data, 0)


def the_state_dict(model):
    """A buffer that is not persistent is not in it."""
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, src=0)


def only_what_is_trained(model):
    for parameter in model.parameters():
        if parameter.requires_grad:
            dist.broadcast(parameter.data, 0)
    for buffer in model.buffers():
        dist.broadcast(buffer, 0)


def draws_the_weights_again(model):
    torch.manual_seed(0)
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()


def average_of_the_starts(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.data)
        parameter.data /= dist.get_world_size()


def broadcasts_a_copy(model):
    for parameter in model.parameters():
        dist.broadcast(parameter.detach().clone(), 0)


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
    for tensor in [*model.parameters(), *model.buffers()]:
        dist.broadcast(tensor.data, 0)
    for parameter in model.parameters():
        parameter.requires_grad_(True)


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


def sum_for_mean(model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)


def stores_what_all_reduce_returns(model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad = dist.all_reduce(parameter.grad)


def divides_what_all_reduce_returns(model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad = dist.all_reduce(parameter.grad) / dist.get_world_size()


def broadcasts_the_gradient_of_rank_0(model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.broadcast(parameter.grad, 0)


def reduces_to_rank_0_only(model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.reduce(parameter.grad, 0)
            if dist.get_rank() == 0:
                parameter.grad /= dist.get_world_size()


def only_rank_0_averages(model):
    if dist.get_rank() == 0:
        for parameter in model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()


def no_guard(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def guard_for_frozen_only(model):
    for parameter in model.parameters():
        if parameter.requires_grad:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


def leaves_the_loop_at_the_first_none(model):
    for parameter in model.parameters():
        if parameter.grad is None:
            break
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def zeros_for_none(model):
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def averages_the_parameters(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.data)
        parameter.data /= dist.get_world_size()


def only_divides(model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad /= dist.get_world_size()


def divides_before_and_after(model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad /= dist.get_world_size()
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


def two_ranks_for_ever(model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= 2


def averages_a_copy(model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            gradient = parameter.grad / dist.get_world_size()
            dist.all_reduce(gradient)


def only_the_weights(model):
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and name.endswith("weight"):
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


def order_of_the_rank(model):
    parameters = list(model.parameters())
    for parameter in parameters[:: -1 if dist.get_rank() else 1]:
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


def sends_a_tied_weight_twice(model):
    for _, parameter in model.named_parameters(remove_duplicate=False):
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


def divides_a_tied_weight_twice(model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
    for parameter in model.state_dict(keep_vars=True).values():
        if parameter.grad is not None:
            parameter.grad /= dist.get_world_size()


def first_step_only(model):
    if not hasattr(model, "averaged"):
        model.averaged = True
        for parameter in model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()


def nothing_is_averaged(model):
    return None


def a_name_that_is_missing(model):
    for parameter in model.parameters():
        dist.all_reduced(parameter.grad)


# 05.3 token_weighted(loss_sum, num_tokens)


def mean_of_means(loss_sum, num_tokens):
    return loss_sum / max(1, num_tokens)


def keeps_the_sum(loss_sum, num_tokens):
    return loss_sum


def forgets_the_averaging(loss_sum, num_tokens):
    total = torch.tensor(float(num_tokens))
    dist.all_reduce(total)
    return loss_sum / total


def weighs_the_sum_again(loss_sum, num_tokens):
    total = torch.tensor(float(num_tokens))
    dist.all_reduce(total)
    return loss_sum / total * (num_tokens / total) * dist.get_world_size()


def takes_the_largest(loss_sum, num_tokens):
    largest = torch.tensor(float(num_tokens))
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    return loss_sum / largest


def two_ranks_only(loss_sum, num_tokens):
    total = torch.tensor(float(num_tokens))
    dist.all_reduce(total)
    return loss_sum * 2 / total


def a_number(loss_sum, num_tokens):
    total = torch.tensor(float(num_tokens))
    dist.all_reduce(total)
    return float(loss_sum.detach() * dist.get_world_size() / total)


def cut_off(loss_sum, num_tokens):
    total = torch.tensor(float(num_tokens))
    dist.all_reduce(total)
    return loss_sum.detach() * dist.get_world_size() / total


def weighs_own_mean(loss_sum, num_tokens):
    total = torch.tensor(float(num_tokens))
    dist.all_reduce(total)
    return loss_sum / num_tokens * (num_tokens / total) * dist.get_world_size()


def an_empty_rank_stays_away(loss_sum, num_tokens):
    if num_tokens == 0:
        return loss_sum
    total = torch.tensor(float(num_tokens))
    dist.all_reduce(total)
    return loss_sum * dist.get_world_size() / total


def square_roots(loss_sum, num_tokens):
    total = torch.tensor(float(num_tokens))
    dist.all_reduce(total)
    return loss_sum / max(1, num_tokens) ** 0.5 / total**0.5 * dist.get_world_size()


def whole_part_of_the_mean(loss_sum, num_tokens):
    total = torch.tensor(num_tokens)
    dist.all_reduce(total)
    return loss_sum / (total // dist.get_world_size())


# 05.4 train(rank, world_size, model, dataset, num_steps, batch_size, lr)


def mean_over_ranks(loss):
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    return mean.item() / dist.get_world_size()


def sum_over_ranks(loss):
    return mean_over_ranks(loss) * dist.get_world_size()


def loss_of_rank_0(loss):
    loss = loss.detach().clone()
    dist.broadcast(loss, 0)
    return loss.item()


def training(
    *,
    start=two_loops,
    batches=batches_of,
    average=sum_and_divide,
    told=mean_over_ranks,
    make=torch.optim.SGD,
    zero=True,
    step=True,
    most=10**9,
):
    """A right training with one part exchanged, as the parts of `trains`."""

    def trains(rank, world_size, model, dataset, num_steps, batch_size, lr):
        start(model)
        loader = batches(rank, world_size, dataset, batch_size)
        optimizer, losses = make(model.parameters(), lr), []
        for _, (x, y) in zip(range(min(num_steps, most)), loader, strict=False):
            if zero:
                optimizer.zero_grad()
            loss = cross_entropy(model(x).flatten(0, -2), y.flatten())
            loss.backward()
            average(model)
            if step:
                optimizer.step()
            losses.append(told(loss))
        return losses

    return trains


def starts_apart(*arguments):
    return training(start=lambda _: None)(*arguments)


def starts_apart_and_stays_apart(*arguments):
    return training(start=lambda _: None, average=lambda _: None)(*arguments)


def only_parameters_start_equal(*arguments):
    return training(start=buffers_forgotten)(*arguments)


def only_trained_start_equal(*arguments):
    return training(start=only_what_is_trained)(*arguments)


def starts_from_the_last(*arguments):
    return training(start=source_is_the_last_rank)(*arguments)


def never_averages(*arguments):
    return training(average=lambda _: None)(*arguments)


def steps_on_the_sum(*arguments):
    return training(average=sum_for_mean)(*arguments)


def averages_twice(*arguments):
    return training(average=divides_before_and_after)(*arguments)


def keeps_the_gradient_of_rank_0(*arguments):
    return training(average=broadcasts_the_gradient_of_rank_0)(*arguments)


def never_clears(*arguments):
    return training(zero=False)(*arguments)


def with_momentum(*arguments):
    return training(make=lambda parameters, lr: torch.optim.SGD(parameters, lr, momentum=0.9))(*arguments)


def with_adam(*arguments):
    return training(make=torch.optim.Adam)(*arguments)


def never_steps(*arguments):
    return training(step=False)(*arguments)


def returns_own_losses(*arguments):
    return training(told=torch.Tensor.item)(*arguments)


def returns_the_sum(*arguments):
    return training(told=sum_over_ranks)(*arguments)


def returns_the_loss_of_rank_0(*arguments):
    return training(told=loss_of_rank_0)(*arguments)


def returns_the_last_loss(*arguments):
    return training()(*arguments)[-1]


def returns_all_but_the_last(*arguments):
    return training()(*arguments)[:-1]


def looks_too_late(rank, world_size, model, dataset, num_steps, batch_size, lr):
    """The loss of the batch after the step."""
    losses = training()(rank, world_size, model, dataset, num_steps, batch_size, lr)
    x, y = next(batches_of(rank, world_size, dataset, batch_size))
    with torch.no_grad():
        after = mean_over_ranks(cross_entropy(model(x).flatten(0, -2), y.flatten()))
    return [*losses[1:], after]


def one_epoch_only(rank, world_size, model, dataset, num_steps, batch_size, lr):
    one = training(most=-(-len(dataset) // batch_size))
    return one(rank, world_size, model, dataset, num_steps, batch_size, lr)


def epochs_for_steps(rank, world_size, model, dataset, num_steps, batch_size, lr):
    per_epoch = len(range(0, len(dataset), batch_size))
    return training()(rank, world_size, model, dataset, num_steps * per_epoch, batch_size, lr)


def whole_batch_each(*arguments):
    return training(batches=lambda rank, world, data, size: batches_of(rank, world, data, size * world))(*arguments)


def the_share_of_rank_0(*arguments):
    return training(batches=lambda _, world, data, size: batches_of(0, world, data, size))(*arguments)


def a_part_of_the_part(*arguments):
    return training(batches=lambda rank, world, data, size: batches_of(rank, world, data, size // 2))(*arguments)


def cycled(loader):
    for _ in count():
        yield from loader


def always_the_first_batch(*arguments):
    def first(rank, world_size, dataset, batch_size):
        batch = next(batches_of(rank, world_size, dataset, batch_size))
        return cycled([batch])

    return training(batches=first)(*arguments)


def shuffles_alone(*arguments):
    """Each rank shuffles everything with a generator of its own."""

    def own(rank, world_size, dataset, batch_size):
        return cycled(DataLoader(dataset, batch_size // world_size, shuffle=True))

    return training(batches=own)(*arguments)


def unequal_shares(*arguments):
    def every_third(rank, world_size, dataset, batch_size):
        share = Subset(dataset, range(rank, len(dataset), world_size))
        return cycled(DataLoader(share, batch_size // world_size))

    return training(batches=every_third)(*arguments)


def drops_the_last_batch(*arguments):
    def whole_batches(rank, world_size, dataset, batch_size):
        whole = Subset(dataset, range(len(dataset) - len(dataset) % batch_size))
        return batches_of(rank, world_size, whole, batch_size)

    return training(batches=whole_batches)(*arguments)


def rows_of_the_first_dim(rank, world_size, model, dataset, num_steps, batch_size, lr):
    """Takes the logits for (batch, classes); in a sequence the second dim is time."""
    two_loops(model)
    for _, (x, y) in zip(range(num_steps), batches_of(rank, world_size, dataset, batch_size), strict=False):
        cross_entropy(model(x), y).backward()


WRONG = [
    ("05.1", "nothing_sent", nothing_at_all),
    ("05.1", "not_all_parameters", only_the_first_parameter),
    ("05.1", "own_source", source_is_own_rank),
    ("05.1", "wrong_source", source_is_the_last_rank),
    ("05.1", "not_all_ranks", only_rank_0_broadcasts),
    ("05.1", "buffers_forgotten", buffers_forgotten),
    ("05.1", "not_persistent", the_state_dict),
    ("05.1", "frozen_forgotten", only_what_is_trained),
    ("05.1", "re_seeded", draws_the_weights_again),
    ("05.1", "averaged", average_of_the_starts),
    ("05.1", "not_stored", broadcasts_a_copy),
    ("05.1", "replaced", new_parameters),
    ("05.1", "unfrozen", everything_is_trained_now),
    ("05.1", "other_order", each_rank_in_its_own_order),
    ("05.1", "hang", receives_what_nobody_sends),
    ("05.2", "sum_not_mean", sum_for_mean),
    ("05.2", "none_returned", stores_what_all_reduce_returns),
    ("05.2", "none_returned", divides_what_all_reduce_returns),
    ("05.2", "one_rank_kept", broadcasts_the_gradient_of_rank_0),
    ("05.2", "only_some_ranks", reduces_to_rank_0_only),
    ("05.2", "not_all_ranks", only_rank_0_averages),
    ("05.2", "frozen_crash", no_guard),
    ("05.2", "unused_crash", guard_for_frozen_only),
    ("05.2", "not_all_parameters", leaves_the_loop_at_the_first_none),
    ("05.2", "invented_gradient", zeros_for_none),
    ("05.2", "parameters_changed", averages_the_parameters),
    ("05.2", "local_division", only_divides),
    ("05.2", "divided_twice", divides_before_and_after),
    ("05.2", "wrong_factor", two_ranks_for_ever),
    ("05.2", "not_stored", averages_a_copy),
    ("05.2", "not_all_parameters", only_the_weights),
    ("05.2", "other_order", order_of_the_rank),
    ("05.2", "sent_twice", sends_a_tied_weight_twice),
    ("05.2", "tied_twice", divides_a_tied_weight_twice),
    ("05.2", "not_every_step", first_step_only),
    ("05.2", "nothing_averaged", nothing_is_averaged),
    ("05.2", "raised", a_name_that_is_missing),
    ("05.3", "mean_of_means", mean_of_means),
    ("05.3", "not_divided", keeps_the_sum),
    ("05.3", "averaged_away", forgets_the_averaging),
    ("05.3", "weighted_twice", weighs_the_sum_again),
    ("05.3", "wrong_factor", takes_the_largest),
    ("05.3", "wrong_factor", two_ranks_only),
    ("05.3", "no_loss", a_number),
    ("05.3", "no_gradient", cut_off),
    ("05.3", "not_finite", weighs_own_mean),
    ("05.3", "not_all_ranks", an_empty_rank_stays_away),
    ("05.3", "wrong_weights", square_roots),
    ("05.3", "wrong_factor", whole_part_of_the_mean),
    ("05.4", "own_start", starts_apart),
    ("05.4", "own_start", starts_apart_and_stays_apart),
    ("05.4", "buffers_forgotten", only_parameters_start_equal),
    ("05.4", "frozen_forgotten", only_trained_start_equal),
    ("05.4", "wrong_source", starts_from_the_last),
    ("05.4", "own_gradients", never_averages),
    ("05.4", "sum_not_mean", steps_on_the_sum),
    ("05.4", "divided_twice", averages_twice),
    ("05.4", "one_rank_kept", keeps_the_gradient_of_rank_0),
    ("05.4", "not_zeroed", never_clears),
    ("05.4", "momentum", with_momentum),
    ("05.4", "parts_from_one_process", with_adam),
    ("05.4", "no_step", never_steps),
    ("05.4", "own_losses", returns_own_losses),
    ("05.4", "loss_summed", returns_the_sum),
    ("05.4", "other_loss", returns_the_loss_of_rank_0),
    ("05.4", "no_losses", returns_the_last_loss),
    ("05.4", "number_of_losses", returns_all_but_the_last),
    ("05.4", "late_loss", looks_too_late),
    ("05.4", "number_of_steps", one_epoch_only),
    ("05.4", "number_of_steps", epochs_for_steps),
    ("05.4", "global_batch", whole_batch_each),
    ("05.4", "same_share", the_share_of_rank_0),
    ("05.4", "rank_batch", a_part_of_the_part),
    ("05.4", "doubled", always_the_first_batch),
    ("05.4", "doubled", shuffles_alone),
    ("05.4", "uneven_batches", unequal_shares),
    ("05.4", "later_epoch", drops_the_last_batch),
    ("05.4", "raised", rows_of_the_first_dim),
]
