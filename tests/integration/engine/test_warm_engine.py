"""Epochs on a Spark Connect server: what clients leave there, and how they are refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from deltalake import DeltaTable
from google.protobuf.message import DecodeError
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider import protocol
from airflow_backfill_provider.applications.connect import connected
from airflow_backfill_provider.applications.connect_engine import LOCAL_DRIVER, ConnectEngine
from airflow_backfill_provider.applications.local_engine.clients import clients
from airflow_backfill_provider.core.errors import SparkServerUnavailableError, SparkSettingError
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.remote import Remote
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.spark.shallow_rows import shallow
from airflow_backfill_provider.state.applications import ApplicationRecords
from tests.integration.airflow.orders import Orders
from tests.ports import free_port
from tests.warm_engine import Busy, warm_engine

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[3]

BUSY = """
import sys
from pathlib import Path
from airflow_backfill_provider.applications.connect import connected, ended_by_sigterm
from airflow_backfill_provider.core.remote import Remote
from concurrent.futures import ThreadPoolExecutor
from tests.warm_engine import keep_busy
with connected(Remote.parse(sys.argv[1]), what="busy") as connection, ended_by_sigterm(connection.spark):
    connection.spark.range(1).collect()
    print(connection.session.model_dump_json(), flush=True)
    with ThreadPoolExecutor(1) as threads:
        threads.submit(keep_busy, connection.spark)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    """A warm engine."""
    with warm_engine(tmp_path_factory.mktemp("engine")) as record:
        yield record.remote


@pytest.fixture
def orders(lake: Path) -> Orders:
    """An upstream, and a job over it that is not created."""
    orders = Orders(lake)
    orders.append(dict.fromkeys(range(400), 1))
    return orders


def run_epoch(lake: Orders, engine: ConnectEngine) -> int:
    """Run the next epoch; returns how many rows it read."""
    backfill = lake.backfill
    injected = protocol.inject_barrier(
        store=backfill.store, upstream=backfill.upstream, requester=Requester(user="tester")
    )
    assert injected.barrier is not None
    return protocol.run_epoch(injected.barrier, store=backfill.store, engine=engine).snapshot_read_row_count


def create(lake: Orders, engine: ConnectEngine) -> None:
    backfill = lake.backfill
    creation.create_job(
        backfill.job,
        store=backfill.store,
        upstream=backfill.upstream,
        engine=lambda: engine,
        requested_by="tester",
    )


@pytest.mark.exhaustive
def test_the_next_driver_ends_what_a_killed_one_left_on_the_server(server: Remote, orders: Orders):
    orders.define(query="SELECT order_id, '{order_id}' AS braces FROM upstream")
    with connected(server, what="killed") as killed, connected(server, what="next") as connection:
        engine = ConnectEngine(connection, None, purpose="epoch")
        create(orders, engine)
        records = ApplicationRecords(orders.backfill.job.state)
        records.write_session(LOCAL_DRIVER, killed.session)
        busy = Busy(killed)
        busy.start()

        assert run_epoch(orders, engine) > 0

        busy.join(timeout=60)
        assert busy.error is not None, "its session was ended, and it with that"
        view = DeltaTable(orders.backfill.job.materialized_view).to_pyarrow_table()
        assert view["braces"].unique().to_pylist() == ["{order_id}"]
        assert records.session(LOCAL_DRIVER) is None


