"""Where the links of a task run lead."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from airflow_backfill_provider.dag_factory import backfill_dag
from airflow_backfill_provider.operators.epoch import RunEpochOperator
from airflow_backfill_provider.operators.links import BackfillLink, MaterializedViewLink, SparkApplicationLink
from airflow_backfill_provider.operators.mutation import PauseBackfillOperator
from tests.builders import job_fields

KEY = SimpleNamespace(dag_id="my dag/1")


@pytest.fixture
def operator(monkeypatch: pytest.MonkeyPatch) -> RunEpochOperator:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/team/")
    return RunEpochOperator(task_id="run_epoch", job=job_fields())


def test_links_lead_into_airflow_wherever_it_is_served(operator):
    assert BackfillLink().get_link(operator, ti_key=KEY) == (
        "https://airflow.example/team/dags/my%20dag%2F1/plugin/backfill?job=paid_orders"
    )
    assert MaterializedViewLink().get_link(operator, ti_key=KEY) == (
        "https://airflow.example/team/assets?name_pattern=paid_orders"
    )


def test_a_task_links_to_the_application_that_it_needed(operator):
    assert SparkApplicationLink().get_link(operator, ti_key=KEY) == ""

    operator.application = "epoch-3"

    assert SparkApplicationLink().get_link(operator, ti_key=KEY) == (
        "https://airflow.example/team/backfill/dags/my%20dag%2F1/jobs/paid_orders/applications/epoch-3"
    )


def test_every_task_has_the_links_that_suit_it():
    epochs = backfill_dag(job_fields()).get_task("backfill.run_epoch")
    pause = PauseBackfillOperator(task_id="pause", job=job_fields())

    assert [link.name for link in epochs.operator_extra_links] == ["Backfill", "Materialized view", "Spark application"]
    assert [link.name for link in pause.operator_extra_links] == ["Backfill", "Materialized view"]
