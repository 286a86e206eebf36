"""Settings: one record per change, and what a change means to a running backfill."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_backfill_provider.core.barrier import Mutation
from airflow_backfill_provider.core.settings import JobSettings, SettingsChange
from tests.builders import NOW, job_of, order_of, settings_of

LATER = NOW + dt.timedelta(hours=1)


def changed(settings, change, **fields):
    return settings.changed(change, requested_by="vera", requested_at=LATER, **fields)


def test_a_change_is_the_next_record_and_leaves_the_rest():
    first = settings_of(job_of(rate_limit=5))
    second = changed(first, SettingsChange.PAUSE, paused=True)
    assert (second.sequence, second.change, second.paused) == (2, SettingsChange.PAUSE, True)
    assert (second.requested_by, second.requested_at) == ("vera", LATER)
    assert (second.rate_limit, second.incarnation, second.job) == (5, first.incarnation, first.job)
    assert not first.paused


def test_the_argument_of_a_change_does_not_stick():
    throttled = changed(settings_of(), SettingsChange.THROTTLE, rate_limit=7, value=7)
    assert throttled.value == 7
    assert changed(throttled, SettingsChange.PAUSE, paused=True).value is None
    assert changed(throttled, SettingsChange.PAUSE, paused=True).rate_limit == 7


@pytest.mark.parametrize(
    ("paused", "rate_limit", "reads"),
    [(False, None, True), (False, 1, True), (False, 0, False), (True, None, False), (True, 1, False), (True, 0, False)],
)
def test_pause_and_rate_limit_are_independent(paused, rate_limit, reads):
    """Design §5.11."""
    assert settings_of(paused=paused, rate_limit=rate_limit).reads_snapshot is reads


@pytest.mark.parametrize(
    ("change", "mutation"),
    [
        (SettingsChange.PAUSE, Mutation.PAUSE),
        (SettingsChange.RESUME, Mutation.RESUME),
        (SettingsChange.THROTTLE, Mutation.THROTTLE),
        (SettingsChange.CREATE, None),
        (SettingsChange.CANCEL, None),
        (SettingsChange.FINISH, None),
        (SettingsChange.REBUILD, None),
    ],
)
def test_a_barrier_carries_what_changes_a_running_backfill(change, mutation):
    record = changed(settings_of(), change, value=3)
    pinned = record.as_mutation()
    if mutation is None:
        assert pinned is None
        return
    assert pinned is not None
    assert (pinned.mutation, pinned.value, pinned.requested_by, pinned.requested_at) == (mutation, 3, "vera", LATER)


def test_settings_survive_their_table():
    settings = changed(settings_of(job_of("/läke o'brien")), SettingsChange.THROTTLE, rate_limit=0, value=0)
    assert JobSettings.model_validate_json(settings.model_dump_json()) == settings


def test_the_key_order_has_the_types_of_creation_and_the_jobs_directions():
    job = job_of(
        upstream={"path": "/lake/orders", "key": ["k1", {"column": "k2", "descending": True}]},
        query="SELECT k1 FROM upstream",
    )
    settings = settings_of(job, types={"k2": "decimal(20,2)", "other": "date", "k1": "string"})
    assert settings.key_order == order_of("string", ("decimal(20,2)", True))
