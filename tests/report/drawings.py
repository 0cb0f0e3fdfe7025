"""What tests of figures share: names that are awkward to draw, and what a good figure is."""

import numpy as np
from matplotlib.text import Text
from PIL import Image

from bayestriplet.report.style import SMALL, save_figure

AWKWARD = ["adenocarcinoma, well differentiated", "$5 and $6", "_hidden", "two\nlines", "0", "Ünïcode ß"]


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


def words_of(figure):
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]
