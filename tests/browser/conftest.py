"""One Chromium a file of tests."""

import pytest
from playwright.sync_api import sync_playwright

from browser.opened import ARGUMENTS, executable


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=executable(), args=ARGUMENTS)
        yield running
        running.close()
