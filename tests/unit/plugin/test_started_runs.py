"""Under which of its DAGs a job is listed: the one that runs it."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from airflow.models import import_all_models
from airflow.models.asset import AssetEvent, AssetModel, TaskOutletAssetReference
from airflow.models.base import Base
from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from airflow.utils.state import DagRunState
from sqlalchemy import create_engine, event, select, text
from sqlalchemy.orm import Session

from airflow_backfill_provider.assets import CONNECTION, DEFINITION, JOB_XCOM, VIEW_GROUP
from airflow_backfill_provider.plugin import started_runs
from airflow_backfill_provider.plugin.registry import TaskRuns, job_of_dag, jobs_of_dags
from airflow_backfill_provider.plugin.written_jobs import IDS_PER_QUERY
from tests.builders import NOW, job_fields

DAGS = ["a_schedule", "backfill_manual", "on_commits"]


@pytest.fixture(scope="module")
def tables():
    """Airflow's tables in memory."""
    import_all_models()
    engine = create_engine("sqlite://")
    event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA foreign_keys = OFF"))
    Base.metadata.create_all(engine)
    return engine


@pytest.fixture
def session(tables):
    """A session that is rolled back, with one view, which two DAGs have among their outlets."""
    with Session(tables) as session:
        session.add(
            AssetModel(
                id=1, name="paid_orders", uri="file:///lake/view", group=VIEW_GROUP, extra={DEFINITION: job_fields()}
            )
        )
        for dag_id in ("a_schedule", "on_commits"):
            session.add(TaskOutletAssetReference(asset_id=1, dag_id=dag_id, task_id="run_epoch", created_at=NOW))
        session.flush()
        yield session


def ran(session, dag_id, minute):
    when = NOW + dt.timedelta(minutes=minute)
    session.add(AssetEvent(asset_id=1, source_dag_id=dag_id, source_run_id="r", source_task_id="t", timestamp=when))
    session.flush()


def shown_under(session):
    (job,) = jobs_of_dags(session, DAGS)
    return job.dag_ids


def test_a_job_is_listed_under_the_dag_that_ran_it_last(session):
    assert shown_under(session) == ("a_schedule", "on_commits")
    ran(session, "backfill_manual", 1)
    assert shown_under(session) == ("backfill_manual", "a_schedule", "on_commits")
    ran(session, "on_commits", 2)
    assert shown_under(session) == ("on_commits", "backfill_manual", "a_schedule")


# --- jobs that a DAG run creates ------------------------------------------------------------------


def creates(session, dag_id, *values, run_id="run_1", state=DagRunState.RUNNING):
    """Let a DAG run push some XComs under the key of this package, one after another."""
    run = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
    if run is None:
        run = DagRun(dag_id=dag_id, run_id=run_id, run_type="manual", run_after=NOW, state=state)
        session.add(run)
        session.flush()
    for number, value in enumerate(values):
        session.add(
            XComModel(
                dag_run_id=run.id,
                dag_id=dag_id,
                run_id=run_id,
                task_id=f"create_{number}",
                map_index=-1,
                key=JOB_XCOM,
                value=json.dumps(value),
                timestamp=NOW + dt.timedelta(minutes=number),
            )
        )
    session.flush()


def xcom(name="paid_orders", conn_id="backfill_default", **fields):
    return {DEFINITION: job_fields(name=name, **fields), CONNECTION: conn_id}


def found(session, *dag_ids):
    return [(job.name, job.dag_ids) for job in started_runs.jobs_with_started(session, dag_ids or DAGS)]


def test_a_job_is_listed_before_its_first_epoch(session):
    """A DAG that gets its job at run time has no asset until then."""
    creates(session, "backfill_manual", xcom("other_orders", "lake"))
    assert found(session, "backfill_manual") == [("other_orders", ("backfill_manual",))]
    assert found(session, "a_schedule") == [("paid_orders", ("a_schedule",))]
    (job,) = started_runs.jobs_with_started(session, ["backfill_manual"])
    assert (job.definition, job.backfill_conn_id) == (job_fields(name="other_orders"), "lake")


@pytest.mark.parametrize("state", [DagRunState.SUCCESS, DagRunState.FAILED])
def test_a_job_that_an_ended_run_created_is_not_listed_under_its_dag(session, state):
    creates(session, "backfill_manual", xcom("other_orders"), state=state)
    assert found(session, "backfill_manual") == []


def test_a_job_that_a_run_creates_is_the_same_as_that_of_other_dags(session):
    (known,) = jobs_of_dags(session, DAGS)
    creates(session, "backfill_manual", {DEFINITION: known.definition, CONNECTION: known.backfill_conn_id})
    assert found(session) == [("paid_orders", ("backfill_manual", "a_schedule", "on_commits"))]


