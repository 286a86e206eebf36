"""One suite over the sensors in their three modes: all end alike."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferralTimeout,
    TaskDeferred,
)

from airflow_backfill_provider.sensors.backfill import (
    BackfillProgressSensor,
    BackfillSensor,
    EpochCommittedSensor,
    MaterializedViewFinishedSensor,
    VnodesCompletedSensor,
)
from tests.unit.stand_in import Lake, context
from tests.variants import mostly_exhaustive_combinations

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

SENSORS: dict[str, tuple[Callable[..., BackfillSensor], dict[str, Any]]] = {
    "finished": (MaterializedViewFinishedSensor, {"epoch": 3}),
    "epoch": (lambda **common: EpochCommittedSensor(epoch="3", **common), {"epoch": 3}),
    "progress": (lambda **common: BackfillProgressSensor(at_least="1", **common), {"progress": 1.0, "epoch": 3}),
    "vnodes": (lambda **common: VnodesCompletedSensor(vnodes="0, 2-3", **common), {"vnodes": "0, 2-3", "epoch": 3}),
}
MODES: dict[str, dict[str, Any]] = {
    "poke": {"mode": "poke", "deferrable": False},
    "reschedule": {"mode": "reschedule", "deferrable": False},
    "deferrable": {"deferrable": True},
}

EACH = {("finished", "poke"), ("epoch", "reschedule"), ("progress", "deferrable"), ("vnodes", "deferrable")}
"""Every sensor and every mode once."""

QUICK = {("epoch", "reschedule"), ("progress", "deferrable")}

each_mode = pytest.mark.parametrize("mode", list(MODES))
each_in_each_mode = pytest.mark.parametrize(
    ("kind", "mode"), mostly_exhaustive_combinations(product(SENSORS, MODES), QUICK)
)


def sensor(lake: Lake, kind: str, mode: str, **arguments) -> BackfillSensor:
    make, _ = SENSORS[kind]
    return make(task_id="wait", job=lake.definition, poke_interval=0.01, **{"timeout": 30, **MODES[mode], **arguments})


def run(waiting: BackfillSensor, change: Callable[[], None] = lambda: None) -> Any:
    """Run a sensor as Airflow would: through reschedules and deferrals; ``change`` happens before the second look."""
    ctx = context("wait")
    first: list[Any] = []
    ctx["ti"] = SimpleNamespace(**vars(ctx["ti"]), get_first_reschedule_date=lambda _: first[0] if first else None)
    looks = 0
    original = waiting.poke

    def poke(ctx):
        nonlocal looks
        if looks == 1:
            change()
        looks += 1
        return original(ctx)

    waiting.poke = poke  # type: ignore[method-assign]
    while True:
        try:
            return waiting.execute(ctx)
        except AirflowRescheduleException as reschedule:
            first.append(reschedule.reschedule_date)
        except TaskDeferred as deferred:
            change()
            return resume(waiting, deferred, ctx)


def resume(waiting: BackfillSensor, deferred: TaskDeferred, ctx: Any) -> Any:
    """Run the trigger and go on, as triggerer and worker would."""

    async def event() -> Any:
        return await asyncio.wait_for(anext(deferred.trigger.run()), deferred.timeout.total_seconds())

    try:
        arguments = {"event": asyncio.run(event()).payload}
    except TimeoutError:
        # What Airflow's own resume_execution makes of a trigger that timed out.
        def timed_out(*_: Any, **__: Any) -> None:
            raise TaskDeferralTimeout("the trigger timed out")

        waiting.execute_complete = timed_out  # type: ignore[assignment, method-assign]
        arguments = {}
    return waiting.resume_execution(deferred.method_name, arguments, ctx)


@each_in_each_mode
def test_a_condition_that_holds_already_succeeds_at_once(created: Lake, kind, mode):
    created.finish()

    assert run(sensor(created, kind, mode)) == SENSORS[kind][1]


@pytest.mark.parametrize(
    ("kind", "mode"),
    mostly_exhaustive_combinations(product(SENSORS, MODES), EACH),
)
def test_a_condition_that_holds_later_succeeds_with_the_same_value(created: Lake, kind, mode):
    assert run(sensor(created, kind, mode), created.finish) == SENSORS[kind][1]


@each_in_each_mode
def test_a_job_that_is_not_created_yet_is_waited_for(orders: Lake, kind, mode):
    def create_and_finish() -> None:
        orders.create()
        orders.finish()

    assert run(sensor(orders, kind, mode), create_and_finish) == SENSORS[kind][1]


@each_in_each_mode
def test_a_cancelled_job_fails_for_good(created: Lake, kind, mode):
    with pytest.raises(AirflowFailException, match="job small_orders was cancelled"):
        run(sensor(created, kind, mode), created.cancel)


@each_in_each_mode
def test_a_job_that_was_cancelled_before_fails_for_good(created: Lake, kind, mode):
    created.cancel()

    with pytest.raises(AirflowFailException, match="job small_orders was cancelled"):
        run(sensor(created, kind, mode))


@each_in_each_mode
def test_a_soft_failure_skips(created: Lake, kind, mode):
    with pytest.raises(AirflowSkipException):
        run(sensor(created, kind, mode, soft_fail=True), created.cancel)


@each_in_each_mode
def test_a_wait_without_end_times_out(created: Lake, kind, mode):
    with pytest.raises(AirflowSensorTimeout):
        run(sensor(created, kind, mode, timeout=0.2), lambda: time.sleep(0.3))


@each_mode
def test_a_time_out_with_soft_failure_skips(created: Lake, mode):
    with pytest.raises(AirflowSkipException):
        run(sensor(created, "finished", mode, timeout=0.2, soft_fail=True), lambda: time.sleep(0.3))


@each_mode
def test_a_wrong_argument_fails_when_the_sensor_runs(created: Lake, mode):
    waiting = BackfillProgressSensor(task_id="wait", job=created.definition, at_least="half", **MODES[mode])

    with pytest.raises(AirflowFailException, match="at_least: 'half' is not a share"):
        run(waiting)


def test_a_deferrable_sensor_waits_in_its_trigger_for_what_the_sensor_was_given(created: Lake):
    waiting = EpochCommittedSensor(
        task_id="wait", job=created.definition, epoch={"epoch": 2}, deferrable=True, poke_interval=7, timeout=60
    )

    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute(context("wait"))

    assert deferred.value.trigger.serialize()[1] == {
        "state": created.backfill.job.state,
        "backfill_conn_id": "airflow_backfill_default",
        "poll_interval": 7.0,
        "epoch": 2,
    }
    assert deferred.value.timeout.total_seconds() == 60


def test_arguments_may_be_templates(created: Lake):
    waiting = EpochCommittedSensor(task_id="wait", job="{{ params.job }}", epoch="{{ params.epoch }}")

    waiting.render_template_fields({"params": {"job": "/jobs/orders.yaml", "epoch": 4}})

    assert (waiting.job, waiting.epoch) == ("/jobs/orders.yaml", "4")


def test_a_deferrable_sensor_is_not_deferred_if_the_condition_holds_already(created: Lake):
    created.finish()
    waiting = sensor(created, "finished", "deferrable")

    assert waiting.execute(context("wait")) == {"epoch": 3}


def test_a_sensor_waits_through_its_own_connection(created: Lake, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", '{"conn_type": "airflow_backfill"}')

    with pytest.raises(TaskDeferred) as deferred:
        sensor(created, "finished", "deferrable", backfill_conn_id="lake").execute(context("wait"))

    assert deferred.value.trigger.serialize()[1]["backfill_conn_id"] == "lake"


@pytest.mark.parametrize(("retryable", "for_good"), [(True, False), (False, True)])
def test_a_trigger_that_failed_says_whether_a_retry_may_help(created: Lake, retryable, for_good):
    event = {"outcome": "failed", "message": "the lake cannot be reached", "retryable": retryable}

    with pytest.raises(AirflowException, match="cannot be reached") as failure:
        sensor(created, "finished", "deferrable").execute_complete(context("wait"), event)
    assert isinstance(failure.value, AirflowFailException) is for_good
