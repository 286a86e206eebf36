"""A standalone cluster runs epochs on tables in a bucket, and loses its executors, its workers and its drivers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.applications.process_group import end_group
from airflow_backfill_provider.applications.spark_settings import S3_FOLDER, jars_folder, storage_options_to_environment
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.jobs.backfill import Backfill
from demo.s3_server import S3Server
from tests.integration.s3.proxy import FailingProxy
from tests.standalone_cluster import (
    SMALL,
    Cluster,
    begin,
    creation,
    finish,
    next_epoch,
    run,
    running_cluster,
    submission,
)
from tests.warm_engine import warm_engine

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]

ROWS, ROWS_OF_AN_EPOCH = 800, 200
LATENCY = 0.1
"""Seconds of a request, so that what is killed is in the middle of its work."""

ONE_CORE = {"spark.cores.max": "1"}
FOLDERS_OF_JARS = (jars_folder(), jars_folder().parent / S3_FOLDER)
ON_CLUSTER = {"spark.jars": ",".join(str(jar) for folder in FOLDERS_OF_JARS for jar in folder.glob("*.jar"))}
"""The connector to S3 as well, which a cluster of a user's has itself."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path) as cluster:
        yield cluster


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[FailingProxy]:
    with FailingProxy(s3, LATENCY).running() as proxy:
        yield proxy


@pytest.fixture
def backfill(proxy: FailingProxy, tmp_path: Path) -> Backfill:
    """A job over orders in a bucket, read in four epochs."""
    folder, options = f"{proxy.root}/{tmp_path.name}", proxy.storage_options
    for first in range(0, ROWS, ROWS_OF_AN_EPOCH):
        write_deltalake(
            f"{folder}/orders",
            pa.table({"order_id": pa.array(range(first, first + ROWS_OF_AN_EPOCH), pa.int64())}),
            mode="append",
            configuration={"delta.enableChangeDataFeed": "true"},
            storage_options=options,
        )
    job = BackfillJob(
        name="cluster_orders",
        upstream={"path": f"{folder}/orders", "key": ["order_id"]},
        materialized_view=f"{folder}/view",
        query="SELECT order_id FROM upstream WHERE order_id % 2 = 0",
        rate_limit=ROWS_OF_AN_EPOCH,
    )
    return Backfill(job, options)


def view_rows(backfill: Backfill) -> list[int]:
    view = DeltaTable(backfill.job.view_location, storage_options=backfill.storage_options)
    rows: list[int] = view.to_pyarrow_table()["order_id"].to_pylist()
    return sorted(rows)


def test_epochs_on_tables_in_a_bucket_by_submission_and_through_connect(
    cluster: Cluster, backfill: Backfill, tmp_path: Path
) -> None:
    environment = storage_options_to_environment(backfill.storage_options)
    settings = {**SMALL, **ONE_CORE, **ON_CLUSTER}
    with warm_engine(tmp_path / "engine", master=cluster.master, conf=settings) as engine:
        on_server = {**environment, "SPARK_REMOTE": str(engine.remote)}
        run([sys.executable, *creation(backfill)], on_server)
        for _ in range(2):
            run([sys.executable, *next_epoch(backfill)], on_server)
            run([*submission(cluster, "submitted", {**ONE_CORE, **ON_CLUSTER}), *next_epoch(backfill)], environment)
    assert view_rows(backfill) == list(range(0, ROWS, 2))
    assert backfill.status().progress == 1.0
    assert set(cluster.applications()) >= {"airflow-backfill engine", "submitted"}


def test_an_epoch_outlives_an_executor_and_a_worker_and_is_done_once_if_its_driver_dies(
    cluster: Cluster, backfill: Backfill, proxy: FailingProxy
) -> None:
    """I1, I2, I5; tasks that were lost run again, and an epoch whose driver was lost is run again."""
    environment = storage_options_to_environment(backfill.storage_options)
    submit = submission(cluster, "submitted", ON_CLUSTER)
    run([*submit, *creation(backfill)], environment)

    def in_the_middle(lose: Callable[[subprocess.Popen[str]], None]) -> subprocess.Popen[str]:
        proxy.requests()
        running = begin([*submit, *next_epoch(backfill)], environment)
        try:
            wait_until_data_is_read(proxy, running)
            lose(running)
        except BaseException:
            end_group(running, 5)
            raise
        return running

    finish(in_the_middle(lambda _: cluster.kill_executor()))
    finish(in_the_middle(lambda _: cluster.kill_worker()))
    in_the_middle(lambda running: os.killpg(running.pid, signal.SIGKILL)).communicate()
    assert view_rows(backfill) == list(range(0, 2 * ROWS_OF_AN_EPOCH, 2)), "the third epoch is not done"
    for _ in range(2):
        run([*submit, *next_epoch(backfill)], environment)
    assert view_rows(backfill) == list(range(0, ROWS, 2))
    assert backfill.status().progress == 1.0


def wait_until_data_is_read(proxy: FailingProxy, running: subprocess.Popen[str]) -> None:
    """Wait until a task of an application has begun to read the upstream."""
    until = time.monotonic() + 200
    while time.monotonic() < until and running.poll() is None:
        if any(asked.client == "spark" and "/orders/part-" in asked.path for asked in proxy.requests()):
            return
        time.sleep(0.05)
    raise AssertionError("no task began to read")
