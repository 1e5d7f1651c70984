"""A GPT-2 split over ranks against the plain one and against PyTorch's split; two ranks, started once, and four."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.tensor.parallel import loss_parallel
from transformers import GPT2LMHeadModel

from pllab import comm
from pllab.bench.rivals import tensor_parallel_by_pytorch
from pllab.models import GPT2LMHeadModelParallel, gpt2_config, layers_of, tensor_parallel
from pllab.parallel.tensor import split_of
from pllab.pipeline.stage import Stage, StageWork
from tests.parallel.programs import whole_state

Results = list[dict[str, Any]]
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


def whole_gradients(model: nn.Module) -> dict[str, torch.Tensor | None]:
    """Put the gradients where the weights are, and put those together; a frozen parameter has None."""
    frozen = {name for name, parameter in model.named_parameters() if parameter.grad is None}
    for parameter in model.parameters():
        parameter.data = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    return {name: None if name in frozen else grad.clone() for name, grad in whole_state(model).items()}


def step(mode: str) -> dict[str, Any]:
    """Loss, logits and gradients of one step, and the messages that it sent."""
    model = tensor_parallel(plain(), **MODES[mode])
    ids, labels = batch()
    with comm.record_messages() as forward:
        output = model(ids, labels=labels)
    with comm.record_messages() as back:
        output.loss.backward()
    return {
        "loss": output.loss.detach(),
        "logits": output.logits.detach(),
        "loss by num_items": model(ids, labels=labels, num_items_in_batch=NUM_ITEMS).loss.detach(),
        "forward": [(message.name, message.shape) for message in forward.messages],
        "backward": [(message.name, message.shape) for message in back.messages],
        "num_heads": {block.attn.num_heads for block in model.transformer.h},
        "gradients": whole_gradients(model),
    }


def chain(mode: str) -> dict[str, Any]:
    """The same through the layers of a pipeline: a loss sum for each row, and logits."""
    model = tensor_parallel(plain(), **MODES[mode])
    ids, labels = batch()
    sequential = nn.Sequential(*layers_of(model))
    sums = sequential((ids, labels))
    sums.sum().backward()
    logits = sequential(ids).detach()
    return {"sums": sums.detach(), "logits": logits, "gradients": whole_gradients(model)}


def train(model: nn.Module, num_steps: int = 3) -> None:
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5, momentum=0.9)
    for number in range(num_steps):
        optimizer.zero_grad()
        ids, labels = batch(number)
        model(ids, labels=labels).loss.backward()
        optimizer.step()


def trained(mode: str) -> dict[str, Any]:
    model = tensor_parallel(plain(), **MODES[mode])
    train(model)
    whole = {name: p.detach() for name, p in model.named_parameters() if not split_of(p)}
    return {
        "state": whole_state(model),
        "replicas": whole,
        "is_tied": model.lm_head.weight is model.transformer.wte.weight,
    }


def by_pytorch(rank: int) -> dict[str, Any]:
    model = tensor_parallel_by_pytorch(plain())
    ids, labels = batch()
    output = model(ids, labels=labels)
    with loss_parallel():
        output.loss.backward()
    grads = {n: None if p.grad is None else p.grad for n, p in model.named_parameters()}
    whole = {n: g.full_tensor() if hasattr(g, "full_tensor") else g for n, g in grads.items()}
    again = model(ids, labels=labels, num_items_in_batch=NUM_ITEMS).loss.detach()
    return {"loss": output.loss.detach(), "loss by num_items": again, "gradients": whole}


def round_trips(rank: int) -> dict[str, Any]:
    """The state dict after the split, and how many messages gather it, tied and untied."""
    results = {}
    for tied in (True, False):
        model = tensor_parallel(plain(tie_word_embeddings=tied))
        with comm.record_messages() as ledger:
            state = whole_state(model)
        num_split = sum(split_of(parameter) is not None for parameter in model.parameters())
        results[f"tied {tied}"] = {"state": state, "num_messages": ledger.count(), "num_split": num_split}
    return results


def generated(rank: int) -> list[int]:
    model = tensor_parallel(plain(), loss_parallel=True).eval()
    model.lm_head.gather_output = True
    return model.generate(batch()[0][:1], max_new_tokens=6, do_sample=False)[0].tolist()


def dropped(layer: nn.Module) -> Callable[[], list[torch.Tensor]]:
    """Watch where a layer's outputs are 0; returns a function that lists what was seen."""
    seen: list[torch.Tensor] = []
    layer.register_forward_hook(lambda _, __, y: seen.append((y[1] if isinstance(y, tuple) else y) == 0))
    return lambda: seen


