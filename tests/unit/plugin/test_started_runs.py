"""Which DAG a job is shown under, of those that know it: the one that runs it."""

from __future__ import annotations

import datetime as dt

import pytest
from airflow.models import import_all_models
from airflow.models.asset import AssetEvent, AssetModel, TaskOutletAssetReference
from airflow.models.base import Base
from sqlalchemy import create_engine, event
from sqlalchemy.orm import Session

from airflow_backfill_provider.assets import DEFINITION, VIEW_GROUP
from airflow_backfill_provider.plugin import started_runs
from airflow_backfill_provider.plugin.registry import RegisteredJob, jobs_of_dags
from tests.builders import NOW, job_fields

DAGS = ["a_schedule", "backfill_manual", "on_commits"]


@pytest.fixture
def session():
    """Airflow's tables in memory, with one view, which two DAGs have among their outlets."""
    import_all_models()
    engine = create_engine("sqlite://")
    event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA foreign_keys = OFF"))
    Base.metadata.create_all(engine)
    with Session(engine) as session:
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


def test_a_job_is_shown_under_the_dag_that_ran_it_last(session):
    assert shown_under(session) == ("a_schedule", "on_commits")
    ran(session, "backfill_manual", 1)
    assert shown_under(session) == ("backfill_manual", "a_schedule", "on_commits")
    ran(session, "on_commits", 2)
    assert shown_under(session) == ("on_commits", "backfill_manual", "a_schedule")


def test_a_job_that_a_run_begins_is_one_with_the_job_that_other_dags_know(session, monkeypatch):
    (known,) = jobs_of_dags(session, DAGS)
    begun = RegisteredJob(
        name="paid_orders",
        definition=known.definition,
        backfill_conn_id=known.backfill_conn_id,
        dag_ids=("backfill_manual",),
    )
    monkeypatch.setattr(started_runs, "_created_jobs", lambda *_: [begun])
    (job,) = started_runs.jobs_with_started(session, DAGS)
    assert job.dag_ids == ("backfill_manual", "a_schedule", "on_commits")
