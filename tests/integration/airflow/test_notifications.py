"""Callbacks as Airflow calls them: a task that fails, and the run that finishes a view."""

from __future__ import annotations

import json
import warnings

import pytest
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db

from tests.integration.airflow.conftest import Run
from tests.unit.notifications.conftest import webhooks as webhooks  # noqa: PLC0414 - a fixture
from tests.unit.stand_in import Lake

pytestmark = pytest.mark.airflow

FILE = """
from airflow.sdk import DAG

from airflow_backfill_provider.notifications.backfill import BackfillNotifier
from airflow_backfill_provider.notifications.webhook import WebhookNotifier
from airflow_backfill_provider.operators.finish import FinishMaterializedViewOperator
from airflow_backfill_provider.operators.mutation import ThrottleBackfillOperator

JOB = {job!r}
BODY = {{"text": "{{{{ backfill.text }}}} ({{{{ dag.dag_id }}}})"}}
notify = BackfillNotifier(job=JOB, send=[WebhookNotifier(http_conn_id="chat", body=BODY)])

with DAG(
    "notified", schedule=None, default_args={{"on_failure_callback": notify, "on_success_callback": notify}}
) as dag:
    finish = FinishMaterializedViewOperator(task_id="finish", job=JOB)
    ThrottleBackfillOperator(task_id="throttle", job=JOB, rate_limit="many")
"""


@pytest.fixture
def run_notified(airflow_database, tmp_path, monkeypatch, webhooks):
    """Runs a DAG with callbacks that post to a webhook."""
    server = {"conn_type": "http", "host": "http://127.0.0.1", "port": webhooks.port}
    monkeypatch.setenv("AIRFLOW_CONN_CHAT", json.dumps(server))

    def run(lake: Lake) -> Run:
        file = tmp_path / "notified.py"
        file.write_text(FILE.format(job=lake.definition), encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            bag = DagBag(str(file))
            assert bag.import_errors == {}
            DagBundlesManager().sync_bundles_to_db()
            sync_bag_to_db(bag, "dags-folder", None)
            return Run(bag.dags["notified"].test(logical_date=None))

    return run


@pytest.mark.exhaustive
def test_callbacks_report_what_finished_and_what_failed(lake, run_notified, webhooks):
    """Issue part 8."""
    orders = Lake(lake)
    orders.append(range(1000))
    orders.create()
    orders.complete()
    run = run_notified(orders)
    assert run.states == {("finish", -1): "success", ("throttle", -1): "failed"}
    texts = [body["text"] for _, _, body in webhooks.posts]
    for expected in (
        f"small_orders failed: task notified.throttle of run {run.run_id} failed "
        "(rate_limit: 'many' is not a number of rows",
        f"small_orders finished: the view {orders.backfill.job.materialized_view} is finished as of epoch 3",
    ):
        assert len([text for text in texts if text.startswith(expected)]) == 1, texts
    assert all(text.endswith("(notified)") for text in texts)
