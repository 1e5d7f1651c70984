"""Counts on meshes of any size, against forms written out here in full and against two real ranks."""

import subprocess
import sys
from dataclasses import fields
from fractions import Fraction
from typing import Any

import pytest
import torch

from pllab import comm
from pllab.cli import main
from pllab.simulate import simulate
from pllab.train import TrainConfig
from pllab.train.scale import Machine, RankCount, Scale, count_layout, scale
from pllab.train.trainers import make_trainer
from tests.tiers import exhaustive

D, HEADS, LAYERS, T, V = 8, 4, 5, 6, 33  # width, heads, layers, tokens of a row, vocabulary; no dp divides the sizes
NUM_TENSORS = 12 * LAYERS + 4
BLOCK = 12 * D * D + 13 * D
ROOT = V * D + T * D + 2 * D


def config(**given: Any) -> TrainConfig:
    sizes = {"n_layer": LAYERS, "n_embd": D, "n_head": HEADS, "max_length": T, "vocab_size": V}
    return TrainConfig(**sizes | {"gradient_clipping": 1.0} | given)


def ranks_of(**given: Any) -> tuple[RankCount, ...]:
    return count_layout(config(**given), Machine()).ranks


def counts_of(rank: RankCount) -> dict[tuple[str, str], tuple[int, int]]:
    return {(count.axis, count.name): (count.num_messages, count.num_bytes) for count in rank.counts}


def traffic_of(rank: RankCount, axis: str, name: str) -> Fraction:
    return next(count.traffic for count in rank.counts if (count.axis, count.name) == (axis, name))


