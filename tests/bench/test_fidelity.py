import json

import pytest

from pllab.bench.fidelity import Case, FidelityBench, Outcome, _outcome, bench_fidelity
from pllab.bench.pipeline import PipelineWorkload
from pllab.schedule import gpipe, one_f_one_b
from pllab.simulate import Costs, simulate
from pllab.timeline import Span, Timeline

TINY = {"num_layers": 4, "width": 32, "num_heads": 2, "batch_size": 8, "num_tokens": 16, "num_microbatches": 4}
NO_CAUSE = dict.fromkeys(("work", "wait", "message", "launch"), 0.0)


@pytest.mark.ranks
def test_every_case_is_predicted_and_measured() -> None:
    result = bench_fidelity(
        PipelineWorkload(**TINY), microbatches=(2, 4), repeats=1, sleep_ms=2.0, sleeping_ranks=2, timeout_s=120
    )
    ways = {(case.engine, case.transport) for case in result.outcomes}
    assert ways == {(engine, on) for engine in ("real", "emulated") for on in ("lanes", "ranks")}
    assert len(result.outcomes) == 4 * 4 * 2
    read = json.loads(json.dumps(result.to_json()))
    assert set(read["median_error"]) == {"real", "emulated"}
    assert "emulated: median error" in result.table()
    assert result.picture().alt


def test_the_figure_is_the_median_over_cases_of_each_cases_median() -> None:
    def outcomes(*measured: float) -> tuple[Outcome, ...]:
        return tuple(Outcome(0.9, seconds, NO_CAUSE) for seconds in measured)

    cases = {
        Case("real", "lanes", "GPipe", 2): outcomes(1.0, 1.0, 9.0),  # 10 %
        Case("real", "lanes", "GPipe", 4): outcomes(0.9, 0.9, 0.9),  # none
        Case("real", "lanes", "GPipe", 8): outcomes(0.75, 0.75, 0.75),  # 20 % too slow a prediction
        Case("emulated", "lanes", "GPipe", 2): outcomes(1.8),
    }
    empty = Timeline.of([], "real")
    bench = FidelityBench(PipelineWorkload(), cases, (empty, empty))
    assert bench.median_error("real") == pytest.approx(0.1)
    assert bench.median_error("emulated") == pytest.approx(0.5)
    assert bench.error(Case("real", "lanes", "GPipe", 8)).median == pytest.approx(-0.2)


def test_slower_work_is_put_down_to_work() -> None:
    schedule = one_f_one_b(2, 6)
    outcome = _outcome(schedule, simulate(schedule, Costs()), simulate(schedule, Costs(1.2, 1.2, 1.2)))
    assert max(outcome.causes, key=lambda name: outcome.causes[name]) == "work"
    assert sum(outcome.causes.values()) == pytest.approx(outcome.measured_s - outcome.predicted_s)


def test_slow_messages_are_put_down_to_messages_and_to_the_waits_they_cause() -> None:
    schedule = one_f_one_b(2, 6)
    outcome = _outcome(schedule, simulate(schedule, Costs()), simulate(schedule, Costs(p2p=0.4)))
    assert outcome.causes["message"] > 0.4
    assert outcome.causes["work"] == pytest.approx(0.0)
    assert sum(outcome.causes.values()) == pytest.approx(outcome.measured_s - outcome.predicted_s)


def test_a_late_start_is_a_launch() -> None:
    schedule = gpipe(1, 4)
    predicted = simulate(schedule)
    late = [Span(s.rank, s.action, s.start + 0.5 * n, s.end + 0.5 * n) for n, s in enumerate(predicted.spans)]
    causes = _outcome(schedule, predicted, Timeline.of(late, "real", 1)).causes
    assert causes["launch"] == pytest.approx(0.5 * (len(late) - 1))
