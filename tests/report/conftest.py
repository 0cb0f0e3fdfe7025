import matplotlib
import pytest
from matplotlib import font_manager

from bayestriplet.report import fonts, text


@pytest.fixture
def bare_fonts(monkeypatch):
    """The machine has only the fonts that come with matplotlib: none with Chinese letters."""
    own = [entry for entry in font_manager.fontManager.ttflist if matplotlib.get_data_path() in entry.fname]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)
    monkeypatch.setattr(fonts, "_known", {})
    known = (fonts.installed_fonts, text.extent, text.line_width)
    for function in known:
        function.cache_clear()
    yield
    for function in known:
        function.cache_clear()