def share(size: int, dp: int) -> int:
    return -(-size // dp)


@pytest.mark.parametrize("zero", [1, 2, 3])
@pytest.mark.parametrize("dp", [3, *exhaustive(1000)])
def test_sharded_messages_are_padded_to_equal_parts(dp: int, zero: int) -> None:
    (rank,) = ranks_of(dp=dp, batch_size=2 * dp, zero=zero)
    block, root = 4 * share(BLOCK, dp), 4 * share(ROOT, dp)
    again = LAYERS - 1 if zero == 3 else 0  # in backward each block but the last, which is whole still
    gathered = (LAYERS + again) * block + root
    assert counts_of(rank) == {
        ("dp", "all_gather"): (LAYERS + again + 1, gathered),
        ("dp", "all_reduce"): (3, 4 * NUM_TENSORS + 16),
        ("dp", "reduce_scatter"): (LAYERS + 1, dp * (LAYERS * block + root)),
    }
    assert traffic_of(rank, "dp", "all_gather") == (dp - 1) * gathered
    assert traffic_of(rank, "dp", "reduce_scatter") == (dp - 1) * (LAYERS * block + root)


def test_replicas_hold_everything_and_a_flag_for_each_gradient() -> None:
    (rank,) = ranks_of(dp=7, batch_size=21)
    size = 4 * (LAYERS * BLOCK + ROOT)
    held = {"parameters": size, "gradients": size + 4 * NUM_TENSORS, "optimizer": 2 * size + 4 * NUM_TENSORS}
    assert rank.peak == held | {"gathered": 0, "messages": 0}


@pytest.mark.parametrize("zero", [3, *exhaustive(1)])
def test_the_most_bytes_of_a_sharded_step_are_at_a_reduction(zero: int) -> None:
    dp = 4
    (rank,) = ranks_of(dp=dp, batch_size=2 * dp, zero=zero)
    block, root = 4 * share(BLOCK, dp), 4 * share(ROOT, dp)
    parts = LAYERS * block + root
    if zero == 1:  # all is whole, and no gradient of the last block has gone yet
        gathered, gradients, messages = dp * parts, 4 * (LAYERS * BLOCK + ROOT), (dp + 1) * block
    else:  # block 1 goes, block 0 is whole, later ones have parts; of the root only the norm has its gradient yet
        gathered, messages = dp * (root + block), (dp + 1) * block
        gradients = 4 * (BLOCK + 2 * D) + (LAYERS - 2) * block
    at_root = dp * (parts if zero == 1 else root), 4 * ROOT + LAYERS * block, (dp + 1) * root
    most = max([(gathered, gradients, messages), at_root], key=sum)
    assert rank.peak == {
        "parameters": parts,
        "gathered": most[0],
        "gradients": most[1],
        "optimizer": 2 * parts + 4 * NUM_TENSORS,
        "messages": most[2],
    }


@pytest.mark.parametrize("axes", [{"pp": 3}, *exhaustive({}, {"tp": 2})], ids=str)
def test_gradients_count_where_nothing_travels_between_backward_and_step(axes: dict[str, int]) -> None:
    """On a single rank, in tp alone and in the middle of a pipeline."""
    ranks = ranks_of(**axes, batch_size=12)
    peak = ranks[len(ranks) // 2].peak
    assert peak["gradients"] == peak["parameters"] > 0
    assert ranks[-1].peak["messages"] == (4 * V * D if len(ranks) > 1 else 0)  # of the tied weight


@pytest.mark.parametrize("zero", [1, *exhaustive(0)])
def test_all_axes_with_uneven_stages(zero: int) -> None:
    dp, tp, pp, parts = 3, 2, 2, 4
    ranks = ranks_of(dp=dp, tp=tp, pp=pp, zero=zero, schedule="1f1b", num_microbatches=parts, batch_size=dp * parts)
    hidden = 4 * T * D
    block = (12 * D * D + 7 * D) // tp + 6 * D  # norms and the biases of row-parallel layers are whole
    words = share(V, tp) * D
    ends = {0: (words + T * D, 2), 1: (words + 2 * D, 3)}  # numbers and tensors of embedding and head
    logits = parts * T * 4 * share(V, tp)
    for coordinate, (rank, layers) in enumerate(zip(ranks, (3, 2), strict=True)):
        end, num_tensors = ends[coordinate]
        found, sizes = counts_of(rank), [block] * layers + [end]
        sums = parts * (4 * layers + 1)
        assert found["tp", "all_reduce"] == (sums, sums * hidden)
        assert found.get(("tp", "all_gather")) == ((parts, logits) if coordinate else None)
        assert found["tied", "all_reduce"] == (1, 4 * words)
        assert (traffic_of(rank, "pp", "send"), traffic_of(rank, "pp", "receive")) == (parts * hidden, 0)
        assert found["all", "all_reduce"] == (2, 16)
        flags = 12 * layers + num_tensors
        if zero:
            padded = [4 * share(size, dp) for size in sizes]
            assert found["dp", "all_gather"] == (layers + 1, sum(padded))
            assert found["dp", "reduce_scatter"] == (layers + 1, dp * sum(padded))
            assert found["dp", "all_reduce"] == (1, 4 * flags)
        else:
            assert found["dp", "all_reduce"] == (1, 4 * (sum(sizes) + flags))


def _messages_of_a_step(rank: int, world_size: int, axes: list[dict[str, Any]]) -> list[dict[str, tuple[int, int]]]:
    """By name, what a real rank sends in its third step, without shared memory."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pllab.comm.shared_buffer", lambda *_: None)
        for each in axes:
            trainer = make_trainer(config(**each), V)
            rows = torch.zeros(each["batch_size"] // each.get("dp", 1), T, dtype=torch.int64)
            for _ in range(3):
                with comm.record_messages() as ledger:
                    trainer.step({"input_ids": rows, "labels": rows})
            names = {message.name for message in ledger.messages}
            found.append({name: (ledger.count(name), ledger.num_bytes(name)) for name in names})
    return found


def test_two_real_ranks_send_what_is_counted() -> None:
    axes: list[dict[str, Any]] = [
        {"dp": 2, "batch_size": 4},
        {"dp": 2, "batch_size": 4, "zero": 2, "accumulation": 2},
        {"dp": 2, "batch_size": 4, "zero": 3},
        {"tp": 2, "batch_size": 4},
        {"tp": 2, "batch_size": 4, "loss_parallel": True},
        {"pp": 2, "batch_size": 5, "num_microbatches": 4, "schedule": "1f1b"},
        {"pp": 2, "batch_size": 4, "num_microbatches": 2, "schedule": "zbv"},
    ]
    real = comm.launch(_messages_of_a_step, 2, axes, backend="gloo", timeout_s=120.0)
    for number, each in enumerate(axes):
        for coordinate, rank in enumerate(ranks_of(**each)):
            counted: dict[str, tuple[int, int]] = {}
            for count in rank.counts:
                before = counted.get(count.name, (0, 0))
                counted[count.name] = before[0] + count.num_messages, before[1] + count.num_bytes
            assert counted == real[coordinate][number], each


def test_the_step_time_of_one_stage_is_its_flop_and_its_messages() -> None:
    parts, rows, dp, tp = 3, 2, 4, 2
    wires = {"tp_alpha_s": 3.0, "tp_beta_s": 7.0, "dp_alpha_s": 5.0, "dp_beta_s": 2.0, "alpha_s": 11.0, "beta_s": 13.0}
    machine = Machine(s_per_flop=0.5, **wires)
    layout = count_layout(config(dp=dp, tp=tp, batch_size=dp * rows * parts, accumulation=parts), machine)
    multiplications = 2 * D + LAYERS * (12 * D * D + 2 * T * D) + D * V + 16 * V
    hidden, words = 4 * rows * T * D, share(V, tp)
    block = (12 * D * D + 7 * D) // tp + 6 * D
    sent = (4 * LAYERS + 2) * hidden + (tp - 1) * 4 * rows * T * words  # on two ranks a sum sends as much as it has
    gradients = 4 * (LAYERS * block + words * D + T * D + 2 * D + NUM_TENSORS)
    assert layout.time.compute_s == pytest.approx(parts * 3 * 2 * rows * T * multiplications / tp * 0.5)
    assert layout.time.tp_s == pytest.approx(parts * ((4 * LAYERS + 3) * 3.0 + sent * 7.0))
    of_all = 2 * 16 * (dp * tp - 1) / (dp * tp)  # two sums of all ranks
    assert layout.time.dp_s == pytest.approx(5.0 + 2 * gradients * (dp - 1) / dp * 2.0 + 2 * 11.0 + of_all * 13.0)
    assert layout.time.pp_s == 0.0


def test_messages_of_tp_make_actions_longer_and_those_of_pp_make_a_stage_wait() -> None:
    parts, free = 4, dict.fromkeys([field.name for field in fields(Machine)], 0.0)

    def counted(schedule: str, **costs: float) -> Scale:
        layout = config(tp=2, pp=2, schedule=schedule, num_microbatches=parts, batch_size=parts)
        return count_layout(layout, Machine(**free | costs))

    forward = (2 * 3 + 1, 2 * 2 + 1)  # 3 layers after the embedding; 2 before the logits, which are gathered
    backward = (2 * 3, 2 * 2 + 1)
    with_tp = counted("gpipe", tp_alpha_s=1.0)
    assert (with_tp.costs.forward, with_tp.costs.backward_input) == (forward, backward)
    assert with_tp.time.tp_s == sum(sum(each) + (parts - 1) * max(each) for each in (forward, backward))
    assert counted("gpipe", alpha_s=1.0).time.pp_s == 2  # all packets of a direction travel at once
    assert counted("1f1b", alpha_s=1.0).time.pp_s == 2 * 2  # and here two of the four


def test_a_machine_that_takes_less_than_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match=r"alpha_s is -1.0; give seconds"):
        Machine(alpha_s=-1.0)


def test_the_command_prints_a_table_and_refuses_what_a_run_refuses(capsys: Any) -> None:
    words = "scale --model tiny --dp 512 --tp 2 --pp 2 --zero 1 --world-size 2048 --max-length 8 --vocab-size 33"
    assert main(words.split()) == 0
    shown = capsys.readouterr().out
    assert "2,048 ranks = dp 512 x tp 2 x pp 2, zero 1" in shown and "reduce_scatter" in shown and "simulated" in shown
    assert main("scale --model huge".split()) == 2 and "'huge' is none of tiny, small" in capsys.readouterr().err
    assert main("scale --dp 4 --world-size 5".split()) == 2 and "give world_size 4" in capsys.readouterr().err
    assert main("scale --rows 0".split()) == 2 and "batch_size is 0; give a whole number" in capsys.readouterr().err


@pytest.mark.exhaustive
def test_a_model_of_405_billion_parameters_on_16384_ranks_needs_less_than_a_gibibyte() -> None:
    code = (
        "import torch; from pllab.cli import main; from pllab.train.metrics import peak_memory_bytes;"
        "main('scale --world-size 16384 --dp 256 --tp 8 --pp 8 --zero 1 --model 405B'.split());"
        "print(peak_memory_bytes(torch.device('cpu')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)
    assert int(done.stdout.split()[-1]) < 2**30
    block = (12 * 16384**2 + 7 * 16384) // 8 + 6 * 16384
    assert f"{4 * 16 * 256 * share(block, 256):,}" in done.stdout  # reduce-scatter of the middle stages, of 16 layers


def test_a_counted_rank_is_alone_with_its_number_and_leaves_no_group() -> None:
    with comm.counted_rank(5, 1000), comm.record_messages() as ledger:
        assert (comm.rank(), comm.world_size(), comm.own_device().type) == (5, 1000, "meta")
        comm.all_reduce(torch.empty(3, device="meta"))
        with pytest.raises(RuntimeError, match="already rank 5 of 1000"), comm.counted_rank(0, 2):
            pass
    assert [(message.num_bytes, message.num_ranks) for message in ledger.messages] == [(12, 1000)]
    assert comm.backend_name() is None
    with pytest.raises(ValueError, match="rank 2 is not in a world of 2"), comm.counted_rank(2, 2):
        pass


@pytest.mark.parametrize("axes", [{"pp": 2, "tp": 2}, *exhaustive({"dp": 4}, {"tp": 2, "dp": 2}, {"pp": 4})], ids=str)
def test_schedule_and_costs_of_a_layout_take_its_step_time(axes: dict[str, int]) -> None:
    """So that a lesson can run them emulated beside the simulated sum."""
    found = scale(model="tiny", **axes, num_microbatches=4, max_length=T)
    together = simulate(found.schedule, found.costs).makespan + found.time.dp_s
    assert together == pytest.approx(found.time.total_s, rel=1e-12)
    assert found.peak_bytes == max(rank.peak_bytes for rank in found.ranks)


def test_the_deadline_of_a_run_is_that_of_every_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    """On lanes, and those that measure what stages cost before a schedule is searched."""
    asked: list[float] = []
    monkeypatch.setattr("pllab.pipeline.executor.deadline", lambda timeout_s: asked.append(timeout_s) or timeout_s)
    for mode, schedule in (("pipeline", "1f1b"), ("pipeline", "zero_bubble"), ("model_parallel", "gpipe")):
        options: Any = {"mode": mode, "world_size": 2, "schedule": schedule, "batch_size": 4, "device": "cpu"}
        make_trainer(config(**options, timeout_s=1234.0), V).close()
    assert asked == [1234.0] * (1 + 3 + 1)
