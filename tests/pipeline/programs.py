"""Functions that the rank tests run on their ranks: a new process can only import what is in a module."""

import copy
import time
from contextlib import nullcontext
from unittest.mock import patch

import torch
import torch.utils.checkpoint
from torch import nn

from pllab.comm import PeerError, all_reduce, map_shared_memory, record_messages, slow_link
from pllab.parallel import num_target_tokens
from pllab.pipeline import (
    LaneExecutor,
    RankExecutor,
    SleepStage,
    ranks,
    tied_weights,
    to_torch,
    wires,
)
from pllab.schedule import Schedule, gpipe, interleaved, one_f_one_b, zb_h1
from pllab.timeline import Timeline
from tests.pipeline.families import (
    GENERATORS,
    any_legal,
    next_token_loss,
    plain_copy,
    stages_of,
    tiny_gpt2,
    tokens,
    worst,
)


def own(schedule: Schedule, stages: list[nn.Sequential], rank: int) -> dict[int, nn.Module]:
    return {stage: stages[stage] for stage in schedule.stages_of_rank(rank)}


def names_of(model: nn.Module, stages: dict[int, nn.Module]) -> set[str]:
    here = {id(parameter) for stage in stages.values() for parameter in stage.parameters()}
    return {name for name, parameter in model.named_parameters() if id(parameter) in here}


def every_family(rank: int, size: int, sizes: list[int]) -> dict[str, tuple[float, float, bool]]:
    """Per family and size: the worst error of a loss and of a gradient, and whether all actions came back."""
    seen = {}
    for family, make in GENERATORS.items():
        for num_microbatches in sizes:
            schedule = make(size, num_microbatches)
            seen[f"{family} {num_microbatches}"] = _against_the_plain_model(schedule, rank)
    return seen


def any_schedules(rank: int, size: int, seeds: list[int]) -> dict[str, tuple[float, float, bool]]:
    made = [any_legal(size, size + seed % 3, 1 + seed % 4, seed) for seed in seeds]
    return {schedule.name: _against_the_plain_model(schedule, rank) for schedule in made}


def _against_the_plain_model(schedule: Schedule, rank: int) -> tuple[float, float, bool]:
    """Two batches of one shape and one of another; only the ends of the pipeline get them."""
    model, batches = tiny_gpt2(), [tokens(7, 1), tokens(7, 2), tokens(5, 3)]
    plain, losses = plain_copy(model, *batches)
    stages = stages_of(model, schedule.num_stages)
    mine = own(schedule, stages, rank)
    executor = RankExecutor(schedule, mine, next_token_loss, tied=tied_weights(stages), timeout_s=20)
    off, whole = 0.0, True
    for ids, loss in zip(batches, losses, strict=True):
        step = executor.step(ids if 0 in mine else None, ids if schedule.num_stages - 1 in mine else None)
        off = max(off, abs(step.loss - loss))
        rows = [[span.action for span in step.timeline.of_rank(row)] for row in range(schedule.num_ranks)]
        whole &= rows == [list(row) for row in schedule.rows] and step.timeline.engine == "real"
    return off, worst(model, plain, names_of(model, mine)), whole


def messages(rank: int, size: int, shares: bool) -> list[list[tuple[str, int, int]]]:
    """What one rank exchanges in three steps and one behind a link: name, number and bytes of each kind of message."""
    schedule = one_f_one_b(size, 4)
    stages = stages_of(tiny_gpt2(), size)
    executor = RankExecutor(schedule, own(schedule, stages, rank), next_token_loss)
    room = map_shared_memory if shares else lambda num_bytes, group: None
    steps = []
    for link in (nullcontext, nullcontext, nullcontext, slow_link):
        with link(), record_messages() as ledger, patch.object(wires, "map_shared_memory", room):
            executor.step(tokens(4), tokens(4))
        names = ("send", "receive", "all_reduce")
        steps.append([(name, ledger.count(name), ledger.num_bytes(name)) for name in names])
    return steps


