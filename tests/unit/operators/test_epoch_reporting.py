"""Every committed epoch is announced by each DAG of its job, whoever pinned it, ran it or died meanwhile."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, Asset
from airflow.sdk.api.datamodels._generated import DagRunType
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.sdk.observability import stats
from deltalake import DeltaTable

from airflow_backfill_provider.assets import MATERIALIZED_VIEWS
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.operators.epoch import InjectBarrierOperator, RunEpochOperator
from airflow_backfill_provider.operators.epoch_reporting import record_announcement
from airflow_backfill_provider.operators.job import CreateBackfillJobOperator, RebuildBackfillOperator
from airflow_backfill_provider.operators.shared_epoch import EpochSummaryOperator
from tests.unit.stand_in import Lake, StandInSpark, context, run_epoch, succeed
from tests.variants import exhaustive

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


class Runs:
    """
    DAG runs of a job, each with one task that runs epochs.

    :param lake: the job.
    :param dag_id: their DAG.
    """

    def __init__(self, lake: Lake, dag_id: str = "dag") -> None:
        self.lake = lake
        self.dag_id = dag_id
        self.count = 0

    def run(self, *, succeeds: bool = True, **arguments: Any) -> list[int]:
        """Run the next DAG run and return the epochs that it announced."""
        self.count += 1
        ctx = context("run_epoch", dag_id=self.dag_id, run_id=f"run_{self.count}")
        operator = self.operator(**arguments)
        operator.pre_execute(ctx)
        operator.execute(ctx)
        if succeeds:
            succeed(operator, ctx)
        return announced(ctx)

    def operator(self, **arguments: Any) -> RunEpochOperator:
        fields = {"outlets": [MATERIALIZED_VIEWS], **arguments}
        return RunEpochOperator(task_id="run_epoch", job=self.lake.definition, **fields)


def announced(ctx: Any) -> list[int]:
    return [event.extra["epoch"] for event in ctx["outlet_events"][MATERIALIZED_VIEWS].asset_alias_events]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of the metrics that were sent."""
    rows: list[int] = []
    monkeypatch.setattr(stats, "incr", lambda name, count, **_: rows.append(count) if name.endswith("rows_read") else 0)
    monkeypatch.setenv("AIRFLOW__METRICS__LEGACY_NAMES_ON", "False")
    return rows


def test_an_epoch_that_another_run_pinned_and_whose_application_died_is_announced_by_the_run_that_completes_it(
    created: Lake, spark: StandInSpark, counted: list[int]
):
    runs = Runs(created)
    spark.before.append(("the JVM died", True))
    with pytest.raises(AirflowException, match="the JVM died"):
        runs.run()

    assert runs.run() == [1, 2]
    assert counted == [400, 400]
    assert runs.run() == [3]


def test_an_epoch_that_was_committed_after_its_task_run_died_is_announced_by_the_next_one(
    created: Lake, spark: StandInSpark, counted: list[int]
):
    """Its application goes on and commits it. The next run finds nothing to complete, and nothing of its own."""
    runs = Runs(created)
    spark.before.append(("the worker died", True))
    with pytest.raises(AirflowException):
        runs.run()
    run_epoch(created.backfill, 1)
    mutations.pause_job(store=created.backfill.store, requested_by="vera")

    assert runs.run() == [1]
    assert counted == [400]
    assert runs.run() == []


def test_epochs_of_the_command_line_in_between_are_announced_but_not_measured(
    created: Lake, spark: StandInSpark, counted: list[int]
):
    runs = Runs(created)
    assert runs.run() == [1]
    created.epochs(1)

    assert runs.run() == [2, 3]
    assert counted == [400, 200]


def test_what_a_task_run_announced_that_did_not_succeed_is_announced_again(created: Lake, spark: StandInSpark):
    runs = Runs(created)
    assert runs.run(succeeds=False) == [1]
    assert runs.run() == [1, 2]
    assert runs.run() == [3]


