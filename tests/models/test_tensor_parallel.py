"""A GPT-2 split over ranks against the plain one and against PyTorch's split, on two ranks and on four."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.tensor.parallel import loss_parallel
from torch.testing import assert_close
from transformers import GPT2LMHeadModel

from pllab import comm
from pllab.bench.rivals import tensor_parallel_by_pytorch
from pllab.models import GPT2LMHeadModelParallel, gpt2_config, layers_of, tensor_parallel
from pllab.parallel.tensor import split_of
from pllab.pipeline.stage import Stage, StageWork
from tests.parallel.on_ranks import Programs, failures, run_on, sentence
from tests.parallel.programs import whole_state

ROWS, TIME, WIDTH, VOCABULARY, LAYERS = 3, 8, 64, 301, 2  # two ranks have 151 and 150 words
MODES = {
    "whole logits": {},
    "split logits": {"loss_parallel": True},
    "slices of time": {"sequence_parallel": True},
    "both": {"loss_parallel": True, "sequence_parallel": True},
}
NUM_ITEMS = 7  # what the targets of all ranks that share a batch might be
FROZEN = "transformer.h.0.mlp.c_fc.weight"


def plain(**changes: Any) -> GPT2LMHeadModelParallel:
    torch.manual_seed(0)
    model = GPT2LMHeadModelParallel(gpt2_config("tiny", VOCABULARY, n_layer=LAYERS, **changes))
    for number, parameter in enumerate(model.parameters()):  # biases and norms that are not zeros and ones
        noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number))
        parameter.data += 0.02 * noise
    model.get_parameter(FROZEN).requires_grad_(False)
    return model


def batch(seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(VOCABULARY, (ROWS, TIME), generator=generator)
    labels = ids.clone()
    labels[0, :3] = -100
    labels[1, 5:] = -100  # rows with unequal numbers of targets
    return ids, labels


def whole_gradients(model: nn.Module, mesh: comm.Mesh | None = None) -> dict[str, torch.Tensor | None]:
    """Put the gradients where the weights are, and put those together; a frozen parameter has None."""
    frozen = {name for name, parameter in model.named_parameters() if parameter.grad is None}
    for parameter in model.parameters():
        parameter.data = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    return {name: None if name in frozen else grad.clone() for name, grad in whole_state(model, mesh).items()}


@cache
def expected_step(seed: int = 1) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor | None]]:
    """Loss, logits and gradients of the plain model, under all names of its state."""
    model = plain()
    ids, labels = batch(seed)
    output = model(ids, labels=labels)
    output.loss.backward()
    named = model.named_parameters(remove_duplicate=False)
    return output.loss.detach(), output.logits.detach(), {name: parameter.grad for name, parameter in named}


def assert_same(actual: dict[str, Any], expected: dict[str, Any], factor: float = 1.0) -> None:
    """Every expected tensor, times a factor."""
    scaled = {name: None if value is None else value * factor for name, value in expected.items()}
    assert_close(actual, scaled, rtol=1e-4, atol=1e-6)


def sent(ledger: comm.Ledger) -> list[tuple[str, tuple[int, ...]]]:
    return [(message.name, message.shape) for message in ledger.messages]


# What two ranks run, each with its own checks.

PROGRAMS = Programs()
ACTIVATIONS, HALF = ("all_reduce", (ROWS, TIME, WIDTH)), (ROWS, TIME // 2, WIDTH)


@PROGRAMS.add(mode=tuple(MODES))
def a_step_is_the_plain_model_s_and_so_is_one_of_the_layers_of_a_pipeline(rank: int, size: int, mode: str) -> None:
    loss, logits, gradients = expected_step()
    ids, labels = batch()
    num_targets = int((labels[:, 1:] != -100).sum())
    mine = logits.tensor_split(size, -1)[rank] if MODES[mode].get("loss_parallel") else logits
    model, layers = tensor_parallel(plain(), **MODES[mode]), tensor_parallel(plain(), **MODES[mode])
    with comm.record_messages() as forward:
        output = model(ids, labels=labels)
    with comm.record_messages() as back:
        output.loss.backward()
    assert {block.attn.num_heads for block in model.transformer.h} == {2}
    assert_close((output.loss.detach(), output.logits.detach()), (loss, mine))
    by_items = model(ids, labels=labels, num_items_in_batch=NUM_ITEMS).loss
    assert_close(by_items.detach(), loss * num_targets / NUM_ITEMS)
    assert_same(whole_gradients(model), gradients)
    assert_messages(sent(forward), sent(back), mode)
    chain = nn.Sequential(*layers_of(layers))
    sums = chain((ids, labels))
    sums.sum().backward()
    assert_close(sums.detach(), nn.Sequential(*layers_of(plain()))((ids, labels)).detach())
    assert_close(sums.detach().sum(), loss * num_targets)
    assert_close(chain(ids).detach(), mine)
    assert_same(whole_gradients(layers), gradients, num_targets)


def assert_messages(forward: list[Any], back: list[Any], mode: str) -> None:
    """Two sums of a block each way, or halves of them, and of a split loss no logits."""
    losses = [("all_reduce", (ROWS, TIME)), ("all_reduce", (2, ROWS, TIME))]
    gather, scatter = ("all_gather", HALF), ("reduce_scatter", (2 * ROWS, *HALF[1:]))
    last = losses if MODES[mode].get("loss_parallel") else [("all_gather", (ROWS, TIME, 1, 151))]
    if MODES[mode].get("sequence_parallel"):
        assert forward == [ACTIVATIONS] + [gather, scatter] * 2 * LAYERS + [gather] + last
        norm = ("all_reduce", (2, WIDTH))
        # From the end: the head's scatter and last norm; per pair a gather, a scatter and a norm; the embedding's time.
        assert back == [scatter, norm] + [gather, scatter, norm] * 2 * LAYERS + [gather]
    else:  # the embedding sends one sum forward, the head one backward
        assert forward == [ACTIVATIONS] * (1 + 2 * LAYERS) + last
        assert back == [ACTIVATIONS] * (1 + 2 * LAYERS)


def train(model: nn.Module) -> list[float]:
    """The losses of three steps."""
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5, momentum=0.9)
    losses = []
    for number in range(3):
        optimizer.zero_grad()
        ids, labels = batch(number)
        loss = model(ids, labels=labels).loss
        with loss_parallel():  # for PyTorch's split; other backwards do not notice
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@PROGRAMS.add(mode=tuple(MODES))
def three_steps_train_the_plain_model_and_keep_replicas_equal_in_bits(rank: int, size: int, mode: str) -> None:
    whole, model = plain(), tensor_parallel(plain(), **MODES[mode])
    train(whole)
    train(model)
    replicas = {name: p.detach() for name, p in model.named_parameters() if not split_of(p)}
    assert model.lm_head.weight is model.transformer.wte.weight
    assert_same(whole_state(model), whole.state_dict())
    assert_close(*comm.all_gather_object(replicas), rtol=0, atol=0)


@PROGRAMS.add()
def pytorch_s_split_trains_the_plain_model(rank: int, size: int) -> None:
    assert train(tensor_parallel_by_pytorch(plain())) == pytest.approx(train(plain()), rel=1e-4)


@PROGRAMS.add(tied=(True, False))
def the_whole_state_is_the_state_before_bit_for_bit(rank: int, size: int, tied: bool) -> None:
    model, before = tensor_parallel(plain(tie_word_embeddings=tied)), plain(tie_word_embeddings=tied).state_dict()
    state = whole_state(model)
    assert list(state) == list(before)
    assert_close(state, dict(before), rtol=0, atol=0)
    assert sum(split_of(parameter) is not None for parameter in model.parameters()) == LAYERS * 6 + (1 if tied else 2)


@PROGRAMS.add()
def generation_is_the_plain_model_s(rank: int, size: int) -> None:
    model = tensor_parallel(plain(), loss_parallel=True)
    model.lm_head.gather_output = True
    given = {"max_new_tokens": 6, "do_sample": False}
    ids = batch()[0][:1]
    assert torch.equal(model.eval().generate(ids, **given), plain().eval().generate(ids, **given))


def dropped(layer: nn.Module) -> list[torch.Tensor]:
    """Where a layer's outputs are 0, of each of its forwards from now on."""
    seen: list[torch.Tensor] = []
    layer.register_forward_hook(lambda _, __, y: seen.append((y[1] if isinstance(y, tuple) else y) == 0))
    return seen


