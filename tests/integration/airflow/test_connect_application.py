"""Operators whose epochs run on a Spark Connect server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred

from airflow_backfill_provider.applications.local_engine.engine_files import read_token
from airflow_backfill_provider.core.remote import Remote
from airflow_backfill_provider.operators.base import SparkBackfillOperator
from airflow_backfill_provider.operators.epoch import RunEpochOperator
from airflow_backfill_provider.operators.job import CreateBackfillJobOperator
from tests.integration.airflow.orders import Orders
from tests.integration.airflow.test_spark_application import first_event
from tests.ports import free_port
from tests.unit.stand_in import context
from tests.warm_engine import warm_engine

pytestmark = [pytest.mark.airflow, pytest.mark.spark]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    """A warm engine."""
    with warm_engine(tmp_path_factory.mktemp("engine")) as record:
        yield record.remote


@pytest.fixture
def warm(server: Remote, monkeypatch: pytest.MonkeyPatch) -> str:
    """A connection to the engine, with its token."""
    fields = {"conn_type": "spark_connect", "host": server.host, "port": server.port, "password": read_token()}
    monkeypatch.setenv("AIRFLOW_CONN_WARM", json.dumps(fields))
    return "warm"


def run_deferred(operator: SparkBackfillOperator) -> object:
    """Run a task that defers to its end, as the triggerer and another worker do."""
    with pytest.raises(TaskDeferred) as waiting:
        operator.execute(context(operator.task_id))
    event = asyncio.run(first_event(waiting.value.trigger))
    return operator.resume(context(operator.task_id), event)


@pytest.mark.exhaustive
def test_a_job_is_created_and_run_on_the_server(orders: Orders, warm: str, server: Remote):
    definition = orders.define(name="warm_orders", materialized_view=str(orders.folder / "warm"), rate_limit=100)

    run_deferred(CreateBackfillJobOperator(task_id="create", job=definition, spark_conn_id=warm))
    run_deferred(RunEpochOperator(task_id="epoch", job=definition, spark_conn_id=warm))

    assert orders.view() == orders.expected()
    record = orders.backfill.store.applications.read("epoch-1")
    assert record is not None
    assert record.succeeded
    assert record.web_url == str(server)
    assert any("epoch 1 is committed: 100 rows read" in line for line in record.said)
    assert read_token() not in record.model_dump_json() + Path(record.log).read_text(encoding="utf-8")

    orders.delete(3)
    run_deferred(RunEpochOperator(task_id="another_epoch", job=definition, spark_conn_id=warm))
    assert orders.view() == orders.expected()


@pytest.mark.exhaustive
def test_a_task_that_keeps_its_slot_runs_on_the_server_too(orders: Orders, warm: str, capfd):
    definition = orders.define(name="kept_orders", materialized_view=str(orders.folder / "kept"), rate_limit=100)

    CreateBackfillJobOperator(task_id="create", job=definition, spark_conn_id=warm, deferrable=False).execute(
        context("create")
    )
    RunEpochOperator(task_id="epoch", job=definition, spark_conn_id=warm, deferrable=False).execute(context("epoch"))

    assert orders.view() == orders.expected()
    assert read_token() not in "".join(capfd.readouterr())


@pytest.mark.exhaustive
def test_an_unreachable_server_is_worth_a_retry(orders: Orders, monkeypatch):
    definition = orders.define(name="lost_orders", materialized_view=str(orders.folder / "lost"))
    fields = {"conn_type": "spark", "host": "sc://localhost", "port": free_port(), "password": "very-secret"}
    monkeypatch.setenv("AIRFLOW_CONN_GONE", json.dumps(fields))

    with pytest.raises(AirflowException, match="no Spark Connect server answers at sc://localhost") as error:
        run_deferred(CreateBackfillJobOperator(task_id="create", job=definition, spark_conn_id="gone"))
    assert not isinstance(error.value, AirflowFailException)
    assert "very-secret" not in str(error.value)
