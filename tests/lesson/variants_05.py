"""Right solutions of lesson 05 that look different."""

from itertools import count

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, DistributedSampler

from pllab import comm, parallel
from pllab.data import partition_dataset
from pllab.train import train_data_parallel

# 05.1


def two_loops(model):
    for parameter in model.parameters():
        dist.broadcast(parameter.data, 0)
    for buffer in model.buffers():
        dist.broadcast(buffer, 0)


@torch.no_grad()
def without_gradients(model):
    for tensor in [*model.buffers(), *model.parameters()]:
        dist.broadcast(tensor, src=0)


def one_parcel(model):
    parcel = [[*map(torch.Tensor.detach, model.parameters()), *model.buffers()]]
    mine = parcel[0]
    dist.broadcast_object_list(parcel, 0)
    for tensor, value in zip(mine, parcel[0], strict=True):
        tensor.copy_(value)


def letters_to_everyone(model):
    for tensor in [*map(torch.Tensor.detach, model.parameters()), *model.buffers()]:
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


# 05.4


def batches_of(rank, world_size, dataset, batch_size):
    """This rank's batches, epoch after epoch, by the package."""
    loader = partition_dataset(rank, world_size, dataset, batch_size)
    for epoch in count():
        loader.set_epoch(epoch)
        yield from loader


def one_loop(rank, world_size, model, dataset, num_steps, batch_size, lr):
    two_loops(model)
    batches = batches_of(rank, world_size, dataset, batch_size)
    optimizer = torch.optim.SGD(model.parameters(), lr)
    losses = []
    for _ in range(num_steps):
        x, y = next(batches)
        logits = model(x)
        loss = cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        sum_and_divide(model)
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / world_size)
    return losses


def by_hand(rank, world_size, model, dataset, num_steps, batch_size, lr):
    """No loader, no optimizer: positions go round and round, and the losses are summed after the last step."""
    without_gradients(model)
    per_rank, losses = batch_size // world_size, torch.zeros(num_steps)
    for step in range(num_steps):
        start = step * batch_size + rank * per_rank
        samples = [dataset[place % len(dataset)] for place in range(start, start + per_rank)]
        x, y = (torch.stack(parts) for parts in zip(*samples, strict=True))
        loss = cross_entropy(model(x).flatten(0, -2), y.flatten())
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        gradients = torch.autograd.grad(loss, trained, allow_unused=True)
        for parameter, gradient in zip(trained, gradients, strict=True):
            if gradient is not None:
                dist.all_reduce(gradient)
                parameter.data.sub_(gradient, alpha=lr / world_size)
        losses[step] = loss.detach()
    dist.all_reduce(losses)
    return (losses / world_size).tolist()


def with_torchs_sampler(rank, world_size, model, dataset, num_steps, batch_size, lr):
    one_parcel(model)
    sampler = DistributedSampler(dataset, world_size, rank, shuffle=True, seed=3)
    loader = DataLoader(dataset, batch_size // world_size, sampler=sampler)
    optimizer, losses, epoch = torch.optim.SGD(model.parameters(), lr), [], 0
    while len(losses) < num_steps:
        sampler.set_epoch(epoch)
        epoch += 1
        for x, y in loader:
            optimizer.zero_grad()
            loss = cross_entropy(model(x).flatten(0, -2), y.flatten())
            loss.backward()
            mean_by_the_backend(model)
            optimizer.step()
            with torch.no_grad():
                model(x)  # a look at the batch again, without training
            losses.append(comm.all_gather_object(loss.item()))
            if len(losses) == num_steps:
                break
    return [sum(of_ranks) / world_size for of_ranks in losses]


RIGHT = {
    "05.1": [
        two_loops,
        without_gradients,
        one_parcel,
        letters_to_everyone,
        zero_and_sum,
        parallel.broadcast_parameters,
    ],
    "05.2": [
        sum_and_divide,
        divide_and_sum,
        mean_by_the_backend,
        reduce_and_broadcast,
        gather_and_mean,
        all_at_once_then_wait,
        one_flat_message,
        parallel.average_gradients,
    ],
    "05.3": [world_over_total, mean_number_of_targets, counts_of_all, parallel.token_weighted],
    "05.4": [one_loop, by_hand, with_torchs_sampler, train_data_parallel],
}
