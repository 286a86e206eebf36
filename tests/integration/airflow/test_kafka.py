"""The DAGs in ``dags/`` over a topic of a real Kafka broker, on real Airflow and Spark."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.scan.splits import SplitStage
from airflow_backfill_provider.hooks.backfill import BackfillHook
from airflow_backfill_provider.plugin.observed_job import ObservedJob
from tests.airflow_home import AIRFLOW_HOME
from tests.integration.airflow.conftest import Run
from tests.integration.airflow.test_postgres import database, spark_of, upstream_events
from tests.integration.airflow.test_secrets import CommandLines, files
from tests.integration.airflow.test_secrets import command_lines as command_lines  # noqa: PLC0414 - a fixture
from tests.integration.airflow.topic import CONNECTION, PARTITIONS, PASSWORD, TopicOrders
from tests.integration.kafka.conftest import authority as authority  # noqa: PLC0414 - a fixture
from tests.integration.kafka.conftest import kafka as kafka  # noqa: PLC0414 - a fixture
from tests.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(600)]

RunDag = Callable[..., Run]

_numbers = itertools.count()


@pytest.fixture
def orders_topic(
    kafka: KafkaBroker,
    airflow_database: None,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[TopicOrders]:
    """100 orders, every fifth without an amount, and Airflow's connection to their cluster, with a login."""
    # As the triggerer and the API server look it up; a task asks its supervisor.
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")
    from airflow.models.connection import Connection
    from airflow.utils.session import create_session

    topic = TopicOrders(tmp_path_factory.mktemp("läke o'brien"), kafka, f"dag_topic_{next(_numbers)}")
    topic.define()
    topic.append(1, 100)
    with create_session() as session:
        session.add(Connection(conn_id=CONNECTION, **topic.connection))
    yield topic
    with create_session() as session:
        session.query(Connection).filter(Connection.conn_id == CONNECTION).delete()


@pytest.fixture
def about_topic(environment: pytest.MonkeyPatch, orders_topic: TopicOrders) -> pytest.MonkeyPatch:
    """The environment of the DAGs, about the topic's orders."""
    environment.setenv("AIRFLOW_BACKFILL_JOB", str(orders_topic.file))
    environment.setenv("AIRFLOW_BACKFILL_JOBS", str(orders_topic.folder))
    return environment


def stages(on_page: ObservedJob) -> set[SplitStage]:
    """Return the stages of the splits that the pages show."""
    splits = on_page.look_again().splits
    assert len(splits) == PARTITIONS
    return {split.stage for split in splits}


@pytest.mark.exhaustive
def test_a_dag_reads_a_topic_with_the_login_of_airflows_connection(
    orders_topic: TopicOrders, about_topic: pytest.MonkeyPatch, run_dag: RunDag
) -> None:
    """I1, from the creation of the view until it is finished; its splits are on the page."""
    about_topic.setenv("AIRFLOW_BACKFILL_BARRIERS", "2")
    on_page = ObservedJob(lambda: BackfillHook().open(str(orders_topic.file)))
    assert not on_page.look().created
    first = run_dag("backfill_scheduled")
    assert first.state == "success"
    assert sum(summary["rows"] for summary in first.results("backfill.run_epoch", 2)) == 100
    assert orders_topic.view() == orders_topic.expected()
    assert stages(on_page) == {SplitStage.FINISHED}


@pytest.mark.exhaustive
def test_the_dags_run_a_backfill_of_a_topic_from_creation_to_cancellation(
    orders_topic: TopicOrders, about_topic: pytest.MonkeyPatch, run_dag: RunDag
) -> None:
    """One test, because every step builds on the one before; `test_dags.py` has such a test in `make test`."""
    about_topic.setenv("AIRFLOW_BACKFILL_BARRIERS", "2")
    on_page = ObservedJob(lambda: BackfillHook().open(str(orders_topic.file)))
    assert not on_page.look().created

    first = run_dag("backfill_scheduled")
    assert first.state == "success"
    summaries = first.results("backfill.run_epoch", 2)
    assert sum(summary["rows"] for summary in summaries) == 100
    assert any(summary["finished"] for summary in summaries)
    assert orders_topic.view() == orders_topic.expected()
    assert stages(on_page) == {SplitStage.FINISHED}

    orders_topic.append(101, 110)
    behind = on_page.look_again().summary
    assert behind is not None
    assert behind.lag_versions == 10
    throttled = {"job": str(orders_topic.file), "epochs": 2, "mutation": "throttle", "rate_limit": 10}
    by_hand = run_dag("backfill_manual", throttled)
    assert by_hand.state == "success"
    assert sum(summary["changes"] for summary in by_hand.results("run_epoch", 2)) == 10
    assert orders_topic.backfill.store.barriers()[-1].rate_limit == 10
    assert orders_topic.view() == orders_topic.expected()

    watched = run_dag("backfill_watch")
    assert watched.state == "success"
    report = watched.result("report")
    assert (report["finished"], report["lag_versions"], report["lag_seconds"]) == (True, 0, 0)
    assert run_dag("backfill_watchdog").state == "success"

    DeltaTable(orders_topic.backfill.job.materialized_view).delete("order_id = 3")
    verified = run_dag("backfill_verify")
    assert verified.state == "success"
    assert verified.result("verify_view")["keys"]["missing"] == 1
    assert verified.result("repair_what_differs")["equal"] is True
    assert orders_topic.view() == orders_topic.expected()

    cancelled = run_dag("backfill_manual", {"job": str(orders_topic.file), "epochs": 1, "mutation": "cancel"})
    assert cancelled.state == "success"
    assert run_dag("backfill_watchdog").state == "success"


