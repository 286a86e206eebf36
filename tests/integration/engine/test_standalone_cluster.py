"""A standalone cluster of a master and two workers runs epochs, through spark-submit and through Spark Connect."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.jobs.backfill import Backfill
from tests.standalone_cluster import SMALL, Cluster, creation, next_epoch, run, running_cluster, submission
from tests.warm_engine import warm_engine

pytestmark = pytest.mark.spark


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path) as cluster:
        yield cluster


@pytest.fixture
def backfill(lake: Path) -> Backfill:
    """A job over 400 orders, 200 per epoch."""
    rows = pa.table({"order_id": pa.array(range(400), pa.int64())})
    write_deltalake(str(lake / "orders"), rows, configuration={"delta.enableChangeDataFeed": "true"})
    return Backfill(
        BackfillJob(
            name="cluster_orders",
            upstream={"path": str(lake / "orders"), "key": ["order_id"]},
            materialized_view=str(lake / "view"),
            query="SELECT order_id FROM upstream WHERE order_id % 2 = 0",
            rate_limit=200,
        )
    )


@pytest.mark.exhaustive
def test_epochs_run_on_a_cluster_by_submission_and_through_connect(
    cluster: Cluster, backfill: Backfill, tmp_path: Path
):
    """One epoch is submitted with spark-submit, the next one runs on a Connect server; both on the cluster."""
    one_core = {"spark.cores.max": "1"}
    with warm_engine(tmp_path / "engine", master=cluster.master, conf={**SMALL, **one_core}) as engine:
        on_server = {"SPARK_REMOTE": str(engine.remote)}
        run([sys.executable, *creation(backfill)], on_server)
        run([sys.executable, *next_epoch(backfill)], on_server)
        run([*submission(cluster, "submitted", one_core), *next_epoch(backfill)], {})

        rows = DeltaTable(backfill.job.materialized_view).to_pyarrow_table()["order_id"].to_pylist()
        assert sorted(rows) == list(range(0, 400, 2))
        assert backfill.status().progress == 1.0
        assert set(cluster.applications()) >= {"airflow-backfill engine", "submitted"}
