"""What comes out of the export buttons, held against readers that are not ours."""

import csv
import html
import itertools
import json
import re
from xml.etree import ElementTree

import pytest

from pllab import show
from pllab.schedule import Action, Kind, Schedule, one_f_one_b
from pllab.show.studio.export import to_chrome_trace, to_page
from pllab.simulate import Costs, simulate
from pllab.timeline import Span, Timeline
from tests.show.pages import unpacked


@pytest.fixture
def studio():
    return show.BubbleStudio("1F1B", 4, 8, compare="GPipe", memory_limit=6)


def press(studio, what):
    """What a button of the studio delivers."""
    studio.order = {"what": what, "number": what}
    assert studio.delivery["number"] == what
    return studio.delivery["name"], studio.file


def test_csv_is_the_schedule(studio):
    name, content = press(studio, "CSV")
    assert name == "1f1b-4-ranks-8-micro-batches.csv" and Schedule.from_csv(content.decode()) == studio.schedule
    assert next(csv.reader(content.decode().splitlines()))[:5] == ["0F0", "0F1", "0F2", "0F3", "0B0"]


def test_the_trace_has_a_process_a_run_a_thread_a_rank_and_microseconds(studio):
    trace = json.loads(press(studio, "Trace")[1])
    events = trace["traceEvents"]
    names = {one["pid"]: one["args"]["name"] for one in events if one["name"] == "process_name"}
    assert names == {1: "1: 1F1B, simulated", 2: "2: GPipe, simulated"}
    threads = [(one["pid"], one["tid"], one["args"]["name"]) for one in events if one["name"] == "thread_name"]
    assert threads == [(pid, 1000 * pid + rank, f"rank {rank}") for pid in (1, 2) for rank in range(4)]
    spans = [one for one in events if one["ph"] == "X"]
    assert len(spans) == 2 * 64
    first = next(one for one in spans if one["pid"] == 1 and one["name"] == "2B1")
    span = next(one for one in studio.timeline.spans if str(one.action) == "2B1")
    assert (first["tid"], first["ts"], first["dur"]) == (1002, span.start * 1e6, 2e6)
    assert first["args"] == {"stage": 2, "kind": "B", "microbatch": 1, "engine": "simulated"}


def test_a_measured_trace_starts_at_zero(forward_only):
    events = json.loads(to_chrome_trace({"run": forward_only}))["traceEvents"]
    spans = [one for one in events if one["ph"] == "X"]
    assert min(one["ts"] for one in spans) == 0
    assert max(one["ts"] + one["dur"] for one in spans) == pytest.approx(400_000)


def test_perfetto_takes_no_thread_for_another():
    """To Perfetto 0 is the idle thread of Linux, and a thread with its process's number the main one, drawn first."""
    studio = show.BubbleStudio("1F1B", 8, 2, compare="GPipe")
    events = json.loads(press(studio, "Trace")[1])["traceEvents"]
    processes = {one["pid"] for one in events}
    threads = [one["tid"] for one in events if one["name"] == "thread_name"]
    assert 0 not in processes | set(threads)
    assert len(set(threads)) == len(threads) == 16 and not processes & set(threads)
    assert not any("," in one["cat"] for one in events if one["ph"] == "X"), "a comma begins another category"


def test_runs_sort_by_name_as_they_were_given_and_one_alone_keeps_its_name(forward_only):
    def names(*given):
        events = json.loads(to_chrome_trace({name: forward_only for name in given}))["traceEvents"]
        return [one["args"]["name"] for one in events if one["name"] == "process_name"]

    assert names("run") == ["run"]
    given = list("KJIHGFEDCBA")
    assert names(*given) == sorted(names(*given)), "Perfetto sorts as text, 10 before 9"
    assert [name.partition(": ")[2] for name in names(*given)] == given


def test_every_arrow_has_two_ends_and_a_number_of_its_own(studio):
    """Perfetto counts a head without a tail as an error; a span alone, as that of an update, has neither."""
    alone = Timeline.of([Span(0, Action(0, Kind.F, 0), 0.0, 1.0), Span(0, Action(0, Kind.U, 0), 1.0, 2.0)], "real")
    assert "bind_id" not in to_chrome_trace({"run": alone})
    ways = {}
    for one in json.loads(press(studio, "Trace")[1])["traceEvents"]:
        if one["ph"] == "X":
            ways.setdefault(one["bind_id"], []).append((one["ts"], one["pid"], one["flow_in"], one["flow_out"]))
    assert len(ways) == 2 * 8, "a way a micro-batch and run"
    for way in map(sorted, ways.values()):
        assert len({pid for _, pid, _, _ in way}) == 1
        assert [ends for _, _, *ends in way] == [[False, True], *[[True, True]] * 6, [True, False]]


