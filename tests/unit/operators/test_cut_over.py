"""The question before a cut-over, in Airflow."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators import hitl
from airflow.sdk.exceptions import AirflowFailException, TaskAwaitingInput

from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.operators.cut_over import ApproveCutOverOperator
from airflow_backfill_provider.operators.epoch import RunEpochOperator
from airflow_backfill_provider.operators.finish import FinishMaterializedViewWhenDueOperator
from airflow_backfill_provider.operators.watchdog import BackfillWatchdogOperator
from airflow_backfill_provider.sensors.backfill import MaterializedViewFinishedSensor
from tests.plain_engine import make
from tests.unit.operators.test_approval import answer
from tests.unit.stand_in import Lake, StandInSpark, context

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The questions to people."""
    questions: list[dict[str, Any]] = []
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **question: questions.append(question))
    return questions


@pytest.fixture
def ready(orders: Lake) -> Lake:
    """A first backfill that is complete and waits for an approval."""
    orders.fields["cut_over"] = "on_approval"
    orders.create()
    orders.complete()
    return orders


def approve(lake: Lake, **fields: Any) -> ApproveCutOverOperator:
    return ApproveCutOverOperator(task_id="approve", job=lake.definition, **fields)


def asking() -> Any:
    return {**context("approve"), "task_instance": SimpleNamespace(id=uuid.uuid4())}


def asked_about(lake: Lake) -> Any:
    """Ask; return the task run, which has the XCom."""
    run = asking()
    with pytest.raises(TaskAwaitingInput):
        approve(lake).execute(run)
    return run


def test_the_question_has_numbers_and_keys_and_the_log_has_no_keys(ready: Lake, asked, spark: StandInSpark, capsys):
    asked_about(ready)

    assert [call[:2] for call in spark.submitted] == [["backfill_job.py", "diff"]]
    (question,) = asked
    assert question["subject"] == ("Let the backfill of small_orders go live, 11 rows (1 added, 0 removed, 1 changed)?")
    assert "- rows: 10 now, 11 then; 1 added, 0 removed, 1 changed" in question["body"]
    assert '- changed: \\["3"\\] in cents' in question["body"]
    logged = "".join(capsys.readouterr())
    assert "1 added" in logged
    assert '"3"' not in logged


def test_an_approval_is_recorded_with_who_gave_it_and_lets_the_view_go_live(ready: Lake, asked, spark: StandInSpark):
    finished = MaterializedViewFinishedSensor(task_id="wait", job=ready.definition, deferrable=False)
    assert not finished.poke(context()).is_done, "ready is not finished"
    idle = RunEpochOperator(task_id="epoch", job=ready.definition).execute(context("epoch"))
    assert (idle["epoch"], idle["finished"]) == (None, False)
    with pytest.raises(Exception, match="is ready, and waits for an approval") as skipped:
        FinishMaterializedViewWhenDueOperator(task_id="finish", job=ready.definition).execute(context("finish"))
    assert type(skipped.value).__name__ == "AirflowSkipException"

    approve(ready).execute_complete(asked_about(ready), answer("Approve"))

    approved = ready.backfill.settings().approved
    assert approved is not None
    assert approved.approved_by.startswith("Vera (dag.approve")
    assert approved.difference == 1
    ready.epochs(1)
    FinishMaterializedViewWhenDueOperator(task_id="finish", job=ready.definition).execute(context("finish"))
    assert finished.poke(context()).is_done
    assert approve(ready).execute(asking())["asked"] is False


def test_without_an_answer_in_time_the_default_counts_and_nobody_gave_it(ready: Lake, asked, spark: StandInSpark):
    approve(ready).execute_complete(asked_about(ready), {**answer("Approve"), "responded_by_user": None})

    approved = ready.backfill.settings().approved
    assert approved is not None
    assert approved.approved_by.startswith("dag.approve")


def test_a_rejection_leaves_everything_as_it_is(ready: Lake, asked, spark: StandInSpark):
    before = ready.backfill.settings()
    run = asked_about(ready)
    approve(ready).execute_complete(run, answer("Reject"))
    with pytest.raises(AirflowFailException, match="rejected"):
        approve(ready, fail_on_reject=True).execute_complete(run, answer("Reject"))

    assert ready.backfill.settings() == before


def test_another_definition_since_the_question_is_not_approved(ready: Lake, asked, spark: StandInSpark):
    run = asked_about(ready)
    ready.fields["vnode_count"] = 8

    make(ready.backfill, creation.rebuild_job, requested_by="bob")
    ready.complete()

    with pytest.raises(AirflowFailException, match="is of another rebuild than the one that waits now"):
        approve(ready).execute_complete(run, answer("Approve"))
    assert ready.backfill.settings().approved is None


def test_what_is_not_ready_is_not_asked_about(orders: Lake, asked, spark: StandInSpark):
    orders.fields["cut_over"] = "on_approval"
    orders.create()
    orders.epochs(1)

    assert approve(orders).execute(asking()) == {
        "asked": False,
        "reason": "the backfill of job small_orders is not complete yet",
    }
    assert (spark.submitted, asked) == ([], [])


def test_a_ready_view_is_told_once_and_fails_no_watchdog(ready: Lake):
    told: list[Any] = []
    run = context("watch")
    run["ti"].xcom_pull = lambda **_: None
    watchdog = BackfillWatchdogOperator(task_id="watch", jobs=[ready.definition], send=[told.append])
    found = watchdog.execute(run)
    assert [(event["job"], event["kind"]) for event in found] == [("small_orders", "ready")]
    assert "the backfill is ready since" in told[0]["backfill"]["text"]
    run["ti"].xcom_pull = lambda **_: found
    watchdog.execute(run)
    assert len(told) == 1