def lanes_and_ranks(rank: int, size: int) -> tuple[list[float], list[float]]:
    """Losses of three optimizer steps on ranks, and on lanes in one process."""
    schedule = GENERATORS["split 1F1B"](size, 3)
    losses = []
    for on_ranks in (True, False):
        model = tiny_gpt2()
        stages = stages_of(model, size)
        mine = own(schedule, stages, rank)
        parameters = {p for stage in (mine.values() if on_ranks else stages) for p in stage.parameters()}
        optimizer = torch.optim.SGD(parameters, lr=0.5)
        executor = (
            RankExecutor(schedule, mine, next_token_loss, tied=tied_weights(stages))
            if on_ranks
            else LaneExecutor(schedule, stages, next_token_loss)
        )
        steps = []
        for _ in range(3):
            optimizer.zero_grad()
            steps.append(executor.step(tokens(6), tokens(6)).loss)
            optimizer.step()
        losses.append(steps)
        if isinstance(executor, LaneExecutor):
            executor.close()
    return losses[0], losses[1]


def sleeping(rank: int, size: int) -> tuple[float, str, list[str], float]:
    schedule = gpipe(size, 3)
    executor = RankExecutor(schedule, {rank: SleepStage(0.002, 0.004)})
    executor.step()
    loss, timeline = executor.step()
    order = [str(span.action) for span in timeline.of_rank(1)]
    first = {span.action: span for span in timeline.spans}
    waited = min(
        first[action].start - first[action._replace(stage=0)].end for action in schedule.rows[1] if action.kind == "F"
    )
    return loss, timeline.engine, order, waited


class Fails(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise KeyError("no such luck")


def one_rank_fails(rank: int, size: int) -> None:
    stages = [nn.Linear(4, 4), Fails()]
    x = torch.randn(4, 4)
    RankExecutor(gpipe(size, 2), {rank: stages[rank]}, nn.functional.mse_loss, timeout_s=30).step(x, x)


def one_rank_is_late(rank: int, size: int, late: int) -> str:
    """The words of the rank that waits for one that does not come."""
    stages = [nn.Linear(4, 4), nn.Linear(4, 4)]
    executor = RankExecutor(gpipe(size, 2), {rank: stages[rank]}, nn.functional.mse_loss, timeout_s=0.5)
    if rank == late:
        time.sleep(3.0)
        return "late"
    try:
        executor.step(torch.randn(4, 4), torch.randn(4, 4))
    except PeerError as error:
        return str(error)
    return "nothing"


def what_does_not_fit(rank: int, size: int) -> list[str]:
    linear = nn.Linear(4, 4)
    tries = [
        lambda: RankExecutor(gpipe(3, 2), {rank: linear}, nn.functional.mse_loss),
        lambda: RankExecutor(gpipe(2, 2), {1 - rank: linear}, nn.functional.mse_loss),
        lambda: to_torch(gpipe(2, 2), {1 - rank: linear}, nn.functional.mse_loss),
    ]
    words = []
    for attempt in tries:
        try:
            attempt()
        except ValueError as error:
            words.append(str(error))
    return words


def both_executors(rank: int, size: int) -> dict[str, tuple[float, float, bool]]:
    """Per family: our loss and gradients against those of PyTorch's runtime on the same rows."""

    def cells(row) -> list[str]:
        return [str(action) for action in row if action is not None]

    seen = {}
    for family, make in GENERATORS.items():
        schedule = make(size, 4)
        ids = tokens(8)
        models = [tiny_gpt2(), tiny_gpt2()]
        cuts = [stages_of(model, schedule.num_stages) for model in models]
        ours = RankExecutor(schedule, own(schedule, cuts[0], rank), next_token_loss)
        theirs = to_torch(schedule, own(schedule, cuts[1], rank), next_token_loss)
        same_rows = all(cells(row) == cells(theirs.pipeline_order[r]) for r, row in enumerate(schedule.rows))
        loss = ours.step(ids, ids).loss
        off = abs(loss - _their_loss(theirs, schedule, rank, ids))
        mine = names_of(models[0], own(schedule, cuts[0], rank))
        seen[family] = off, worst(models[0], models[1], mine), same_rows
    return seen


def frozen_beginning(rank: int, size: int) -> dict[str, tuple[float, float, bool]]:
    """Per split schedule and number of frozen stages: PyTorch's runtime against the plain model's loss and gradients.

    The last flag says whether what is frozen got no gradient.
    """
    seen, ids = {}, tokens(8)
    for family, num_frozen in (("zb_h1", 1), ("zero_bubble", 1), ("zbv", 1), ("zbv", 2), ("zbv", 3), ("zbv", 0)):
        schedule, model = GENERATORS[family](size, 4), tiny_gpt2()
        stages = stages_of(model, schedule.num_stages)
        for stage in stages[:num_frozen]:
            stage.requires_grad_(False)
        plain, (loss,) = plain_copy(model, ids)
        mine = own(schedule, stages, rank)
        theirs = to_torch(schedule, mine, next_token_loss)
        off = abs(_their_loss(theirs, schedule, rank, ids) - loss)
        names = names_of(model, mine)
        trained = {name for name in names if model.get_parameter(name).requires_grad}
        frozen_is_left = all(model.get_parameter(name).grad is None for name in names - trained)
        worst_of_trained = worst(model, plain, trained) if trained else 0.0
        seen[f"{family}, {num_frozen} stages"] = off, worst_of_trained, frozen_is_left
    return seen


def _their_loss(theirs, schedule: Schedule, rank: int, ids: torch.Tensor) -> float:
    mine, losses = schedule.stages_of_rank(rank), []
    target = {"target": ids, "losses": losses} if schedule.num_stages - 1 in mine else {}
    theirs.step(*([ids] if 0 in mine else []), **target)
    total = torch.tensor([float(sum(loss.item() for loss in losses))])
    all_reduce(total)
    return total.item()


def frozen_and_tied(rank: int, size: int) -> tuple[bool, bool]:
    """Whether a frozen weight of both ranks is left without a gradient, and the bias beside it is not."""
    stages = [nn.Sequential(nn.Linear(4, 4)) for _ in range(2)]
    stages[1][0].weight = stages[0][0].weight
    stages[0][0].weight.requires_grad_(False)
    x = torch.randn(4, 4)
    schedule = one_f_one_b(size, 2)
    tied = tied_weights(stages)
    RankExecutor(schedule, {rank: stages[rank]}, nn.functional.mse_loss, tied=tied, timeout_s=20).step(x, x)
    linear = stages[rank][0]
    return linear.weight.grad is None, linear.bias.grad is not None


def step_after_a_failure(rank: int, size: int) -> tuple[str, str, torch.Tensor | None]:
    """What ends the first step on this rank, the words of the second, and a tied weight's gradient that was 1."""
    stages, x = [nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), Fails())], torch.randn(4, 4)
    weight = stages[1][0].weight = stages[0].weight
    weight.grad, tied = torch.ones(4, 4), tied_weights(stages)
    executor = RankExecutor(gpipe(size, 2), {rank: stages[rank]}, nn.functional.mse_loss, tied=tied, timeout_s=2)
    seen: list[str] = []
    for _ in range(2):
        try:
            executor.step(x, x)
        except (KeyError, PeerError, RuntimeError) as error:
            seen.append(str(error) if seen else type(error).__name__)
    return seen[0], seen[1], weight.grad


