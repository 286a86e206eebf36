"""Marking a view finished as a task, and its asset event."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from deltalake import DeltaTable

from airflow_backfill_provider import protocol
from airflow_backfill_provider.assets import MATERIALIZED_VIEWS
from airflow_backfill_provider.operators.finish import (
    FinishMaterializedViewOperator,
    FinishMaterializedViewWhenDueOperator,
)
from airflow_backfill_provider.operators.job import RebuildBackfillOperator
from airflow_backfill_provider.state.store import BackfillStore
from tests.unit.stand_in import ROWS, Lake, StandInSpark, context

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

VIEW = Asset("small_orders", uri="file:///lake/small_orders")

both = pytest.mark.parametrize("operator", [FinishMaterializedViewOperator, FinishMaterializedViewWhenDueOperator])


def finish(operator, lake: Lake, ctx=None):
    return operator(task_id="finish", job=lake.definition, outlets=[VIEW]).execute(ctx or context("finish"))


@both
def test_a_completed_backfill_is_finished_and_the_event_says_as_of_when(created: Lake, operator):
    created.complete()
    ctx = context("finish")

    assert finish(operator, created, ctx)["finished_epoch"] == 3
    extra = ctx["outlet_events"][VIEW].extra
    assert {name: extra[name] for name in ("event", "job", "epoch", "rows", "rows_read", "progress", "finished")} == {
        "event": "finished",
        "job": "small_orders",
        "epoch": 3,
        "rows": 200,
        "rows_read": ROWS,
        "progress": 1.0,
        "finished": True,
    }
    assert extra["view_version"] == DeltaTable(created.definition["materialized_view"]).version()
    assert json.loads(json.dumps(extra)) == extra


def test_a_task_that_gets_its_job_at_run_time_sends_events_of_both_assets_of_the_view(created: Lake):
    created.complete()
    ctx = context("finish")

    FinishMaterializedViewOperator(task_id="f", job=created.definition, outlets=[MATERIALIZED_VIEWS]).execute(ctx)

    events = ctx["outlet_events"][MATERIALIZED_VIEWS].asset_alias_events
    assert [event.dest_asset_key.name for event in events] == ["small_orders", "small_orders finished"]
    assert {event.extra["event"] for event in events} == {"finished"}
    assert events[0].dest_asset_extra["definition"]["name"] == "small_orders"


@both
def test_a_retry_finishes_once_and_repeats_the_event(created: Lake, operator):
    created.complete()
    first, second = context("finish"), context("finish")

    assert finish(operator, created, first) == finish(operator, created, second)
    assert first["outlet_events"][VIEW].extra == second["outlet_events"][VIEW].extra
    assert [record.change for record in created.backfill.store.settings_history()] == ["create", "finish"]


def test_an_unfinished_backfill_fails_the_task_and_a_retry_may_help(created: Lake):
    created.epochs(1)

    with pytest.raises(AirflowException, match="not every vnode is Completed as of epoch 1") as failure:
        finish(FinishMaterializedViewOperator, created)
    assert not isinstance(failure.value, AirflowFailException)


def test_a_view_that_another_run_finished_is_finished(created: Lake):
    created.finish()

    assert finish(FinishMaterializedViewOperator, created)["finished_epoch"] == 3


def test_when_due_an_unfinished_backfill_is_skipped(created: Lake):
    created.epochs(1)

    with pytest.raises(AirflowSkipException, match="not every vnode is Completed as of epoch 1"):
        finish(FinishMaterializedViewWhenDueOperator, created)


def test_when_due_a_view_that_another_run_finished_is_skipped_so_that_the_event_comes_once(created: Lake):
    created.complete()
    first = context("finish", run_id="first")
    finish(FinishMaterializedViewOperator, created, first)

    with pytest.raises(AirflowSkipException, match="was finished as of epoch 3 by .* of run first"):
        finish(FinishMaterializedViewWhenDueOperator, created)


def test_when_due_a_view_that_was_finished_from_the_command_line_has_one_event(created: Lake):
    """By the first run that comes after, and by its retries."""
    created.finish()
    first, again = context("finish", run_id="first"), context("finish", run_id="first")

    assert finish(FinishMaterializedViewWhenDueOperator, created, first)["finished_epoch"] == 3
    assert first["outlet_events"][VIEW].extra["event"] == "finished"
    finish(FinishMaterializedViewWhenDueOperator, created, again)
    assert again["outlet_events"][VIEW].extra == first["outlet_events"][VIEW].extra
    with pytest.raises(AirflowSkipException, match="by .* of run first"):
        finish(FinishMaterializedViewWhenDueOperator, created, context("finish", run_id="second"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("state", ["failed", "skipped", "success", "running"])
def test_when_due_the_event_of_a_task_run_that_failed_comes_from_the_next_run(created: Lake, state: str):
    """It finished the view, and then it died; Airflow stores events only with a success."""
    created.complete()
    finish(FinishMaterializedViewWhenDueOperator, created, context("finish", run_id="first"))
    ctx = context("finish", run_id="second")
    ctx["ti"].states = {"first": {"finish": state}}

    if state in {"failed", "skipped"}:
        finish(FinishMaterializedViewWhenDueOperator, created, ctx)
        assert ctx["outlet_events"][VIEW].extra["event"] == "finished"
        with pytest.raises(AirflowSkipException, match="by .* of run second"):
            finish(FinishMaterializedViewWhenDueOperator, created, context("finish", run_id="third"))
    else:
        with pytest.raises(AirflowSkipException, match="by .* of run first"):
            finish(FinishMaterializedViewWhenDueOperator, created, ctx)


def test_only_one_of_the_runs_that_find_a_finished_view_at_once_sends_the_event(created: Lake):
    created.finish()
    store = created.backfill.store
    with ThreadPoolExecutor(4) as threads:
        told = list(
            threads.map(
                lambda n: protocol.announce_finish(
                    store=BackfillStore(store.location), requested_by=f"dag.finish of run {n}"
                ),
                range(4),
            )
        )
    assert len(set(told)) == 1
    assert [record.change for record in store.settings_history()] == ["create", "finish", "finish"]


@pytest.mark.exhaustive
def test_when_due_a_rebuilt_view_is_finished_again_by_the_first_run(created: Lake, spark: StandInSpark):
    """I3: the last time that it was finished counts."""
    created.finish()
    RebuildBackfillOperator(task_id="rebuild", job=created.definition).execute(context("rebuild"))
    created.complete()

    assert finish(FinishMaterializedViewWhenDueOperator, created)["finished_epoch"] == 6


@both
def test_a_job_that_was_not_created_is_refused(orders: Lake, operator):
    with pytest.raises(AirflowFailException, match="create it first"):
        finish(operator, orders)
