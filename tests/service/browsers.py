"""A real browser: Chromium, driven by Playwright."""

import os
import re
import shutil

import pytest

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
# plotly.js adds a style sheet for geographic maps when it loads; the policy refuses it, and none is drawn.
KNOWN = re.compile(r"style-src-elem \S+/static/plotly\.js")
WATCH = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.log("refused:", event.violatedDirective, event.sourceFile));
"""
DESKTOP, PHONE = {"width": 1360, "height": 940}, {"width": 390, "height": 844}
PATIENCE = 60_000  # milliseconds: other tests may have the cores
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser():
    """Return the path of a browser; without one skip, or fail where BAYESTRIPLET_NEED_BROWSER is set."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    reason = f"the page is not tested: there is no browser ({', '.join(NAMES)}); install Chromium"
    if os.environ.get("BAYESTRIPLET_NEED_BROWSER"):
        pytest.fail(reason)
    pytest.skip(reason)
    return None
