"""The pages as their users see them: a real Airflow, and a real browser."""

from __future__ import annotations

from tests import airflow_home  # noqa: F401  # isort: skip - before anything of Airflow

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
import yaml
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from tests.integration.airflow.server import airflow_server, wait_until
from tests.unit.airflow.stand_in import Lake

CHROMIUM = shutil.which("chromium")

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.skipif(CHROMIUM is None and "CI" not in os.environ, reason="needs Chromium: apt-get install chromium"),
]

DAGS = Path(__file__).parent / "paged_dags"
USERS = {"admin": "admin", "vera": "viewer"}
SECONDS = 30

expect.set_options(timeout=SECONDS * 1000)


@dataclass
class Site:
    """
    A running Airflow.

    :param url: where its pages are.
    :param lakes: its jobs, by name.
    """

    url: str
    lakes: dict[str, Lake]

    def token(self, user: str) -> str:
        """Sign in."""
        answer = requests.post(f"{self.url}/auth/token", json={"username": user, "password": user}, timeout=SECONDS)
        answer.raise_for_status()
        return str(answer.json()["access_token"])

    def knows_all_jobs(self) -> bool:
        """Tell whether the DAGs were parsed."""
        try:
            headers = {"Authorization": f"Bearer {self.token('vera')}"}
            answer = requests.get(f"{self.url}/backfill/api/jobs", headers=headers, timeout=SECONDS)
            return len(answer.json()["jobs"]) == len(self.lakes)
        except requests.RequestException:
            return False


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    lakes = {name: lake_of(folder, name) for name in ("steered", "watched", "untouched")}
    home = folder / "airflow"
    home.mkdir()
    passwords = home / "passwords.json"
    passwords.write_text(json.dumps({user: user for user in USERS}), encoding="utf-8")
    variables = {
        "PAGED_JOBS": str(folder),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in USERS.items()),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
    }
    with airflow_server(home, DAGS, variables, ["api-server", "dag-processor"]) as processes:
        site = Site(f"http://localhost:{processes.environment['AIRFLOW__API__PORT']}", lakes)
        wait_until(site.knows_all_jobs, seconds=240, logs=home)
        yield site


def lake_of(folder: Path, name: str) -> Lake:
    """Return a job with one of its three epochs done, and tell its DAG of it."""
    lake = Lake(folder / name, {"name": name, "materialized_view": str(folder / name / "view")})
    lake.folder.mkdir()
    lake.append(range(1000))
    lake.create()
    lake.epochs(1)
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(lake.definition), encoding="utf-8")
    return lake


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
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


def job(name: str) -> str:
    """The address of a job's page."""
    return f"/plugin/backfills/refresh_{name}/{name}"


def ask(page: Page, button: str) -> Locator:
    """Press one of the buttons that steer, and return its dialog."""
    page.get_by_role("group", name="Steer the job").get_by_role("button", name=button).click()
    return page.get_by_role("dialog")


def answer(dialog: Locator, button: str) -> None:
    """Confirm a dialog, and see it close."""
    dialog.get_by_role("button", name=button).click()
    expect(dialog).to_be_hidden()


def test_a_backfill_is_watched_and_steered_from_the_list_to_its_end(site: Site, visit):
    """One story, as a user goes through it, without a reload."""
    lake = site.lakes["steered"]
    page = visit("/")
    page.get_by_role("link", name="Backfills").click()
    page.get_by_role("searchbox", name="Search by name").fill("steer")
    expect(page.get_by_role("table", name="Backfills").get_by_role("row")).to_have_count(2)
    page.get_by_role("link", name="steered", exact=True).click()
    expect(page.get_by_role("heading", name="steered")).to_contain_text("Waiting for a run")
    expect(page.get_by_role("progressbar", name="Progress of steered")).to_have_attribute("aria-valuenow", "40")

    lake.epochs(1)
    expect(page.get_by_role("progressbar", name="Progress of steered")).to_have_attribute("aria-valuenow", "80")
    expect(page.get_by_role("region", name="Barrier log", exact=True).get_by_role("rowheader")).to_have_text(["2", "1"])

    answer(ask(page, "Pause"), "Pause")
    expect(page.get_by_role("heading", name="steered")).to_contain_text("Paused")
    assert lake.backfill.store.settings().paused

    dialog = ask(page, "Throttle")
    dialog.get_by_label("Rows per epoch").fill("50")
    answer(dialog, "Set rate limit")
    expect(page.get_by_text("50 rows an epoch")).to_be_visible()

    answer(ask(page, "Resume"), "Resume")
    expect(page.get_by_role("heading", name="steered")).to_contain_text("Waiting for a run")

    dialog = ask(page, "Rescale")
    dialog.get_by_label("Parallel runs").fill("3")
    dialog.get_by_role("button", name="Rescale").click()
    expect(dialog.get_by_role("alert")).to_contain_text("under no_shuffle all vnodes share one position")
    dialog.get_by_role("button", name="Back").click()
    assert lake.backfill.store.settings().parallelism == 1

    dialog = ask(page, "Cancel")
    expect(dialog.get_by_role("button", name="Cancel the job")).to_be_disabled()
    dialog.get_by_label("Type steered to confirm").fill("steered")
    answer(dialog, "Cancel the job")
    expect(page.get_by_role("heading", name="steered")).to_contain_text("Cancelled")
    expect(page.get_by_role("group", name="Steer the job")).to_have_count(0)
    expect(page.get_by_role("region", name="Changes of the settings", exact=True)).to_contain_text("admin (Airflow)")
    assert lake.backfill.store.settings().cancelled


