import json
from typing import Any

import pytest

from pllab import comm
from pllab.bench.attribute import CAUSES
from pllab.bench.fidelity import Case, FidelityBench, Outcome, bench_fidelity
from pllab.bench.workloads import PipelineWorkload
from pllab.schedule import gpipe, zb_h1
from pllab.simulate import Costs, simulate

TINY = {"num_layers": 4, "width": 32, "num_heads": 2, "batch_size": 8, "num_tokens": 16, "num_microbatches": 4}
TIMELINES = (simulate(gpipe(2, 2)),) * 2


def outcome(**causes: float) -> Outcome:
    """A round predicted at 1 s, with the causes given and no others."""
    found = dict.fromkeys(CAUSES, 0.0) | causes
    return Outcome(1.0, 1.0 + sum(found.values()), found, TIMELINES)


def bench(cases: dict[Case, tuple[Outcome, ...]]) -> FidelityBench:
    return FidelityBench(PipelineWorkload(), cases)


@pytest.mark.exhaustive
@pytest.mark.ranks
def test_every_case_is_predicted_and_measured() -> None:
    result = bench_fidelity(
        PipelineWorkload(**TINY), microbatches=(4,), repeats=1, sleep_ms=1.0, sleeping_ranks=2, timeout_s=120
    )
    ways = {(case.engine, case.transport) for case in result.outcomes}
    assert ways == {(engine, on) for engine in ("real", "emulated") for on in ("lanes", "ranks")}
    assert len(result.outcomes) == 4 * 4
    for rounds in result.outcomes.values():
        for one in rounds:
            assert sum(one.causes.values()) == pytest.approx(one.measured_s - one.predicted_s, abs=1e-9)
    read = json.loads(json.dumps(result.to_json()))
    assert set(read["median_error"]) == set(read["largest_error"]) == {"real", "emulated"}
    assert read["machine"]["threads_per_rank"] == 1  # where the work ran, whatever this process has
    assert "emulated: median error" in result.table()
    for case in result.outcomes:
        shown = result.shown(case)
        predicted, measured = shown.timelines
        assert (predicted.engine, measured.engine) == ("simulated", case.engine)
        assert (shown.predicted_s, shown.measured_s) == (predicted.makespan, measured.makespan)
    assert "ZB-H1 on lanes, m = 4, predicted" in result.picture().alt


def test_of_every_case_the_round_of_the_median_is_shown_with_its_own_causes() -> None:
    case = Case("real", "lanes", "GPipe", 2)
    # the medians of work and wait are 0.01 each, which no round had and which add up to no round's error
    rounds = (outcome(work=0.2, wait=-0.3), outcome(work=0.01, wait=0.19), outcome(work=-0.1, wait=0.01))
    result = bench({case: rounds})
    assert result.shown(case) is rounds[2]
    (record,) = json.loads(json.dumps(result.to_json()))["cases"]
    assert sum(record["causes"].values()) == pytest.approx(record["error"]["median"])
    assert record["error"]["median"] == pytest.approx((record["measured_s"] - record["predicted_s"]) / 0.91)
    numbers = result.table().splitlines()[1].replace("(", " ").split()
    error, causes = float(numbers[6]), [float(word) for word in numbers[-5:]]
    assert error == pytest.approx(100 * -0.09 / 0.91, abs=0.01) and sum(causes) == pytest.approx(error, abs=0.03)


def test_of_an_even_number_of_rounds_the_lower_of_the_middle_ones_stands_for_all() -> None:
    case, rounds = Case("real", "lanes", "GPipe", 2), [outcome(work=share) for share in (0.3, 0.1, 0.4, 0.2)]
    assert bench({case: tuple(rounds)}).shown(case) is rounds[3]
    assert bench({case: tuple(rounds[:2])}).shown(case) is rounds[1]


