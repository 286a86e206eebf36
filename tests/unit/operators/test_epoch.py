"""Injecting and running epochs as tasks."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from airflow.sdk.api.datamodels._generated import DagRunType
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from deltalake import DeltaTable

from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.operators.epoch import InjectBarrierOperator, RunEpochOperator
from airflow_backfill_provider.sources.delta.versions import offset_of
from airflow_backfill_provider.state.control_table import ControlTable
from tests.unit.stand_in import Lake, StandInSpark, context, run_epoch

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def run(lake: Lake, ctx=None, **arguments):
    return RunEpochOperator(task_id="run_epoch", job=lake.definition, **arguments).execute(ctx or context("run_epoch"))


def inject(lake: Lake, ctx=None):
    return InjectBarrierOperator(task_id="inject", job=lake.definition).execute(ctx or context("inject"))


def test_an_injected_barrier_names_its_task_run_and_no_try(created: Lake):
    inject(created, context("inject", map_index=2))

    (barrier,) = created.backfill.store.barriers()
    assert barrier.injected_by == Requester(dag_id="dag", run_id="run_1", task_id="inject", map_index=2)


def test_injecting_again_in_the_same_task_run_returns_the_same_barrier_even_once_committed(created: Lake):
    first = inject(created)
    run_epoch(created.backfill, first["epoch"])

    assert inject(created) == first
    assert first["epoch"] == 1
    assert (first["from_version"], first["to_version"]) == (-1, 3)
    assert created.backfill.store.last_epoch() == 1


def test_an_injection_into_a_finished_view_without_changes_says_why_there_is_nothing_to_do(created: Lake):
    created.finish()

    assert inject(created) == {"epoch": None, "reason": "the upstream has no changes after offset 3"}


def test_a_run_epoch_task_injects_and_runs_its_own_barrier(created: Lake, spark: StandInSpark):
    summary = run(created)

    assert summary == {
        "epoch": 1,
        "epochs": [1],
        "from_version": -1,
        "to_version": 3,
        "rows": 400,
        "changes": 0,
        "progress": 0.4,
        "finished": False,
    }
    assert spark.submitted == [["backfill_epoch.py", "--state", created.backfill.job.state, "--epoch", "1"]]


def test_the_application_gets_the_most_rows_that_an_epoch_reads(created: Lake, spark: StandInSpark):
    run(created)
    run(created, context("run_epoch", map_index=1), epochs_per_run=2)

    assert spark.rows == [400, None], "of several epochs the number is unknown"


def test_task_runs_in_a_row_finish_the_backfill_and_then_start_no_spark(created: Lake, spark: StandInSpark):
    summaries = [run(created, context("run_epoch", map_index=index)) for index in range(4)]

    assert [summary["epoch"] for summary in summaries] == [1, 2, 3, None]
    assert [summary["finished"] for summary in summaries] == [False, False, True, True]
    assert [summary["progress"] for summary in summaries] == [0.4, 0.8, 1.0, 1.0]
    assert summaries[3].keys() - {"reason"} == summaries[0].keys()
    assert spark.epochs == [1, 2, 3]


def test_a_task_with_nothing_to_do_reads_each_control_table_about_once(created: Lake, spark: StandInSpark, monkeypatch):
    created.finish()
    read: list[str] = []
    load = ControlTable._open

    def count(table: ControlTable) -> DeltaTable:
        read.append(Path(table.location).name)
        return load(table)

    monkeypatch.setattr(ControlTable, "_open", count)
    assert run(created)["epoch"] is None
    # The settings also for the definition; the log also for the task run's own barrier.
    assert sorted(read) == ["barrier_log", "barrier_log", "settings", "settings", "vnode_state"]


def test_a_retry_of_a_committed_epoch_submits_nothing(created: Lake, spark: StandInSpark):
    first = run(created)

    assert run(created) == first
    assert spark.epochs == [1]


def test_a_retry_of_a_failed_epoch_runs_the_same_barrier(created: Lake, spark: StandInSpark):
    spark.before.append(("the disk is full", True))
    with pytest.raises(AirflowException, match=r"^the disk is full$") as failure:
        run(created)
    created.append([2000])

    assert not isinstance(failure.value, AirflowFailException)
    assert run(created)["to_version"] == 3
    assert spark.epochs == [1, 1]


def test_an_application_that_failed_for_good_fails_the_task_without_a_retry(created: Lake, spark: StandInSpark):
    spark.before.append(("the view holds another table", False))

    with pytest.raises(AirflowFailException, match=r"^the view holds another table$"):
        run(created)


def test_a_failure_after_the_commit_is_a_success(created: Lake, spark: StandInSpark):
    spark.after.append(("the JVM died", True))

    assert run(created)["epoch"] == 1


def test_an_application_that_reports_success_without_a_commit_fails_the_task(created: Lake, spark: StandInSpark):
    spark.lazy = True

    with pytest.raises(AirflowException, match="epoch 1 of job small_orders ended without an error, but the bar"):
        run(created)


def test_the_uncommitted_barrier_of_another_run_is_completed_before_the_own_one(created: Lake, spark: StandInSpark):
    other = created.inject(Requester(dag_id="dag", run_id="run_0", task_id="run_epoch"))

    assert run(created)["epoch"] == 2
    assert spark.epochs == [other.epoch, 2]


def test_a_given_barrier_is_run_and_no_other_is_injected(created: Lake, spark: StandInSpark):
    summary = run(created, barrier=inject(created))

    assert summary["epoch"] == 1
    assert created.backfill.store.last_epoch() == 1


@pytest.mark.parametrize("barrier", [1, "1", {"epoch": 1}])
def test_a_barrier_is_given_by_number_or_as_a_template_renders_it(created: Lake, spark: StandInSpark, barrier):
    created.inject()

    assert run(created, barrier=barrier)["epoch"] == 1


@pytest.mark.parametrize("barrier", [None, "None", ""])
def test_no_barrier_injects_one(created: Lake, spark: StandInSpark, barrier):
    assert run(created, barrier=barrier)["epoch"] == 1


def test_a_barrier_task_that_had_nothing_to_do_leaves_nothing_to_run(created: Lake, spark: StandInSpark):
    created.epochs(1)

    assert run(created, barrier={"epoch": None, "reason": "covered"}) == {
        "epoch": None,
        "epochs": [],
        "from_version": None,
        "to_version": None,
        "rows": 0,
        "changes": 0,
        "progress": 0.4,
        "finished": False,
        "reason": "covered",
    }
    assert spark.submitted == []


def test_an_epoch_that_was_not_pinned_is_refused(created: Lake, spark: StandInSpark):
    with pytest.raises(AirflowFailException, match="epoch 7 is not pinned in "):
        run(created, barrier=7)


@pytest.mark.parametrize("run_type", [DagRunType.SCHEDULED, DagRunType.BACKFILL])
def test_a_run_of_a_schedule_ends_its_window_with_its_interval(created: Lake, spark: StandInSpark, run_type):
    end = created.backfill.upstream.watermark(offset_of(1))

    summary = run(created, context("run_epoch", run_type=run_type, data_interval_end=end))

    assert summary["to_version"] == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("run_type", [DagRunType.MANUAL, DagRunType.ASSET_TRIGGERED, DagRunType.OPERATOR_TRIGGERED])
def test_any_other_run_goes_up_to_the_newest_version(created: Lake, spark: StandInSpark, run_type):
    end = created.backfill.upstream.watermark(offset_of(1))

    assert run(created, context("run_epoch", run_type=run_type, data_interval_end=end))["to_version"] == 3


@pytest.mark.exhaustive
def test_a_run_without_an_interval_ends_its_window_where_it_is_told_to(created: Lake, spark: StandInSpark):
    """And a run of a schedule ends it with its interval all the same."""
    told = created.backfill.upstream.watermark(offset_of(2))
    end = created.backfill.upstream.watermark(offset_of(1))

    scheduled = context("run_epoch", run_type=DagRunType.SCHEDULED, data_interval_end=end)
    assert run(created, scheduled, until=told.isoformat())["to_version"] == 1
    manual = context("run_epoch", run_id="run_2", run_type=DagRunType.MANUAL)
    assert run(created, manual, until=told.isoformat())["to_version"] == 2


def test_a_run_whose_interval_is_covered_starts_no_spark(created: Lake, spark: StandInSpark):
    run(created)
    end = created.backfill.upstream.watermark(offset_of(1))

    late = context("run_epoch", run_id="run_2", run_type=DagRunType.SCHEDULED, data_interval_end=end)

    assert "is covered" in run(created, late)["reason"]
    assert spark.epochs == [1]


def test_a_run_before_the_upstream_existed_has_nothing_to_do(created: Lake, spark: StandInSpark):
    early = dt.datetime(2001, 1, 1, tzinfo=dt.UTC)

    summary = run(created, context("run_epoch", run_type=DagRunType.SCHEDULED, data_interval_end=early))

    assert summary["epoch"] is None
    assert spark.submitted == []


def test_a_mapped_task_run_is_named_by_its_epoch(created: Lake, spark: StandInSpark):
    ctx = context("run_epoch", map_index=0)

    run(created, ctx)

    assert ctx["epoch"] == 1


def test_a_cancelled_job_fails_the_task_without_a_retry(created: Lake, spark: StandInSpark):
    created.cancel()

    with pytest.raises(AirflowFailException, match="was cancelled by somebody"):
        run(created)


def test_a_job_that_was_not_created_fails_the_task_without_a_retry(orders: Lake, spark: StandInSpark):
    with pytest.raises(AirflowFailException, match="create it first"):
        run(orders)


def test_a_definition_that_differs_from_the_created_one_is_refused(created: Lake, spark: StandInSpark):
    other = {**created.definition, "query": "SELECT order_id + 1 AS order_id FROM upstream"}

    with pytest.raises(AirflowFailException, match="another query; rebuild"):
        RunEpochOperator(task_id="run_epoch", job=other).execute(context("run_epoch"))


def test_a_task_reports_the_epoch_that_it_saw_committed_to_openlineage(created: Lake, spark: StandInSpark):
    operator = RunEpochOperator(task_id="run_epoch", job=created.definition)
    assert operator.get_openlineage_facets_on_complete(None) is None

    operator.execute(context("run_epoch"))

    lineage = operator.get_openlineage_facets_on_complete(None)
    assert [dataset.name for dataset in lineage.inputs] == [created.backfill.job.upstream.location]
    assert [dataset.name for dataset in lineage.outputs] == [created.backfill.job.materialized_view]


def test_the_log_of_a_task_describes_its_epoch(created: Lake, spark: StandInSpark, capsys):
    run(created)

    told = capsys.readouterr().out
    parts = (
        "epoch 1: upstream versions (-1, 3]",
        "planned: changes, then at most 400 rows",
        "after epoch 1: 40.0 % of the snapshot: 400 of 1,000 rows",
    )
    assert all(part in told for part in parts)
    assert "epoch 1 is committed" not in told, "the application says so, and once is enough"