def other_rows(rank: int, size: int) -> str:
    """The words of a step whose batch and targets, on different ranks, have different rows."""
    stages = [nn.Linear(4, 4), nn.Linear(4, 4)]
    executor = RankExecutor(gpipe(size, 2), {rank: stages[rank]}, nn.functional.mse_loss, timeout_s=2)
    try:
        executor.step(torch.randn(6, 4), torch.randn(2, 4))
    except (ValueError, PeerError) as error:
        return str(error)
    return "nothing"


def sleeping_with_a_loss(rank: int, size: int) -> float:
    stage = SleepStage(0.001, 0.001)
    return RankExecutor(gpipe(size, 2), {rank: stage}, nn.functional.mse_loss, timeout_s=20).step().loss


class Recomputed(nn.Module):
    """Runs its layer again in backward, outside of whatever surrounded the forward."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.utils.checkpoint.checkpoint(self.layer, x, use_reentrant=False)


def recomputed_and_tied(rank: int, size: int) -> float:
    """The error of the tied weight's gradient on this rank, on top of one that was there before."""
    torch.manual_seed(0)
    stages, x = [Recomputed(), Recomputed()], torch.randn(6, 4)
    weight = stages[1].layer.weight = stages[0].layer.weight
    nn.functional.mse_loss(stages[1](stages[0](x)), x).backward()
    expected, weight.grad = 1.0 + weight.grad, torch.ones(4, 4)
    tied = tied_weights(stages)
    RankExecutor(one_f_one_b(size, 3), {rank: stages[rank]}, nn.functional.mse_loss, tied=tied, timeout_s=20).step(x, x)
    return (weight.grad - expected).abs().max().item()