def dropout(rank: int) -> dict[str, Any]:
    """Masks of attention by head, and of whole and of sliced activations, in a plain run and inside a stage."""
    results: dict[str, Any] = {}
    ids, labels = batch()
    model = tensor_parallel(plain(dropout=0.5))
    first, whole = model.transformer.h[0], model.transformer.h[0].mlp
    heads, features = dropped(first.attn), dropped(whole)
    torch.manual_seed(5)
    for _ in range(2):
        model(ids, labels=labels)
    results["heads"], results["whole"] = heads()[:], features()[:]
    results["generator"] = torch.get_rng_state()
    heads().clear(), features().clear()
    work, hidden = _work(layers_of(model)[1]), torch.randn(ROWS, TIME, WIDTH)
    for microbatch in (0, 0, 1):
        work.run(microbatch, [hidden])
    results["heads in a stage"], results["whole in a stage"] = heads()[:], features()[:]

    model = tensor_parallel(plain(dropout=0.5, attn_implementation="sdpa"), sequence_parallel=True)
    places = (model.transformer.drop, model.transformer.h[0].attn.last_dropout, model.transformer.h[0].mlp.dropout)
    slices = [dropped(place) for place in places]
    torch.manual_seed(5)
    model(ids, labels=labels)
    results["slices"] = [seen()[0] for seen in slices]
    work = _work(nn.Sequential(*layers_of(model)[:2]))
    for microbatch in (0, 0, 1):
        work.run(microbatch, [ids])
    results["slices in a stage"] = [seen()[1:] for seen in slices]
    return results


def _work(layers: nn.Module) -> StageWork:
    return StageWork(Stage(0, layers, torch.device("cpu")), 7)


def residual_dropout(rank: int) -> torch.Tensor:
    """Without dropout in attention nothing that is split drops, so the masks are those of the plain model."""
    model = tensor_parallel(plain(resid_pdrop=0.3, embd_pdrop=0.3))
    return seeded_loss(model)


def seeded_loss(model: nn.Module) -> torch.Tensor:
    torch.manual_seed(5)
    ids, labels = batch()
    return model(ids, labels=labels).loss.detach()


def refusals(rank: int) -> dict[str, str]:
    ids, _ = batch()
    sliced = tensor_parallel(plain(), sequence_parallel=True)
    lanes = plain()
    lanes.parallelize(["cpu:0", "cpu:1"])
    actions: dict[str, Callable[[], object]] = {
        "heads": lambda: tensor_parallel(plain(n_head=1, n_embd=WIDTH)),
        "other": lambda: tensor_parallel(nn.Linear(2, 2)),
        "twice": lambda: tensor_parallel(sliced),
        "lanes": lambda: tensor_parallel(lanes),
        "eager": lambda: tensor_parallel(plain(attn_implementation="eager"), sequence_parallel=True),
        "time": lambda: sliced(ids[:, :-1]),
        "lanes afterwards": lambda: sliced.parallelize(["cpu:0", "cpu:1"]),
    }
    said = {}
    with comm.record_messages() as ledger:
        for name, action in actions.items():
            try:
                action()
            except ValueError as error:
                said[name] = str(error)
    lanes.close()
    return said | {"messages": str([message.name for message in ledger.messages])}


def everything(rank: int, world_size: int) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for mode in MODES:
        results |= {f"step {mode}": step(mode), f"chain {mode}": chain(mode), f"trained {mode}": trained(mode)}
    for program in (by_pytorch, round_trips, generated, dropout, residual_dropout, refusals):
        results[program.__name__] = program(rank)
    return results


@pytest.fixture(scope="module")
def ranks(launch_quickly: Any) -> Results:
    return launch_quickly(everything, 2)


@cache
def expected_step() -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor | None]]:
    model = plain()
    ids, labels = batch()
    output = model(ids, labels=labels)
    output.loss.backward()
    return output.loss.detach(), output.logits.detach(), {n: p.grad for n, p in model.named_parameters()}


def assert_same(actual: dict[str, Any], expected: dict[str, Any], factor: float = 1.0) -> None:
    """Every expected tensor, times a factor, is there; `actual` may have the tied weight twice."""
    for name, value in expected.items():
        if value is None:
            assert actual[name] is None, name
        else:
            torch.testing.assert_close(
                actual[name], value * factor, rtol=1e-4, atol=1e-6, msg=lambda text, n=name: f"{n}: {text}"
            )


