"""Shared settings: one thread a test process, so that parallel tests do not fight for the cores."""

import pytest
import torch

from bayestriplet import priority

torch.set_num_threads(1)
priority.NICE = 0  # a command that is called in this process would lower its priority for good


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory):
    """A finished run on scikit-learn's digits: small, but trained, exported and calibrated."""
    from bayestriplet.config import make_config
    from bayestriplet.training.run import TrainingRun

    values = {
        "data": "digits", "size": 8, "backbone": "tests.training.networks:small", "dim": 16,
        "max_steps": 150, "validate_every": 75, "lr": 0.003,
    }  # fmt: skip
    run = TrainingRun(make_config(values, "test"), tmp_path_factory.mktemp("runs") / "digits")
    run.fit()
    run.finish()
    return run.folder.path


@pytest.fixture(scope="session")
def browser():
    """One for all tests of a process: a second one cannot begin beside it."""
    from tests.service.browsers import FLAGS, find_browser

    path = find_browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()
