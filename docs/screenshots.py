"""
Take screenshots of Airflow's UI for the documentation: ``python -m docs.screenshots [NAME …]``.

The script starts Airflow with some jobs that need no Spark, and opens the pages in Chromium. No test compares the
images in ``docs/images``, because fonts differ between machines. All files of the site are in one folder with a short
path, because the images show that path.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, sync_playwright

from docs.screenshot_site import address, approve, ask, fresh_lake, make_jobs, site

IMAGES = Path(__file__).parent / "images"

Show = Callable[[Page], Locator | None]
"""Prepares a page for its image; may return the part of the page to take."""


@dataclass(frozen=True, slots=True)
class Photograph:
    """
    One image.

    :param name: the name of its file.
    :param path: the path of the page.
    :param wait_for: a text that appears when the page is loaded.
    :param show: prepares the loaded page.
    """

    name: str
    path: str
    wait_for: str
    scheme: str = "light"
    height: int = 640
    show: Show = lambda _: None


def press(button: str) -> Show:
    """Press a button."""

    def show(page: Page) -> None:
        page.get_by_role("button", name=button, exact=True).first.click()

    return show


def _trigger_form(page: Page) -> Locator:
    page.get_by_role("button", name="Trigger").first.click()
    form = page.get_by_role("dialog").filter(has_text="Trigger Dag")
    form.get_by_text("How many epochs to run").wait_for()
    return form


def _settings_of_the_trigger_form(page: Page) -> Locator:
    form = _trigger_form(page)
    form.get_by_role("button", name="Change the settings first").click()
    form.get_by_text("Takes effect with the first").wait_for()
    return form


def _connection_form(page: Page) -> Locator:
    page.get_by_role("button", name="Add Connection").click()
    form = page.get_by_role("dialog").filter(has_text="Add Connection")
    form.locator("[name=connection_id]").fill("airflow_backfill_default")
    form.get_by_role("combobox").first.click()
    page.get_by_role("option", name="Backfill").click()
    form.get_by_role("button", name="Extra Fields", exact=True).click()
    form.locator("[name=element_state_root]").fill("s3a://lake/backfill")
    return form


def _wrapped(page: Page) -> None:
    page.keyboard.press("w")


def _view_among_the_assets(page: Page) -> None:
    page.get_by_role("link", name="returns", exact=True).click()
    page.get_by_text("returns_dashboard").first.wait_for()


_PAID_ORDERS = "/plugin/backfills/refresh_paid_orders/paid_orders"
_RUN = "/dags/refresh_returns/runs/by_hand"
_EPOCH = f"{_RUN}/tasks/backfill.run_epoch/mapped/1"

BEFORE = (Photograph("pages-list", "/plugin/backfills", "stock_levels"),)
ASKED = (Photograph("approval", f"{_RUN}/tasks/approve/required_actions", "A whole backfill", height=1000),)
AFTER = (
    Photograph("pages-job", "/plugin/backfills/refresh_customers/customers", "Barrier log", height=1000),
    Photograph("pages-job-dark", _PAID_ORDERS, "Barrier log", scheme="dark", height=1000),
    Photograph("pages-throttle", _PAID_ORDERS, "Barrier log", show=press("Throttle")),
    Photograph("pages-tab", "/dags/refresh_paid_orders/plugin/backfill", "Barrier log"),
    Photograph("pages-alarm", "/plugin/backfills/refresh_suppliers/suppliers", "Warnings", height=480),
    Photograph("trigger-form", "/dags/backfill_manual", "Latest Run", height=1000, show=_trigger_form),
    Photograph(
        "trigger-form-settings", "/dags/backfill_manual", "Latest Run", height=1400, show=_settings_of_the_trigger_form
    ),
    Photograph("task-log", _EPOCH, "is committed", show=_wrapped),
    Photograph("task-links", f"{_EPOCH}/details", "Extra Links"),
    Photograph("connection-form", "/connections", "Add Connection", height=1100, show=_connection_form),
    Photograph("asset", "/assets?name_pattern=returns", "returns finished", height=800, show=_view_among_the_assets),
)


def main(wanted: Sequence[str]) -> None:
    """
    Take all images, or some.

    :param wanted: the names of the images; empty for all.
    """
    unknown = set(wanted) - {photograph.name for photograph in (*BEFORE, *ASKED, *AFTER)}
    if unknown:
        raise SystemExit(f"there is no image {', '.join(sorted(unknown))}")
    IMAGES.mkdir(exist_ok=True)
    with fresh_lake(), sync_playwright() as playwright:
        jobs = make_jobs()
        with site(jobs) as airflow:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])

            def take_all(photographs: Sequence[Photograph]) -> None:
                for photograph in photographs:
                    if not wanted or photograph.name in wanted:
                        take(browser, address(airflow), photograph)

            take_all(BEFORE)
            ask(airflow)
            take_all(ASKED)
            approve(airflow)
            take_all(AFTER)
            browser.close()


def take(browser: Browser, url: str, photograph: Photograph) -> None:
    """Open a page, and take its image."""
    page = browser.new_page(
        viewport={"width": 1280, "height": photograph.height},
        color_scheme="dark" if photograph.scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    page.goto(f"{url}{photograph.path}")
    page.get_by_text(photograph.wait_for).first.wait_for()
    part = photograph.show(page)
    page.wait_for_load_state("networkidle")
    file = IMAGES / f"{photograph.name}.png"
    if part is None:
        page.screenshot(path=file)
    else:
        part.screenshot(path=file)
    page.close()


if __name__ == "__main__":
    main(sys.argv[1:])
