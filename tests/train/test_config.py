import json
from dataclasses import asdict
from types import NoneType
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
import torch
from transformers import GPT2LMHeadModel

from pllab.models import gpt2_config
from pllab.train import TrainConfig


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"world_size": 2}, ["world_size is 2", "single"]),
        ({"schedule": "1f1b"}, ["schedule 1f1b has no effect", "single"]),
        ({"mode": "pipeline", "memory_limit": 2.0}, ["memory_limit 2.0 has no effect in mode pipeline"]),
        ({"mode": "data_parallel", "num_microbatches": 2}, ["num_microbatches 2 has no effect", "data_parallel"]),
        ({"mode": "pipeline", "num_microbatches": 33}, ["num_microbatches 33", "32 rows"]),
        ({"n_head": 3}, ["n_embd 128", "n_head 3"]),
        ({"tp": 3}, ["n_head 4 is not divisible by tp 3"]),
        ({"name": "a/b"}, ["name is 'a/b'; give letters, digits"]),
        ({"name": ".."}, ["name is '..'; give letters, digits"]),
        ({"dropout": 1.0}, ["dropout is 1.0"]),
        ({"batch_size": 0}, ["batch_size is 0", "at least 1"]),
        ({"learning_rate": 0.0}, ["learning_rate is 0.0"]),
        ({"seed": 10**23}, ["seed is 1000", "from 0 to 9223372036854775807"]),
        ({"max_length": 1}, ["max_length is 1"]),
        ({"num_threads": 100_000}, ["num_threads is 100000", "from 1 to"]),
        ({"n_layer": 10**30}, ["n_layer is 1000", "from 1 to 1000"]),
        ({"vocab_size": 10**30}, ["vocab_size is 1000", "from 1 to 10000000"]),
        ({"mode": "pipeline", "accumulation": 2}, ["accumulation 2 has no effect"]),
        ({"mode": "pipeline", "compile": True}, ["compile True has no effect", "pp 2"]),
        ({"dp": 2, "tp": 2, "world_size": 3}, ["dp 2 x tp 2 x pp 1 is 4, not world_size 3", "give world_size 4"]),
        ({"mode": "pipeline", "dp": 2}, ["mode data_parallel, not pipeline"]),
        ({"mode": "hybrid"}, ["mode is 'hybrid'", "dp=2, tp=2"]),
        ({"dp": 3}, ["batch_size 32 is not divisible by dp 3"]),
        ({"zero": 1}, ["zero 1 has no effect in mode single with dp 1"]),
        ({"dp": 2, "pp": 2, "zero": 2}, ["zero 2 and pp 2 do not go together", "give zero 1"]),
        ({"dp": 2, "pp": 2, "zero": 1, "implementation": "pytorch"}, ["zero 1 has no implementation pytorch"]),
        ({"dp": 2, "tp": 2, "implementation": "pytorch"}, ["tp 2 has no implementation pytorch", "custom"]),
        ({"pp": 2, "schedule": "zbv", "recompute": True}, ["recompute and schedule zbv", "take gpipe"]),
        ({"dp": 2, "pp": 2, "schedule": "zero_bubble", "recompute": True}, ["recompute and schedule zero_bubble"]),
        ({"loss_parallel": True}, ["loss_parallel True has no effect", "tp 1"]),
        ({"dp": 2, "deferred_init": True}, ["deferred_init True has no effect"]),
        ({"dp": 2, "pp": 2, "zero": 1, "deferred_init": True}, ["deferred_init and pp 2 do not go together"]),
    ],
)
def test_a_wrong_value_is_refused_by_name(fields, words):
    with pytest.raises(ValueError) as refused:
        TrainConfig(**fields)
    message = str(refused.value)
    assert all(word in message for word in words), message
    assert "\n" not in message


WRONG = {
    int: ["8", 1.5, -1, True, None],
    float: ["1", -1.0, float("nan"), float("inf"), None],
    Literal: ["other", 4, None],
}


@pytest.mark.parametrize(("name", "hint"), get_type_hints(TrainConfig).items())
def test_what_is_no_value_of_its_kind_is_refused_for_every_field(name, hint):
    first, *others = get_args(hint) if NoneType in get_args(hint) else (hint,)
    may_be_none = NoneType in others or name in ("n_layer", "n_embd", "n_head", "world_size")
    for wrong in WRONG.get(get_origin(first) or first, []):
        if wrong is None and may_be_none:
            continue
        with pytest.raises(ValueError, match=f"^{name} is ") as refused:
            TrainConfig(**{name: wrong})
        assert "\n" not in str(refused.value)


def test_numbers_of_other_libraries_are_kept_as_pythons():
    """The result of a run is JSON, which takes no others."""
    plain = {"dp": 2, "zero": 1, "seed": 3, "learning_rate": 0.5, "dropout": 0.0, "peak_flops": 1e9, "bleu": False}
    given = {name: np.asarray(value)[()] for name, value in plain.items()}
    assert json.dumps(asdict(TrainConfig(**given))) == json.dumps(asdict(TrainConfig(**plain)))


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


def test_a_given_size_wins_over_the_models():
    assert (TrainConfig().n_layer, TrainConfig().n_embd, TrainConfig().n_head) == (4, 128, 4)
    config = TrainConfig(model="gpt2", n_layer=2)
    assert (config.n_layer, config.n_embd, config.n_head) == (2, 768, 12)
