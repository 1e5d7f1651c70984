"""Wrong solutions of lesson 05, each with the hint that must refuse it; several were seen in public solutions."""

import time

import torch
import torch.distributed as dist

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


WRONG = [
    ("05.1", "nothing_sent", nothing_at_all),
    ("05.1", "not_all_parameters", only_the_first_parameter),
    ("05.1", "own_source", source_is_own_rank),
    ("05.1", "wrong_source", source_is_the_last_rank),
    ("05.1", "not_all_ranks", only_rank_0_broadcasts),
    ("05.1", "buffers_forgotten", buffers_forgotten),
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
]
