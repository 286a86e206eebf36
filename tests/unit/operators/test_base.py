"""What all operators have in common."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_backfill_provider.get_provider_info import get_provider_info
from airflow_backfill_provider.hooks.spark_application import SparkApplicationHook
from airflow_backfill_provider.operators.base import BackfillOperator
from airflow_backfill_provider.operators.compaction import CompactMaterializedViewOperator
from airflow_backfill_provider.operators.epoch import InjectBarrierOperator, RunEpochOperator
from airflow_backfill_provider.operators.finish import (
    FinishMaterializedViewOperator,
    FinishMaterializedViewWhenDueOperator,
)
from airflow_backfill_provider.operators.job import CreateBackfillJobOperator
from airflow_backfill_provider.operators.mutation import PauseBackfillOperator
from airflow_backfill_provider.operators.shared_epoch import (
    ApplyChangesOperator,
    EpochSummaryOperator,
    ReadChunkPartOperator,
)
from airflow_backfill_provider.operators.verification import RepairWhatDiffersOperator, VerifyMaterializedViewOperator
from tests.unit.stand_in import Lake, context


@pytest.fixture
def created(as_created: Callable[[], Lake]) -> Lake:
    """The job, created."""
    return as_created()


def operators() -> list[type[BackfillOperator]]:
    """Every operator that the provider lists."""
    modules = [module for entry in get_provider_info()["operators"] for module in entry["python-modules"]]
    return [
        member
        for module in modules
        for name, member in inspect.getmembers(import_module(module), inspect.isclass)
        if issubclass(member, BackfillOperator) and member.__module__ == module and not name.startswith("_")
    ]


def required(operator: type[BackfillOperator]) -> dict[str, str]:
    """Templates for all arguments that an operator cannot be made without."""
    parameters = inspect.signature(inspect.unwrap(operator.__init__)).parameters.values()
    keywords = [parameter for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    return {parameter.name: "{{ anything }}" for parameter in keywords if parameter.default is inspect.Parameter.empty}


@pytest.mark.parametrize("operator", operators())
def test_creating_an_operator_reads_nothing(operator):
    arguments = {"backfill_conn_id": "nowhere", **required(operator), "job": "/no/such/file.yaml"}

    made = operator(task_id="task", **arguments)

    assert "job" in made.template_fields


@pytest.mark.parametrize("operator", operators())
def test_every_template_field_is_an_attribute(operator):
    made = operator(task_id="task", **{**required(operator), "job": "x"})

    assert all(hasattr(made, field) for field in made.template_fields)


WITH_THE_VERY_DEFINITION: list[tuple[type[BackfillOperator], dict[str, Any]]] = [
    (InjectBarrierOperator, {}),
    (RunEpochOperator, {}),
    (ApplyChangesOperator, {"barrier": 1}),
    (ReadChunkPartOperator, {"part": {"epoch": 1, "part": 0}}),
    (EpochSummaryOperator, {"barrier": 1}),
    (FinishMaterializedViewOperator, {}),
    (FinishMaterializedViewWhenDueOperator, {}),
    (CompactMaterializedViewOperator, {}),
    (VerifyMaterializedViewOperator, {}),
    (RepairWhatDiffersOperator, {}),
    (CreateBackfillJobOperator, {}),
]


@pytest.mark.parametrize(("operator", "arguments"), WITH_THE_VERY_DEFINITION)
def test_a_job_that_was_created_with_another_definition_is_not_worked_on(created: Lake, spark, operator, arguments):
    """I6: epochs of the old definition must not pass for those of the new one."""
    changed = {**created.definition, "query": "SELECT order_id, 1 AS one FROM upstream"}

    with pytest.raises(AirflowFailException, match="another query"):
        operator(task_id="task", job=changed, **arguments).execute(context())
    assert spark.submitted == []
    assert created.backfill.store.last_epoch() == 0


def test_a_missing_connection_fails_the_task_without_a_retry(orders: Lake):
    pause = PauseBackfillOperator(task_id="pause", job=orders.definition, backfill_conn_id="nowhere")

    with pytest.raises(AirflowFailException, match="there is no connection nowhere"):
        pause.execute(context())


def test_a_missing_spark_connection_fails_the_task_without_a_retry(created: Lake):
    run = RunEpochOperator(task_id="run_epoch", job=created.definition, spark_conn_id="nowhere")

    with pytest.raises(AirflowFailException, match="there is no Spark connection nowhere"):
        run.execute(context())


def test_the_application_gets_what_the_operator_was_given(created: Lake, monkeypatch):
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(SparkApplicationHook, "__init__", lambda _, **arguments: made.append(arguments))
    monkeypatch.setattr(SparkApplicationHook, "run", lambda *_: None)
    run = RunEpochOperator(
        task_id="run_epoch", job=created.definition, spark_conn_id="cluster", conf={"spark.x": "1"}, deferrable=False
    )

    with pytest.raises(AirflowException, match="has no commit of it"):
        run.execute(context())

    (arguments,) = made
    assert arguments["name"] == "airflow-backfill small_orders"
    assert (arguments["spark_conn_id"], arguments["conf"]) == ("cluster", {"spark.x": "1"})


def test_a_task_that_is_killed_first_submits_nothing_later(created: Lake):
    run = RunEpochOperator(task_id="run_epoch", job=created.definition)
    run.on_kill()

    with pytest.raises(AirflowException, match=r"was killed before it submitted backfill_epoch\.py"):
        run.execute(context())
