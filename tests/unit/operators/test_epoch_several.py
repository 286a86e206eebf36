"""Several epochs in one task run and one application."""

from __future__ import annotations

import pytest
from airflow.sdk.api.datamodels._generated import DagRunType
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.sdk.observability import stats

from airflow_backfill_provider.assets import MATERIALIZED_VIEWS, materialized_view_asset
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.operators.epoch import RunEpochOperator
from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.unit.stand_in import Lake, StandInSpark, context, run_epoch

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

TASK = Requester(dag_id="dag", run_id="run_1", task_id="run_epoch")


def run(lake: Lake, ctx=None, *, epochs_per_run=2, **arguments):
    operator = RunEpochOperator(
        task_id="run_epoch",
        job=lake.definition,
        epochs_per_run=epochs_per_run,
        **{"outlets": [MATERIALIZED_VIEWS], **arguments},
    )
    return operator.execute(ctx or context("run_epoch"))


def events(ctx) -> list[int]:
    return [event.extra["epoch"] for event in ctx["outlet_events"][MATERIALIZED_VIEWS].asset_alias_events]


def test_one_application_runs_them_all(created: Lake, spark: StandInSpark):
    ctx = context("run_epoch", map_index=0)
    assert run(created, ctx) == {
        "epoch": 2,
        "epochs": [1, 2],
        "from_version": -1,
        "to_version": 3,
        "rows": 800,
        "changes": 0,
        "progress": 0.8,
        "finished": False,
    }
    state = created.backfill.job.state
    assert spark.submitted == [["backfill_epoch.py", "--state", state, "--epoch", "1", "--epochs", "2"]]
    assert ctx["epoch"] == "1 to 2", "what the task run is called in the grid"
    assert {barrier.injected_by.map_index for barrier in created.backfill.store.barriers()} == {0}


def test_the_view_gets_an_event_for_each_epoch(created: Lake, spark: StandInSpark):
    ctx = context("run_epoch")
    run(created, ctx)
    assert events(ctx) == [1, 2]
    asset = materialized_view_asset(created.definition)
    ctx = context("run_epoch", run_id="run_2")
    run(created, ctx, outlets=[asset])
    assert ctx["outlet_events"][asset].extra["epoch"] == 3, "Airflow has one event of an asset among the outlets"


def test_a_run_ends_when_every_vnode_is_completed(created: Lake, spark: StandInSpark):
    created.append([2000])
    spark.meanwhile = [lambda: None, lambda: None, lambda: created.append([2001])]
    summary = run(created, epochs_per_run=20)
    assert (summary["epochs"], summary["finished"]) == ([1, 2, 3], True)
    assert run(created, epochs_per_run=20)["epochs"] == [1, 2, 3], "also if it is cleared"
    assert run(created, context("run_epoch", run_id="run_2"), epochs_per_run=20)["epochs"] == [4]
    assert len(spark.submitted) == 2


def test_a_run_with_nothing_to_do_starts_no_spark(created: Lake, spark: StandInSpark):
    created.finish()
    summary = run(created)
    assert (summary["epoch"], summary["epochs"], summary["rows"]) == (None, [], 0)
    assert spark.submitted == []


def test_a_run_that_is_paused_in_between_keeps_its_epochs(created: Lake, spark: StandInSpark):
    spark.meanwhile = [lambda: mutations.pause_job(store=created.backfill.store, requested_by="vera")]
    ctx = context("run_epoch")
    assert run(created, ctx)["epochs"] == [1]
    assert run(created, ctx)["epochs"] == [1], "cleared, and nothing more to do"
    assert len(spark.submitted) == 1
    mutations.resume_job(store=created.backfill.store, requested_by="vera")
    assert run(created, context("run_epoch"))["epochs"] == [1, 2], "cleared, it carries what is left"
    assert spark.epochs == [1, 2]


def test_the_window_of_each_epoch_ends_with_the_runs_interval(created: Lake, spark: StandInSpark):
    end = created.backfill.upstream.watermark(offset_of(1))
    run(created, context("run_epoch", run_type=DagRunType.SCHEDULED, data_interval_end=end))
    assert spark.submitted[0][-2:] == ["--until", end.isoformat()]
    assert [barrier.upstream.to_offset.number for barrier in created.backfill.store.barriers()] == [1, 1]


