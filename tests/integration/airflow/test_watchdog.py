"""The watchdog's DAG in Airflow: an alarm fails its run, and is reported once over all runs."""

from __future__ import annotations

import datetime as dt
import json
import warnings

import pytest
from airflow.dag_processing.dagbag import DagBag

from airflow_backfill_provider import protocol
from airflow_backfill_provider.jobs import mutations
from tests.airflow_home import DAGS
from tests.builders import NOW
from tests.integration.airflow.conftest import Run
from tests.unit.notifications.conftest import webhooks as webhooks  # noqa: PLC0414 - a fixture
from tests.unit.stand_in import SOMEBODY, Lake

pytestmark = pytest.mark.airflow


@pytest.fixture
def stalled(lake, monkeypatch, tmp_path) -> Lake:
    """A job with an epoch that has been pinned for two days, in a folder of jobs."""
    stalled = Lake(lake)
    stalled.append(range(1000))
    stalled.create()
    then = dt.datetime.now(dt.UTC) - dt.timedelta(days=2)
    backfill = stalled.backfill
    protocol.inject_barrier(store=backfill.store, upstream=backfill.upstream, requester=SOMEBODY, clock=lambda: then)
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "small_orders.yaml").write_text(backfill.job.model_dump_json(), encoding="utf-8")
    monkeypatch.setenv("AIRFLOW_BACKFILL_JOBS", str(folder))
    monkeypatch.delenv("AIRFLOW_BACKFILL_JOB", raising=False)
    return stalled


@pytest.fixture
def run_at(airflow_database):
    """Runs the DAG for a time of its schedule."""

    def run(minute: int) -> Run:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            bag = DagBag(str(DAGS / "backfill_watchdog.py"))
            assert bag.import_errors == {}
            return Run(bag.dags["backfill_watchdog"].test(logical_date=NOW + dt.timedelta(minutes=minute)))

    return run


def test_an_alarm_fails_the_run_and_is_reported_once(stalled, webhooks, run_at, monkeypatch):
    """Issue parts 8 and 9."""
    server = {"conn_type": "http", "host": "http://127.0.0.1", "port": webhooks.port}
    monkeypatch.setenv("AIRFLOW_CONN_CHAT", json.dumps(server))
    monkeypatch.setenv("AIRFLOW_BACKFILL_WEBHOOK", "chat")
    assert run_at(0).states == {("look_after_jobs", -1): "failed"}
    ((_, _, body),) = webhooks.posts
    assert body["text"].startswith("small_orders stalled: epoch 1 has been pinned for 2 d 0 h")

    assert run_at(10).state == "failed"
    assert len(webhooks.posts) == 1, "the run before had it too"

    mutations.pause_job(store=stalled.backfill.store, requested_by="somebody")
    assert run_at(20).states == {("look_after_jobs", -1): "success"}
    assert run_at(30).result("look_after_jobs") == []
    mutations.resume_job(store=stalled.backfill.store, requested_by="somebody")
    assert run_at(40).state == "failed"
    assert len(webhooks.posts) == 2, "it came back"
