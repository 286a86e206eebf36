"""Creating and rebuilding jobs as tasks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_backfill_provider.core.application import ApplicationRecord
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.operators.job import (
    ChangeBackfillOperator,
    CreateBackfillJobOperator,
    RebuildBackfillOperator,
)
from airflow_backfill_provider.state.applications import ApplicationRecords
from tests.builders import NOW
from tests.plain_engine import CountingEngine
from tests.unit.stand_in import Lake, StandInSpark, context


@pytest.fixture
def created(as_created: Callable[[], Lake]) -> Lake:
    """The job, created."""
    return as_created()


def create(job):
    return CreateBackfillJobOperator(task_id="create", job=job).execute(context("create"))


def test_the_first_creation_submits_the_definition(orders: Lake, spark: StandInSpark):
    summary = create(orders.definition)

    ((application, action, _, definition, _, requested_by),) = spark.submitted
    assert (application, action) == ("backfill_job.py", "create")
    assert BackfillJob(**json.loads(definition)) == orders.backfill.job
    assert requested_by == "dag.create of run run_1"
    assert summary["name"] == "small_orders"
    assert summary["rate_limit"] == 400
    assert orders.backfill.store.created()


def test_creating_an_unchanged_job_again_starts_no_spark(created: Lake, spark: StandInSpark):
    assert create(created.definition)["finished_epoch"] is None
    assert spark.submitted == []


def test_a_creation_that_died_before_the_view_is_completed_by_spark(created: Lake, spark: StandInSpark):
    shutil.rmtree(created.backfill.job.materialized_view)

    create(created.definition)

    assert len(spark.submitted) == 1


def test_a_rebuild_that_died_before_the_view_is_completed_by_spark(created: Lake, spark: StandInSpark, monkeypatch):
    with monkeypatch.context() as dying:
        dying.setattr(CountingEngine, "ensure_tables", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            RebuildBackfillOperator(task_id="rebuild", job=created.definition).execute(context("rebuild"))

    create(created.definition)

    assert [call[1] for call in spark.submitted] == ["rebuild", "create"]


def test_a_job_is_given_as_an_object_as_fields_or_as_a_file(created: Lake, spark: StandInSpark, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(created.definition), encoding="utf-8")

    summaries = [create(job) for job in (created.backfill.job, created.definition, str(file))]

    assert summaries[0] == summaries[1] == summaries[2]


def test_another_definition_under_the_same_state_is_refused_without_spark(created: Lake, spark: StandInSpark):
    with pytest.raises(AirflowFailException, match="with another vnode_count; rebuild the job"):
        create({**created.definition, "vnode_count": 8})
    assert spark.submitted == []


def test_a_wrong_definition_is_refused_when_the_task_runs(orders: Lake, spark: StandInSpark):
    operator = CreateBackfillJobOperator(task_id="create", job={**orders.definition, "colour": "red"})

    with pytest.raises(AirflowFailException, match="colour: unknown field"):
        operator.execute(context("create"))


def test_an_application_that_fails_leaves_the_retry_to_airflow(orders: Lake, spark: StandInSpark):
    spark.before.append(("no room", True))

    with pytest.raises(AirflowException, match=r"^no room$"):
        create(orders.definition)


@pytest.mark.slow
def test_a_rebuild_starts_the_job_over_with_the_new_definition(created: Lake, spark: StandInSpark):
    created.finish()
    before = created.backfill.store.settings()

    changed = {**created.definition, "vnode_count": 8}
    summary = RebuildBackfillOperator(task_id="rebuild", job=changed).execute(context("rebuild"))

    assert spark.submitted[0][:2] == ["backfill_job.py", "rebuild"]
    assert summary["incarnation"] != before.incarnation
    assert summary["finished_epoch"] is None


def test_a_task_that_creates_a_job_sampled_records_which_one_it_is(orders: Lake, spark: StandInSpark):
    spark.before.append(("no Spark today", True))
    ctx = context("create")

    with pytest.raises(AirflowException, match="no Spark today"):
        CreateBackfillJobOperator(task_id="create", job=orders.definition).execute(ctx)

    assert ctx["ti"].xcoms == {
        "backfill_job": {"definition": orders.definition, "backfill_conn_id": "airflow_backfill_default"}
    }


def test_a_refused_definition_leaves_no_record_and_that_of_a_created_job_stays(orders: Lake, spark: StandInSpark):
    """Another job may use the folder of its control tables later. For a created job it says what went wrong."""
    records = ApplicationRecords(orders.backfill.job.state)
    record = ApplicationRecord(name="create", attempt="a", host="here", pid=1, started_at=NOW, log="/log")
    records.write(record)
    spark.before.append(("query: no", False))
    with pytest.raises(AirflowFailException, match="query: no"):
        create(orders.definition)
    assert not Path(orders.backfill.job.state).exists()

    orders.create()
    records.write(record.model_copy(update={"name": "rebuild"}))
    spark.before.append(("query: no", False))
    with pytest.raises(AirflowFailException, match="query: no"):
        RebuildBackfillOperator(task_id="rebuild", job=orders.definition).execute(context("rebuild"))
    assert records.read("rebuild") is not None


@pytest.mark.slow
def test_a_changed_query_is_checked_by_spark_once_and_waits_for_the_next_epoch(created: Lake, spark: StandInSpark):
    created.finish()
    changed = {**created.definition, "query": f"{created.backfill.job.query} WHERE amount > 3"}

    summaries = [ChangeBackfillOperator(task_id="change", job=changed).execute(context("change")) for _ in range(2)]

    assert [call[:2] for call in spark.submitted] == [["backfill_job.py", "change"]]
    assert summaries[0] == summaries[1]
    assert created.backfill.store.settings().job["query"] == changed["query"]


@pytest.mark.slow
def test_what_only_a_rebuild_can_change_is_refused_without_spark(created: Lake, spark: StandInSpark):
    created.finish()

    with pytest.raises(AirflowFailException, match="another vnode_count; rebuild the job instead"):
        ChangeBackfillOperator(task_id="change", job={**created.definition, "vnode_count": 8}).execute(
            context("change")
        )

    assert spark.submitted == []