@pytest.mark.ranks
@pytest.mark.parametrize("mode", MODES)
def test_a_step_is_the_plain_model_s_and_so_is_one_of_the_layers_of_a_pipeline(ranks: Results, mode: str) -> None:
    loss, logits, gradients = expected_step()
    assert gradients[FROZEN] is None
    num_targets = int((batch()[1][:, 1:] != -100).sum())
    sums = nn.Sequential(*layers_of(plain()))(batch()).detach()
    torch.testing.assert_close(sums.sum(), loss * num_targets)
    for rank, result in enumerate(ranks):
        whole, layers = result[f"step {mode}"], result[f"chain {mode}"]
        torch.testing.assert_close(whole["loss"], loss)
        torch.testing.assert_close(whole["loss by num_items"], loss * num_targets / NUM_ITEMS)
        torch.testing.assert_close(layers["sums"], sums)
        mine = logits.tensor_split(2, -1)[rank] if MODES[mode].get("loss_parallel") else logits
        for got, factor in ((whole, 1), (layers, num_targets)):
            torch.testing.assert_close(got["logits"], mine)
            assert_same(got["gradients"], gradients, factor)
        assert whole["num_heads"] == {2}


@pytest.mark.ranks
@pytest.mark.parametrize("mode", MODES)
def test_three_steps_train_the_plain_model_and_keep_replicas_equal_in_bits(ranks: Results, mode: str) -> None:
    model = plain()
    train(model)
    for result in ranks:
        got = result[f"trained {mode}"]
        assert got["is_tied"]
        assert_same(got["state"], model.state_dict())
        for name, value in got["replicas"].items():
            assert torch.equal(value, ranks[0][f"trained {mode}"]["replicas"][name]), name


@pytest.mark.ranks
def test_pytorch_s_split_gives_the_same(ranks: Results) -> None:
    for result in ranks:
        theirs, ours = result["by_pytorch"], result["step split logits"]
        for loss in ("loss", "loss by num_items"):
            torch.testing.assert_close(theirs[loss], ours[loss])
        for name, gradient in theirs["gradients"].items():
            layer, _, rest = name.partition(".c_attn.")
            if rest:  # q, k and v, each (out, in)
                part, kind = rest.split(".")
                mine = ours["gradients"][f"{layer}.c_attn.{kind}"].chunk(3, -1)["qkv".index(part)]
            else:
                mine = ours["gradients"][name]
            if gradient is None or mine is None:
                assert gradient is mine is None and name == FROZEN
            else:
                is_turned = gradient.dim() == 2 and ".h." in name
                assert_same({name: gradient}, {name: mine.t() if is_turned else mine})


