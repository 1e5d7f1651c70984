"""Right solutions of lesson 05 that look different."""

import torch
import torch.distributed as dist

from pllab import comm, parallel

# 05.1


def two_loops(model):
    for parameter in model.parameters():
        dist.broadcast(parameter.data, 0)
    for buffer in model.buffers():
        dist.broadcast(buffer, 0)


def the_state_dict(model):
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, src=0)


def one_parcel(model):
    parcel = [model.state_dict()]
    dist.broadcast_object_list(parcel, 0)
    model.load_state_dict(parcel[0])


def letters_to_everyone(model):
    for tensor in model.state_dict().values():
        if dist.get_rank() == 0:
            for other in range(1, dist.get_world_size()):
                dist.send(tensor, other)
        else:
            dist.recv(tensor, 0)


def zero_and_sum(model):
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            if comm.rank():
                tensor.zero_()
            comm.all_reduce(tensor)


# 05.2


def sum_and_divide(model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
            parameter.grad /= dist.get_world_size()


def divide_and_sum(model):
    for parameter in model.parameters():
        if parameter.grad is None:
            continue
        parameter.grad.div_(comm.world_size())
        comm.all_reduce(parameter.grad)


def mean_by_the_backend(model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)


def reduce_and_broadcast(model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.reduce(parameter.grad, 0)
            parameter.grad /= dist.get_world_size()
            dist.broadcast(parameter.grad, 0)


def gather_and_mean(model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            parts = [torch.empty_like(parameter.grad) for _ in range(dist.get_world_size())]
            dist.all_gather(parts, parameter.grad)
            parameter.grad = torch.stack(parts).mean(0)


def all_at_once_then_wait(model):
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    for work in [dist.all_reduce(gradient, async_op=True) for gradient in gradients]:
        work.wait()
    for gradient in gradients:
        gradient /= dist.get_world_size()


def one_flat_message(model):
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients]) / dist.get_world_size()
    dist.all_reduce(flat)
    for gradient, part in zip(gradients, flat.split([gradient.numel() for gradient in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


# 05.3


def world_over_total(loss_sum, num_tokens):
    total = torch.tensor(float(num_tokens))
    dist.all_reduce(total)
    return loss_sum * dist.get_world_size() / total


def mean_number_of_targets(loss_sum, num_tokens):
    average = torch.tensor([num_tokens], dtype=torch.float64)
    dist.all_reduce(average, op=dist.ReduceOp.AVG)
    return loss_sum / average.item()


def counts_of_all(loss_sum, num_tokens):
    counts = [None] * dist.get_world_size()
    dist.all_gather_object(counts, num_tokens)
    return loss_sum / (sum(counts) / len(counts))


RIGHT = [
    ("05.1", two_loops),
    ("05.1", the_state_dict),
    ("05.1", one_parcel),
    ("05.1", letters_to_everyone),
    ("05.1", zero_and_sum),
    ("05.1", parallel.broadcast_parameters),
    ("05.2", sum_and_divide),
    ("05.2", divide_and_sum),
    ("05.2", mean_by_the_backend),
    ("05.2", reduce_and_broadcast),
    ("05.2", gather_and_mean),
    ("05.2", all_at_once_then_wait),
    ("05.2", one_flat_message),
    ("05.2", parallel.average_gradients),
    ("05.3", world_over_total),
    ("05.3", mean_number_of_targets),
    ("05.3", counts_of_all),
    ("05.3", parallel.token_weighted),
]
