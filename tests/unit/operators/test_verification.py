"""Verifying a view as a task, and repairing what differs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_backfill_provider.assets import VERIFIED_VIEWS, verified_view_asset
from airflow_backfill_provider.operators.verification import (
    VERIFIED,
    RepairWhatDiffersOperator,
    VerifyMaterializedViewOperator,
)
from tests.unit.stand_in import Lake, StandInSpark, context

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.fixture
def ran(as_ran: Callable[[], Lake]) -> Lake:
    """The job, one epoch of which is committed."""
    return as_ran()


def verify(lake: Lake, ctx: Any = None, **arguments: Any) -> dict[str, Any]:
    operator = VerifyMaterializedViewOperator(task_id="verify", job=lake.definition, **arguments)
    return operator.execute(ctx or context("verify"))


def repair(lake: Lake, ctx: Any = None, **arguments: Any) -> dict[str, Any]:
    operator = RepairWhatDiffersOperator(task_id="repair", job=lake.definition, **arguments)
    return operator.execute(ctx or context("repair"))


def test_a_view_that_is_equal(ran: Lake, spark: StandInSpark):
    ctx = context("verify")
    found = verify(ran, ctx, outlets=[VERIFIED_VIEWS], steps="2")

    assert (found["equal"], found["epoch"]) == (True, 1)
    assert json.loads(json.dumps(found)) == found
    assert ctx["ti"].xcoms[VERIFIED] == found
    (event,) = ctx["outlet_events"][VERIFIED_VIEWS].asset_alias_events
    assert event.dest_asset_key.uri == verified_view_asset(ran.definition).uri
    assert event.extra == {"event": "verified", "job": "small_orders", "epoch": 1, "rows": 20}
    (submitted,) = spark.submitted
    assert submitted[:4] == ["backfill_verify.py", "verify", "--state", ran.backfill.job.state]
    assert submitted[-2:] == ["--steps", "2"]


def test_a_view_that_differs_fails_for_good_and_its_result_is_pushed(ran: Lake, spark: StandInSpark):
    spark.missing = [["7"]]
    ctx = context("verify")
    with pytest.raises(AirflowFailException, match="differs from its query .* 1 keys in 1 vnodes; repair"):
        verify(ran, ctx, outlets=[VERIFIED_VIEWS])
    assert ctx["ti"].xcoms[VERIFIED]["keys"]["missing"] == 1
    assert ctx["outlet_events"][VERIFIED_VIEWS].asset_alias_events == []


def test_a_view_that_differs_may_be_left_to_the_next_task(ran: Lake, spark: StandInSpark):
    spark.missing = [["7"]]
    assert verify(ran, on_difference="succeed")["equal"] is False
    found = repair(ran)
    assert (found["equal"], found["epoch"]) == (True, 2)
    assert ran.backfill.store.pinned(2).repair.keys == (("7",),)
    assert [call[1] for call in spark.submitted] == ["verify", "repair"]


def test_if_nothing_differs_a_repair_starts_no_spark(ran: Lake, spark: StandInSpark):
    verify(ran)
    assert repair(ran)["equal"] is True
    assert [call[1] for call in spark.submitted] == ["verify"]


def test_a_view_that_still_differs_fails_the_repair(ran: Lake, spark: StandInSpark):
    spark.missing = [["7"], ["7"]]
    verify(ran, on_difference="succeed")
    with pytest.raises(AirflowFailException, match="differs from its query"):
        repair(ran)


def test_a_retry_resumes_and_another_run_starts_a_new_verification(ran: Lake, spark: StandInSpark):
    spark.before = [("the machine went away", True)]
    with pytest.raises(AirflowException, match="went away"):
        verify(ran)
    verify(ran)
    numbers = [found.pinned.number for found in ran.backfill.verifications.all()]
    assert numbers == [1]
    verify(ran, context("verify", run_id="another"))
    assert len(ran.backfill.verifications.all()) == 2


def test_an_application_that_left_no_result_fails_the_task(ran: Lake, spark: StandInSpark):
    verify(ran, context("verify", run_id="earlier"))
    spark.lazy = True
    with pytest.raises(AirflowException, match="its result is not in"):
        verify(ran)


@pytest.mark.parametrize("wrong", [0, "0", -1, "many", 1.5])
def test_an_invalid_number_of_steps_is_refused(ran: Lake, spark: StandInSpark, wrong):
    with pytest.raises(AirflowFailException, match="steps: .* is not a number of steps"):
        verify(ran, steps=wrong)
    assert spark.submitted == []


def test_before_the_first_epoch_there_is_nothing_to_verify_and_before_the_first_verification_nothing_to_repair(
    created: Lake, spark: StandInSpark
):
    with pytest.raises(AirflowFailException, match="nothing to verify"):
        verify(created)
    with pytest.raises(AirflowFailException, match="was not verified yet"):
        repair(created)
