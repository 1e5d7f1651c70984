"""The cost of messages: the fit against a known line, and small measurements that say nothing about speed."""

import re

import pytest

from pllab import comm
from pllab.bench.measure import Comparison
from pllab.bench.message_costs import (
    ALONE,
    BUCKETS,
    BUCKETS_ON_LINK,
    FLAT,
    LATENCY_S,
    OVERLAPPED,
    SHARED,
    bench_link,
    bench_messages,
    fit_cost,
    measure_latency,
    message_table,
)
from pllab.bench.workloads import Workload
from pllab.simulate import MessageCost, leave_when_ready

TINY = Workload(num_layers=1, width=8, num_heads=2, vocab_size=512, batch_size=2, num_tokens=128)


def test_a_line_is_found_again() -> None:
    sizes = [256, 4096, 2**17, 2**22]
    cost = fit_cost(sizes, [2e-4 + 5e-10 * size for size in sizes])
    assert cost.alpha_s == pytest.approx(2e-4)
    assert cost.beta_s == pytest.approx(5e-10)


def test_one_wild_large_message_does_not_decide_the_latency() -> None:
    sizes = [256, 1024, 4096, 2**20, 2**22]
    seconds = [2e-4 + 5e-10 * size for size in sizes]
    assert fit_cost(sizes, [*seconds[:-1], 3 * seconds[-1]]).alpha_s == pytest.approx(2e-4, rel=0.02)


@pytest.mark.parametrize(("sizes", "seconds"), [([8], [1.0]), ([8, 8], [1.0, 2.0]), ([8, 16], [1.0, 0.0])])
def test_what_fixes_no_line_is_refused(sizes: list[int], seconds: list[float]) -> None:
    with pytest.raises(ValueError, match="fix no line"):
        fit_cost(sizes, seconds)


def test_a_small_measurement_has_every_way() -> None:
    bench = bench_messages(TINY, repeats=2)
    assert len(bench.gradient_bytes) == 12 + 4
    assert bench.num_messages[str(BUCKETS[0])] == 16
    assert bench.num_messages[str(BUCKETS[-1])] == 1
    assert [point["bucket_bytes"] for point in bench.points()] == list(BUCKETS)
    assert set(bench.ways.seconds) - {SHARED} == {str(size) for size in BUCKETS}
    assert bench.steps.baseline == FLAT
    assert {name: len(seconds) for name, seconds in bench.steps.seconds.items()} == {FLAT: 2, OVERLAPPED: 2, ALONE: 2}


def test_a_message_waits_for_its_bucket_and_for_the_link() -> None:
    cost = MessageCost(alpha_s=0.5, beta_s=0.25)
    assert leave_when_ready([0, 0.5, 4], [2, 2, 2], cost) == [(0, 1), (1, 2), (4, 5)]
    assert leave_when_ready([], [], cost) == []
    with pytest.raises(ValueError, match="shorter"):
        leave_when_ready([1.0], [], cost)


def test_every_plan_is_measured_simulated_and_drawn() -> None:
    bench = bench_link(TINY, repeats=2)
    each, *_, one = map(str, BUCKETS_ON_LINK)
    assert bench.num_messages(each) == 16
    assert bench.num_messages(one) == 1
    assert len(bench.best_numbers()) == 2
    assert bench.best() in bench.plans
    for name in bench.plans:
        assert {(span.rank, str(span.action.kind)) for span in bench.timelines[name].spans} == {
            (rank, kind) for rank in range(2) for kind in "FBC"
        }
        sent = [span for span in bench.timelines[name].of_rank(0) if span.action.kind == "C"]
        assert len(sent) == bench.num_messages(name)
        assert all(span.duration >= LATENCY_S for span in sent)
        assert min(bench.steps.seconds[name]) >= LATENCY_S * bench.num_messages(name)
    assert bench.simulated_s(each) >= bench.computing_s
    assert bench.simulated_s(each) >= 16 * LATENCY_S


def _table(rank: int, world_size: int, lesson: str) -> tuple[str, list[str]]:
    with comm.record_messages() as ledger:
        text = message_table(lesson, repeats=2)
    return text, [message.name for message in ledger.messages]


@pytest.mark.parametrize(("lesson", "rows"), [("03", ["01", "03"]), ("06", ["01", "03", "05", "06"])])
def test_the_table_grows_from_lesson_to_lesson_and_says_what_differs(lesson: str, rows: list[str]) -> None:
    (text, sent), (other, _) = comm.launch(_table, 2, lesson, backend="gloo")
    assert text == other
    head, *lines = text.splitlines()
    assert head.startswith("64 numbers, real, 2 ranks")
    found = [re.fullmatch(r"(\d\d)  \w.{31} (\d+) \((\d+)-(\d+)\) +(\w.+)", line) for line in lines]
    assert [match and match[1] for match in found] == rows
    assert len({match and match[5] for match in found}) == len(rows)
    rounds = 3 + 2  # three to warm up
    assert sent.count("all_reduce") == (rounds * (28 + 1) if lesson == "06" else 0)


def test_a_latency_and_a_row_of_the_table_are_the_time_of_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """There and back is two of them, and the gradients of lesson 05 are 28."""
    compared = Comparison(dict.fromkeys(("there and back", "01", "03", "05", "06"), (56e-6, 56e-6)), "01")
    monkeypatch.setattr("pllab.bench.message_costs.compare", lambda *_, **__: compared)
    with comm.counted_rank(0, 2):
        _, *rows = message_table("06").splitlines()
    assert [row.partition(" (")[0].split()[-1] for row in rows] == ["28", "56", "2", "56"]
    monkeypatch.setattr(comm, "launch", lambda function, _, *given, **__: [function(0, 2, *given)])
    assert measure_latency().median == pytest.approx(28e-6)
