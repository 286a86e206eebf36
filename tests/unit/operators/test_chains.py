"""Tasks of a job whose upstream is the view of another job: they are skipped until that is finished, never failed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException
from deltalake import DeltaTable

from airflow_backfill_provider.lake.tables.view_identity import FINISHED_PROPERTY, JOB_PROPERTY
from airflow_backfill_provider.operators.approval import ApproveBackfillOperator
from airflow_backfill_provider.operators.epoch import InjectBarrierOperator, RunEpochOperator
from airflow_backfill_provider.operators.finish import FinishMaterializedViewWhenDueOperator
from airflow_backfill_provider.operators.job import CreateBackfillJobOperator, RebuildBackfillOperator
from airflow_backfill_provider.operators.rebuild import RunRebuildEpochsOperator
from airflow_backfill_provider.operators.shared_epoch import EpochSummaryOperator
from tests.unit.stand_in import Lake, StandInSpark, context

WAITS = "waits for paid_orders: the upstream .* is not finished"

OPERATORS: dict[str, Callable[..., Any]] = {
    "approve": ApproveBackfillOperator,
    "create_job": CreateBackfillJobOperator,
    "rebuild": RebuildBackfillOperator,
    "inject": InjectBarrierOperator,
    "run_epoch": RunEpochOperator,
    # These run also after tasks that were skipped.
    "run_rebuild": RunRebuildEpochsOperator,
    "summary": partial(EpochSummaryOperator, barrier=None),
    "finish": FinishMaterializedViewWhenDueOperator,
}


def be_a_view(lake: Lake, finished: str) -> None:
    """Let the upstream be another job's view."""
    properties = {JOB_PROPERTY: "paid_orders", FINISHED_PROPERTY: finished}
    DeltaTable(lake.definition["upstream"]["path"]).alter.set_table_properties(properties, raise_if_not_exists=False)


@pytest.mark.parametrize("task", OPERATORS)
def test_a_task_of_a_job_that_cannot_be_created_yet_is_skipped(orders: Lake, spark: StandInSpark, task):
    be_a_view(orders, "false")
    with pytest.raises(AirflowSkipException, match=WAITS):
        OPERATORS[task](task_id=task, job=orders.definition).execute(context(task))
    assert spark.submitted == []


@pytest.mark.slow
@pytest.mark.parametrize("task", ["inject", "run_epoch"])
def test_the_epochs_of_a_job_are_skipped_while_its_upstream_is_rebuilt(created: Lake, spark: StandInSpark, task):
    be_a_view(created, "false")
    with pytest.raises(AirflowSkipException, match=WAITS):
        OPERATORS[task](task_id=task, job=created.definition).execute(context(task))
    assert spark.submitted == []
    CreateBackfillJobOperator(task_id="create", job=created.definition).execute(context("create"))
    be_a_view(created, "true")
    assert OPERATORS[task](task_id=task, job=created.definition).execute(context(task))["epoch"] == 1