def test_a_failure_in_between_fails_the_task_and_the_retry_runs_what_is_left(created: Lake, spark: StandInSpark):
    def die():
        raise AirflowException("the JVM died")

    spark.meanwhile = [die]
    ctx = context("run_epoch")
    with pytest.raises(AirflowException, match="the JVM died"):
        run(created, ctx, epochs_per_run=3)
    assert created.backfill.store.last_epoch() == 1
    assert run(created, context("run_epoch"), epochs_per_run=3)["epochs"] == [1, 2, 3]
    assert spark.epochs == [1, 2]


def test_a_retry_goes_on_with_the_epoch_that_is_pinned(created: Lake, spark: StandInSpark):
    ctx = context("run_epoch")
    run_epoch(created.backfill, created.inject(TASK).epoch)
    pinned = created.inject(TASK, epochs=3)
    created.append([2000])
    assert run(created, ctx, epochs_per_run=3)["epochs"] == [1, 2, 3]
    assert spark.epochs == [pinned.epoch] == [2]
    assert created.backfill.store.pinned(2).upstream.to_offset.number == 3
    assert events(ctx) == [1, 2, 3], "the try that committed the first one sent no event"


def test_a_failure_after_the_last_commit_is_a_success(created: Lake, spark: StandInSpark):
    spark.after.append(("the JVM died", True))
    assert run(created)["epochs"] == [1, 2]


def test_an_application_that_reports_success_without_a_commit_fails_the_task(created: Lake, spark: StandInSpark):
    spark.lazy = True
    with pytest.raises(AirflowException, match="epoch 1 of job small_orders ended without an error, but the bar"):
        run(created)


def test_a_job_that_is_cancelled_in_between_fails_the_task_without_a_retry(created: Lake, spark: StandInSpark):
    spark.meanwhile = [created.cancel]
    with pytest.raises(AirflowFailException, match="was cancelled by somebody"):
        run(created)
    assert len(created.backfill.store.commits()) == 1


def test_another_runs_barrier_is_run_alone_before_the_own_ones(created: Lake, spark: StandInSpark):
    other = created.inject(Requester(dag_id="dag", run_id="run_0", task_id="run_epoch"))
    assert run(created)["epochs"] == [2, 3]
    assert spark.epochs == [other.epoch, 2]
    assert "--epochs" not in spark.submitted[0]


def test_a_given_barrier_is_run_alone(created: Lake, spark: StandInSpark):
    created.inject()
    assert run(created, barrier=1)["epochs"] == [1]


def test_each_epoch_has_its_metrics_once(created: Lake, spark: StandInSpark, monkeypatch):
    counted: list[int] = []
    monkeypatch.setattr(
        stats, "incr", lambda name, count, **_: counted.append(count) if name.endswith("rows_read") else 0
    )
    monkeypatch.setenv("AIRFLOW__METRICS__LEGACY_NAMES_ON", "False")
    run(created, epochs_per_run=3)
    run(created, epochs_per_run=3)
    assert counted == [400, 400, 200]


@pytest.mark.exhaustive
def test_openlineage_gets_one_event_for_all_epochs(created: Lake, spark: StandInSpark):
    operator = RunEpochOperator(task_id="run_epoch", job=created.definition, epochs_per_run=2)
    operator.execute(context("run_epoch"))
    (read,) = operator.get_openlineage_facets_on_complete(None).inputs
    assert read.inputFacets["inputStatistics"].rowCount == 800


@pytest.mark.parametrize("value", [0, -1, "many", None, 1.5, True])
def test_an_invalid_number_is_refused(created: Lake, spark: StandInSpark, value):
    with pytest.raises(AirflowFailException, match="epochs_per_run: .* is not a number of epochs"):
        run(created, epochs_per_run=value)


def test_the_number_may_be_what_a_template_renders(created: Lake, spark: StandInSpark):
    assert run(created, epochs_per_run="2")["epochs"] == [1, 2]