def masks(model: nn.Module, places: list[nn.Module], stage: nn.Module, x: torch.Tensor) -> list[list[torch.Tensor]]:
    """The masks of two steps, and then of micro-batches 0, 0 again, and 1 of a stage."""
    seen = [dropped(place) for place in places]
    ids, labels = batch()
    torch.manual_seed(5)
    for _ in range(2):
        model(ids, labels=labels)
    assert torch.equal(*comm.all_gather_object(torch.get_rng_state()))
    work = StageWork(Stage(0, stage, torch.device("cpu")), 7)
    for microbatch in (0, 0, 1):
        work.run(microbatch, [x])
    return seen


def assert_masks(seen: list[torch.Tensor], *, are_equal: bool) -> None:
    """They follow the seed and the micro-batch, and are equal on both ranks or differ."""
    first, second, once, again, other = seen
    assert not torch.equal(first, second)
    assert torch.equal(once, again) and not torch.equal(once, other)
    for mine, theirs in zip(*comm.all_gather_object(seen), strict=True):
        assert mine.any() and torch.equal(mine, theirs) == are_equal


@PROGRAMS.add()
def masks_differ_between_heads_of_two_ranks_and_are_equal_where_values_are_whole(rank: int, size: int) -> None:
    model = tensor_parallel(plain(dropout=0.5))
    first, x = model.transformer.h[0], torch.ones(ROWS, TIME, WIDTH)
    heads, features = masks(model, [first.attn, first.mlp], layers_of(model)[1], x)
    assert heads[0].shape == (ROWS, 2, TIME, TIME)
    assert_masks(heads, are_equal=False)
    assert_masks(features, are_equal=True)