ACTIVATIONS, HALF = ("all_reduce", (ROWS, TIME, WIDTH)), (ROWS, TIME // 2, WIDTH)


@pytest.mark.ranks
def test_a_block_sends_two_sums_forward_and_two_backward_and_the_loss_no_logits(ranks: Results) -> None:
    losses = [("all_reduce", (ROWS, TIME)), ("all_reduce", (2, ROWS, TIME))]
    for result in ranks:
        for mode, sends in (("split logits", losses), ("whole logits", [("all_gather", (ROWS, TIME, 1, 151))])):
            # The embedding sends one sum forward, the head one backward.
            assert result[f"step {mode}"]["forward"] == [ACTIVATIONS] * (1 + 2 * LAYERS) + sends
            assert result[f"step {mode}"]["backward"] == [ACTIVATIONS] * (1 + 2 * LAYERS)


@pytest.mark.ranks
def test_slices_of_time_turn_each_sum_into_two_halves(ranks: Results) -> None:
    gather, scatter = ("all_gather", HALF), ("reduce_scatter", (2 * ROWS, *HALF[1:]))
    for result in ranks:
        got = result["step both"]
        assert got["forward"][:-2] == [ACTIVATIONS] + [gather, scatter] * 2 * LAYERS + [gather]
        norm = ("all_reduce", (2, WIDTH))
        # From the end: the head's scatter and last norm; per pair a gather, a scatter and a norm; the embedding's time.
        assert got["backward"] == [scatter, norm] + [gather, scatter, norm] * 2 * LAYERS + [gather]


@pytest.mark.ranks
def test_the_whole_state_is_the_state_before_bit_for_bit(ranks: Results) -> None:
    for result in ranks:
        for tied in (True, False):
            got, before = result["round_trips"][f"tied {tied}"], plain(tie_word_embeddings=tied).state_dict()
            assert list(got["state"]) == list(before)
            assert all(torch.equal(got["state"][name], value) for name, value in before.items())
            assert got["num_messages"] == got["num_split"] == LAYERS * 6 + (1 if tied else 2)


@pytest.mark.ranks
def test_generation_is_the_plain_model_s(ranks: Results) -> None:
    expected = plain().eval().generate(batch()[0][:1], max_new_tokens=6, do_sample=False)[0].tolist()
    assert [result["generated"] for result in ranks] == [expected] * 2


@pytest.mark.ranks
@pytest.mark.parametrize("where", ["", " in a stage"])
def test_masks_differ_between_heads_of_two_ranks_and_are_equal_where_values_are_whole(
    ranks: Results, where: str
) -> None:
    first, second = (result["dropout"] for result in ranks)
    for mine, other in zip(first[f"heads{where}"], second[f"heads{where}"], strict=True):
        assert mine.shape == (ROWS, 2, TIME, TIME) and not torch.equal(mine, other)
    for mine, other in zip(first[f"whole{where}"], second[f"whole{where}"], strict=True):
        assert mine.any() and torch.equal(mine, other)
    assert torch.equal(first["generator"], second["generator"])


@pytest.mark.ranks
def test_masks_follow_the_seed_and_the_micro_batch(ranks: Results) -> None:
    for result in ranks:
        masks = result["dropout"]
        assert not torch.equal(*masks["heads"])  # of two steps
        for seen in (masks["heads in a stage"], masks["whole in a stage"], *masks["slices in a stage"]):
            once, again, other = seen
            assert torch.equal(once, again) and not torch.equal(once, other)


@pytest.mark.ranks
def test_masks_of_two_slices_of_time_differ(ranks: Results) -> None:
    first, second = (result["dropout"] for result in ranks)
    for mine, other in zip(first["slices"], second["slices"], strict=True):
        assert mine.shape == HALF and not torch.equal(mine, other)
    for mine, other in zip(first["slices in a stage"], second["slices in a stage"], strict=True):
        assert all(not torch.equal(*pair) for pair in zip(mine, other, strict=True))


@pytest.mark.ranks
def test_without_dropout_in_attention_the_masks_are_the_plain_model_s(ranks: Results) -> None:
    expected = seeded_loss(plain(resid_pdrop=0.3, embd_pdrop=0.3))
    for result in ranks:
        torch.testing.assert_close(result["residual_dropout"], expected)


@pytest.mark.ranks
def test_refusals_are_one_sentence_before_any_message(ranks: Results) -> None:
    for result in ranks:
        said = result["refusals"]
        heads = "the number of heads is 1, which 2 ranks cannot share equally; give a multiple of 2"
        assert said["heads"] == heads
        assert said["other"] == "a Linear is not a GPT-2, the one model that can be split; give a GPT2LMHeadModel"
        assert "is tensor parallel already" in said["twice"]
        assert "runs on lanes" in said["lanes"]
        assert "attention is 'eager'" in said["eager"] and "attn_implementation='sdpa'" in said["eager"]
        assert said["time"].startswith("the time of a row under sequence_parallel is 7, which 2 ranks cannot")
        assert said["lanes afterwards"].startswith("ranks have split the layers of this model")
        assert said["messages"] == "['all_reduce']"  # of the embedding, before the time is known


def two_by_two(rank: int, world_size: int) -> dict[str, Any]:
    mesh = comm.make_mesh(dp=2, tp=2)
    group = comm.group_of(mesh, "tp")
    model = tensor_parallel(plain(), mesh=mesh, loss_parallel=True, sequence_parallel=True)
    ids, labels = batch(rank // 2)
    model(ids, labels=labels).loss.backward()
    for parameter in model.parameters():
        parameter.data = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    return whole_state(model, group)


@pytest.mark.ranks
def test_on_a_mesh_each_pair_of_ranks_has_a_model_and_a_batch_of_its_own(quick_ranks: None) -> None:
    for rank, gradients in enumerate(comm.launch(two_by_two, 4, backend="gloo", timeout_s=120.0)):
        model = plain()
        ids, labels = batch(rank // 2)
        model(ids, labels=labels).loss.backward()
        assert_same(
            gradients, {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in model.named_parameters()}
        )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [GPT2LMHeadModel, GPT2LMHeadModelParallel])
def test_alone_it_is_the_plain_model(mode: str, kind: type[GPT2LMHeadModel]) -> None:
    whole = plain()
    model = kind(whole.config)
    model.load_state_dict(whole.state_dict())
    loss, logits, gradients = expected_step()
    ids, labels = batch()
    with comm.record_messages() as ledger:
        output = tensor_parallel(model, **MODES[mode])(ids, labels=labels)
        output.loss.backward()
    torch.testing.assert_close(output.loss.detach(), loss)
    torch.testing.assert_close(output.logits.detach(), logits)
    assert_same({n: p.grad for n, p in model.named_parameters()}, {n: g for n, g in gradients.items() if n != FROZEN})
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
    torch.testing.assert_close(output.loss.detach(), loss)
    assert_same({n: p.grad for n, p in model.named_parameters()}, gradients)