@pytest.mark.exhaustive
def test_a_job_over_a_topic_can_be_written_into_the_form_and_paused(
    orders_topic: TopicOrders, about_topic: pytest.MonkeyPatch, run_dag: RunDag
) -> None:
    """The form names the connection, and never what is in it. A paused job's splits stay where they are."""
    definition = orders_topic.define(name=orders_topic.name)
    about_topic.setenv(
        "AIRFLOW_BACKFILL_ALLOWED_ROOTS", json.dumps([str(Path(definition["materialized_view"]).parent)])
    )
    on_page = ObservedJob(lambda: BackfillHook().open(str(orders_topic.file)))

    paused = run_dag("backfill_manual", {"definition": definition, "epochs": 2, "mutation": "pause"})
    assert paused.state == "success"
    assert [summary["rows"] for summary in paused.results("run_epoch", 2)] == [0, 0]
    assert stages(on_page) == {SplitStage.BACKFILLING}
    resumed = run_dag("backfill_manual", {"definition": definition, "epochs": 3, "mutation": "resume"})
    assert resumed.state == "success"
    assert sum(summary["rows"] for summary in resumed.results("run_epoch", 3)) == 100
    assert orders_topic.view() == orders_topic.expected()
    assert PASSWORD not in database()


@pytest.mark.exhaustive
def test_a_watcher_drives_a_job_to_its_end_and_then_follows_the_topic(
    orders_topic: TopicOrders, about_topic: pytest.MonkeyPatch, run_dag: RunDag
) -> None:
    """It looks the connection up in Airflow."""
    about_topic.setenv("AIRFLOW_BACKFILL_BARRIERS", "3")

    def follow() -> None:
        assert run_dag("backfill_on_upstream_commits").state == "success"

    def produce() -> None:
        follow()
        orders_topic.append(101, 110)

    created, changed = (event["reason"] for event in upstream_events(orders_topic.file, produce, follow))
    assert created == "the job is not created yet"
    assert changed.startswith("the upstream's newest offset is")
    assert orders_topic.view() == orders_topic.expected()


@pytest.mark.exhaustive
@pytest.mark.parametrize("engine", ["spark-submit", "Spark Connect"])
def test_the_password_of_the_cluster_appears_nowhere(
    orders_topic: TopicOrders,
    about_topic: pytest.MonkeyPatch,
    run_dag: RunDag,
    command_lines: CommandLines,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    engine: str,
) -> None:
    """A whole backfill, a verification, and a login that the cluster refuses, while Spark logs its events."""
    logged = tmp_path / "events"
    logged.mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{logged}",
    }
    chosen = {"job": str(orders_topic.file), "epochs": 4, "epochs_per_run": 4}
    with spark_of(engine, about_topic, conf, tmp_path):
        assert run_dag("backfill_manual", chosen).state == "success"
        assert orders_topic.view() == orders_topic.expected()
        assert run_dag("backfill_verify").state == "success"
        orders_topic.set_password("another one")
        assert run_dag("backfill_manual", chosen).state == "failed"

    command_lines.stop()
    printed = capfd.readouterr()
    outputs = {
        "what was printed": printed.out + printed.err,
        "a command line": "\n".join(command_lines.seen),
        "Airflow's database": database(),
        **{
            str(file): file.read_bytes().decode("utf-8", "replace")
            for file in files(AIRFLOW_HOME / "logs", tmp_path, orders_topic.folder)
        },
    }
    assert "refuses the login" in outputs["what was printed"]
    assert any("SparkListenerApplicationStart" in output for output in outputs.values())
    assert any(orders_topic.name in text for output, text in outputs.items() if str(logged) in output)
    assert [output for output, text in outputs.items() if PASSWORD in text] == []
