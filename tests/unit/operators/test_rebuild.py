"""The epochs of a rebuild beside the view, as a task."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from airflow_backfill_provider import protocol
from airflow_backfill_provider.operators.epoch import RunEpochOperator
from airflow_backfill_provider.operators.job import RebuildBackfillOperator, RevertBackfillOperator
from airflow_backfill_provider.operators.rebuild import RunRebuildEpochsOperator
from tests.unit.stand_in import Lake, StandInSpark, context

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.fixture
def finished(created: Lake, spark: StandInSpark) -> Lake:
    """The job with a finished view."""
    run_own(created, "first", epochs=4)
    protocol.finish_job(store=created.backfill.store, requested_by="x")
    spark.submitted.clear()
    return created


def run_own(lake: Lake, run_id: str, *, epochs: int = 1, **changes):
    """Run epochs of the job itself."""
    operator = RunEpochOperator(
        task_id="run_epoch", job={**lake.definition, **changes}, epochs_per_run=epochs, deferrable=False
    )
    return operator.execute(context("run_epoch", run_id=run_id))


def rebuild(lake: Lake, **changes):
    operator = RebuildBackfillOperator(task_id="rebuild", job={**lake.definition, **changes}, keep_serving=True)
    return operator.execute(context("rebuild"))


def run(lake: Lake, run_id: str = "run_1", **changes):
    operator = RunRebuildEpochsOperator(
        task_id="run_rebuild", job={**lake.definition, **changes}, epochs_per_run=2, deferrable=False
    )
    return operator.execute(context("run_rebuild", run_id=run_id))


def test_without_a_rebuild_the_task_is_skipped(finished: Lake):
    with pytest.raises(AirflowSkipException, match="no rebuild of job small_orders grows beside its view"):
        run(finished)


def test_its_epochs_run_in_an_application_and_the_jobs_next_epoch_lets_it_take_the_place(
    finished: Lake, spark: StandInSpark
):
    rebuild(finished, vnode_count=8)
    growing = finished.backfill.successor
    assert growing is not None
    assert run(finished)["epochs"] == [1, 2]
    summary = run(finished, run_id="run_2")
    assert summary["finished"] is True
    assert [call[0] for call in spark.submitted] == ["backfill_job.py", "backfill_epoch.py", "backfill_epoch.py"]
    assert spark.submitted[1][2] == growing.job.state
    run_own(finished, "after", vnode_count=8)
    assert finished.backfill.store.settings().job["vnode_count"] == 8
    assert finished.backfill.successor is None


def test_a_creation_that_died_is_completed_first(finished: Lake, spark: StandInSpark, monkeypatch):
    from airflow_backfill_provider.jobs import creation

    with monkeypatch.context() as dying:
        dying.setattr(creation, "create_job", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            rebuild(finished, vnode_count=8)
    run(finished)
    assert [call[1] for call in spark.submitted[:2]] == ["rebuild-keep-serving", "create"]


def test_a_rebuild_is_given_up_without_spark(finished: Lake, spark: StandInSpark):
    rebuild(finished, vnode_count=8)
    spark.submitted.clear()
    RevertBackfillOperator(task_id="revert", job=finished.definition).execute(context("revert"))
    assert spark.submitted == []
    assert finished.backfill.successor is None