def test_a_driver_writes_down_its_session_before_it_writes_anything(server: Remote, orders: Orders, monkeypatch):
    with connected(server, what="dying") as connection:
        engine = ConnectEngine(connection, None, purpose="epoch")
        create(orders, engine)
        monkeypatch.setattr(ConnectEngine, "run_epoch", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run_epoch(orders, engine)

        assert ApplicationRecords(orders.backfill.job.state).session(LOCAL_DRIVER) == connection.session


@pytest.mark.exhaustive
def test_a_query_runs_over_rows_of_many_steps_whose_name_the_server_then_forgets(server: Remote):
    """The message of a query over rows may be nested a hundred times; each step of the rows takes two."""
    with connected(server, what="steps") as connection:
        spark = connection.spark
        rows = spark.range(3)
        for number in range(30):
            rows = rows.select((F.col("id") + number).alias("id")).filter("id >= 0")
        with pytest.raises(DecodeError, match="MaxDepth"):
            spark.sql("SELECT id FROM {rows}", rows=rows)
        with ExitStack() as opened:
            found = spark.sql("SELECT id FROM {rows}", rows=shallow(rows, opened))
            assert sorted(row.id for row in found.collect()) == [435, 436, 437]
            assert spark.catalog.listTables()
        assert spark.catalog.listTables() == []


@pytest.mark.exhaustive
def test_sigterm_ends_what_a_client_runs_on_the_server(server: Remote):
    client = subprocess.Popen(
        [sys.executable, "-c", BUSY, str(server)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert client.stdout is not None
    client.stdout.readline()
    assert [found.what for found in clients()] == ["busy"]
    time.sleep(0.5)
    client.terminate()

    assert client.wait(timeout=60) == 128 + signal.SIGTERM, "a thread of its that waits for the server got an answer"
    assert clients() == ()


def refused(remote: str, token: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run an application against a server that refuses it."""
    # Another folder, because the engine's folder has its token.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(ROOT), "SPARK_REMOTE": remote}
    if token is not None:
        environment["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = token
    return subprocess.run(
        [sys.executable, str(ROOT / "spark_apps" / "backfill_epoch.py"), "--state", "/nowhere", "--epoch", "1"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_wrong_token_is_one_line_and_may_be_tried_again(server: Remote):
    done = refused(str(server), token="wrong-and-secret")

    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.strip()]
    assert line.startswith(f"airflow-backfill: error: the Spark Connect server at {server} refuses this client")
    assert "secret" not in line


def test_a_server_that_is_not_there_is_one_line_and_may_be_tried_again():
    done = refused(f"sc://localhost:{free_port()}")

    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.strip()]
    assert line.startswith("airflow-backfill: error: no Spark Connect server answers at sc://localhost:")


def test_a_missing_token_and_a_wrong_one_have_different_errors(server: Remote, monkeypatch, tmp_path: Path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    with pytest.raises(SparkServerUnavailableError, match="its token is missing"), connected(server, what="x"):
        pass


@pytest.mark.exhaustive
def test_settings_of_a_session_are_set_and_those_of_a_server_are_refused(server: Remote):
    with connected(server, what="x", conf={"spark.sql.shuffle.partitions": "7"}) as connection:
        assert connection.spark.conf.get("spark.sql.shuffle.partitions") == "7"
    with (
        pytest.raises(SparkSettingError, match=r"spark\.executor\.memory is not a setting of a session"),
        connected(server, what="x", conf={"spark.executor.memory": "very-secret"}),
    ):
        pass


@pytest.mark.exhaustive
def test_a_table_that_another_session_changes_is_read_in_its_newest_version(server: Remote, orders: Orders):
    with connected(server, what="reader") as connection:
        read = connection.spark.read.format("delta").load(orders.upstream)
        assert read.count() == 400
        orders.append(dict.fromkeys(range(400, 500), 1))
        again = connection.spark.read.format("delta").load(orders.upstream)
        assert again.count() == 500
        DeltaTable(orders.upstream).delete("order_id < 100")
        assert again.count() == 400


def test_object_store_options_reach_a_session_and_not_the_servers_others(server: Remote):
    options = {"AWS_ACCESS_KEY_ID": "very-secret", "AWS_REGION": "eu-central-1"}
    with connected(server, what="one") as one, connected(server, what="other") as other:
        ConnectEngine(one, options, purpose="epoch")
        assert one.spark.conf.get("fs.s3a.access.key") == "very-secret"
        assert other.spark.conf.get("fs.s3a.access.key", None) is None
