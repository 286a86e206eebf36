"""Real Airflow on a database of its own, and a job whose epochs run on real Spark."""

from __future__ import annotations

from tests import airflow_home  # isort: skip - before anything of Airflow

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.backfill import Backfill
from airflow_backfill_provider.core.job import BackfillJob


@pytest.fixture(scope="session")
def airflow_database() -> None:
    """Airflow's database, empty."""
    from airflow.utils.db import initdb

    initdb()


class Orders:
    """
    An upstream that deltalake writes, and the file of a job over it.

    :param folder: where the tables lie.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.upstream = str(folder / "orders")
        self.file = folder / "orders job.yaml"
        self.define()

    def define(self, **changes: Any) -> dict[str, Any]:
        """Write the job's file, with some fields changed; returns the definition."""
        definition = {
            "name": "paid_orders",
            "upstream": {"path": self.upstream, "key": ["order_id"]},
            "materialized_view": str(self.folder / "paid_orders"),
            "query": "SELECT order_id, amount * 100 AS cents FROM upstream WHERE amount > 0",
            "vnode_count": 4,
            "rate_limit": 60,
            **changes,
        }
        self.file.write_text(yaml.safe_dump(definition), encoding="utf-8")
        return definition

    def append(self, amounts: Mapping[int, int]) -> None:
        """Add orders as one version."""
        rows = {"order_id": pa.array(amounts, pa.int64()), "amount": pa.array(amounts.values(), pa.int32())}
        write_deltalake(
            self.upstream,
            pa.table(rows),
            mode="append",
            configuration={"delta.enableChangeDataFeed": "true"},
        )

    def delete(self, order_id: int) -> None:
        """Delete an order as one version."""
        DeltaTable(self.upstream).delete(f"order_id = {order_id}")

    @property
    def backfill(self) -> Backfill:
        """The job's tables."""
        return Backfill(BackfillJob.from_yaml(self.file))

    def expected(self) -> dict[int, int]:
        """The query over the upstream's newest version, computed without Spark."""
        rows = DeltaTable(self.upstream).to_pyarrow_table().to_pylist()
        return {row["order_id"]: row["amount"] * 100 for row in rows if row["amount"] > 0}

    def view(self) -> dict[int, int]:
        """The view's rows."""
        rows = DeltaTable(self.backfill.job.materialized_view).to_pyarrow_table().to_pylist()
        assert len({row["order_id"] for row in rows}) == len(rows)
        return {row["order_id"]: row["cents"] for row in rows}


@pytest.fixture
def orders(tmp_path_factory: pytest.TempPathFactory) -> Orders:
    """100 orders, every fifth without an amount: two epochs finish the view."""
    orders = Orders(tmp_path_factory.mktemp("läke o'brien"))
    orders.append({number: number % 5 for number in range(50)})
    orders.append({number: number % 5 for number in range(50, 100)})
    return orders


@pytest.fixture
def environment(orders: Orders, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment of the DAGs, about the orders."""
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
        """Return what a mapped task run is called in the grid."""
        rendered: str | None = self._instances[task_id, map_index].rendered_map_index
        return rendered

    def results(self, task_id: str, count: int) -> list[Any]:
        """Return what a task's mapped runs returned, in no order: Airflow starts them in any."""
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
