"""
The API behind the pages, in Airflow's own app with its database, its users and their rights.

For the tests, and for the campaign ``pages``, which asks for much more.
"""

from __future__ import annotations

from tests import airflow_home  # noqa: F401  # isort: skip - before anything of Airflow

import datetime as dt
import json
import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient

from airflow_backfill_provider.assets import JOB_XCOM
from airflow_backfill_provider.core.application import ApplicationRecord
from airflow_backfill_provider.plugin import observed_job, observer
from airflow_backfill_provider.state.applications import ApplicationRecords
from tests.unit.stand_in import Lake

DAGS = Path(__file__).parents[2] / "system" / "paged_dags"
USERS = {"admin": "admin", "vera": "viewer"}
ACTIONS = {
    "pause": {},
    "resume": {},
    "throttle": {"rate_limit": 7},
    "rescale": {"parallelism": 1},
    "verify": {},
    "repair": {},
    "approve": {"difference": 1},
    "cancel": {},
}
"""What can be done to a job, each with a body that is accepted."""


def job(name: str) -> str:
    """The path of a job."""
    return f"dags/refresh_{name}/jobs/{name}"


class Api:
    """
    Airflow's app, and the jobs that it knows.

    :param client: speaks to it.
    :param lakes: the jobs, by name.
    """

    def __init__(self, client: TestClient, lakes: dict[str, Lake]) -> None:
        self.client = client
        self.lakes = lakes
        self._headers: dict[str | None, dict[str, str]] = {None: {}}

    def headers(self, user: str | None) -> dict[str, str]:
        if user not in self._headers:
            answer = self.client.post("/auth/token", json={"username": user, "password": user})
            self._headers[user] = {"Authorization": f"Bearer {answer.json()['access_token']}"}
        return self._headers[user]

    def get(self, path: str, user: str | None = "vera", **more: Any) -> Any:
        headers = {**self.headers(user), **more.pop("headers", {})}
        return self.client.get(f"/backfill/api/{path}", headers=headers, **more)

    def post(self, path: str, body: Any, user: str | None = "admin") -> Any:
        return self.client.post(f"/backfill/api/{path}", json=body, headers=self.headers(user))

    def names_beside_a_foreign_class(self, dag_id: str) -> set[str]:
        """
        Return the listed jobs while a run has a value, under the key of created jobs, with a class that does not exist.

        Airflow's API refuses such a value of a user, and stores that of a task.
        """
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session
        from sqlalchemy import update

        run, admin = f"/api/v2/dags/{dag_id}/dagRuns", {"headers": self.headers("admin")}
        self.client.post(run, json={"dag_run_id": "foreign", "logical_date": None}, **admin)
        entry = {"key": JOB_XCOM, "value": {}}
        said = self.client.post(f"{run}/foreign/taskInstances/backfill.create_job/xcomEntries", json=entry, **admin)
        assert said.status_code == 201, said.text
        foreign = json.dumps({"__classname__": "no.such.Class", "__version__": 1, "__data__": {}})
        with create_session() as session:
            session.execute(update(XComModel).where(XComModel.run_id == "foreign").values(value=foreign))
        assert self.get(f"dags/{dag_id}/jobs?run_id=foreign").status_code == 200
        answer = self.get("jobs?limit=100")
        self.client.patch(f"{run}/foreign", json={"state": "success"}, **admin)
        assert answer.status_code == 200
        return {row["name"] for row in answer.json()["jobs"]}


@contextmanager
def pages_of(folder: Path, names: Sequence[str], *, not_created: Collection[str] = ()) -> Iterator[Api]:
    """
    Bring up Airflow's app with a DAG for each of some jobs, each after two epochs.

    :param folder: where the jobs' tables go.
    :param names: the jobs.
    :param not_created: those of them that are only defined.
    """
    lakes = {name: lake_of(folder, name) for name in names}
    for name, lake in lakes.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(lake.definition), encoding="utf-8")
        if name not in not_created:
            lake.create()
            lake.epochs(2)
    passwords = folder / "passwords.json"
    passwords.write_text(json.dumps({user: user for user in USERS}), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAGED_JOBS", str(folder))
        patch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")  # as the API server does
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "False")
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", ",".join(f"{u}:{role}" for u, role in USERS.items()))
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE", str(passwords))
        patch.setattr(observed_job, "FRESH_SECONDS", -1.0)
        patch.setattr(observer, "FIRST_LOOK_SECONDS", 60.0)
        patch.setattr(observer, "NEXT_LOOK_SECONDS", 60.0)
        parse_dags()
        from airflow.api_fastapi.app import create_app as create_airflow

        logging.getLogger("httpx").setLevel(logging.WARNING)
        with TestClient(create_airflow(apps="core"), raise_server_exceptions=False) as client:
            yield Api(client, lakes)


def lake_of(folder: Path, name: str) -> Lake:
    lake = Lake(folder / name, {"name": name, "materialized_view": str(folder / name / "view")})
    lake.folder.mkdir()
    lake.append(range(1000))
    return lake


def parse_dags() -> None:
    """Do what the DAG processor does."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db

    DagBundlesManager().sync_bundles_to_db()
    bag = DagBag(str(DAGS), bundle_path=DAGS)
    assert bag.import_errors == {}
    sync_bag_to_db(bag, "dags-folder", None)


def connection(folder: Path, secret: str) -> str:
    """Write a connection into Airflow's database; returns its id."""
    from airflow.models.connection import Connection
    from airflow.utils.session import create_session

    options = json.dumps({"AWS_SECRET_ACCESS_KEY": secret})
    extra = json.dumps({"state_root": str(folder / "states"), "storage_options": options})
    with create_session() as session:
        session.add(Connection(conn_id="lake", conn_type="airflow_backfill", extra=extra))
    return "lake"


def emit_from_another_dag(lake: Lake, backfill_conn_id: str) -> None:
    """Record an asset event through the alias, as an epoch does for a job that another DAG chose at run time."""
    from airflow.models.asset import AssetAliasModel, AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        asset = AssetModel(
            name="chosen",
            uri="file:///chosen",
            group="asset",
            extra={"definition": lake.definition | {"name": "chosen"}, "backfill_conn_id": backfill_conn_id},
        )
        alias = session.scalar(select(AssetAliasModel).where(AssetAliasModel.name == "materialized_views"))
        assert alias is not None
        alias.assets.append(asset)
        session.flush()
        session.add(
            AssetEvent(
                asset_id=asset.id,
                source_dag_id="without_backfill",
                source_run_id="run+1",
                source_task_id="nothing",
                source_map_index=2,
            )
        )


def application_page(api: Api, **changes: Any) -> Any:
    """Write the record of a Spark application of the job ``watched``; return the answer of its page to vera."""
    record = ApplicationRecord(
        name="epoch-1",
        attempt="a",
        host="worker-7",
        pid=1,
        started_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        log="/logs/<b>epoch-1</b>.log",
    )
    ApplicationRecords(api.lakes["watched"].backfill.job.state).write(record.model_copy(update=changes))
    return api.client.get(
        f"/backfill/dags/refresh_watched/jobs/watched/applications/{record.name}",
        headers=api.headers("vera"),
        follow_redirects=False,
    )
