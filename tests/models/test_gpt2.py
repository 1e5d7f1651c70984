from collections import Counter
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode
from transformers import GPT2LMHeadModel

from pllab.models import GPT2LMHeadModelParallel, gpt2_config, layer_costs, layers_of

LANES = ["cpu:0", "cpu:1"]


def batch(rows: int = 5, time: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    ids = torch.randint(0, 300, (rows, time))
    labels = ids.clone()
    labels[:, :3] = -100  # the source side
    labels[0, 6:] = -100  # a short row
    return ids, labels


def both(**changes: object) -> tuple[GPT2LMHeadModelParallel, GPT2LMHeadModel]:
    torch.manual_seed(0)
    config = gpt2_config("tiny", vocab_size=300, **changes)
    model, plain = GPT2LMHeadModelParallel(config), GPT2LMHeadModel(config)
    plain.load_state_dict(model.state_dict())
    return model, plain


def assert_same_step(model: GPT2LMHeadModelParallel, plain: GPT2LMHeadModel) -> None:
    ids, labels = batch()
    losses = []
    for net in (model, plain):
        net.zero_grad()
        losses.append(net(ids, labels=labels).loss)
        losses[-1].backward()
    assert_close(*losses)
    assert_close(*({name: parameter.grad for name, parameter in net.named_parameters()} for net in (model, plain)))
    with torch.no_grad():
        assert_close(model(ids).logits, plain(ids).logits)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("tied", [True, False])
def test_every_mode_gives_transformers_loss_and_gradients(attention: str, tied: bool) -> None:
    """In two steps, of which the second shows that the first updated every copy of a weight."""
    model, plain = both(attn_implementation=attention, tie_word_embeddings=tied)
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (model, plain)]
    for prepare in (
        lambda: None,
        lambda: model.parallelize(LANES),
        lambda: model.prepare_pipeline_parallel(split_size=2),
        lambda: model.prepare_pipeline_parallel(num_microbatches=3, recompute=True),
        lambda: model.parallelize([f"cpu:{lane}" for lane in range(6)]),
    ):
        prepare()
        assert_same_step(model, plain)
        for optimizer in optimizers:
            optimizer.step()
        assert_same_step(model, plain)
    model.close()
    assert (model.lm_head.weight is model.transformer.wte.weight) == tied


def test_naive_model_parallel_never_has_two_devices_busy_and_a_pipeline_leaves_no_head_out_and_recomputes() -> None:
    model, _ = both()
    ids, labels = batch()
    model.parallelize(LANES)
    model(ids, labels=labels).loss.backward()
    assert model.pipe is not None
    spans = model.pipe.last_timeline.spans
    assert [str(span.action) for span in spans] == ["0F0", "1F0", "1B0", "0B0"]
    assert all(a.end <= b.start for a, b in zip(spans, spans[1:], strict=False))
    names = [name for part in model.pipe.partitions for name, _ in part.named_parameters(remove_duplicate=False)]
    assert len(names) == len(list(model.parameters())) + 1  # every parameter in a stage, the tied one in two
    model.prepare_pipeline_parallel(num_microbatches=3, recompute=True)
    model(ids, labels=labels).loss.backward()
    kinds = Counter(span.action.kind for span in model.pipe.last_timeline.spans)
    assert kinds == {"F": 6, "B": 6, "R": 6}  # of 3 micro-batches in 2 stages
    model.close()


def test_ranks_share_a_batch_by_passing_the_number_of_targets() -> None:
    model, plain = both()
    ids, labels = batch()
    total = int((labels[:, 1:] != -100).sum())
    model.prepare_pipeline_parallel(2)
    parts = [model(ids[rows], labels=labels[rows], num_items_in_batch=total).loss for rows in ([0], [1, 2, 3, 4])]
    assert_close(sum(parts), plain(ids, labels=labels).loss)
    model.close()


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_dropout_in_embedding_blocks_and_attention_follows_the_seed(attention: str) -> None:
    model, _ = both(dropout=0.2, attn_implementation=attention)
    ids, labels = batch()

    def loss(seed: int, recompute: bool) -> float:
        model.prepare_pipeline_parallel(2, recompute=recompute)
        torch.manual_seed(seed)
        return float(model(ids, labels=labels).loss.detach())

    assert loss(1, False) == loss(1, False) == loss(1, True) != loss(2, False)
    model.eval()
    assert loss(1, False) == loss(2, False)
    model.close()


def test_weights_save_and_load_as_transformers(tmp_path: Path) -> None:
    model, _ = both()
    model.prepare_pipeline_parallel(2)
    model.save_pretrained(tmp_path)
    ids, labels = batch()
    for kind in (GPT2LMHeadModel, GPT2LMHeadModelParallel):
        loaded = kind.from_pretrained(tmp_path)
        assert_close(loaded(ids, labels=labels).loss, model(ids, labels=labels).loss)
    assert list(model.state_dict()) == list(GPT2LMHeadModel(model.config).state_dict())
    model.close()


def test_a_closed_model_generates_like_transformers() -> None:
    model, plain = both()
    ids, _ = batch()
    model.parallelize(LANES)
    model.close()
    given = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0, "attention_mask": torch.ones_like(ids)}
    assert torch.equal(model.generate(ids, **given), plain.generate(ids, **given))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda m: m.parallelize([f"cpu:{lane}" for lane in range(7)]), "7 stages are more than the 6 layers"),
        (lambda m: m.parallelize(["cuda:97", "cpu:0"]), "'cuda:97' is not on this machine"),
        (lambda m: m.prepare_pipeline_parallel(0), "split_size is 0"),
        (lambda m: m.prepare_pipeline_parallel(2, num_microbatches=2), "give one of them"),
        (lambda m: (m.parallelize(LANES), m(batch()[0], use_cache=True, past_key_values=())), "keeps no cache"),
        (lambda m: (m.parallelize(LANES), m(batch()[0], attention_mask=torch.zeros(5, 12))), "attention_mask"),
        (lambda m: gpt2_config("huge"), "'huge' is none of"),
    ],
)
def test_bad_input_gets_one_sentence(change: object, sentence: str) -> None:
    model, _ = both()
    with pytest.raises(ValueError, match=sentence):
        change(model)  # type: ignore[operator]
    model.close()


def test_layer_costs_follow_the_flops_torch_counts() -> None:
    model, _ = both(attn_implementation="eager")  # the counter does not see into the fused kernel on a CPU
    value: object = torch.randint(0, 300, (2, 64))
    counted = []
    for layer in layers_of(model):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            value = layer(value)
        counted.append(counter.get_total_flops() / (2 * 2 * 64))  # multiplications per token
    costs = layer_costs(model.config, time=64)
    assert costs[1:-1] == pytest.approx(counted[1:-1], rel=0.05)
    assert costs[-1] == pytest.approx(counted[-1], rel=0.3)  # the loss passes over the logits cost no flops
