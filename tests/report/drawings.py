"""What tests of figures share: names that are awkward to draw, and what a good figure is."""

import numpy as np
from matplotlib.text import Text
from PIL import Image

from bayestriplet.report.figure import save_figure
from bayestriplet.report.fonts import use_fonts
from bayestriplet.report.style import SMALL

AWKWARD = ["adenocarcinoma, well differentiated", "$5 and $6", "_hidden", "two\nlines", "0", "Ünïcode ß"]
LONG_DATA = "WWWWWWWW-colorectal-cancer-tiles-of-nine-classes_$100_WWWWWWWW"
LONG_NAMES = [
    "WWWWWWWWWWWWWWWWWWWWWWWW",
    "腺癌组织高分化淋巴细胞浸润黏液间质平滑肌脂肪背景碎片正常",
    "adenocarcinoma, well differentiated",
    "an_underscored_name_without_any_blank_in_it",
    "غدية سرطانية جيدة التمايز جدا",
    "$W$W$W$W$W$W$W$W$W$W$W$W",
]


def names_of(number):
    return [f"{AWKWARD[k % 6]} {k // 6}" for k in range(number)]


def assert_is_good(figure, path):
    """The PNG is 8 inches wide, its margin is white, nothing is cut off, no text is small."""
    save_figure(figure, path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    with Image.open(path) as image:
        assert image.format == "PNG"
        assert image.size == (1200, round(figure.get_figheight() * 150))
        pixels = np.asarray(image.convert("RGB"))
    assert len(np.unique(pixels[..., 0])) > 10
    for edge in (pixels[:3], pixels[-3:], pixels[:, :3], pixels[:, -3:]):
        assert (edge == 255).all()
    box = figure.get_tightbbox()  # of everything that is drawn, in inches
    assert min(box.x0, box.y0) >= 0
    assert box.x1 <= figure.get_figwidth()
    assert box.y1 <= figure.get_figheight()
    assert min(text.get_size() for text in figure.findobj(Text) if text.get_text()) >= SMALL


def long_names_of(number):
    return [f"{LONG_NAMES[k % 6]} {k // 6}" for k in range(number)]


def visible_texts(figure):
    """Draw a figure and return its texts with the boxes that they take, in pixels."""
    use_fonts(figure)
    figure.draw_without_rendering()
    axes = [axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]
    hidden = {id(label) for axis in axes for label in _beyond(axis)}
    texts = [text for text in figure.findobj(Text) if text.get_text().strip() and text.get_visible()]
    return [(text.get_text(), Text.get_window_extent(text)) for text in texts if id(text) not in hidden]


def _beyond(axis):
    """Return the labels of ticks beyond the ends of an axis, which are not drawn."""
    low, high = sorted(axis.get_view_interval())
    ticks = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=False)
    return [label for place, label in ticks if not low <= place <= high]


def texts_inside(figure):
    """Return whether every text lies inside the figure, and say which does not."""
    width, height = figure.bbox.width, figure.bbox.height
    outside = [
        (text, box)
        for text, box in visible_texts(figure)
        if box.x0 < 0 or box.y0 < 0 or box.x1 > width or box.y1 > height
    ]
    for text, box in outside:
        print(f"{text!r} at {box.extents.round()} is not inside {width:.0f} x {height:.0f}")
    return not outside


def overlapping_texts(figure):
    """Return the pairs of texts that overlap by more than a pixel."""
    boxes = [(text, box.padded(-0.5)) for text, box in visible_texts(figure)]
    return [(a, b) for i, (a, box) in enumerate(boxes) for b, other in boxes[:i] if box.overlaps(other)]


def words_of(figure):
    """Return the texts of a figure, each in one line."""
    return [" ".join(text.get_text().split()) for text in figure.findobj(Text) if text.get_text()]
