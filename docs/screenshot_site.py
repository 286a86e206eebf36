"""The Airflow of the screenshots: jobs in different states, made without Spark."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import requests
import yaml

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.jobs import mutations
from tests.integration.airflow.server import COMPONENTS, AirflowProcesses, airflow_server
from tests.unit.stand_in import Lake, run_epoch

CHECKOUT = Path(__file__).parents[1]
DAGS = (CHECKOUT / "docs" / "screenshot_dags" / "orders.py", CHECKOUT / "dags" / "backfill_manual.py")

LAKE = Path("/tmp/lake")  # noqa: S108 - visible in the images, so the same on every machine
MARK = ".made-for-screenshots"

_RUN = "dags/refresh_returns/dagRuns/by_hand"
_QUESTION = f"{_RUN}/taskInstances/approve"


@contextmanager
def fresh_lake() -> Iterator[None]:
    """Make the folder for the block; replace one that an earlier run left."""
    if LAKE.exists() and not (LAKE / MARK).exists():
        raise SystemExit(f"{LAKE} holds something that was not made for screenshots; move it away")
    shutil.rmtree(LAKE, ignore_errors=True)
    for folder in ("jobs", "dags", "airflow"):
        (LAKE / folder).mkdir(parents=True)
    (LAKE / MARK).touch()
    for dag in DAGS:
        shutil.copy(dag, LAKE / "dags")
    try:
        yield
    finally:
        shutil.rmtree(LAKE)


def make_jobs() -> list[str]:
    """Write jobs in different states."""
    paid = job("paid_orders", epochs=9, rate_limit=2_000)
    paid.append(range(30_000, 30_010))
    mutations.throttle_job(4_000, store=paid.backfill.store, requested_by="admin (Airflow)")
    for number in (10, 11):
        run_epoch(paid.backfill, paid.inject(_task_run("paid_orders", number)).epoch)
    paid.append(range(30_010, 30_020))
    paid.inject(_task_run("paid_orders", 12))
    job("customers", epochs=7, rate_limit=3_000, strategy="arrangement")
    paused = job("shipments", epochs=3, rate_limit=4_000)
    mutations.pause_job(store=paused.backfill.store, requested_by="admin (Airflow)")
    finished = job("stock_levels", epochs=3, rate_limit=10_000)
    protocol.finish_job(store=finished.backfill.store, requested_by="refresh_stock_levels")
    stalled = job("suppliers", epochs=2, rate_limit=10_000)
    pin_since(stalled, dt.timedelta(hours=5))
    job("returns", rate_limit=12_000)
    return sorted(file.stem for file in (LAKE / "jobs").iterdir())


def job(name: str, *, epochs: int = 0, **fields: object) -> Lake:
    """Write the definition of a job, and return the job: not created yet, or with some epochs committed."""
    lake = Lake(LAKE / "raw" / name, {"name": name, "materialized_view": str(LAKE / name), **fields})
    lake.fields.setdefault("vnode_count", 256)
    lake.folder.mkdir(parents=True)
    lake.append(range(30_000))
    if epochs:
        lake.create()
        for number in range(1, epochs + 1):
            run_epoch(lake.backfill, lake.inject(_task_run(name, number)).epoch)
    (LAKE / "jobs" / f"{name}.yaml").write_text(yaml.safe_dump(lake.definition), encoding="utf-8")
    return lake


def _task_run(name: str, number: int) -> Requester:
    run_id = f"scheduled__2026-11-02T{number:02}:00:00+00:00"
    return Requester(dag_id=f"refresh_{name}", run_id=run_id, task_id="backfill.run_epoch", map_index=0)


def pin_since(lake: Lake, ago: dt.timedelta) -> None:
    """Pin a barrier as of some time ago, and leave its epoch uncommitted."""
    protocol.inject_barrier(
        store=lake.backfill.store,
        upstream=lake.backfill.upstream,
        requester=Requester(user="admin"),
        clock=lambda: dt.datetime.now(dt.UTC) - ago,
    )


@contextmanager
def site(jobs: Sequence[str]) -> Iterator[AirflowProcesses]:
    """Run Airflow for the block, without a login."""
    home = LAKE / "airflow"
    variables = {"AIRFLOW_BACKFILL_JOBS": str(LAKE / "jobs")}
    with airflow_server(home, LAKE / "dags", variables, (*COMPONENTS, "triggerer")) as airflow:

        def parsed() -> bool:
            try:
                token = requests.get(f"{address(airflow)}/auth/token", timeout=30).json()["access_token"]
                headers = {"Authorization": f"Bearer {token}"}
                found = requests.get(f"{address(airflow)}/backfill/api/jobs", headers=headers, timeout=30).json()
            except requests.RequestException:
                return False
            return len(found["jobs"]) == len(jobs)

        airflow.wait_until(parsed)
        yield airflow


def address(airflow: AirflowProcesses) -> str:
    """Return the address of Airflow's pages."""
    return f"http://localhost:{airflow.environment['AIRFLOW__API__PORT']}"


def ask(airflow: AirflowProcesses) -> None:
    """Trigger the DAG that asks for approval, and wait for its question."""
    for dag in ("refresh_returns", "returns_dashboard", "returns_report"):
        airflow.call_until_answered("PATCH", f"dags/{dag}", {"is_paused": False})
    airflow.call_until_answered("POST", "dags/refresh_returns/dagRuns", {"dag_run_id": "by_hand", "logical_date": None})
    airflow.wait_until(lambda: airflow.call("GET", _QUESTION).get("state") == "awaiting_input")


def approve(airflow: AirflowProcesses) -> None:
    """Approve, and wait for the end of the DAG run."""

    def answered() -> bool:
        state = airflow.call("GET", _QUESTION).get("state")
        if state == "awaiting_input":
            airflow.call("PATCH", f"{_QUESTION}/-1/hitlDetails", {"chosen_options": ["Approve"], "params_input": {}})
        return state == "success"

    airflow.wait_until(answered)
    airflow.wait_until(lambda: airflow.call("GET", _RUN).get("state") == "success")