def few_targets() -> tuple[torch.Tensor, torch.Tensor]:
    """Rows with 7, 2, 0 and 5 tokens to predict, and what is predicted in them."""
    ids = tokens(4)
    labels = ids.clone()
    for row, count in enumerate((7, 2, 0, 5)):
        labels[row, count + 1 :] = -100
    return ids, labels


def mean_over_tokens(rank: int, size: int) -> tuple[float, float, bool]:
    """A row for each micro-batch, and the plain model's mean over all tokens of the batch."""
    model, (ids, labels) = tiny_gpt2(), few_targets()
    schedule, plain = zb_h1(size, 4), copy.deepcopy(model)
    loss = next_token_loss(plain(ids).logits, labels)
    loss.backward()
    cuts = stages_of(model, schedule.num_stages)
    mine, tied = own(schedule, cuts, rank), tied_weights(cuts)
    executor = RankExecutor(schedule, mine, next_token_loss, mean_over=num_target_tokens, tied=tied, timeout_s=20)
    step = executor.step(ids, labels)
    return abs(step.loss - loss.item()), worst(model, plain, names_of(model, mine)), True


IN_PLACE = {
    "relu": lambda: nn.ReLU(inplace=True),
    "relu that leaks, behind a view": lambda: nn.Sequential(nn.Flatten(), nn.LeakyReLU(0.1, inplace=True)),
    "elu": lambda: nn.ELU(inplace=True),
}


def stages_in_place(first: str, num_stages: int) -> list[nn.Sequential]:
    """Each begins in place, and ends with a result that its backward needs again."""
    torch.manual_seed(0)
    return [nn.Sequential(IN_PLACE[first](), nn.Linear(4, 4), nn.Tanh()) for _ in range(num_stages)]


def batch_in_place() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(6, 4, generator=generator), torch.randn(6, 4, generator=generator)


def in_place_on_ranks(rank: int, size: int) -> dict[str, float]:
    """The worst error of a gradient of this rank, by the layer that works in place."""
    schedule, off = interleaved(size, 4), {}
    for first in IN_PLACE:
        stages, (x, y) = stages_in_place(first, schedule.num_stages), batch_in_place()
        plain = copy.deepcopy(nn.Sequential(*stages))
        value = x
        for stage in plain:
            value = stage(value.clone())
        nn.functional.mse_loss(value, y).backward()
        mine = own(schedule, stages, rank)
        RankExecutor(schedule, mine, nn.functional.mse_loss, timeout_s=20).step(x, y)
        pairs = [
            pair
            for number in mine
            for pair in zip(stages[number].parameters(), plain[number].parameters(), strict=True)
        ]
        off[first] = max((ours.grad - theirs.grad).abs().max().item() for ours, theirs in pairs)
    return off


def some_sleep(rank: int, size: int, asleep: tuple[int, ...], with_batch: bool) -> tuple[str, str]:
    """The engine and no words, or no engine and the words of the error, of a step in which some ranks sleep."""
    stage = SleepStage(0.001, 0.001) if rank in asleep else nn.Linear(4, 4)
    executor = RankExecutor(zb_h1(size, 2), {rank: stage}, nn.functional.mse_loss, timeout_s=20)
    x = torch.randn(4, 4)
    try:
        return executor.step(x if with_batch else None, x).timeline.engine, ""
    except (ValueError, PeerError) as error:
        return "", f"{type(error).__name__}: {error}"


def on_two_hosts(rank: int, size: int) -> float:
    """The makespan of 8 sleeps of 5 ms on two hosts, the second of which was started 1000 s before the first."""
    tick = time.perf_counter
    ranks.host_id = lambda: f"host {rank}"
    time.perf_counter = lambda: tick() + 1000 * rank
    schedule = one_f_one_b(2, 2)
    executor = RankExecutor(schedule, {rank: SleepStage(0.005, backward_input_s=0.0025, backward_weight_s=0.0025)})
    executor.step()
    return executor.step().timeline.makespan


def gpt2_on_ranks(rank: int, size: int, schedule: Schedule) -> Timeline:
    """A step of GPT-2's layers by any schedule whose stages are as many as it has, one rank a process."""
    stages = stages_of(tiny_gpt2(), schedule.num_stages)
    executor = RankExecutor(schedule, own(schedule, stages, rank), next_token_loss, tied=tied_weights(stages))
    return executor.step(tokens(schedule.num_microbatches), tokens(schedule.num_microbatches)).timeline