def test_a_viewer_sees_everything_and_can_do_nothing(site: Site, visit):
    page = visit(job("watched"), "vera")

    expect(page.get_by_text("You may look at this job, but not steer it")).to_be_visible()
    expect(page.get_by_role("region", name="Barrier log", exact=True).get_by_role("rowheader")).to_have_text(["1"])
    expect(page.get_by_role("group", name="Steer the job")).to_have_count(0)
    refused = page.evaluate(
        """async () => (await fetch("/backfill/api/dags/refresh_watched/jobs/watched/pause", {
            body: "{}", headers: {"Content-Type": "application/json"}, method: "POST"})).status"""
    )
    assert refused == 403
    assert not site.lakes["watched"].backfill.store.settings().paused


def test_everything_is_reached_by_keyboard(site: Site, visit):
    page = visit(job("untouched"))
    pause = page.get_by_role("button", name="Pause")
    expect(pause).to_be_visible()
    tab_to(page, pause)
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"

    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Pause untouched?")
    expect(dialog).to_be_visible()
    assert page.evaluate("document.activeElement.closest('dialog') !== null")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(pause).to_be_focused()

    tab_to(page, page.get_by_role("listbox", name="Map of vnodes"))
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("Vnode 1: in progress; position 399")).to_be_visible()
    tab_to(page, page.get_by_role("listbox", name="Chart of epochs"))
    expect(page.get_by_text("Epoch 1: 400 rows, 0 changes")).to_be_visible()


def tab_to(page: Page, wanted: Locator) -> None:
    for _ in range(60):
        if wanted.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{wanted} is not reached by the tab key")


def test_the_tab_of_a_dag_has_its_backfill_and_says_so_if_there_is_none(visit):
    page = visit("/dags/refresh_watched/plugin/backfill")
    expect(page.get_by_role("heading", name="watched", exact=False).last).to_be_visible()
    expect(page.get_by_role("progressbar", name="Progress of watched")).to_be_visible()

    page = visit("/dags/without_backfill/plugin/backfill")
    expect(page.get_by_role("heading", name="This DAG has no backfill")).to_be_visible()


def test_the_tabs_of_a_run_and_of_a_task_have_it_too(site: Site, visit):
    answer = requests.post(
        f"{site.url}/api/v2/dags/refresh_watched/dagRuns",
        json={"logical_date": None, "dag_run_id": "by_hand+1"},
        headers={"Authorization": f"Bearer {site.token('admin')}"},
        timeout=SECONDS,
    )
    assert answer.ok, answer.text
    run = "/dags/refresh_watched/runs/by_hand%2B1"

    for tab in ("plugin/backfill-run", "tasks/backfill.create_job/plugin/backfill-task"):
        page = visit(f"{run}/{tab}")
        expect(page.get_by_text("has committed no epoch (yet). Shown is what its DAG backfills.")).to_be_visible()
        expect(page.get_by_role("progressbar", name="Progress of watched")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read_in_light_and_dark(visit, scheme):
    page = visit(job("watched"), color_scheme=scheme)
    expect(page.get_by_role("progressbar", name="Progress of watched")).to_be_visible()

    text, behind = page.evaluate(
        """() => {
            const painted = (element) => {
                const context = document.createElement("canvas").getContext("2d");
                const behind = element.parentElement ? painted(element.parentElement) : "white";
                for (const colour of [behind, getComputedStyle(element).backgroundColor]) {
                    context.fillStyle = colour;
                    context.fillRect(0, 0, 1, 1);
                }
                return `rgb(${context.getImageData(0, 0, 1, 1).data.slice(0, 3).join(" ")})`;
            };
            const page = document.querySelector(".bf-page");
            const cover = document.createElement("div");
            cover.style.backgroundColor = getComputedStyle(page).color;
            page.append(cover);
            return [painted(cover), painted(page)];
        }"""
    )
    difference = brightness(behind) - brightness(text)
    assert (difference > 0.6) if scheme == "light" else (difference < -0.6)


def brightness(colour: str) -> float:
    """Return how bright ``rgb(…)`` is, from 0 to 1."""
    return sum(int(part) for part in re.findall(r"\d+", colour)) / (3 * 255)


def test_a_page_that_is_not_looked_at_asks_nothing(site: Site, visit):
    page = visit("/")
    page.clock.install()
    page.goto(f"{site.url}{job('watched')}")
    expect(page.get_by_role("progressbar", name="Progress of watched")).to_be_visible()
    with page.expect_request(re.compile("/backfill/api/")):
        page.clock.run_for(10_000)

    page.evaluate(
        """() => {
            Object.defineProperty(document, "hidden", { value: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }"""
    )
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(60_000)

    assert [url for url in asked if "/backfill/api/" in url] == []
