"""The DAGs in ``dags/`` over a table of a real PostgreSQL, on real Airflow and Spark."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.applications.local_engine.engine_files import read_token
from airflow_backfill_provider.hooks.backfill import BackfillHook
from airflow_backfill_provider.plugin.observed_job import ObservedJob
from tests.airflow_home import AIRFLOW_HOME
from tests.integration.airflow.conftest import Run
from tests.integration.airflow.shop import CONNECTION, PASSWORD, ShopOrders
from tests.integration.airflow.test_secrets import CommandLines, files
from tests.integration.airflow.test_secrets import command_lines as command_lines  # noqa: PLC0414 - a fixture
from tests.integration.airflow.test_secrets import database as whole_database
from tests.integration.postgres.conftest import postgres as postgres  # noqa: PLC0414 - a fixture
from tests.postgres_server import PostgresServer
from tests.warm_engine import warm_engine

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(600)]

RunDag = Callable[..., Run]

_numbers = itertools.count()


@pytest.fixture
def shop(
    postgres: PostgresServer,
    airflow_database: None,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[ShopOrders]:
    """100 orders, every fifth without an amount, and Airflow's connection to their database."""
    # As the triggerer and the API server look it up; a task asks its supervisor.
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")
    from airflow.models.connection import Connection
    from airflow.utils.session import create_session

    name = f"dag_shop_{next(_numbers)}"
    postgres.create_database(name)
    shop = ShopOrders(tmp_path_factory.mktemp("läke o'brien"), postgres, name)
    shop.define()
    shop.append(1, 100)
    with create_session() as session:
        session.add(Connection(conn_id=CONNECTION, **shop.connection))
    try:
        yield shop
    finally:
        with create_session() as session:
            session.query(Connection).filter(Connection.conn_id == CONNECTION).delete()
        shop.close()


@pytest.fixture
def about_shop(environment: pytest.MonkeyPatch, shop: ShopOrders) -> pytest.MonkeyPatch:
    """The environment of the DAGs, about the shop's orders."""
    environment.setenv("AIRFLOW_BACKFILL_JOB", str(shop.file))
    environment.setenv("AIRFLOW_BACKFILL_JOBS", str(shop.folder))
    return environment


@pytest.mark.exhaustive
def test_a_dag_reads_a_database_with_the_login_of_airflows_connection(
    shop: ShopOrders, about_shop: pytest.MonkeyPatch, run_dag: RunDag
) -> None:
    """I1, from the creation of the view to its cancellation."""
    about_shop.setenv("AIRFLOW_BACKFILL_BARRIERS", "3")
    first = run_dag("backfill_scheduled")
    assert first.state == "success"
    assert sum(summary["rows"] for summary in first.results("backfill.run_epoch", 3)) == 100
    assert shop.view() == shop.expected()
    assert shop.has_slot()
    assert run_dag("backfill_manual", {"job": str(shop.file), "epochs": 1, "mutation": "cancel"}).state == "success"
    assert not shop.has_slot(), "the server keeps no log for it"


@pytest.mark.exhaustive
def test_the_dags_run_a_backfill_of_a_database_from_creation_to_cancellation(
    shop: ShopOrders, about_shop: pytest.MonkeyPatch, run_dag: RunDag
) -> None:
    """One test, because every step builds on the one before; `test_dags.py` has such a test in `make test`."""
    about_shop.setenv("AIRFLOW_BACKFILL_BARRIERS", "3")
    on_page = ObservedJob(lambda: BackfillHook().open(str(shop.file)))
    assert not on_page.look().created

    first = run_dag("backfill_scheduled")
    assert first.state == "success"
    summaries = first.results("backfill.run_epoch", 3)
    assert sum(summary["rows"] for summary in summaries) == 100
    assert any(summary["finished"] for summary in summaries)
    assert shop.view() == shop.expected()

    shop.append(101, 110)
    shop.run_sql("DELETE FROM orders WHERE order_id = 1", "UPDATE orders SET amount = 9 WHERE order_id = 2")
    behind = on_page.look_again().summary
    assert behind is not None
    assert behind.lag_versions > 0
    assert behind.behind_since is not None
    assert behind.kept_bytes is not None
    throttled = {"job": str(shop.file), "epochs": 2, "mutation": "throttle", "rate_limit": 10}
    by_hand = run_dag("backfill_manual", throttled)
    assert by_hand.state == "success"
    assert sum(summary["changes"] for summary in by_hand.results("run_epoch", 2)) == 12
    assert shop.backfill.store.barriers()[-1].rate_limit == 10
    assert shop.view() == shop.expected()

    DeltaTable(shop.backfill.job.materialized_view).delete("order_id = 3")
    verified = run_dag("backfill_verify")
    assert verified.state == "success"
    assert verified.result("verify_view")["keys"]["missing"] == 1
    assert verified.result("repair_what_differs")["equal"] is True
    assert shop.view() == shop.expected()

    assert shop.has_slot()
    cancelled = run_dag("backfill_manual", {"job": str(shop.file), "epochs": 3, "mutation": "cancel"})
    assert cancelled.state == "success"
    assert not shop.has_slot(), "the server keeps no log for it"


@pytest.mark.exhaustive
def test_a_view_of_a_database_is_watched(shop: ShopOrders, about_shop: pytest.MonkeyPatch, run_dag: RunDag) -> None:
    """Once it is finished, nothing of it is late; `test_dags.py` watches one of a Delta table in `make test`."""
    about_shop.setenv("AIRFLOW_BACKFILL_BARRIERS", "3")
    assert run_dag("backfill_scheduled").state == "success"
    watched = run_dag("backfill_watch")
    assert watched.state == "success"
    report = watched.result("report")
    assert (report["finished"], report["lag_versions"], report["lag_seconds"]) == (True, 0, 0)
    assert run_dag("backfill_watchdog").state == "success"
    run_dag("backfill_manual", {"job": str(shop.file), "epochs": 1, "mutation": "cancel"})
    assert run_dag("backfill_watchdog").state == "success"


