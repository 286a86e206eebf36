"""Tasks of a job whose upstream is the view of another job: they are skipped until that is finished, never failed."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from deltalake import DeltaTable

from airflow_backfill_provider.lake.tables.view_identity import FINISHED_PROPERTY, JOB_PROPERTY
from airflow_backfill_provider.operators.approval import ApproveBackfillOperator
from airflow_backfill_provider.operators.epoch import InjectBarrierOperator, RunEpochOperator
from airflow_backfill_provider.operators.finish import FinishMaterializedViewWhenDueOperator
from airflow_backfill_provider.operators.job import CreateBackfillJobOperator, RebuildBackfillOperator
from airflow_backfill_provider.operators.rebuild import RebuildDownstreamOperator, RunRebuildEpochsOperator
from airflow_backfill_provider.operators.shared_epoch import EpochSummaryOperator
from tests.unit.stand_in import Lake, StandInSpark, context

WAITS = "waits for paid_orders: the upstream .* is not finished"

OPERATORS: dict[str, Callable[..., Any]] = {
    "approve": ApproveBackfillOperator,
    "create_job": CreateBackfillJobOperator,
    "rebuild": RebuildBackfillOperator,
    "rebuild_downstream": RebuildDownstreamOperator,
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


def replace_upstream(lake: Lake) -> None:
    """Replace the upstream by another table at the same location, as a rebuild of its job does: its log goes on."""
    path = lake.definition["upstream"]["path"]
    log = Path(path, "_delta_log")
    created = map(json.loads, (log / f"{0:020}.json").read_text(encoding="utf-8").splitlines())
    metadata = next(action["metaData"] for action in created if "metaData" in action)
    replaced = {"metaData": {**metadata, "id": str(uuid.uuid4())}}
    (log / f"{DeltaTable(path).version() + 1:020}.json").write_text(json.dumps(replaced), encoding="utf-8")


def rebuild_downstream(lake: Lake) -> dict[str, Any]:
    return RebuildDownstreamOperator(task_id="rebuild_downstream", job=lake.definition).execute(context())


def run_epoch(lake: Lake) -> dict[str, Any]:
    return RunEpochOperator(task_id="run_epoch", job=lake.definition).execute(context("run_epoch"))


@pytest.mark.slow
def test_a_job_is_rebuilt_once_the_view_that_it_reads_was_rebuilt_and_is_finished(created: Lake, spark: StandInSpark):
    be_a_view(created, "true")
    before = rebuild_downstream(created)
    replace_upstream(created)
    be_a_view(created, "false")
    with pytest.raises(AirflowSkipException, match=WAITS):
        rebuild_downstream(created)
    assert spark.submitted == []
    be_a_view(created, "true")
    after = rebuild_downstream(created)
    assert rebuild_downstream(created) == after != before
    assert [call[1] for call in spark.submitted] == ["rebuild"]
    assert run_epoch(created)["epoch"] == 1


@pytest.mark.slow
def test_a_finished_view_stays_in_service_until_its_rebuild_over_the_rebuilt_view_is_finished(
    created: Lake, spark: StandInSpark
):
    created.finish()
    replace_upstream(created)
    be_a_view(created, "true")
    with pytest.raises(AirflowFailException, match="because job paid_orders rebuilt its view"):
        run_epoch(created)
    rebuild_downstream(created)
    rebuild_downstream(created)
    with pytest.raises(AirflowSkipException, match="the view in service is not kept fresh: .* holds table"):
        run_epoch(created)
    assert [call[1] for call in spark.submitted] == ["rebuild-keep-serving"]
    grow = RunRebuildEpochsOperator(task_id="run_rebuild", job=created.definition, epochs_per_run=9, deferrable=False)
    assert grow.execute(context("run_rebuild"))["finished"] is True
    assert run_epoch(created)["finished"] is True
    assert created.backfill.successor is None, "the rebuild has taken the view's place"


@pytest.mark.slow
def test_a_cancelled_job_and_one_over_another_table_are_not_rebuilt(created: Lake, spark: StandInSpark):
    replace_upstream(created)
    rebuild_downstream(created)
    be_a_view(created, "true")
    created.cancel()
    rebuild_downstream(created)
    assert spark.submitted == []