def test_each_dag_of_a_job_announces_all_epochs(created: Lake, spark: StandInSpark):
    first, second = Runs(created, "first"), Runs(created, "second/ä")
    assert first.run() == [1]
    assert second.run() == [2], "a DAG that is new to the job begins with its first run"
    assert first.run() == [2, 3]
    assert second.run() == [3]


@pytest.mark.exhaustive
def test_a_new_dag_of_an_old_job_does_not_announce_its_past(created: Lake, spark: StandInSpark):
    created.epochs(2)
    assert Runs(created).run() == [3]


def test_a_dag_that_created_its_job_announces_what_others_ran_before_its_first_epoch(orders: Lake, spark: StandInSpark):
    ctx = context("create")
    CreateBackfillJobOperator(task_id="create", job=orders.definition).execute(ctx)
    orders.epochs(1)
    assert Runs(orders).run() == [1, 2]


@pytest.mark.exhaustive
def test_an_epoch_that_only_moves_the_window_is_announced_too(created: Lake, spark: StandInSpark):
    """Every committed epoch has its event: the view is as of a later time."""
    runs = Runs(created)
    for _ in range(3):
        runs.run()
    DeltaTable(created.definition["upstream"]["path"]).optimize.compact()
    assert runs.run() == [4]
    assert spark.epochs == [1, 2, 3]


@pytest.mark.exhaustive
def test_epochs_before_a_rebuild_are_announced_after_it(created: Lake, spark: StandInSpark):
    runs = Runs(created)
    runs.run()
    created.epochs(1)
    RebuildBackfillOperator(task_id="rebuild", job=created.definition).execute(context("rebuild"))
    assert runs.run() == [2, 3]


def test_another_job_at_the_same_place_begins_with_its_first_epoch(created: Lake, spark: StandInSpark):
    """A record of the job that was there before says nothing about this one."""
    runs = Runs(created)
    for _ in range(3):
        runs.run()
    state = Path(created.backfill.job.state)
    for table in state.iterdir():
        if table.name != "announcements":
            shutil.rmtree(table)
    shutil.rmtree(created.definition["materialized_view"])
    created.create()
    runs.count = 10
    assert runs.run() == [1]
    created.epochs(1)
    assert runs.run() == [2, 3]


def test_a_given_barrier_is_announced_with_what_is_left(created: Lake, spark: StandInSpark):
    runs = Runs(created)
    runs.run()
    created.epochs(1)
    created.inject()
    assert runs.run(barrier=3) == [2, 3]
    assert runs.run(barrier={"epoch": None, "reason": "covered"}) == []


def test_task_runs_that_share_an_epoch_announce_all_that_is_left(created: Lake, spark: StandInSpark):
    def summary(barrier: Any) -> list[int]:
        ctx = context("summary")
        operator = EpochSummaryOperator(
            task_id="summary", job=created.definition, barrier=barrier, outlets=[MATERIALIZED_VIEWS]
        )
        operator.execute(ctx)
        succeed(operator, ctx)
        return announced(ctx)

    InjectBarrierOperator(task_id="inject", job=created.definition, outlets=[MATERIALIZED_VIEWS]).execute(
        context("inject")
    )
    run_epoch(created.backfill, 1)
    created.epochs(1)
    assert summary(1) == [1, 2]
    assert summary({"epoch": None, "reason": "covered"}) == []
    created.epochs(1)
    assert summary({"epoch": None, "reason": "covered"}) == [3]


def test_a_task_without_outlets_announces_nothing_and_keeps_no_record(created: Lake, spark: StandInSpark):
    Runs(created).run(outlets=[])
    assert not Path(created.backfill.job.state, "announcements").exists()


@pytest.mark.exhaustive
def test_an_asset_among_the_outlets_is_enough(created: Lake, spark: StandInSpark):
    asset = Asset("mine", uri="file:///mine")
    ctx, operator = context("run_epoch"), Runs(created).operator(outlets=[asset])
    operator.execute(ctx)
    succeed(operator, ctx)
    assert ctx["outlet_events"][asset].extra["epoch"] == 1
    ctx = context("run_epoch", run_id="run_2")
    Runs(created).operator().execute(ctx)
    assert announced(ctx) == [2]


