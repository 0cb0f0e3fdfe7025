"""A real browser: Chromium, driven by Playwright."""

import os
import shutil

import pytest

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
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
