"""
Measure what the pages cost the API server: a list of many jobs, and a job with many vnodes.

Requests go to Airflow's own app, with its database and its users, without the network.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.plugin import observed_job
from bench.made_jobs import WIDE_VNODES, make_job

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

JOBS = int(os.environ.get("BENCH_JOBS", "500"))
REPETITIONS = 20
WIDE = "wide"


def main(console: Console) -> None:
    """Measure each request cold, warm, and with an answer that the client already has."""
    with tempfile.TemporaryDirectory(prefix="backfill-bench-") as name:
        folder = Path(name)
        os.environ["AIRFLOW_HOME"] = str(folder / "airflow")
        os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS"] = "True"
        os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
        observed_job.FRESH_SECONDS = 0.0  # every request reads the tables, as one after a pause would
        console.print(f"making {JOBS} jobs, and one with {WIDE_VNODES:,} vnodes …")
        jobs = [make_job(folder, f"job_{number:04}", 256) for number in range(JOBS)]
        with airflow_of([*jobs, make_job(folder, WIDE, WIDE_VNODES)]) as client:
            report(console, client)


def airflow_of(jobs: list[BackfillJob]) -> TestClient:
    """Return Airflow's app, with a DAG for each job in its database."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.models.asset import AssetModel, TaskOutletAssetReference
    from airflow.models.dag import DagModel
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session
    from fastapi.testclient import TestClient

    from airflow_backfill_provider.assets import materialized_view_asset

    initdb()
    DagBundlesManager().sync_bundles_to_db()  # type: ignore[no-untyped-call]
    with create_session() as session:
        for job in jobs:
            asset = materialized_view_asset(job)
            model = AssetModel(name=asset.name, uri=asset.uri, group=asset.group, extra=asset.extra)
            dag = DagModel(dag_id=f"refresh_{job.name}", bundle_name="dags-folder")  # type: ignore[no-untyped-call]
            session.add_all([model, dag])
            session.flush()
            session.add(
                TaskOutletAssetReference(asset_id=model.id, dag_id=f"refresh_{job.name}", task_id="finish_view")
            )
    from airflow.api_fastapi.app import create_app

    client = TestClient(create_app(apps="core"))
    token = client.get("/auth/token").json()["access_token"]
    client.headers = {"Authorization": f"Bearer {token}"}
    return client


def report(console: Console, client: TestClient) -> None:
    """Print the figures."""
    table = Table(title=f"{JOBS} jobs; median of {REPETITIONS}")
    for column in ("question", "cold ms", "warm ms", "unchanged ms", "bytes"):
        table.add_column(column, justify="left" if column == "question" else "right")
    wide = f"dags/refresh_{WIDE}/jobs/{WIDE}"
    questions = {
        f"job with {WIDE_VNODES:,} vnodes": wide,
        "its barrier log": f"{wide}/log",
        "list, a page of 25": "jobs",
        "list, all that wait": "jobs?state=waiting",
    }
    for question, path in questions.items():
        ask = Question(client, f"/backfill/api/{path}")
        cold = ask.seconds()
        etag = ask.until_all_is_read()
        warm = statistics.median(ask.seconds() for _ in range(REPETITIONS))
        known = statistics.median(ask.seconds(etag) for _ in range(REPETITIONS))
        table.add_row(
            question, *(f"{1000 * seconds:,.0f}" for seconds in (cold, warm, known)), f"{len(ask.answer.content):,}"
        )
    console.print(table)


class Question:
    """
    A request to the pages' API.

    :param client: sends it.
    :param path: the path of the request.
    """

    def __init__(self, client: TestClient, path: str) -> None:
        self._client = client
        self._path = path
        self.answer: Any = None

    def seconds(self, etag: str = "") -> float:
        """Send the request once, and return the seconds until the answer."""
        started = time.perf_counter()
        answer = self._client.get(self._path, headers={"If-None-Match": etag})
        seconds = time.perf_counter() - started
        assert answer.status_code == (304 if etag else 200)
        if not etag:
            self.answer = answer
        return seconds

    def until_all_is_read(self) -> str:
        """Repeat the request until every job has been read once; return the answer's tag."""
        self.seconds()
        while self.answer.json().get("unread"):
            self.seconds()
        return str(self.answer.headers["ETag"])
