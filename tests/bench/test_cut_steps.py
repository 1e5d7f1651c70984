"""Ways to cut, on a tiny model: every way runs, and the verdict says no more than the rounds do."""

import pytest
import torch

from pllab.bench.cut_steps import BALANCED, EQUAL, SLICED, WHOLE, CutsBench, bench_cuts, layer_seconds
from pllab.bench.measure import Comparison
from pllab.models import GPT2LMHeadModelParallel, gpt2_config, layers_of


@pytest.fixture
def tiny():
    torch.manual_seed(0)
    model = GPT2LMHeadModelParallel(gpt2_config("tiny", vocab_size=32, n_layer=2, n_embd=8, n_head=2))
    ids = torch.randint(32, (4, 6))
    return layers_of(model), (ids, ids)


def test_each_layer_has_a_time_in_each_round(tiny):
    layers, batch = tiny
    rounds = layer_seconds(layers, batch, repeats=2)
    assert [len(row) for row in rounds] == [len(layers)] * 2
    assert min(map(min, rounds)) > 0


def test_a_gain_is_taken_round_by_round():
    rounds = Comparison({SLICED: (2.0, 4.0, 9.0), EQUAL: (1.0, 1.0, 3.0)}, SLICED)
    assert CutsBench(rounds, 1.0).gain(EQUAL) == (3.0, 2.0, 4.0)


def test_every_way_runs_and_the_processor_time_of_one_lane_is_counted(tiny, monkeypatch):
    monkeypatch.setattr(Comparison, "check", lambda _: None)  # tiny steps are all noise
    layers, batch = tiny
    bench = bench_cuts(layers, batch, [0.1, 1, 1, 2], num_slices=2, repeats=2)
    assert set(bench.comparison.seconds) == {WHOLE, SLICED, EQUAL, BALANCED}
    assert bench.gain(SLICED) == (1, 1, 1)
    assert bench.processor_s > 0


@pytest.mark.parametrize(
    ("balanced", "sentence"),
    [((0.5, 0.6), "was faster than 'two lanes, equal counts' in every round"), ((0.5, 1.9), "cannot tell them apart")],
)
def test_the_verdict_names_a_winner_only_if_it_won_every_round(balanced, sentence):
    seconds = {SLICED: (2.0, 2.0), EQUAL: (1.8, 1.8), BALANCED: balanced}
    verdict = CutsBench(Comparison(seconds, SLICED), 1.0).verdict()
    assert verdict.startswith(f"{BALANCED!r} ")
    assert sentence in verdict
