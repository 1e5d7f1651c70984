"""Where the words of a picture are on paper."""

from itertools import combinations

from matplotlib.backends.backend_agg import FigureCanvasAgg


def extents_of(picture, words):
    """The boxes of texts in pixels, of which none may be cut off and none may lie on another."""
    canvas = FigureCanvasAgg(picture.canvas)
    canvas.draw()
    boxes = [(text.get_bbox_patch() or text).get_window_extent(canvas.get_renderer()) for text in words]
    whole = picture.canvas.bbox
    assert all(0 <= box.x0 and box.x1 <= whole.x1 and 0 <= box.y0 and box.y1 <= whole.y1 for box in boxes)
    for (one, first), (other, second) in combinations(zip(words, boxes, strict=True), 2):
        assert not first.overlaps(second), f"{one.get_text()!r} and {other.get_text()!r} overlap"
    return boxes
