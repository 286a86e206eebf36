"""A real browser, for tests of pages; the fixture ``site`` of each module is its Airflow."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.system.site import CHROMIUM, SECONDS, Site


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=SECONDS * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM or "/usr/bin/chromium", args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(site: Site, browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a page as a user; a script that fails on one fails the test."""
    contexts, failures = [], []

    def open_page(path: str, user: str = "admin", **settings: object) -> Page:
        context = browser.new_context(viewport={"width": 1280, "height": 1000}, **settings)
        contexts.append(context)
        context.add_cookies([{"name": "_token", "value": site.token(user), "url": site.url}])
        page = context.new_page()
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.goto(f"{site.url}{path}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert failures == []
