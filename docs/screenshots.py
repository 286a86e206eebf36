"""
Photographs the pages for the documentation: ``python -m docs.screenshots``.

Brings up Airflow with some jobs whose epochs were run without Spark, and opens its pages in Chromium. The images in
``docs/images`` are of the current code; no test compares them, for fonts differ from machine to machine.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests
import yaml
from playwright.sync_api import Browser, sync_playwright

from airflow_backfill_provider import mutations, protocol
from tests.integration.airflow.server import airflow_server, wait_until
from tests.unit.airflow.stand_in import Lake

CHECKOUT = Path(__file__).parents[1]
IMAGES = CHECKOUT / "docs" / "images"
DAGS = CHECKOUT / "tests" / "system" / "paged_dags"


@dataclass(frozen=True, slots=True)
class Photograph:
    """
    One image.

    :param name: of its file.
    :param path: of the page.
    :param wait_for: a text that says that the page is there.
    :param press: a button to press first.
    """

    name: str
    path: str
    wait_for: str
    scheme: str = "light"
    height: int = 640
    press: str = ""


_PAID_ORDERS = "/plugin/backfills/refresh_paid_orders/paid_orders"
PHOTOGRAPHS = (
    Photograph("pages-list", "/plugin/backfills", "stock_levels"),
    Photograph("pages-job", "/plugin/backfills/refresh_customers/customers", "Barrier log", height=1000),
    Photograph("pages-job-dark", _PAID_ORDERS, "Barrier log", scheme="dark", height=1000),
    Photograph("pages-throttle", _PAID_ORDERS, "Barrier log", press="Throttle"),
    Photograph("pages-tab", "/dags/refresh_paid_orders/plugin/backfill", "Barrier log"),
)


def main() -> None:
    """Take every photograph."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="backfill-screenshots-") as name:
        folder = Path(name)
        names = make_jobs(folder)
        with site(folder, len(names)) as url, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            for photograph in PHOTOGRAPHS:
                take(browser, url, photograph)
            browser.close()


def make_jobs(folder: Path) -> list[str]:
    """Write jobs in different states."""
    paid = job(folder, "paid_orders", epochs=9, rate_limit=2_000)
    paid.append(range(30_000, 30_010))
    mutations.throttle_job(4_000, store=paid.backfill.store, requested_by="admin (Airflow)")
    paid.epochs(2)
    paid.append(range(30_010, 30_020))
    paid.inject()
    job(folder, "customers", epochs=7, rate_limit=3_000, strategy="arrangement")
    paused = job(folder, "shipments", epochs=3, rate_limit=4_000)
    mutations.pause_job(store=paused.backfill.store, requested_by="admin (Airflow)")
    finished = job(folder, "stock_levels", epochs=3, rate_limit=10_000)
    protocol.finish_job(store=finished.backfill.store, requested_by="refresh_stock_levels")
    return sorted(file.stem for file in folder.glob("*.yaml"))


def job(folder: Path, name: str, *, epochs: int, **fields: object) -> Lake:
    """Return a job with some epochs done, and write its definition."""
    lake = Lake(folder / name, {"name": name, "materialized_view": str(folder / name / "view"), **fields})
    lake.fields.setdefault("vnode_count", 256)
    lake.folder.mkdir()
    lake.append(range(30_000))
    lake.create()
    lake.epochs(epochs)
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(lake.definition), encoding="utf-8")
    return lake


@contextmanager
def site(folder: Path, jobs: int) -> Iterator[str]:
    """Run Airflow for the block, without a login."""
    home = folder / "airflow"
    home.mkdir()
    with airflow_server(home, DAGS, {"PAGED_JOBS": str(folder)}, ["api-server", "dag-processor"]) as processes:
        url = f"http://localhost:{processes.environment['AIRFLOW__API__PORT']}"

        def parsed() -> bool:
            try:
                token = requests.get(f"{url}/auth/token", timeout=30).json()["access_token"]
                headers = {"Authorization": f"Bearer {token}"}
                found = requests.get(f"{url}/backfill/api/jobs", headers=headers, timeout=30).json()
            except requests.RequestException:
                return False
            return len(found["jobs"]) == jobs

        wait_until(parsed, seconds=240, logs=home)
        yield url


def take(browser: Browser, url: str, photograph: Photograph) -> None:
    """Open a page, and photograph it."""
    page = browser.new_page(
        viewport={"width": 1280, "height": photograph.height},
        color_scheme="dark" if photograph.scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    page.goto(f"{url}{photograph.path}")
    page.get_by_text(photograph.wait_for).first.wait_for()
    if photograph.press:
        page.get_by_role("button", name=photograph.press).click()
    page.wait_for_load_state("networkidle")
    page.screenshot(path=IMAGES / f"{photograph.name}.png")
    page.close()


if __name__ == "__main__":
    main()
