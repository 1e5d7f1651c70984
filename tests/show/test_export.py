"""The page that the studio hands out, unpacked as its script does it."""

import html
import json
import re

import pytest

from pllab import show
from pllab.schedule import Schedule, one_f_one_b
from pllab.show.studio.export import to_page
from pllab.simulate import simulate
from tests.show.pages import unpacked
from tests.show.recorded import recorded


@pytest.fixture
def studio():
    return show.BubbleStudio("1F1B", 2, 4, compare="GPipe")


def test_the_page_holds_every_setting_of_a_lecture_and_asks_for_nothing(studio, tmp_path):
    page = studio.export_html(tmp_path / "studio.html")
    studio.order = {"what": "HTML", "number": "1"}
    assert studio.page == {"file": "1f1b-2-ranks-4-micro-batches.html", "text": page, "number": "1"}
    assert (tmp_path / "studio.html").read_text(encoding="utf-8") == page
    assert len(page) < 1_000_000
    assert not re.findall(r"(?:src|href)=|@import|url\(|fetch\(|XMLHttp", page.replace("url(#", ""))
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    values, runs, blocks = unpacked(page)
    assert values["options"]["still"]
    assert (values["options"]["ranks"], values["options"]["microbatches"]) == ([2, 4, 8], [4, 8, 16, 32])
    for name, p, m in [("1F1B", 4, 8), ("GPipe", 8, 32), ("ZB-V", 2, 4), ("interleaved 1F1B", 8, 16)]:
        [shown, *_] = show.BubbleStudio(name, p, m).view["runs"]
        key = f"{name}|{p}|{m}"
        assert blocks[key] == shown.pop("actions")
        assert runs[key] == json.loads(json.dumps(shown))


def test_a_hand_out_has_the_sizes_on_screen_too_and_the_run_that_was_measured():
    mine = Schedule(one_f_one_b(3, 5).rows, "mine")
    studio = show.BubbleStudio(mine, compare="GPipe", run=lambda schedule, costs: recorded(simulate(schedule, costs)))
    studio.order = {"what": "run", "number": "1"}
    _, runs, blocks = unpacked(studio.export_html())
    assert {key.partition("|")[2] for key in runs} == {f"{p}|{m}" for p in (2, 3, 4, 8) for m in (4, 5, 8, 16, 32)} | {
        ""
    }
    assert [key for key in runs if key.startswith("mine")] == ["mine|3|5"]
    assert runs["measured"]["engine"] == "real" and blocks["measured"] == studio.view["runs"][2]["actions"]


def test_a_hand_out_promises_a_run_only_if_it_has_one():
    mine = Schedule(one_f_one_b(3, 4).rows, "mine")
    studio = show.BubbleStudio(mine, measured=recorded(simulate(mine)))
    for family, with_run in (("mine", True), ("GPipe", False), ("mine", False)):
        studio.family, studio.with_run = family, with_run
        values, runs, _ = unpacked(studio.export_html())
        own = {"family": "mine", "num_ranks": 3, "num_microbatches": 4}
        assert values["options"]["own"] == (own if with_run else None)
        assert ("measured" in runs) is with_run


def test_a_hand_out_begins_with_what_is_drawn_if_the_controls_stand_on_what_was_refused():
    studio = show.BubbleStudio(Schedule(one_f_one_b(3, 4).rows, "mine"))
    studio.num_ranks = 4
    assert studio.view["problem"] and studio.schedule.num_ranks == 3
    values, runs, _ = unpacked(studio.export_html())
    shown = "{family}|{num_ranks}|{num_microbatches}".format(**values)
    assert shown == "mine|3|4" and shown in runs


@pytest.mark.parametrize("word", ["</script><script>alert(1)", "<!--<script>", "\u2028 \U0001f600 \"'&"])
def test_a_page_cannot_be_broken_by_what_it_holds(word):
    """In a script element `</script>` is its end, and `<!--<script>` makes the parser overlook that end."""
    page = to_page(word, 'a "quote"', "", "", {"word": word}, {})
    assert "<title>" + html.escape(word) in page
    assert "<" not in re.search(r'id="state">(.*?)</script>', page, re.S)[1]
    assert unpacked(page)[0] == {"word": word}
