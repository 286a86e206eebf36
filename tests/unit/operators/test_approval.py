"""The plan of a backfill, and the question before its first epoch."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators import hitl
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, TaskAwaitingInput

from airflow_backfill_provider.operators.approval import ApproveBackfillOperator, PlanBackfillOperator
from airflow_backfill_provider.operators.job import CreateBackfillJobOperator
from tests.unit.stand_in import Lake, StandInSpark, context


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The questions to people. Airflow's API passes on the answers; a test with processes uses it."""
    questions: list[dict[str, Any]] = []
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **question: questions.append(question))
    return questions


def approve(lake: Lake, **fields: Any) -> ApproveBackfillOperator:
    return ApproveBackfillOperator(task_id="approve", job=lake.definition, **fields)


def asking() -> Any:
    return {**context("approve"), "task_instance": SimpleNamespace(id=uuid.uuid4())}


def answer(option: str) -> dict[str, Any]:
    return {
        "chosen_options": [option],
        "params_input": {},
        "responded_at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        "responded_by_user": {"id": "vera", "name": "Vera"},
    }


def test_a_plan_says_what_the_job_would_do_and_writes_nothing(orders: Lake):
    before = sorted(orders.folder.rglob("*"))

    plan = PlanBackfillOperator(task_id="plan", job=orders.definition).execute(context())

    assert sorted(orders.folder.rglob("*")) == before
    assert json.loads(json.dumps(plan)) == plan
    assert (plan["created"], plan["strategy"], plan["rows_left"], plan["epochs"]) == (False, "no_shuffle", 1000, 3)
    assert set(plan["estimates"]) == {"no_shuffle", "arrangement"}
    assert "| to read | 1,000 rows in about 3 epochs |" in plan["markdown"]
    assert "SELECT order_id FROM upstream" in plan["markdown"]


def test_the_plan_of_a_created_job_is_about_what_is_left(created: Lake):
    created.epochs(1)

    plan = PlanBackfillOperator(task_id="plan", job=created.definition).execute(context())

    assert (plan["created"], plan["rows_left"], plan["epochs"]) == (True, 600, 2)


def test_a_job_that_is_not_created_is_asked_about_with_its_plan(orders: Lake, asked):
    with pytest.raises(TaskAwaitingInput):
        approve(orders).execute(asking())

    (question,) = asked
    assert question["subject"] == "Start the backfill of small_orders, 1,000 rows?"
    assert question["options"] == ["Approve", "Reject"]
    assert "| to read | 1,000 rows in about 3 epochs |" in question["body"]


def test_the_question_may_have_another_text(orders: Lake, asked):
    with pytest.raises(TaskAwaitingInput):
        approve(orders, subject="Now?", body="Ask Vera.").execute(asking())

    assert (asked[0]["subject"], asked[0]["body"]) == ("Now?", "Ask Vera.")


def test_a_created_job_is_not_asked_about_again(created: Lake, asked):
    result = approve(created).execute(asking())

    assert result == {"asked": False, "reason": "job small_orders was created by somebody"}
    assert asked == []


def test_a_job_with_another_definition_is_refused_instead_of_asked_about(created: Lake, asked):
    created.fields["query"] = "SELECT order_id, 1 AS one FROM upstream"

    with pytest.raises(AirflowFailException, match="rebuild the job to change its definition"):
        approve(created).execute(asking())
    assert asked == []


def test_a_job_that_cannot_work_fails_without_a_question(orders: Lake, asked):
    orders.fields["upstream"] = {"path": str(orders.folder / "orders"), "key": ["nope"]}

    with pytest.raises(AirflowFailException, match="'nope'"):
        approve(orders).execute(asking())
    assert asked == []


def test_an_approval_names_who_gave_it(orders: Lake):
    result = approve(orders).execute_complete(asking(), answer("Approve"))

    assert result["chosen_options"] == ["Approve"]
    assert result["responded_by_user"] == {"id": "vera", "name": "Vera"}


def test_a_rejection_that_is_to_fail_is_not_retried(orders: Lake):
    with pytest.raises(AirflowFailException, match="rejected"):
        approve(orders, fail_on_reject=True).execute_complete(asking(), answer("Reject"))


def test_a_rejection_skips_every_task_downstream_by_default(orders: Lake):
    """Also the summary of an epoch, which would run after skipped ones."""
    assert approve(orders).ignore_downstream_trigger_rules is True
    assert approve(orders, ignore_downstream_trigger_rules=False).ignore_downstream_trigger_rules is False


# --- what an approval covers ----------------------------------------------------------------------


def create_approved(lake: Lake, run: Any) -> Any:
    with DAG("approved", schedule=None):
        create = CreateBackfillJobOperator(task_id="create", job=lake.definition)
        approve(lake) >> EmptyOperator(task_id="between") >> create
    return create.execute(run)


def asked_about(lake: Lake) -> Any:
    """Ask about a job; return the task run, which has the XCom."""
    run = asking()
    with pytest.raises(TaskAwaitingInput):
        approve(lake).execute(run)
    return run


def test_the_approved_definition_is_created(orders: Lake, asked, spark: StandInSpark):
    assert create_approved(orders, asked_about(orders))["incarnation"]


@pytest.mark.parametrize("change", [{"query": "SELECT order_id, 1 AS one FROM upstream"}, {"rate_limit": 999}])
def test_a_definition_that_changed_since_the_question_is_not_created(orders: Lake, asked, spark: StandInSpark, change):
    """The DAG's file, and the job's file, are read again by each task."""
    run = asked_about(orders)
    orders.fields.update(change)

    with pytest.raises(AirflowFailException, match="its definition has changed since it was approved"):
        create_approved(orders, run)
    assert spark.submitted == []
    assert not orders.backfill.store.created()


def test_a_job_that_needed_no_approval_is_not_created_anew_without_one(created: Lake, asked, spark: StandInSpark):
    run = asking()
    approve(created).execute(run)
    create_approved(created, run)
    shutil.rmtree(created.backfill.job.state)

    with pytest.raises(AirflowFailException, match="it was removed or rebuilt since it was approved"):
        create_approved(created, run)
    assert spark.submitted == []


def test_without_an_approval_nothing_is_created(orders: Lake, spark: StandInSpark):
    with pytest.raises(AirflowFailException, match="task approve has no approval of it; clear that task"):
        create_approved(orders, asking())
    assert spark.submitted == []
