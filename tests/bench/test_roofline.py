"""Work and bytes against PyTorch's counter and closed forms, limits against arithmetic; nothing here asserts a time."""

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from pllab.bench import roofline as bench
from pllab.bench.measure import Comparison

ROWS, TOKENS, WIDTH, HEADS, VOCAB = 2, 6, 8, 4, 11
N = ROWS * TOKENS  # tokens of the batch
MACHINE = bench.Ceilings(flops_per_s=100.0, bytes_per_s=10.0, latency_s=0.5)


@pytest.fixture(scope="module")
def operations() -> dict[str, bench.Operation]:
    return bench.gpt2_operations(ROWS, TOKENS, WIDTH, HEADS, VOCAB)


@pytest.mark.parametrize("name", ["attention scores", "attention values", "MLP matmul"])
def test_products_are_counted_as_pytorch_counts_them(operations: dict[str, bench.Operation], name: str) -> None:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        operations[name].run()
    assert operations[name].flops == counter.get_total_flops()


def test_bytes_in_closed_form_and_results_of_the_right_shape(operations: dict[str, bench.Operation]) -> None:
    pairs, hidden, heads = ROWS * HEADS * TOKENS**2, N * WIDTH, ROWS * HEADS
    expected = {
        "attention scores": (4 * (2 * hidden + pairs), (heads, TOKENS, TOKENS)),
        "softmax": (4 * 2 * pairs, (heads, TOKENS, TOKENS)),
        "attention values": (4 * (2 * hidden + pairs), (heads, TOKENS, WIDTH // HEADS)),
        "MLP matmul": (4 * (hidden + 4 * WIDTH**2 + 4 * hidden), (N, 4 * WIDTH)),
        "GELU": (4 * 2 * 4 * hidden, (N, 4 * WIDTH)),
        "layer norm": (4 * (2 * hidden + 2 * WIDTH), (N, WIDTH)),
        "embedding": (8 * N + 4 * 2 * hidden, (N, WIDTH)),
        "AdamW step": (28 * 12 * WIDTH**2, None),
    }
    with torch.no_grad():
        results: dict[str, Any] = {name: each.run() for name, each in operations.items()}
    shapes = {name: None if result is None else tuple(result.shape) for name, result in results.items()}
    assert {name: (each.num_bytes, shapes[name]) for name, each in operations.items()} == expected
    assert torch.allclose(results["softmax"].sum(-1), torch.tensor(1.0))


def test_the_optimizer_updates_the_weights_it_counts(operations: dict[str, bench.Operation]) -> None:
    step = operations["AdamW step"]
    weights = step.run.__self__.param_groups[0]["params"][0]  # type: ignore[attr-defined]
    before = weights.detach().clone()
    step.run()
    assert weights.numel() * bench.ADAMW_FLOPS == step.flops
    assert not torch.equal(before, weights)


@pytest.mark.parametrize(
    ("flops", "num_bytes", "num_messages", "expected"),
    [
        (1000, 1, 0, ("compute", 10.0)),
        (1, 1000, 0, ("memory", 100.0)),
        (1, 1, 3, ("latency", 1.5)),
        (1000, 100, 20, ("compute", 10.0)),  # all three need 10 s
        (0, 100, 20, ("memory", 10.0)),
        (0, 0, 0, ("compute", 0.0)),
    ],
)
def test_the_slowest_limit_bounds(flops: int, num_bytes: int, num_messages: int, expected: tuple[str, float]) -> None:
    assert bench.bound_of(flops, num_bytes, MACHINE, num_messages) == expected


def _roofline() -> bench.Roofline:
    operations = {
        "product": bench.Operation(4000, 20, lambda: None),
        "norm": bench.Operation(20, 20, lambda: None),
        "embedding": bench.Operation(0, 40, lambda: None),
    }
    seconds = {"product": (50.0, 80.0, 90.0), "norm": (2.0, 4.0, 9.0), "embedding": (4.0, 4.0, 8.0)}
    return bench.Roofline(MACHINE, operations, Comparison(seconds, "product", machine={"cpu": "a test"}))


def test_what_is_reached_of_a_limit() -> None:
    roofline = _roofline()
    assert [roofline.efficiency(name) for name in roofline.operations] == [0.5, 0.5, 1.0]
    assert roofline.flops_per_s("product") == 50.0


def test_picture_and_table_name_every_operation_and_its_limit() -> None:
    roofline = _roofline()
    picture, table = roofline.picture(), roofline.table().splitlines()
    limits = [("product", "compute"), ("norm", "memory"), ("embedding", "memory")]
    for line, (name, limit) in zip(table[1:], limits, strict=True):
        assert line.startswith(name) and limit in line
        assert name in picture.alt
    assert "meet at 10 FLOP per byte" in picture.alt
    labels = [text.get_text() for text in picture.canvas.axes[0].texts]
    assert {"product", "norm"} <= {*labels} and "embedding" not in labels


def test_measured_limits_are_those_of_the_best_round() -> None:
    threads = torch.get_num_threads()
    roofline = bench.measure_roofline({"nothing": bench.Operation(1, 1, lambda: None)}, latency_s=1.0, repeats=2)
    times = roofline.times.seconds
    assert roofline.machine.flops_per_s == 2 * 1024**3 / min(times[bench.PRODUCT])
    assert roofline.machine.bytes_per_s == 2 * 4 * 2**24 / min(times[bench.COPY])
    assert roofline.machine.latency_s == 1.0
    assert len(times["nothing"]) == 2
    assert torch.get_num_threads() == threads
