"""A figure is a picture and a sentence, never one without the other."""

import base64
import io
import re

import pytest
from matplotlib.figure import Figure as Canvas

from pllab.show import chart, draw_cut, draw_cuts, draw_spread, figure


def canvas():
    fig = Canvas(figsize=(2, 1))
    fig.add_subplot().plot([1, 2])
    return fig


def test_html_holds_the_png_and_escapes_the_sentence():
    shown = figure(canvas(), 'a < b "quoted"', caption="<script>")
    bundle = shown._repr_mimebundle_()
    assert bundle["text/plain"] == repr(shown) == 'a < b "quoted"'
    assert 'alt="a &lt; b &quot;quoted&quot;"' in bundle["text/html"]
    assert "<figcaption>&lt;script&gt;</figcaption>" in bundle["text/html"]
    assert "figcaption" not in figure(canvas(), "a line").to_html()
    data = re.search(r"base64,([^\"]+)", bundle["text/html"]).group(1)
    assert base64.b64decode(data) == shown.png
    assert shown.png.startswith(b"\x89PNG")


def test_the_same_figure_gives_the_same_bytes():
    assert figure(canvas(), "a line").png == figure(canvas(), "a line").png
    assert figure(canvas(), "a line").svg == figure(canvas(), "a line").svg
    assert "date" not in figure(canvas(), "a line").svg


def test_save_by_suffix(tmp_path):
    shown = figure(canvas(), "a line")
    for suffix, begin in ((".png", b"\x89PNG"), (".SVG", b"<?xml"), (".pdf", b"%PDF")):
        assert shown.save(tmp_path / f"line{suffix}").read_bytes().startswith(begin)
    assert (tmp_path / "line.png").read_bytes() == shown.png and (tmp_path / "line.SVG").read_text() == shown.svg
    with pytest.raises(ValueError, match="'docx' is not supported"):
        shown.save(str(tmp_path / "line.docx"))


def test_pyplot_keeps_nothing():
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    fig, _ = pyplot.subplots()
    figure(fig, "two axes")
    assert pyplot.get_fignums() == before


def test_few_colours_are_enough_for_ours():
    """Every colour of the palette comes out of the file as it went in, to the eye."""
    from PIL import Image

    from pllab.show.theme import LIGHT

    fig = Canvas(figsize=(4, 1))
    axes = fig.add_axes((0, 0, 1, 1))
    colours = [LIGHT.idle, *map(LIGHT.fill_of, LIGHT.hues), *LIGHT.outlines.values()]
    axes.barh([0] * len(colours), 1, left=range(len(colours)), color=colours)
    axes.set_axis_off()
    with Image.open(io.BytesIO(figure(fig, "all colours").png)) as image:
        seen = {colour for _, colour in image.convert("RGB").getcolors(100_000)}
    for colour in colours:
        wanted = tuple(bytes.fromhex(colour.lstrip("#")))
        assert min(max(abs(a - b) for a, b in zip(wanted, one, strict=True)) for one in seen) <= 3


def test_a_chart_names_its_axes_and_has_no_frame():
    with chart("micro-batches", "bubble fraction in %") as axes:
        axes.plot([1, 2], [3, 4])
    shown = figure(axes.figure, "A line from 3 to 4.")
    assert ("micro-batches" in shown.svg) and ("bubble fraction in %" in shown.svg)
    assert not axes.spines["top"].get_visible()


def test_names_keep_their_dollars_and_the_words_of_a_chart_may_be_mathematics():
    for name in ("cost $1 and $2", "$x_{$"):
        for shown in (draw_cut([1, 2], [1, 1], [name, "head"], ""), draw_cuts([1, 2], [name, "head"])):
            assert name in re.sub(r"<[^>]*>", "", shown.svg)
    with chart("$n^2$", "seconds") as axes:
        axes.loglog([1, 1000], [1, 1000])
    assert ">$" not in figure(axes.figure, "A line.").svg


def test_a_whisker_goes_from_quartile_to_quartile():
    with chart("rows", "milliseconds") as axes:
        draw_spread(axes, [8, 512], [(0.2, 0.1, 0.4), (1.6, 1.5, 1.9)], scale=1000.0, fmt="o", label="two ranks")
    (container,) = axes.containers
    marks, _, (whiskers,) = container.lines
    assert marks.get_ydata() == pytest.approx([200, 1600])
    ends = [segment[:, 1] for segment in whiskers.get_segments()]
    assert ends == [pytest.approx([100, 400]), pytest.approx([1500, 1900])]
    assert axes.get_legend_handles_labels()[1] == ["two ranks"]