def test_what_follows_at_once_in_a_trace_does_not_overlap():
    """A reader of traces takes an event that begins a nanosecond early for a part of the one before, or drops it."""
    costs = Costs(1 / 3, 1 / 7, 1 / 11, 1 / 13)
    events = json.loads(to_chrome_trace({"run": simulate(one_f_one_b(8, 24), costs)}))["traceEvents"]
    spans = sorted((one for one in events if one["ph"] == "X"), key=lambda one: (one["tid"], one["ts"]))
    for before, after in itertools.pairwise(spans):
        if before["tid"] == after["tid"]:
            assert round((before["ts"] + before["dur"]) * 1000) <= round(after["ts"] * 1000)


def test_pictures_and_pages_are_what_their_suffix_says(studio):
    name, content = press(studio, "PNG")
    assert name.endswith(".png") and content == studio.static().png
    name, content = press(studio, "HTML")
    assert name.endswith(".html") and content.decode() == studio.export_html()
    name, content = press(studio, "SVG")
    assert name.endswith(".svg")
    tree = ElementTree.fromstring(content)
    assert tree.tag.endswith("svg")
    texts = {"".join(node.itertext()).strip() for node in tree.iter() if node.tag.endswith("}text")}
    assert {"F0", "B7", "rank 3", "time (s)"} <= texts
    assert any("bubble fraction 27.3 %, one step 33 s, holds 8 micro-batches" in text for text in texts)


def test_the_page_holds_every_setting_of_a_lecture_and_asks_for_nothing(studio, tmp_path):
    page = studio.export_html(tmp_path / "studio.html")
    assert (tmp_path / "studio.html").read_text(encoding="utf-8") == page
    assert len(page) < 1_000_000
    assert not re.findall(r"(?:src|href)=|@import|url\(|fetch\(|XMLHttp", page.replace("url(#", ""))
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    values, runs, blocks = unpacked(page)
    assert values["options"]["still"] and values["options"]["exports"] == ["CSV"]
    assert (values["options"]["ranks"], values["options"]["microbatches"]) == ([2, 4, 8], [4, 8, 16, 32])
    for name, p, m in [("1F1B", 4, 8), ("GPipe", 8, 32), ("ZB-V", 2, 4), ("interleaved 1F1B", 8, 16)]:
        other = show.BubbleStudio(name, p, m)
        key = f"{name}|{p}|{m}"
        assert blocks[key] == other.actions
        assert runs[key] == json.loads(json.dumps(other.view["runs"][0])) | {"csv": other.schedule.to_csv()}


def test_a_hand_out_has_the_sizes_that_were_asked_for_and_the_run_that_was_measured():
    run = lambda schedule: Timeline.of(simulate(schedule).spans, "real", schedule.num_ranks)  # noqa: E731
    mine = Schedule(one_f_one_b(3, 5).rows, "mine")
    studio = show.BubbleStudio(mine, compare="zero bubble search", run=run)
    studio.order = {"what": "run", "number": "1"}
    _, runs, blocks = unpacked(studio.export_html(ranks=[2], microbatches=[64]))
    assert {key.partition("|")[2] for key in runs} == {"2|64", "2|5", "3|64", "3|5", ""}
    assert [key for key in runs if key.startswith(("mine", "zero"))] == ["mine|3|5", "zero bubble search|3|5"]
    assert runs["measured"]["engine"] == "real" and blocks["measured"] == studio.measured
    with pytest.raises(ValueError, match="num_ranks is 65; choose 1 to 64"):
        studio.export_html(ranks=[65])
    _, runs, _ = unpacked(show.BubbleStudio("GPipe", 32, 64).export_html(ranks=[2], microbatches=[4]))
    assert {key.partition("|")[2] for key in runs if not key.startswith("GPipe")} == {"2|4", "32|4", "2|64"}
    assert "GPipe|32|64" in runs, "a large size has the schedule on screen alone"


def test_a_hand_out_promises_a_run_only_if_it_has_one():
    mine = Schedule(one_f_one_b(3, 4).rows, "mine")
    studio = show.BubbleStudio(mine, measured=Timeline.of(simulate(mine).spans, "real", 3))
    for family, with_run in (("mine", True), ("GPipe", False), ("mine", False)):
        studio.family, studio.with_run = family, with_run
        values, runs, _ = unpacked(studio.export_html(ranks=[3], microbatches=[4]))
        own = {"family": "mine", "num_ranks": 3, "num_microbatches": 4}
        assert values["options"]["tour"][-1]["run"] == (own if with_run else None)
        assert ("measured" in runs) is with_run


@pytest.mark.parametrize("word", ["</script><script>alert(1)", "<!--<script>", "\u2028 \U0001f600 \"'&"])
def test_a_page_cannot_be_broken_by_what_it_holds(word):
    """In a script element `</script>` is its end, and `<!--<script>` makes the parser overlook that end."""
    page = to_page(word, 'a "quote"', "", "", {"word": word})
    assert "<title>" + html.escape(word) in page
    assert "<" not in re.search(r'id="state">(.*?)</script>', page, re.S)[1]
    assert unpacked(page)[0] == {"word": word}
