"""An epoch that several task runs share, as tasks."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.operators.epoch import InjectBarrierOperator
from airflow_backfill_provider.operators.shared_epoch import (
    ApplyChangesOperator,
    EpochSummaryOperator,
    ReadChunkPartOperator,
)
from tests.unit.stand_in import Lake, StandInSpark, context, run_epoch
from tests.variants import exhaustive

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.fixture
def shared(orders: Lake) -> Lake:
    """The job under arrangement, created, with three parallel task runs."""
    orders.fields = {"strategy": "arrangement", "parallelism": 3}
    orders.create()
    return orders


def inject(lake: Lake, run_id: str = "run_1"):
    ctx = context("inject")
    ctx["ti"].run_id = run_id
    return InjectBarrierOperator(task_id="inject", job=lake.definition).execute(ctx)


def changes(lake: Lake, barrier):
    return ApplyChangesOperator(task_id="changes", job=lake.definition, barrier=barrier).execute(context("changes"))


def read(lake: Lake, part):
    return ReadChunkPartOperator(task_id="read", job=lake.definition, part=part).execute(context("read"))


def summary(lake: Lake, barrier):
    return EpochSummaryOperator(task_id="summary", job=lake.definition, barrier=barrier).execute(context("summary"))


def test_the_parts_are_read_in_any_order_and_the_last_one_commits(shared: Lake, spark: StandInSpark):
    barrier = inject(shared)
    assert barrier["parts"] == 3
    parts = changes(shared, barrier)
    assert parts == [{"epoch": 1, "part": part} for part in range(3)]
    assert spark.submitted == [], "the first window is empty, so there are no changes to apply"

    rows = [read(shared, part)["rows"] for part in reversed(parts)]

    done = summary(shared, barrier)
    assert done["rows"] == sum(rows) == 400
    assert (done["epoch"], done["finished"]) == (1, False)
    assert [call[-3:] for call in spark.submitted] == [["read_chunk_part", "--part", str(part)] for part in (2, 1, 0)]


def test_changes_are_applied_by_their_own_application(shared: Lake, spark: StandInSpark):
    shared.epochs(1)
    shared.append(range(1000, 1010))

    changes(shared, inject(shared))

    assert [call[-1] for call in spark.submitted] == ["apply_changes"]


def test_only_the_part_that_failed_is_redone(shared: Lake, spark: StandInSpark):
    barrier = inject(shared)
    first, second, third = changes(shared, barrier)
    read(shared, first)
    read(shared, third)
    spark.before.append(("no executors", True))
    with pytest.raises(AirflowException, match="no executors"):
        read(shared, second)
    with pytest.raises(AirflowException, match=r"epoch 1 .* is not committed; parts that are not read yet: \[1\]"):
        summary(shared, barrier)
    spark.submitted.clear()

    assert changes(shared, barrier) == [second], "another run of the DAG goes on with what is left"
    assert read(shared, first)["rows"] > 0, "a retry of a part that is read starts no Spark"
    read(shared, second)

    assert len(spark.submitted) == 1
    assert summary(shared, barrier)["rows"] == 400


@pytest.mark.exhaustive
def test_an_application_that_failed_after_it_reported_has_done_its_part(shared: Lake, spark: StandInSpark):
    barrier = inject(shared)
    parts = changes(shared, barrier)
    for part in parts:
        spark.after.append(("lost its driver", True))
        read(shared, part)
    assert summary(shared, barrier)["epoch"] == 1


def test_a_part_that_died_before_it_committed_the_epoch_commits_it_when_tried_again(shared: Lake, spark: StandInSpark):
    """All parts are reported and the epoch is not committed: the last one has something left to do."""
    barrier = inject(shared)
    *others, last = changes(shared, barrier)
    for part in others:
        read(shared, part)

    def die(point: CrashPoint) -> None:
        if point is CrashPoint.BEFORE_STATE_COMMIT:
            crash_points.install(None)
            raise ConnectionResetError

    crash_points.install(die)
    with pytest.raises(ConnectionResetError):
        read(shared, last)
    with pytest.raises(AirflowException, match="none, so clear the task run that read the last one"):
        summary(shared, barrier)

    read(shared, last)
    assert summary(shared, barrier)["rows"] == 400


def test_an_application_that_did_nothing_fails_the_task(shared: Lake, spark: StandInSpark):
    spark.lazy = True
    part, *_ = changes(shared, inject(shared))
    with pytest.raises(AirflowException, match="does not show its step of epoch 1"):
        read(shared, part)


@pytest.mark.exhaustive
def test_an_epoch_that_was_run_whole_leaves_nothing_to_do(shared: Lake, spark: StandInSpark):
    barrier = inject(shared)
    run_epoch(shared.backfill, barrier["epoch"])

    assert changes(shared, barrier) == []
    assert summary(shared, barrier)["rows"] == 400
    assert spark.submitted == []


def test_without_a_barrier_there_is_nothing_to_do(shared: Lake, spark: StandInSpark):
    mutations.pause_job(store=shared.backfill.store, requested_by="somebody")
    barrier = inject(shared)

    assert barrier["epoch"] is None
    assert changes(shared, barrier) == []
    assert summary(shared, barrier)["reason"] == barrier["reason"]
    assert spark.submitted == []


@pytest.mark.exhaustive
def test_a_rescale_between_two_runs_needs_no_other_dag(shared: Lake, spark: StandInSpark):
    for number, parallelism in enumerate([1, 4, 2], start=1):
        mutations.rescale_job(parallelism, store=shared.backfill.store, requested_by="somebody")
        barrier = inject(shared, f"run_{number}")
        parts = changes(shared, barrier)
        assert len(parts) <= parallelism
        for part in parts:
            read(shared, part)
        done = summary(shared, barrier)
    assert done["finished"]
    assert shared.backfill.store.commits()[-1].rows_read == 1000


@pytest.mark.parametrize("part", [3, *map(exhaustive, (None, {}, {"epoch": 1}, {"part": 0})), {"epoch": 1, "part": 9}])
def test_an_invalid_part_is_refused(shared: Lake, spark: StandInSpark, part):
    inject(shared)
    with pytest.raises(AirflowFailException):
        read(shared, part)
