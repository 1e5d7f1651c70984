"""The cost of messages: the fit against a known line, and small measurements that say nothing about speed."""

import re

import pytest

from pllab import comm
from pllab.bench import message_costs as costs
from pllab.bench.measure import Comparison
from pllab.bench.workloads import Workload
from pllab.simulate import MessageCost, leave_when_ready

TINY = Workload(num_layers=1, width=8, num_heads=2, vocab_size=512, batch_size=2, num_tokens=128)


def test_a_line_is_found_again_also_if_the_largest_message_is_wild() -> None:
    sizes = [256, 1024, 4096, 2**20, 2**22]
    seconds = [2e-4 + 5e-10 * size for size in sizes]
    cost = costs.fit_cost(sizes, seconds)
    assert (cost.alpha_s, cost.beta_s) == (pytest.approx(2e-4), pytest.approx(5e-10))
    assert costs.fit_cost(sizes, [*seconds[:-1], 3 * seconds[-1]]).alpha_s == pytest.approx(2e-4, rel=0.02)


@pytest.mark.parametrize(("sizes", "seconds"), [([8], [1.0]), ([8, 8], [1.0, 2.0]), ([8, 16], [1.0, 0.0])])
def test_what_fixes_no_line_is_refused(sizes: list[int], seconds: list[float]) -> None:
    with pytest.raises(ValueError, match="fix no line"):
        costs.fit_cost(sizes, seconds)


def test_a_small_measurement_has_every_way() -> None:
    bench = costs.bench_messages(TINY, repeats=2)
    assert len(bench.gradient_bytes) == 12 + 4
    assert bench.num_messages[str(costs.BUCKETS[0])] == 16
    assert bench.num_messages[str(costs.BUCKETS[-1])] == 1
    assert [point["bucket_bytes"] for point in bench.points()] == list(costs.BUCKETS)
    assert set(bench.ways.seconds) - {costs.SHARED} == {str(size) for size in costs.BUCKETS}
    assert bench.steps.baseline == costs.FLAT
    assert {*bench.steps.seconds} == {costs.FLAT, costs.OVERLAPPED, costs.ALONE}
    assert {len(seconds) for seconds in bench.steps.seconds.values()} == {2}


def test_a_message_waits_for_its_bucket_and_for_the_link() -> None:
    cost = MessageCost(alpha_s=0.5, beta_s=0.25)
    assert leave_when_ready([0, 0.5, 4], [2, 2, 2], cost) == [(0, 1), (1, 2), (4, 5)]
    assert leave_when_ready([], [], cost) == []
    with pytest.raises(ValueError, match="shorter"):
        leave_when_ready([1.0], [], cost)


def test_every_plan_is_measured_simulated_and_drawn() -> None:
    bench = costs.bench_link(TINY, repeats=2)
    each, *_, one = map(str, costs.BUCKETS_ON_LINK)
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
        assert all(span.duration >= costs.LATENCY_S for span in sent)
        assert min(bench.steps.seconds[name]) >= costs.LATENCY_S * bench.num_messages(name)
    assert bench.simulated_s(each) >= 16 * costs.LATENCY_S


def _table(rank: int, world_size: int, lesson: str) -> tuple[str, list[str]]:
    with comm.record_messages() as ledger:
        text = costs.message_table(lesson, repeats=2)
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
        _, *rows = costs.message_table("06").splitlines()
    assert [row.partition(" (")[0].split()[-1] for row in rows] == ["28", "56", "2", "56"]
    monkeypatch.setattr(comm, "launch", lambda function, _, *given, **__: [function(0, 2, *given)])
    assert costs.measure_latency().median == pytest.approx(28e-6)
