"""Waiting until a view is verified."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.sensors.backfill import MaterializedViewVerifiedSensor
from airflow_backfill_provider.triggers.backfill import REACHED
from tests.plain_engine import CountingEngine
from tests.unit.stand_in import Lake, context


class LateEngine(CountingEngine):
    """Ends each comparison just now, or some time ago."""

    ago = dt.timedelta(0)

    def compare(self, *arguments: Any) -> Any:
        compared = super().compare(*arguments)
        return compared.model_copy(update={"compared_at": dt.datetime.now(dt.UTC) - self.ago})


@pytest.fixture
def ran(as_ran: Callable[[], Lake]) -> Lake:
    """The job, one epoch of which is committed."""
    return as_ran()


def verify(lake: Lake, *missing: str, ago: dt.timedelta = dt.timedelta(0)) -> None:
    engine = LateEngine([missing])
    engine.ago = ago
    verifier.verify_job(lake.backfill, engine=lambda: engine, requester=Requester(user="vera"), anew=True)


def look(lake: Lake, **arguments: Any) -> Any:
    waiting = MaterializedViewVerifiedSensor(task_id="wait", job=lake.definition, deferrable=False, **arguments)
    return waiting.poke(context("wait"))


def test_a_view_that_was_never_verified_is_waited_for(ran: Lake):
    assert not look(ran).is_done
    verify(ran)
    answer = look(ran)
    assert (answer.is_done, answer.xcom_value["epoch"]) == (True, 1)
    assert dt.datetime.fromisoformat(answer.xcom_value["verified_at"]).tzinfo


def test_a_verification_that_is_too_old_or_too_early_is_not_enough(ran: Lake):
    verify(ran, ago=dt.timedelta(hours=2))
    assert look(ran).is_done
    assert look(ran, max_age=dt.timedelta(hours=3), epoch=1).is_done
    assert look(ran, max_age="10800", epoch="1").is_done
    assert not look(ran, max_age=dt.timedelta(hours=1)).is_done
    assert not look(ran, epoch={"epoch": 2}).is_done


def test_a_verification_that_is_not_finished_is_not_enough(ran: Lake):
    verifier.begin_verification(ran.backfill, requester=Requester(user="vera"), steps=2)
    assert not look(ran).is_done


def test_a_view_that_differs_fails_for_good_and_is_waited_for_once_that_is_long_ago(ran: Lake):
    verify(ran, "7", ago=dt.timedelta(hours=2))
    with pytest.raises(AirflowFailException, match="differs from its query at epoch 1, 2 h 0 min ago: 1 keys differ"):
        look(ran)
    assert not look(ran, max_age=3600).is_done
    verify(ran)
    assert look(ran).is_done


def test_a_deferred_sensor_waits_for_the_same(ran: Lake):
    waiting = MaterializedViewVerifiedSensor(
        task_id="wait", job=ran.definition, deferrable=True, max_age=60, epoch=1, poke_interval=0.01
    )
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute(context("wait"))
    verify(ran)
    event = asyncio.run(anext(deferred.value.trigger.run()))
    assert event.payload["outcome"] == REACHED
    _, arguments = deferred.value.trigger.serialize()
    assert (arguments["max_age"], arguments["epoch"]) == (60.0, 1)


@pytest.mark.parametrize("wrong", [-1, "old", float("inf"), [1]])
def test_an_invalid_age_is_refused(orders: Lake, wrong: Any):
    with pytest.raises(AirflowFailException, match="max_age: .* is not an age"):
        look(orders, max_age=wrong)