def test_the_figure_is_the_median_over_cases_of_each_cases_median() -> None:
    def outcomes(*measured: float) -> tuple[Outcome, ...]:
        return tuple(Outcome(0.9, seconds, dict.fromkeys(CAUSES, 0.0)) for seconds in measured)

    cases = {
        Case("real", "lanes", "GPipe", 2): outcomes(1.0, 1.0, 9.0),  # 10 %
        Case("real", "lanes", "GPipe", 4): outcomes(0.9, 0.9, 0.9),  # none
        Case("real", "lanes", "GPipe", 8): outcomes(0.75, 0.75, 0.75),  # 20 % too slow a prediction
        Case("emulated", "lanes", "GPipe", 2): outcomes(1.8),
    }
    result = bench(cases)
    assert result.to_json()["median_error"] == pytest.approx({"real": 0.1, "emulated": 0.5})
    assert result.to_json()["largest_error"] == pytest.approx({"real": 0.2, "emulated": 0.5})
    assert result.error(Case("real", "lanes", "GPipe", 8)).median == pytest.approx(-0.2)


def test_the_picture_stacks_the_causes_of_every_real_case_to_both_sides_of_zero() -> None:
    rounds = {m: (outcome(work=0.01 * m, wait=0.03, message=-0.02, launch=-0.01),) for m in (2, 4)}
    cases = {Case("real", on, "GPipe", m): rounds[m] for on in ("lanes", "ranks") for m in (2, 4)}
    drawn = bench(cases | {Case("emulated", "lanes", "GPipe", 2): (outcome(launch=9.0),)}).picture()
    panels: list[Any] = drawn.canvas.axes[-2:]
    assert [panel.get_title(loc="left") for panel in panels] == ["lanes (real)", "ranks (real)"]
    for panel in panels:
        bars = [path.get_extents() for collection in panel.collections for path in collection.get_paths()]
        ends = [(round(bar.x0, 6), round(bar.x1, 6)) for bar in bars if bar.width]
        of_two = [(0, 2), (2, 5), (-2, 0), (-3, -2)]
        of_four = [(0, 4), (4, 7), (-2, 0), (-3, -2)]
        wanted = [(low / 1.02, high / 1.02) for low, high in of_two] + [
            (low / 1.04, high / 1.04) for low, high in of_four
        ]
        assert ends == [(round(low, 6), round(high, 6)) for low, high in wanted]
        marks = [line.get_xdata()[0] for line in panel.lines if line.get_marker() == "D"]
        assert marks == pytest.approx([2 / 1.02, 4 / 1.04])
        assert [text.get_text() for text in panel.texts] == ["+2.0 %", "+3.8 %"]
    assert "GPipe on ranks with m = 4 +3.8 % (its largest part: work +3.8 %)" in drawn.alt


def test_the_bars_leave_the_timelines_their_size() -> None:
    from pllab.show import draw_timeline

    timelines = (simulate(zb_h1(2, 4)), simulate(zb_h1(2, 4), Costs(1.1)))
    case = Case("real", "lanes", "ZB-H1", 4)
    alone = draw_timeline(*timelines).canvas
    with_bars = bench({case: (outcome()._replace(timelines=timelines),)}).picture().canvas
    for before, after in zip(alone.axes, with_bars.axes, strict=False):
        sizes = [
            axes.get_position().height * fig.get_figheight() for axes, fig in ((before, alone), (after, with_bars))
        ]
        assert sizes[0] == pytest.approx(sizes[1])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"sleeping_ranks": 0}, "sleeping_ranks is 0; give a whole number of at least 1"),
        ({"repeats": 0}, "repeats is 0; give a whole number of at least 1"),
        ({"microbatches": ()}, "microbatches is empty"),
        ({"microbatches": (2, 0)}, "microbatches is 0; give a whole number of at least 1"),
        ({"sleep_ms": -1.0}, "a stage cannot sleep -0.001 s"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is(
    given: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comm, "launch", lambda *_, **__: pytest.fail("it measured"))
    with pytest.raises(ValueError, match=sentence):
        bench_fidelity(**given)
