"""A backfill as a new user sees it: from the trigger form to "finished", in a real browser, on real Spark."""

from __future__ import annotations

from tests import airflow_home  # isort: skip - before anything of Airflow

import re
import shutil
import urllib.parse
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from airflow_backfill_provider.core.epoch.settings import SettingsChange
from tests.integration.airflow.orders import Orders
from tests.integration.airflow.server import COMPONENTS
from tests.system.job_page import answer, ask
from tests.system.site import NEEDS_CHROMIUM, Site, running_site

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800), NEEDS_CHROMIUM]

Visit = Callable[..., Page]

DAG = "backfill_manual"
RUNS = f"/api/v2/dags/{DAG}/dagRuns"
JOB = f"/plugin/backfills/{DAG}/paid_orders"
EPOCHS = 6
"""Enough that some are left when the job is paused, which find nothing to do."""

MINUTES = 60_000
APPLICATION = 10 * MINUTES
"""How long two Spark applications and the tasks around them may take on a slow machine."""


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Orders:
    """400 orders, of which an epoch reads 60."""
    orders = Orders(tmp_path_factory.mktemp("läke o'brien"))
    for first in range(0, 400, 50):
        orders.append({number: number % 5 for number in range(first, first + 50)})
    return orders


@pytest.fixture(scope="module")
def site(orders: Orders, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The example DAG in a folder for DAGs, and the job's file in one for jobs, as the how-to says."""
    folder = tmp_path_factory.mktemp("site")
    for name, file in (("dags", airflow_home.DAGS / f"{DAG}.py"), ("jobs", orders.file)):
        (folder / name).mkdir()
        shutil.copy(file, folder / name)
    jobs = {"AIRFLOW_BACKFILL_JOBS": str(folder / "jobs")}
    with running_site(folder, folder / "dags", jobs, (*COMPONENTS, "triggerer")) as site:
        site.wait_until(lambda: site.call("GET", f"/api/v2/dags/{DAG}").ok)
        yield site


@pytest.mark.exhaustive
def test_a_new_user_takes_a_backfill_from_the_form_to_its_end(site: Site, orders: Orders, visit: Visit):
    """I1 at the end. One test, because every step builds on the one before."""
    page = visit(f"/dags/{DAG}")
    trigger(page, epochs=EPOCHS)
    page.get_by_role("link", name="Backfills").click()
    page.get_by_role("link", name="paid_orders").click(timeout=APPLICATION)

    throttle_after_the_first_epoch(page)
    answer(ask(page, "Pause"), "Pause")
    expect(heading(page)).to_contain_text("Paused")
    a_viewer_sees_it_and_cannot_act(site, visit)
    run = the_run_is_over(site)
    nothing_is_read_while_paused(page, orders)
    the_run_has_its_log_and_links(visit, run)

    orders.append({400: 7})
    orders.delete(1)
    answer(ask(page, "Resume"), "Resume")
    expect(heading(page)).to_contain_text("Waiting for a DAG run")
    trigger(visit(f"/dags/{DAG}"), epochs=1, change="Throttle: change the rate limit")
    expect(heading(page)).to_contain_text("Finished", timeout=APPLICATION)
    expect(page.get_by_text("Finished and up to date.")).to_be_visible()
    expect(progress(page)).to_have_attribute("aria-valuenow", "100")
    assert orders.view() == orders.expected()


def trigger(page: Page, *, epochs: int, change: str = "") -> None:
    """Fill in the trigger form, and start a run."""
    page.get_by_role("button", name="Trigger").first.click()
    form = page.get_by_role("dialog").filter(has_text=f"Trigger Dag - {DAG}")
    # The folder's only job is chosen already.
    expect(form.get_by_text("orders job")).to_be_visible()
    form.locator("[name=element_epochs]").fill(str(epochs))
    if change:
        form.get_by_role("button", name="Change the settings first").click()
        form.get_by_role("combobox").last.click()
        page.get_by_role("option", name=change).click()
    form.get_by_role("button", name="Trigger").click()
    expect(form).to_be_hidden()


def throttle_after_the_first_epoch(page: Page) -> None:
    """The page shows the epoch, and then the barrier that takes the change along, without a reload."""
    expect(progress(page)).to_have_attribute("aria-valuenow", re.compile("[1-9]"), timeout=APPLICATION)
    dialog = ask(page, "Throttle")
    dialog.get_by_label("Rows per epoch").fill("10")
    answer(dialog, "Set rate limit")
    expect(page.get_by_text("10 rows an epoch")).to_be_visible()
    log = page.get_by_role("region", name="Barrier log", exact=True)
    expect(log).to_contain_text("Rate limit 10 by admin (Airflow)", timeout=APPLICATION)


def a_viewer_sees_it_and_cannot_act(site: Site, visit: Visit) -> None:
    page = visit(JOB, "vera")
    expect(heading(page)).to_contain_text("Paused")
    expect(page.get_by_text("You may look at this job, but not change it")).to_be_visible()
    expect(page.get_by_role("group", name="Change the job")).to_have_count(0)
    for path in (f"/backfill/api/dags/{DAG}/jobs/paid_orders/resume", RUNS):
        assert site.call("POST", path, {}, user="vera").status_code == 403


def the_run_is_over(site: Site) -> str:
    """Wait for the end of the DAG's newest run, and return its id."""

    def newest() -> dict[str, str]:
        return dict(site.call("GET", f"{RUNS}?order_by=-run_after").json()["dag_runs"][0])

    site.wait_until(lambda: newest()["state"] not in {"queued", "running"}, seconds=APPLICATION / 1000)
    assert newest()["state"] == "success"
    return newest()["dag_run_id"]


def nothing_is_read_while_paused(page: Page, orders: Orders) -> None:
    """The run went on after the pause, and its tasks found nothing to do."""
    store = orders.backfill.store
    paused = next(record for record in store.settings_history() if record.change is SettingsChange.PAUSE)
    barriers, commits = store.barriers(), store.commits()
    assert [barrier.epoch for barrier in barriers] == [commit.epoch for commit in commits]
    assert len(commits) < EPOCHS
    assert all(barrier.settings_sequence < paused.sequence for barrier in barriers)
    assert {10, 60} == {commit.snapshot_read_row_count for commit in commits}
    expect(heading(page)).to_contain_text("Paused")
    expect(page.get_by_text("Paused: epochs read no history, but still apply changes.")).to_be_visible()


def the_run_has_its_log_and_links(visit: Visit, run: str) -> None:
    """Its tab has the job, and the task of the first epoch has a log and links that say what it did."""
    path = f"/dags/{DAG}/runs/{urllib.parse.quote(run, safe='')}"
    page = visit(f"{path}/plugin/backfill-run")
    expect(progress(page)).to_be_visible()

    page = visit(f"{path}/tasks/run_epoch/mapped/0")
    expect(page.get_by_text("epoch 1: upstream versions (-1, 7]")).to_be_visible()
    expect(page.get_by_text("at most 60 rows")).to_be_visible()
    expect(page.get_by_text("epoch 1 is committed: 60 rows read")).to_be_visible()
    page.get_by_role("link", name="Details").click()
    for link in ("Materialized view", "Spark application"):
        expect(page.get_by_role("link", name=link)).to_be_visible()
    page.get_by_role("link", name="Backfill", exact=True).first.click()
    expect(progress(page)).to_be_visible()


def heading(page: Page) -> Locator:
    """The job's name, and its state."""
    return page.get_by_role("heading", name="paid_orders")


def progress(page: Page) -> Locator:
    return page.get_by_role("progressbar", name="Progress of paid_orders")
