"""Settings: one record per change, and what a change means to a running backfill."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_backfill_provider.core.epoch.barrier import Mutation
from airflow_backfill_provider.core.epoch.repair import Repair
from airflow_backfill_provider.core.epoch.settings import JobSettings, SettingsChange
from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.core.scan.offset import HistoryPoint
from airflow_backfill_provider.core.scan.progress import Completed, NotStarted
from airflow_backfill_provider.strategies.arrangement.location import location_of
from tests.builders import NOW, barrier_of, job_of, order_of, settings_of

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


def test_the_argument_of_a_change_is_not_kept():
    throttled = changed(settings_of(), SettingsChange.THROTTLE, rate_limit=7, value=7)
    assert throttled.value == 7
    assert changed(throttled, SettingsChange.PAUSE, paused=True).value is None
    assert changed(throttled, SettingsChange.PAUSE, paused=True).rate_limit == 7


def test_a_repair_is_only_in_the_record_that_requests_it():
    """I1: if another record kept it, the view would be repaired again."""
    asked = changed(settings_of(), SettingsChange.REPAIR, repair=Repair(vnodes=(1,)), repair_sequence=2)
    assert (asked.repair, asked.repair_sequence) == (Repair(vnodes=(1,)), 2)
    paused = changed(asked, SettingsChange.PAUSE, paused=True)
    assert (paused.repair, paused.repair_sequence) == (Repair(), 2)


@pytest.mark.parametrize(
    ("repair_sequence", "repair", "repairs"),
    [
        (0, Repair(), False),
        (1, Repair(), False),  # an earlier barrier pinned it
        (2, Repair(), True),  # the next one will
        (1, Repair(keys=(("5",),)), True),
    ],
)
def test_a_view_is_repaired_by_the_current_barrier_or_the_next_one(repair_sequence, repair, repairs):
    barrier = barrier_of(settings_sequence=1, repair=repair)
    assert settings_of(sequence=2, repair_sequence=repair_sequence).repairs_view(barrier) is repairs


@pytest.mark.parametrize(("version", "first"), [(None, -1), (0, 0), (7, 7)])
def test_the_first_window_begins_after_the_version_of_the_arrangement(version, first):
    """I1: version 0 is a version."""
    assert settings_of(start=None if version is None else HistoryPoint(offset=version)).first_offset.number == first


@pytest.mark.parametrize(("strategy", "shared"), [("no_shuffle", True), ("arrangement", False)])
def test_vnodes_share_a_position_if_positions_are_keys(strategy, shared):
    assert settings_of(strategy=strategy).has_shared_position is shared


def test_each_incarnation_has_its_own_arrangement():
    """I5: a reader of an earlier one must not find this one."""
    assert location_of(settings_of(incarnation="a1")) != location_of(settings_of(incarnation="b2"))


def test_the_definition_that_barriers_are_checked_against_is_exactly_what_decides_rows():
    """I6: rate limit and parallelism may be edited at any time."""
    settings = settings_of()
    other_table = settings.upstream.model_copy(update={"table_id": "other"})
    others = [
        settings_of(job_of(query="SELECT id FROM upstream")),
        settings_of(strategy="arrangement"),
        settings_of(upstream=other_table),
        settings_of(types={"id": "long", "status": "string", "amount": "integer"}),
    ]
    assert len({settings.definition_digest, *(other.definition_digest for other in others)}) == 5
    edited = settings_of(job_of(rate_limit=7, parallelism=2), paused=True, incarnation="b2", sequence=9)
    assert edited.definition_digest == settings.definition_digest


def test_a_changed_copy_of_settings_has_a_definition_and_a_scan_of_its_own():
    """Both are kept once they were asked for, and they follow from the fields."""
    settings = settings_of()
    assert settings.definition is settings.definition
    assert settings.scan == settings.scan
    changed = settings.model_copy(update={"job": {**settings.job, "vnode_count": 8}})
    assert (changed.definition.vnode_count, settings.definition.vnode_count) == (8, 4)
    assert changed.scan != settings.scan
    assert changed != settings
    assert settings.model_copy() == settings


def test_a_job_about_a_part_of_the_upstream_scans_that_part():
    job = job_of(restrict_to={"vnodes": [1, 3], "keys": {"after": [2], "up_to": [6]}})
    in_place = settings_of(job).scan
    assert in_place.unread(in_place.initial(0)) == (KeyRange((2,), (6,)),)
    arranged = settings_of(job, strategy="arrangement", start=HistoryPoint(offset=0)).scan
    nothing = Completed(None, 0)
    assert arranged.initial(0).vnodes == (nothing, NotStarted(), nothing, NotStarted())


@pytest.mark.parametrize(
    ("paused", "rate_limit", "reads"),
    [(False, None, True), (False, 1, True), (False, 0, False), (True, None, False), (True, 1, False), (True, 0, False)],
)
def test_pause_and_rate_limit_are_independent(paused, rate_limit, reads):
    """docs/concepts/rules.md#the-settings-decide."""
    assert settings_of(paused=paused, rate_limit=rate_limit).reads_snapshot is reads


@pytest.mark.parametrize(
    ("change", "mutation"),
    [
        (SettingsChange.PAUSE, Mutation.PAUSE),
        (SettingsChange.RESUME, Mutation.RESUME),
        (SettingsChange.THROTTLE, Mutation.THROTTLE),
        (SettingsChange.RESCALE, Mutation.RESCALE),
        (SettingsChange.REPAIR, Mutation.REPAIR),
        (SettingsChange.CREATE, None),
        (SettingsChange.CANCEL, None),
        (SettingsChange.FINISH, None),
        (SettingsChange.REBUILD, None),
    ],
)
def test_a_barrier_pins_what_changes_a_running_backfill(change, mutation):
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