@PROGRAMS.add()
def masks_of_two_slices_of_time_differ(rank: int, size: int) -> None:
    model = tensor_parallel(plain(dropout=0.5, attn_implementation="sdpa"), sequence_parallel=True)
    first = model.transformer.h[0]
    places = [model.transformer.drop, first.attn.last_dropout, first.mlp.dropout]
    for seen in masks(model, places, nn.Sequential(*layers_of(model)[:2]), batch()[0]):
        assert seen[0].shape == HALF
        assert_masks(seen, are_equal=False)


@PROGRAMS.add()
def without_dropout_in_attention_the_masks_are_the_plain_model_s(rank: int, size: int) -> None:
    """Nothing that is split drops."""
    ids, labels = batch()
    models = [plain(resid_pdrop=0.3, embd_pdrop=0.3) for _ in range(2)]
    losses = []
    for model in (models[0], tensor_parallel(models[1])):
        torch.manual_seed(5)
        losses.append(model(ids, labels=labels).loss.detach())
    assert_close(*losses)


@PROGRAMS.add()
def refusals_are_one_sentence_before_any_message(rank: int, size: int) -> None:
    ids, _ = batch()
    sliced, lanes = tensor_parallel(plain(), sequence_parallel=True), plain()
    lanes.parallelize(["cpu:0", "cpu:1"])
    eager = plain(attn_implementation="eager")
    refused: list[tuple[Callable[[], object], str]] = [
        (
            lambda: tensor_parallel(plain(n_head=1, n_embd=WIDTH)),
            "the number of heads is 1, which 2 ranks cannot share equally; give a multiple of 2",
        ),
        (lambda: tensor_parallel(sliced), "is tensor parallel already"),
        (lambda: tensor_parallel(lanes), "runs on lanes"),
        (lambda: tensor_parallel(eager, sequence_parallel=True), "attention is 'eager'"),
        (lambda: sliced(ids[:, :-1]), "the time of a row under sequence_parallel is 7, which 2 ranks cannot"),
        (lambda: sliced.parallelize(["cpu:0", "cpu:1"]), "ranks have split the layers of this model"),
    ]
    with comm.record_messages() as ledger:
        for action, words in refused:
            assert words in sentence(action)
    lanes.close()
    assert sent(ledger) == [ACTIVATIONS[:1] + ((ROWS, TIME - 1, WIDTH),)]  # of the embedding, before the time is known


failed, test_two_ranks = run_on(PROGRAMS, 2)


def two_by_two(rank: int, world_size: int) -> None:
    """On a mesh each pair of ranks has a model and a batch of its own."""
    mesh = comm.make_mesh(dp=2, tp=2)
    model = tensor_parallel(plain(), mesh=mesh, loss_parallel=True, sequence_parallel=True)
    ids, labels = batch(rank // 2)
    model(ids, labels=labels).loss.backward()
    assert_same(whole_gradients(model, mesh), expected_step(rank // 2)[2])


def test_on_a_mesh_each_pair_of_ranks_has_a_model_and_a_batch_of_its_own() -> None:
    assert comm.launch(failures, 4, {"two by two": two_by_two}, backend="gloo", timeout_s=120) == [{}] * 4


@pytest.mark.parametrize("mode", MODES)
def test_alone_it_is_the_plain_model(mode: str) -> None:
    whole = plain()
    model = GPT2LMHeadModel(whole.config)
    model.load_state_dict(whole.state_dict())
    model.get_parameter(FROZEN).requires_grad_(False)
    loss, logits, gradients = expected_step()
    ids, labels = batch()
    with comm.record_messages() as ledger:
        output = tensor_parallel(model, **MODES[mode])(ids, labels=labels)
        output.loss.backward()
    assert_close((output.loss.detach(), output.logits.detach()), (loss, logits))
    assert_same({n: p.grad for n, p in model.named_parameters(remove_duplicate=False)}, gradients)
    assert all(message.num_bytes <= 2 * 4 * ROWS * TIME for message in ledger.messages)
    assert {n: v.shape for n, v in model.state_dict().items()} == {n: v.shape for n, v in whole.state_dict().items()}


def test_alone_it_also_runs_on_lanes_where_a_shadow_stands_for_the_tied_weight() -> None:
    model = tensor_parallel(plain(), loss_parallel=True)
    model.prepare_pipeline_parallel(2)
    loss, _, gradients = expected_step()
    ids, labels = batch()
    output = model(ids, labels=labels)
    output.loss.backward()
    model.close()
    assert_close(output.loss.detach(), loss)
    assert_same({n: p.grad for n, p in model.named_parameters(remove_duplicate=False)}, gradients)