@pytest.mark.exhaustive
def test_a_job_over_a_database_can_be_written_into_the_form_and_paused(
    shop: ShopOrders, about_shop: pytest.MonkeyPatch, run_dag: RunDag
) -> None:
    """The form names the connection, and never what is in it."""
    definition = shop.define(name=shop.name)
    shop.file.unlink()
    about_shop.setenv("AIRFLOW_BACKFILL_ALLOWED_ROOTS", json.dumps([str(Path(definition["materialized_view"]).parent)]))

    paused = run_dag("backfill_manual", {"definition": definition, "epochs": 2, "mutation": "pause"})
    assert paused.state == "success"
    assert [summary["rows"] for summary in paused.results("run_epoch", 2)] == [0, 0]
    resumed = run_dag("backfill_manual", {"definition": definition, "epochs": 3, "mutation": "resume"})
    assert resumed.state == "success"
    assert sum(summary["rows"] for summary in resumed.results("run_epoch", 3)) == 100

    shop.define()
    assert shop.view() == shop.expected()
    assert PASSWORD not in database()


@pytest.mark.exhaustive
def test_a_watcher_drives_a_job_to_its_end_and_then_follows_the_table(
    shop: ShopOrders, about_shop: pytest.MonkeyPatch, run_dag: RunDag
) -> None:
    """It looks the connection up in Airflow, and needs no slot to notice a job that is not created yet."""
    about_shop.setenv("AIRFLOW_BACKFILL_BARRIERS", "3")

    def follow() -> None:
        assert run_dag("backfill_on_upstream_commits").state == "success"

    def write() -> None:
        follow()
        shop.append(101, 110)

    created, changed = (event["reason"] for event in upstream_events(shop.file, write, follow))
    assert created == "the job is not created yet"
    assert changed.startswith("the upstream's newest offset is")
    assert shop.view() == shop.expected()


def database() -> str:
    """Return all that Airflow wrote down, without its connections; in these tests it does not encrypt them."""
    return "\n".join(line for line in whole_database().splitlines() if not line.startswith('INSERT INTO "connection" '))


def upstream_events(job: Path, *steps: Callable[[], None]) -> list[dict[str, Any]]:
    """Let the watcher of a job look by itself, with a step after each of its first events; return these events."""
    from airflow_backfill_provider.assets import upstream_asset

    stream = upstream_asset(str(job), poll_interval=0.2).watchers[0].trigger.run()

    async def next_event() -> dict[str, Any]:
        event = await asyncio.wait_for(anext(stream), timeout=120)
        return dict(event.payload)

    collected = []
    # DAG runs need the main thread.
    with asyncio.Runner() as runner:
        for step in steps:
            collected.append(runner.run(next_event()))
            step()
    return collected


@contextmanager
def spark_of(engine: str, environment: pytest.MonkeyPatch, conf: Mapping[str, str], folder: Path) -> Iterator[None]:
    """Let applications run on a Spark of the test's own, with a configuration of its own."""
    if engine == "Spark Connect":
        with warm_engine(folder / "engine", conf=conf) as record:
            fields = {"conn_type": "spark_connect", "host": record.remote.host, "port": record.remote.port}
            environment.setenv("AIRFLOW_CONN_TESTS_SPARK", json.dumps({**fields, "password": read_token()}))
            yield
        return
    # The folder also has the file system of the tests' Spark.
    settings = Path(shutil.copytree(os.environ["SPARK_CONF_DIR"], folder / "conf"))
    with (settings / "spark-defaults.conf").open("a", encoding="utf-8") as file:
        file.writelines(f"{name} {value}\n" for name, value in conf.items())
    environment.setenv("SPARK_CONF_DIR", str(settings))
    environment.delenv("AIRFLOW_BACKFILL_SPARK_CONNECTION")
    yield


@pytest.mark.exhaustive
@pytest.mark.parametrize("engine", ["spark-submit", "Spark Connect"])
def test_the_password_appears_nowhere(
    shop: ShopOrders,
    about_shop: pytest.MonkeyPatch,
    run_dag: RunDag,
    command_lines: CommandLines,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    engine: str,
) -> None:
    """A whole backfill, a verification, and a login that the database refuses, while Spark logs its events."""
    logged = tmp_path / "events"
    logged.mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{logged}",
    }
    chosen = {"job": str(shop.file), "epochs": 4, "epochs_per_run": 4}
    with spark_of(engine, about_shop, conf, tmp_path):
        assert run_dag("backfill_manual", chosen).state == "success"
        assert shop.view() == shop.expected()
        assert run_dag("backfill_verify").state == "success"
        shop.run_sql(f"ALTER ROLE {shop.login} NOLOGIN")
        assert run_dag("backfill_manual", chosen).state == "failed"

    command_lines.stop()
    printed = capfd.readouterr()
    outputs = {
        "what was printed": printed.out + printed.err,
        "a command line": "\n".join(command_lines.seen),
        "Airflow's database": database(),
        **{
            str(file): file.read_bytes().decode("utf-8", "replace")
            for file in files(AIRFLOW_HOME / "logs", tmp_path, shop.folder)
        },
    }
    assert shop.login in outputs["what was printed"], "the database refused it"
    assert any("SparkListenerApplicationStart" in output for output in outputs.values())
    assert any("JDBCRelation" in text for output, text in outputs.items() if str(logged) in output)
    assert [output for output, text in outputs.items() if PASSWORD in text] == []
