import pytest
import torch
from transformers import GPT2LMHeadModel

from pllab.models import gpt2_config
from pllab.train import TrainConfig


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"mode": "tensor"}, ["'tensor'", "pipeline"]),
        ({"device": "tpu"}, ["'tpu'"]),
        ({"world_size": 0}, ["world_size is 0"]),
        ({"mode": "data_parallel", "world_size": -1}, ["world_size is -1"]),
        ({"world_size": 2}, ["world_size is 2", "single"]),
        (
            {"mode": "data_parallel", "world_size": 4, "batch_size": 2},
            ["batch_size 2", "smaller", "dp 4"],
        ),
        ({"mode": "data_parallel", "world_size": 4, "batch_size": 30}, ["batch_size 30", "not divisible"]),
        ({"mode": "pipeline", "num_microbatches": 0}, ["num_microbatches is 0"]),
        ({"mode": "pipeline", "num_microbatches": 33}, ["33", "32 rows"]),
        ({"mode": "pipeline", "schedule": "zb_h3"}, ["'zb_h3'", "1f1b", "zero_bubble"]),
        ({"schedule": "1f1b"}, ["schedule", "belong to mode pipeline", "single"]),
        ({"mode": "pipeline", "schedule": "zbv", "world_size": 3}, ["6 stages", "4 layers"]),
        ({"mode": "pipeline", "memory_limit": 2.0}, ["memory_limit 2.0 belongs to schedule zero_bubble", "gpipe"]),
        ({"mode": "pipeline", "schedule": "zero_bubble", "memory_limit": float("nan")}, ["memory_limit is nan"]),
        ({"mode": "data_parallel", "num_microbatches": 2}, ["belong to mode pipeline", "data_parallel"]),
        ({"mode": "pipeline", "world_size": 5}, ["5 stages", "4 layers"]),
        ({"mode": "model_parallel", "world_size": 5}, ["5 stages", "4 layers"]),
        ({"n_head": 3}, ["n_embd 128", "n_head 3"]),
        ({"dropout": 1.0}, ["dropout is 1.0"]),
        ({"learning_rate": 0.0}, ["learning_rate is 0.0"]),
        ({"learning_rate": float("nan")}, ["learning_rate is nan"]),
        ({"learning_rate": float("inf")}, ["learning_rate is inf"]),
        ({"seed": 10**23}, ["seed is 1000", "from 0 to 9223372036854775807"]),
        ({"workdir": ""}, ["workdir is ''"]),
        ({"workdir": "a\0b"}, ["workdir is 'a"]),
        ({"timeout_s": 3e6}, ["timeout_s is 3000000.0"]),
        ({"gradient_clipping": -1.0}, ["gradient_clipping is -1.0"]),
        ({"max_length": 1}, ["max_length is 1"]),
        ({"samples_per_epoch": 0}, ["samples_per_epoch is 0"]),
        ({"timeout_s": 0}, ["timeout_s is 0"]),
        ({"num_threads": 100_000}, ["num_threads is 100000", "from 1 to"]),
        ({"n_layer": 10**30}, ["n_layer is 1000", "from 1 to 1000"]),
        ({"n_embd": 10**30, "n_head": 10**30}, ["n_embd is 1000", "from 1 to 100000"]),
        ({"max_length": 10**30}, ["max_length is 1000", "from 2 to 1000000"]),
        ({"vocab_size": 10**30}, ["vocab_size is 1000", "from 1 to 10000000"]),
        ({"batch_size": "8"}, ["batch_size is '8'", "whole number"]),
        ({"num_epochs": 1.5}, ["num_epochs is 1.5", "whole number"]),
        ({"world_size": None}, ["world_size is None", "whole number"]),
        ({"seed": 1.5}, ["seed is 1.5", "whole number"]),
        ({"learning_rate": "1"}, ["learning_rate is 1"]),
        ({"dropout": "0"}, ["dropout is 0"]),
        ({"mode": "pipeline", "schedule": "zero_bubble", "memory_limit": "2"}, ["memory_limit is 2"]),
        ({"dataset": ""}, ["dataset is ''"]),
        ({"dataset": "a\0b"}, ["dataset is 'a"]),
        ({"model": "huge"}, ["model is 'huge'", "1B"]),
        ({"mode": None}, ["mode is None"]),
        ({"lr_schedule": "step"}, ["lr_schedule is 'step'", "cosine"]),
        ({"warmup_steps": -1}, ["warmup_steps is -1", "at least 0"]),
        ({"eval_interval": 0.5}, ["eval_interval is 0.5", "at least 0"]),
        ({"accumulation": 0}, ["accumulation is 0"]),
        ({"mode": "pipeline", "accumulation": 2}, ["accumulation is 2 in a pipeline", "num_microbatches"]),
        ({"mode": "pipeline", "compile": True}, ["compile belongs to", "not to pipeline"]),
        ({"mode": "model_parallel", "compile": True}, ["compile belongs to", "not to model_parallel"]),
        ({"peak_flops": 0.0}, ["peak_flops is 0.0"]),
        ({"dp": 2, "tp": 2, "world_size": 3}, ["dp 2 x tp 2 x pp 1 is 4, not world_size 3", "give world_size 4"]),
        ({"mode": "pipeline", "dp": 2}, ["mode data_parallel, not pipeline"]),
        ({"mode": "hybrid"}, ["mode is 'hybrid'", "dp=2, tp=2"]),
        ({"tp": 3}, ["n_head 4 is not divisible by tp 3"]),
        ({"dp": 3}, ["batch_size 32 is not divisible by dp 3"]),
        ({"dp": 0}, ["dp is 0"]),
        ({"zero": 4, "dp": 2}, ["zero is 4", "0, 1, 2, 3"]),
        ({"zero": 1}, ["zero 1 shards over dp, which is 1"]),
        ({"dp": 2, "pp": 2, "zero": 2}, ["zero 2 and pp 2 do not go together", "give zero 1"]),
        ({"dp": 2, "pp": 2, "zero": 1, "deferred_init": True}, ["deferred_init and pp 2 do not go together"]),
        ({"dp": 2, "pp": 2, "zero": 1, "implementation": "pytorch"}, ["zero 1 has no implementation pytorch"]),
        (
            {"dp": 2, "tp": 2, "implementation": "pytorch"},
            ["tp 2 has no implementation pytorch", "custom"],
        ),
        ({"dp": 2, "pp": 2, "schedule": "zbv", "recompute": True}, ["recompute and schedule zbv", "take gpipe"]),
        ({"dp": 2, "pp": 2, "schedule": "zero_bubble", "recompute": True}, ["recompute and schedule zero_bubble"]),
        ({"loss_parallel": True}, ["loss_parallel splits the loss over tp, which is 1"]),
        ({"dp": 2, "deferred_init": True}, ["deferred_init makes a model shard by shard"]),
        ({"dp": 2, "zero": 1, "deferred_init": True, "implementation": "pytorch"}, ["give zero 2 or 3"]),
        ({"name": "a/b"}, ["name is 'a/b'; give letters, digits"]),
        ({"checkpoint_interval": -1}, ["checkpoint_interval"]),
        ({"tp": 2, "compile": True}, ["compile belongs to", "not to tensor_parallel"]),
        ({"mode": "model_parallel", "implementation": "pytorch"}, ["runs on lanes"]),
    ],
)
def test_a_wrong_value_is_refused_by_name(fields, words):
    with pytest.raises(ValueError) as refused:
        TrainConfig(**fields)
    message = str(refused.value)
    assert all(word in message for word in words), message
    assert "\n" not in message


