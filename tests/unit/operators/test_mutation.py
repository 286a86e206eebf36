"""Changing a running job's settings as tasks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_backfill_provider.operators.mutation import (
    CancelBackfillOperator,
    PauseBackfillOperator,
    RepairBackfillOperator,
    RescaleBackfillOperator,
    ResumeBackfillOperator,
    ThrottleBackfillOperator,
)
from tests.unit.stand_in import Lake, context


@pytest.fixture(scope="module")
def as_created(prepare) -> Callable[[], Lake]:
    return prepare()


@pytest.fixture
def created(as_created: Callable[[], Lake]) -> Lake:
    """The job, restored as it was created; changing it leaves nothing running."""
    return as_created()


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
    [
        *[
            (7, 7),
            ("7", 7),
            (" 7 ", 7),
            (0, 0),
            ("0", 0),
            (None, None),
            ("None", None),
            ("", None),
            ("unlimited", None),
        ],
        *[("auto", "auto"), (" Auto ", "auto")],
    ],
)
def test_a_rate_limit_is_taken_as_a_template_renders_it(created: Lake, given, in_force):
    assert execute(ThrottleBackfillOperator, created, rate_limit=given)["rate_limit"] == in_force


@pytest.mark.parametrize("given", ["many", "-1", -1, 1.5, "1.5", True, "{{ params.rate_limit }}"])
def test_a_rate_limit_that_is_no_number_of_rows_is_refused(created: Lake, given):
    with pytest.raises(AirflowFailException, match="is not a number of rows; allowed are null"):
        execute(ThrottleBackfillOperator, created, rate_limit=given)


def test_the_target_and_the_pace_are_taken_as_a_template_renders_them(created: Lake):
    settings = execute(
        ThrottleBackfillOperator, created, rate_limit="auto", target_epoch_seconds="30", max_rows_per_second="500"
    )
    assert (settings["target_epoch_seconds"], settings["max_rows_per_second"]) == (30, 500)
    kept = execute(ThrottleBackfillOperator, created, rate_limit="auto", target_epoch_seconds="None")
    assert (kept["target_epoch_seconds"], kept["max_rows_per_second"]) == (30, 500)
    assert (
        execute(ThrottleBackfillOperator, created, rate_limit=7, max_rows_per_second="")["max_rows_per_second"] is None
    )


@pytest.mark.parametrize(
    ("wrong", "refusal"),
    [
        ({"target_epoch_seconds": "soon"}, "target_epoch_seconds: 'soon' is not a number of seconds"),
        ({"target_epoch_seconds": -1}, "target_epoch_seconds: -1 is not a number of seconds"),
        ({"target_epoch_seconds": "nan"}, "target_epoch_seconds: 'nan' is not a number of seconds"),
        ({"target_epoch_seconds": 10**9}, "target_epoch_seconds: Input should be less than or equal to"),
        ({"max_rows_per_second": 0}, "max_rows_per_second: 0 is not a number of rows"),
        ({"max_rows_per_second": "fast"}, "max_rows_per_second: 'fast' is not a number of rows"),
    ],
)
def test_a_target_or_a_pace_that_is_none_is_refused(created: Lake, wrong, refusal):
    with pytest.raises(AirflowFailException, match=refusal):
        execute(ThrottleBackfillOperator, created, rate_limit="auto", **wrong)
    assert len(created.backfill.store.settings_history()) == 1


def test_a_target_without_auto_is_refused(created: Lake):
    with pytest.raises(AirflowFailException, match="target_epoch_seconds: only rate_limit auto aims at"):
        execute(ThrottleBackfillOperator, created, rate_limit=7, target_epoch_seconds=30)


def test_a_rate_limit_is_looked_at_when_the_task_runs_and_not_before():
    operator = ThrottleBackfillOperator(task_id="throttle", job="{{ params.job }}", rate_limit="{{ params.limit }}")

    operator.render_template_fields({"params": {"job": "/jobs/orders.yaml", "limit": 12}})

    assert (operator.job, operator.rate_limit) == ("/jobs/orders.yaml", "12")


def test_a_cancelled_job_takes_no_other_change(created: Lake):
    assert execute(CancelBackfillOperator, created)["cancelled"] is True
    assert execute(CancelBackfillOperator, created)["cancelled"] is True

    with pytest.raises(AirflowFailException, match="was cancelled; rebuild it"):
        execute(ResumeBackfillOperator, created)


def test_an_edited_definition_can_still_be_paused_but_not_another_job(created: Lake):
    edited = {**created.definition, "query": "SELECT order_id + 1 AS order_id FROM upstream"}
    other = {**created.definition, "name": "other", "state": created.backfill.job.state}

    assert PauseBackfillOperator(task_id="pause", job=edited).execute(context("pause"))["paused"] is True
    with pytest.raises(AirflowFailException, match="holds the control tables of job small_orders, not of other"):
        ResumeBackfillOperator(task_id="resume", job=other).execute(context("resume"))


def test_a_job_that_was_not_created_is_refused(orders: Lake):
    with pytest.raises(AirflowFailException, match="create it first"):
        execute(PauseBackfillOperator, orders)


@pytest.fixture(scope="module")
def as_arranged(prepare) -> Callable[[], Lake]:
    return prepare(strategy="arrangement")


@pytest.fixture
def arranged(as_arranged: Callable[[], Lake]) -> Lake:
    """The job, created under arrangement."""
    return as_arranged()


@pytest.mark.parametrize("given", [3, "3", " 3 "])
def test_a_rescale_is_in_force_and_pinned_by_the_next_barrier(arranged: Lake, given):
    assert execute(RescaleBackfillOperator, arranged, parallelism=given)["parallelism"] == 3

    barrier = arranged.inject()
    assert (barrier.parallelism, len(barrier.vnode_ranges)) == (3, 3)
    assert [(str(m.mutation), m.value) for m in barrier.mutations] == [("rescale", 3)]


@pytest.mark.parametrize("given", [0, "none", -1, 1.5, True, None])
def test_a_rescale_to_an_invalid_parallelism_is_refused(arranged: Lake, given):
    with pytest.raises(AirflowFailException, match="parallelism: .* is not a number of parallel task runs"):
        execute(RescaleBackfillOperator, arranged, parallelism=given)


def test_a_rescale_to_more_than_the_vnodes_or_of_one_position_is_refused(arranged: Lake, tmp_path):
    with pytest.raises(AirflowFailException, match="allowed are 1 to 4"):
        execute(RescaleBackfillOperator, arranged, parallelism=5)
    places = {"state": str(tmp_path / "state"), "materialized_view": str(tmp_path / "view")}
    in_place = Lake(arranged.folder, {"strategy": "no_shuffle", **places})
    in_place.create()
    with pytest.raises(AirflowFailException, match="all vnodes share one position"):
        execute(RescaleBackfillOperator, in_place, parallelism=2)


@pytest.mark.slow
def test_a_repair_is_pinned_once_with_what_was_chosen(arranged: Lake):
    arranged.epochs(1)
    for _ in range(2):
        execute(RepairBackfillOperator, arranged, vnodes="0-1, 3", keys="[5, [7]]")

    first, second = arranged.inject(), None
    assert (first.repair.vnodes, first.repair.keys) == ((0, 1, 3), (("5",), ("7",)))
    assert [str(m.mutation) for m in first.mutations] == ["repair"]
    arranged.epochs(1)
    second = arranged.inject()
    assert not second.repair


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({}, "nothing is chosen"),
        ({"vnodes": "none", "keys": ""}, "nothing is chosen"),
        ({"vnodes": [4]}, "is not a vnode or a range of vnodes of the job"),
        ({"vnodes": 1.5}, "is not a list of vnodes"),
        ({"keys": "x"}, "give a list of keys"),
        ({"keys": ["x"]}, "is not a key of the upstream"),
        ({"keys": [[1, 2]]}, "is not a key of the upstream"),
    ],
)
def test_a_repair_of_something_that_the_job_does_not_have_is_refused(arranged: Lake, chosen, message):
    with pytest.raises(AirflowFailException, match=message):
        execute(RepairBackfillOperator, arranged, **chosen)


def test_cancelling_a_job_that_was_never_created_removes_what_its_creation_left(orders: Lake, monkeypatch):
    """As the command line does: a creation that died may have left a replication slot."""
    left = ["a slot"]
    monkeypatch.setattr(type(orders.backfill.upstream), "undo_begin", lambda _, job: bool(left and left.pop()))
    assert execute(CancelBackfillOperator, orders) == {"name": "small_orders", "cancelled": True}
    assert left == []
    with pytest.raises(AirflowFailException, match="was not created yet, and has nothing to remove"):
        execute(CancelBackfillOperator, orders)
