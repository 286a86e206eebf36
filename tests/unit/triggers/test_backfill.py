"""How each trigger ends, and what it serializes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk._shared.module_loading import import_string
from airflow.triggers.base import TriggerEvent

from airflow_backfill_provider.core.errors import StorageUnavailableError
from airflow_backfill_provider.triggers import watched_job
from airflow_backfill_provider.triggers.backfill import (
    BackfillProgressTrigger,
    BackfillTrigger,
    EpochCommittedTrigger,
    MaterializedViewFinishedTrigger,
    MaterializedViewVerifiedTrigger,
    VnodesCompletedTrigger,
)
from tests.unit.stand_in import Lake
from tests.variants import mostly_exhaustive

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

TRIGGERS: dict[str, Callable[..., BackfillTrigger]] = {
    "finished": MaterializedViewFinishedTrigger,
    "epoch": lambda **common: EpochCommittedTrigger(epoch=2, **common),
    "progress": lambda **common: BackfillProgressTrigger(at_least=0.5, **common),
}

each = pytest.mark.parametrize("kind", mostly_exhaustive(TRIGGERS, {"progress"}))


def trigger(lake: Lake, kind: str, **common) -> BackfillTrigger:
    arguments = {"backfill_conn_id": "airflow_backfill_default", "poll_interval": 0.01, **common}
    return TRIGGERS[kind](state=lake.backfill.job.state, **arguments)


def event_of(waiting: BackfillTrigger) -> TriggerEvent:
    async def first() -> TriggerEvent:
        return await anext(waiting.run())

    return asyncio.run(asyncio.wait_for(first(), timeout=10))


def event_after(lake: Lake, kind: str, change: Callable[[], None]) -> Any:
    """Let a trigger wait, change something, and return its event."""

    async def scenario() -> TriggerEvent:
        waiting = asyncio.ensure_future(anext(trigger(lake, kind).run()))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await asyncio.to_thread(change)
        return await asyncio.wait_for(waiting, timeout=10)

    return asyncio.run(scenario()).payload


@each
def test_a_trigger_is_made_again_from_what_it_serializes(created: Lake, kind):
    made = trigger(created, kind, poll_interval=3.5)
    classpath, arguments = made.serialize()

    again = import_string(classpath)(**json.loads(json.dumps(arguments)))

    assert type(again) is type(made)
    assert again.serialize() == made.serialize()
    assert again.condition == made.condition


@pytest.mark.parametrize(
    ("made_by", "more"),
    [
        (MaterializedViewFinishedTrigger, {}),
        (EpochCommittedTrigger, {"epoch": 7}),
        (BackfillProgressTrigger, {"at_least": 0.875}),
        (VnodesCompletedTrigger, {"vnodes": [3, "8-15"]}),
        (MaterializedViewVerifiedTrigger, {"max_age": 90.5, "epoch": 7}),
    ],
)
def test_every_argument_of_a_trigger_is_serialized(made_by, more):
    arguments = {"state": "/lake/state", "backfill_conn_id": "lake", "poll_interval": 7.5, **more}
    assert made_by(**arguments).serialize()[1] == arguments


def test_control_tables_that_do_not_answer_are_a_retryable_failure(created: Lake, monkeypatch):
    def fail(*_: Any) -> Any:
        raise StorageUnavailableError("the lake cannot be reached")

    monkeypatch.setattr(watched_job, "observe", fail)
    event = event_of(trigger(created, "finished")).payload

    assert event == {"outcome": "failed", "message": "the lake cannot be reached", "retryable": True}


def test_a_wait_logs_what_it_sees_once_and_again_when_it_changes(created: Lake, monkeypatch: pytest.MonkeyPatch):
    waiting = trigger(created, "progress")
    logged: list[str] = []

    async def scenario() -> None:
        again = asyncio.Event()

        def tell(form: str, *texts: object) -> None:
            logged.append(form % texts)
            if len(logged) == 2:
                again.set()

        monkeypatch.setattr(waiting.log, "info", tell)
        end = asyncio.ensure_future(anext(waiting.run()))
        await asyncio.sleep(0.2)
        await asyncio.to_thread(created.epochs, 1)
        await again.wait()
        end.cancel()

    asyncio.run(asyncio.wait_for(scenario(), timeout=20))
    assert [line.partition(", at least")[0].rpartition(" ")[2] for line in logged] == ["0.0%", "40.0%"]


@each
def test_what_is_serialized_names_the_connection_and_holds_no_secret(created: Lake, kind, connection):
    conn_id = connection(extra=json.dumps({"storage_options": {"AWS_SECRET_ACCESS_KEY": "hush-hush"}}))

    waiting = trigger(created, kind, backfill_conn_id=conn_id)
    assert waiting.look().value is None

    assert "hush" not in json.dumps(waiting.serialize())
    assert waiting.serialize()[1]["backfill_conn_id"] == conn_id


def test_a_view_that_is_marked_finished_ends_the_wait(created: Lake):
    event = event_after(created, "finished", created.finish)

    assert event == {"outcome": "reached", "value": {"epoch": 3}}


def test_an_epoch_that_is_committed_ends_the_wait(created: Lake):
    event = event_after(created, "epoch", lambda: created.epochs(2))

    assert event == {"outcome": "reached", "value": {"epoch": 2}}


def test_progress_that_goes_far_enough_ends_the_wait(created: Lake):
    event = event_after(created, "progress", lambda: created.epochs(2))

    assert event == {"outcome": "reached", "value": {"progress": 0.8, "epoch": 2}}


@each
def test_a_cancelled_job_ends_the_wait_for_good(created: Lake, kind):
    event = event_after(created, kind, created.cancel)

    assert (event["outcome"], event["retryable"]) == ("failed", False)
    assert "job small_orders was cancelled" in event["message"]


@each
def test_damaged_control_tables_end_the_wait_for_good(created: Lake, kind, monkeypatch):
    monkeypatch.setattr(watched_job, "LOOK_ANYWAY_SECONDS", 0.0)
    event = event_after(created, kind, lambda: damage(created))

    assert (event["outcome"], event["retryable"]) == ("failed", False)
    assert "cannot be read" in event["message"] or "missing" in event["message"]


@each
def test_a_missing_connection_ends_the_wait_for_good(created: Lake, kind):
    event = event_of(trigger(created, kind, backfill_conn_id="nowhere")).payload

    assert (event["outcome"], event["retryable"]) == ("failed", False)
    assert "there is no connection nowhere" in event["message"]


@each
def test_a_job_that_is_not_created_yet_is_waited_for(orders: Lake, kind):
    def create_and_finish() -> None:
        orders.create()
        orders.finish()

    assert event_after(orders, kind, create_and_finish)["outcome"] == "reached"


def test_what_was_reached_before_a_cancellation_stays_reached(created: Lake):
    created.finish()
    created.cancel()

    assert [event_of(trigger(created, kind)).payload["outcome"] for kind in TRIGGERS] == ["reached"] * 3


def test_an_epoch_that_is_pinned_and_not_committed_makes_no_progress(created: Lake):
    created.epochs(1)
    created.inject()

    note = "the progress of job small_orders is 40.0%, at least 50.0% is needed"
    assert trigger(created, "progress").look().note == note
    assert trigger(created, "epoch").look().value is None


@each
def test_a_look_takes_milliseconds(created: Lake, kind):
    created.epochs(2)
    waiting = trigger(created, kind)
    waiting.look()

    started = time.monotonic()
    for _ in range(5):
        waiting.look()

    # Ten times what it takes on an idle machine.
    assert (time.monotonic() - started) / 5 < 0.5


def damage(lake: Lake) -> None:
    for table in ("settings", "barrier_log"):
        for file in (lake.folder / "_backfill" / "small_orders" / table).rglob("*.parquet"):
            file.write_bytes(b"no parquet")
