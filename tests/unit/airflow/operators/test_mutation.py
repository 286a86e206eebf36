"""Changing a running job's settings as tasks."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_backfill_provider.operators.mutation import (
    CancelBackfillOperator,
    PauseBackfillOperator,
    ResumeBackfillOperator,
    ThrottleBackfillOperator,
)
from tests.unit.airflow.stand_in import Lake, context


def execute(operator, lake: Lake, **arguments):
    return operator(task_id="change", job=lake.definition, **arguments).execute(context("change"))


def test_pausing_and_resuming_say_who_asked(created: Lake):
    assert execute(PauseBackfillOperator, created)["paused"] is True
    assert execute(ResumeBackfillOperator, created)["paused"] is False

    history = created.backfill.store.settings_history()
    assert [record.change for record in history] == ["create", "pause", "resume"]
    assert history[-1].requested_by == "dag.change of run run_1"


def test_pausing_twice_is_pausing_once(created: Lake):
    execute(PauseBackfillOperator, created)
    execute(PauseBackfillOperator, created)

    assert len(created.backfill.store.settings_history()) == 2


@pytest.mark.parametrize(
    ("given", "in_force"),
    [(7, 7), ("7", 7), (" 7 ", 7), (0, 0), ("0", 0), (None, None), ("None", None), ("", None), ("unlimited", None)],
)
def test_a_rate_limit_is_taken_as_a_template_renders_it(created: Lake, given, in_force):
    assert execute(ThrottleBackfillOperator, created, rate_limit=given)["rate_limit"] == in_force


@pytest.mark.parametrize("given", ["many", "-1", -1, 1.5, "1.5", True, "{{ params.rate_limit }}"])
def test_a_rate_limit_that_is_no_number_of_rows_is_refused(created: Lake, given):
    with pytest.raises(AirflowFailException, match="is no number of rows; allowed are null"):
        execute(ThrottleBackfillOperator, created, rate_limit=given)


def test_a_rate_limit_is_looked_at_when_the_task_runs_and_not_before():
    operator = ThrottleBackfillOperator(task_id="throttle", job="{{ params.job }}", rate_limit="{{ params.limit }}")

    operator.render_template_fields({"params": {"job": "/jobs/orders.yaml", "limit": 12}})

    assert (operator.job, operator.rate_limit) == ("/jobs/orders.yaml", "12")


def test_a_cancelled_job_takes_no_other_change(created: Lake):
    assert execute(CancelBackfillOperator, created)["cancelled"] is True
    assert execute(CancelBackfillOperator, created)["cancelled"] is True

    with pytest.raises(AirflowFailException, match="was cancelled; rebuild it"):
        execute(ResumeBackfillOperator, created)


def test_an_edited_definition_can_still_be_paused_but_not_somebody_elses_job(created: Lake):
    edited = {**created.definition, "query": "SELECT order_id + 1 AS order_id FROM upstream"}
    other = {**created.definition, "name": "other", "state": created.backfill.job.state}

    assert PauseBackfillOperator(task_id="pause", job=edited).execute(context("pause"))["paused"] is True
    with pytest.raises(AirflowFailException, match="holds the control tables of job small_orders, not of other"):
        ResumeBackfillOperator(task_id="resume", job=other).execute(context("resume"))


def test_a_job_that_was_not_created_is_refused(orders: Lake):
    with pytest.raises(AirflowFailException, match="create it first"):
        execute(PauseBackfillOperator, orders)
