"""The documentation as a reader has it: a folder that a browser opens, without a server and without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from docs.blocks import ROOT
from tests.system.site import NEEDS_CHROMIUM

pytestmark = [pytest.mark.slow, NEEDS_CHROMIUM]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as ``make docs`` builds it."""
    folder = tmp_path_factory.mktemp("documentation")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=300, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    return folder


@pytest.mark.exhaustive
@pytest.mark.parametrize("page", ["index.html", "concepts/examples/cdc.html"])
def test_a_page_is_searched_and_read_without_a_network(folder, browser: Browser, page):
    opened = browser.new_page()
    asked, failed = [], []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("pageerror", lambda error: failed.append(str(error)))
    opened.goto(f"file://{folder}/{page}")
    opened.get_by_role("textbox", name="Search").fill("rescale")
    expect(opened.locator(".md-search-result__item").first).to_contain_text("rescale")
    opened.close()
    assert [url for url in asked if not url.startswith(("file:", "data:", "about:"))] == []
    assert failed == []
