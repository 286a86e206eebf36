"""Real Airflow with a separate database, and a job with epochs on real Spark."""

from __future__ import annotations

from tests import airflow_home  # isort: skip - before anything of Airflow

import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.integration.airflow.orders import Orders


@pytest.fixture(scope="session")
def airflow_database() -> None:
    """Airflow's database, empty."""
    from airflow.utils.db import initdb

    initdb()


@pytest.fixture
def orders(tmp_path_factory: pytest.TempPathFactory) -> Orders:
    """100 orders, every fifth without an amount: two epochs finish the view."""
    orders = Orders(tmp_path_factory.mktemp("läke o'brien"))
    orders.append({number: number % 5 for number in range(50)})
    orders.append({number: number % 5 for number in range(50, 100)})
    return orders


@pytest.fixture
def environment(orders: Orders, spark_remote: str, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment of the DAGs, about the orders; their applications run on the tests' Spark."""
    server = urlsplit(spark_remote)
    fields = {"conn_type": "spark_connect", "host": f"sc://{server.hostname}", "port": server.port}
    monkeypatch.setenv("AIRFLOW_CONN_TESTS_SPARK", json.dumps(fields))
    monkeypatch.setenv("AIRFLOW_BACKFILL_SPARK_CONNECTION", "tests_spark")
    monkeypatch.setenv("AIRFLOW_BACKFILL_JOB", str(orders.file))
    monkeypatch.delenv("AIRFLOW_BACKFILL_SCHEDULE", raising=False)
    monkeypatch.delenv("AIRFLOW_BACKFILL_BARRIERS", raising=False)
    return monkeypatch


class Run:
    """
    A DAG's run that is over.

    :param run: Airflow's record of it.
    """

    def __init__(self, run: Any) -> None:
        self.state = str(run.state)
        self.run_id = run.run_id
        instances = run.get_task_instances()
        self.states = {(instance.task_id, instance.map_index): str(instance.state) for instance in instances}
        self._instances = {(instance.task_id, instance.map_index): instance for instance in instances}

    def name(self, task_id: str, map_index: int) -> str | None:
        """Return the name of a mapped task run in the grid."""
        rendered: str | None = self._instances[task_id, map_index].rendered_map_index
        return rendered

    def results(self, task_id: str, count: int) -> list[Any]:
        """Return the results of a task's mapped runs in any order, because Airflow starts them in any order."""
        return [self.result(task_id, index) for index in range(count)]

    def result(self, task_id: str, map_index: int = -1) -> Any:
        """Return what a task run returned."""
        return self._instances[task_id, map_index].xcom_pull(
            task_ids=task_id, map_indexes=None if map_index < 0 else map_index
        )


@pytest.fixture
def run_dag(airflow_database: None) -> Iterator[Callable[..., Run]]:
    """Runs one of the DAGs in ``dags/`` by hand, in this process."""
    from airflow.dag_processing.dagbag import DagBag
    from airflow.models.asset import AssetActive
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    # Of two assets with one name Airflow lets only one be active, perhaps that of another test's view.
    with create_session() as session:
        session.execute(delete(AssetActive))

    def run(dag_id: str, conf: Mapping[str, Any] | None = None) -> Run:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            bag = DagBag(str(airflow_home.DAGS / f"{dag_id}.py"))
            assert bag.import_errors == {}
            return Run(bag.dags[dag_id].test(run_conf=dict(conf or {}), logical_date=None))

    before = dict(os.environ)
    yield run
    os.environ.clear()
    os.environ.update(before)