def test_every_mode_has_a_valid_default():
    for mode in ("data_parallel", "model_parallel", "pipeline"):
        assert TrainConfig(mode=mode, world_size=2).run_name == f"{mode}-2"


PUBLISHED = {"gpt2": 124_439_808, "medium": 354_823_168, "large": 774_030_080, "xl": 1_557_611_200}


@pytest.mark.parametrize("name", [*PUBLISHED, "1B"])
def test_a_model_by_name_has_the_published_number_of_parameters(name):
    config = TrainConfig(model=name)
    sizes = {"n_layer": config.n_layer, "n_embd": config.n_embd, "n_head": config.n_head}
    with torch.device("meta"):
        count = GPT2LMHeadModel(gpt2_config(name, vocab_size=50257)).num_parameters()
        assert count == GPT2LMHeadModel(gpt2_config("tiny", vocab_size=50257, **sizes)).num_parameters()
    assert count == PUBLISHED.get(name, pytest.approx(1.0e9, rel=0.02))
    assert config.n_head == {"gpt2": 12, "medium": 16, "large": 20, "xl": 25, "1B": 16}[name]
    assert config.identity["n_embd"] == config.n_embd


def test_a_given_size_wins_over_the_models():
    assert (TrainConfig().n_layer, TrainConfig().n_embd, TrainConfig().n_head) == (4, 128, 4)
    config = TrainConfig(model="gpt2", n_layer=2)
    assert (config.n_layer, config.n_embd, config.n_head) == (2, 768, 12)