def test_what_is_announced_outside_of_a_task_runner_counts_at_once(created: Lake, spark: StandInSpark):
    """A task may call the operator's ``execute`` itself; then Airflow calls no callback of the operator."""
    first, second = context("mine"), context("mine", run_id="run_2")
    for ctx in (first, second):
        Runs(created).operator().execute(ctx)
    assert (announced(first), announced(second)) == ([1], [2])


def test_callbacks_of_users_are_called_too(created: Lake, spark: StandInSpark):
    called: list[str] = []
    one = Runs(created).operator(on_success_callback=lambda _: called.append("one"))
    two = Runs(created).operator(on_success_callback=[lambda _: called.append("one"), lambda _: called.append("two")])
    for operator in (one, two):
        ctx = context("run_epoch")
        operator.execute(ctx)
        succeed(operator, ctx)
    assert called == ["one", "one", "two"]


def test_a_callback_among_the_default_arguments_of_the_dag_is_called_too(orders: Lake):
    def tell(_: Any) -> None: ...

    with DAG("told", schedule=None, default_args={"on_success_callback": tell}):
        one = Runs(orders).operator()
        mapped = RunEpochOperator.partial(task_id="mapped", job=orders.definition).expand(barrier=[None])
    assert one.on_success_callback == [record_announcement, tell]
    assert mapped.unmap({"barrier": None}).on_success_callback == [record_announcement, tell]


@pytest.mark.parametrize(
    "run_type",
    [DagRunType.SCHEDULED, *(exhaustive(kind) for kind in (DagRunType.ASSET_TRIGGERED, DagRunType.BACKFILL))],
)
def test_a_cancelled_job_skips_the_tasks_of_its_schedule(created: Lake, spark: StandInSpark, run_type: DagRunType):
    created.cancel()
    inject = InjectBarrierOperator(task_id="inject", job=created.definition)
    for operator in (Runs(created).operator(), inject):
        with pytest.raises(AirflowSkipException, match=r"cancelled by somebody; rebuild it .*; pause the DAG"):
            operator.execute(context("run_epoch", run_type=run_type))
    summary = EpochSummaryOperator(task_id="s", job=created.definition, barrier=None, outlets=[MATERIALIZED_VIEWS])
    with pytest.raises(AirflowSkipException, match="job small_orders was cancelled"):
        summary.execute(context("summary", run_type=run_type))


def test_a_cancelled_job_needs_no_upstream_to_be_skipped(created: Lake, spark: StandInSpark):
    created.cancel()
    shutil.rmtree(created.definition["upstream"]["path"])
    create = CreateBackfillJobOperator(task_id="create", job=created.definition)
    assert create.execute(context("create", run_type=DagRunType.SCHEDULED))["cancelled"] is True
    with pytest.raises(AirflowSkipException, match="cancelled by somebody"):
        Runs(created).operator().execute(context("run_epoch", run_type=DagRunType.SCHEDULED))


@pytest.mark.parametrize("run_type", [DagRunType.MANUAL, exhaustive(DagRunType.ASSET_MATERIALIZATION)])
def test_who_starts_a_cancelled_job_by_hand_gets_an_error(created: Lake, spark: StandInSpark, run_type: DagRunType):
    created.cancel()
    with pytest.raises(AirflowFailException, match="was cancelled by somebody"):
        Runs(created).operator().execute(context("run_epoch", run_type=run_type))


def test_the_last_epochs_of_a_cancelled_job_are_announced(created: Lake, spark: StandInSpark):
    runs = Runs(created)
    runs.run()
    created.inject()
    created.cancel()
    assert runs.run() == [2], "the pinned epoch is completed"
    with pytest.raises(AirflowFailException, match="was cancelled"):
        runs.run()