def test_the_last_definition_of_a_job_that_was_created_twice_counts(session):
    creates(session, "backfill_manual", xcom("o", rate_limit=1), xcom("o", rate_limit=2))
    (job,) = started_runs.jobs_with_started(session, ["backfill_manual"])
    assert job.definition["rate_limit"] == 2


@pytest.mark.parametrize(
    "value", [None, 7, [], {}, {DEFINITION: "x"}, {DEFINITION: {}, CONNECTION: "c"}, {DEFINITION: job_fields()}]
)
def test_an_xcom_of_another_task_under_that_key_is_no_job(session, value):
    creates(session, "backfill_manual", value)
    assert found(session, "backfill_manual") == []


def test_a_run_has_the_jobs_that_it_emitted_and_before_that_those_that_it_created(session):
    creates(session, "backfill_manual", xcom("other_orders"), run_id="r", state=DagRunState.SUCCESS)
    runs = TaskRuns(run_id="r")

    def names():
        return [job.name for job in started_runs.jobs_of_task_runs_with_started(session, "backfill_manual", runs)]

    assert names() == ["other_orders"]
    ran(session, "backfill_manual", 1)
    assert names() == ["paid_orders"]


# --- what other DAGs wrote ------------------------------------------------------------------------

FOREIGN = {"__classname__": "no.such.Class", "__version__": 1, "__data__": {}}
BAD_VALUES = [
    json.dumps(FOREIGN),
    json.dumps({DEFINITION: FOREIGN, CONNECTION: "c"}),
    json.dumps({"__classname__": "airflow.sdk.definitions.asset.Asset", "__version__": 1, "__data__": {"name": "a"}}),
    json.dumps({DEFINITION: job_fields(name="Has Space"), CONNECTION: "c"}),
    json.dumps({DEFINITION: job_fields(), CONNECTION: {"a": 1}}),
    json.dumps({DEFINITION: job_fields(query="\ud800"), CONNECTION: "c"}),
    json.dumps({DEFINITION: job_fields(rate_limit=float("nan")), CONNECTION: "c"}),
    '{"no JSON',
    "[" * 20_000,
    json.dumps("[" * 20_000),
    "",
]


def test_a_value_that_another_dag_wrote_hides_no_job(session, monkeypatch):
    """Neither a broken row nor one with a class: it is read as plain JSON, and only if it is of a requested DAG."""
    monkeypatch.setattr(XComModel, "deserialize_value", lambda _: pytest.fail("a class may be made"))
    creates(session, "backfill_manual", xcom("other_orders"), *(None for _ in BAD_VALUES))
    for number, value in enumerate(BAD_VALUES, start=1):
        statement = text("UPDATE xcom SET value = :value WHERE task_id = :task")
        session.execute(statement, {"value": value, "task": f"create_{number}"})

    assert found(session) == [("other_orders", ("backfill_manual",)), ("paid_orders", ("a_schedule", "on_commits"))]


def test_values_of_dags_that_were_not_requested_are_not_read(session, monkeypatch):
    read: list[str | None] = []
    monkeypatch.setattr(started_runs, "written_job", read.append)
    creates(session, "secret_dag", xcom("other_orders"))
    found(session, "backfill_manual")
    assert read == []
    found(session, "secret_dag")
    assert len(read) == 1


@pytest.mark.parametrize(
    "extra", [*BAD_VALUES, "null", "[]", '"definition"', "7", '{"definition": 7}', json.dumps(xcom("another_name"))]
)
def test_an_asset_whose_extra_is_no_job_is_one_missing_job(session, extra):
    """Any DAG may have an asset in the group of the views."""
    session.add(AssetModel(id=2, name="other", uri="file:///other", group=VIEW_GROUP, extra={}))
    session.add(TaskOutletAssetReference(asset_id=2, dag_id="a_schedule", task_id="t", created_at=NOW))
    session.flush()
    session.execute(text("UPDATE asset SET extra = :extra WHERE id = 2"), {"extra": extra})

    assert found(session, "a_schedule") == [("paid_orders", ("a_schedule",))]
    assert job_of_dag(session, "a_schedule", "other") is None


def test_the_dags_of_a_large_deployment_are_asked_for_in_parts(session):
    dag_ids = {f"dag_{number}" for number in range(2 * IDS_PER_QUERY)} | {"a_schedule", "on_commits"}
    assert found(session, *dag_ids) == [("paid_orders", ("a_schedule", "on_commits"))]
