"""The stamps in the commits of a table: which job wrote a commit, and whether it is harmless."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from airflow_backfill_provider.core.scan.table_version import TableVersion
from airflow_backfill_provider.lake.log.delta_log import Commit
from airflow_backfill_provider.lake.tables.view_identity import (
    ViewIdentity,
)
from airflow_backfill_provider.spark.stamps import (
    GIVEN_UP,
    OF_CHANGES,
    creates,
    creation_id,
    is_harmless,
    is_of_earlier_epoch,
    is_ours,
    snapshot_part,
    stamp_for,
    transaction_id,
)
from tests.builders import NOW, barrier_of, window_of

IDENTITY = ViewIdentity("paid_orders", "a1")


def commit(stamp: dict[str, Any] | None = None, **fields: Any) -> Commit:
    """Return a commit that changes rows, unless it is said otherwise."""
    written = {"operation": "WRITE", "changes_data": True, "replaces_metadata": False, **fields}
    text = None if stamp is None else json.dumps(stamp)
    return Commit(version=3, timestamp=NOW, user_metadata=text, transactions={}, **written)


BARRIER = barrier_of(2)

OTHER_PLAN = barrier_of(2, upstream=window_of(to_version=9)).digest


@pytest.mark.parametrize(
    ("stamp", "ours", "before_any_epoch"),
    [
        ({"event": "create", "incarnation": "a1"}, False, True),
        ({"event": "epoch", "incarnation": "a1", "epoch": 1, "digest": OTHER_PLAN}, False, True),
        ({"event": "epoch", "incarnation": "a1", "epoch": 2, "digest": BARRIER.digest}, True, True),
        ({"event": "epoch", "incarnation": "a1", "epoch": 2, "digest": OTHER_PLAN}, False, False),
        ({"event": "epoch", "incarnation": "a1", "epoch": 3, "digest": OTHER_PLAN}, False, False),
        ({"event": "epoch", "incarnation": "a0", "epoch": 2, "digest": BARRIER.digest}, False, False),
        ({"event": "epoch", "incarnation": "a0", "epoch": 1, "digest": OTHER_PLAN}, False, False),
        ({"event": "create", "incarnation": "a0"}, False, False),
        ({"event": "compact", "incarnation": "a1"}, False, False),
        ({"event": "fence"}, False, False),
        (None, False, False),
    ],
)
def test_a_commit_is_the_jobs_own_by_its_incarnation_and_its_plan(stamp, ours, before_any_epoch):
    """I5: a commit of another plan than the pinned one is not the job's."""
    assert is_ours(commit(stamp), IDENTITY, BARRIER, TableVersion(version=1)) is ours
    assert is_ours(commit(stamp), IDENTITY, BARRIER, None) is before_any_epoch


@pytest.mark.parametrize(
    ("fields", "harmless"),
    [
        ({"changes_data": False}, True),
        ({"changes_data": False, "operation": "OPTIMIZE"}, True),
        ({"changes_data": False, "operation": "SET TBLPROPERTIES", "replaces_metadata": True}, True),
        ({"changes_data": False, "operation": "UNSET TBLPROPERTIES", "replaces_metadata": True}, True),
        ({"changes_data": False, "operation": "CHANGE COLUMN", "replaces_metadata": True}, True),
        ({"changes_data": False, "operation": "CLUSTER BY", "replaces_metadata": True}, True),
        ({"changes_data": False, "operation": "ADD CONSTRAINT", "replaces_metadata": True}, True),
        ({"changes_data": False, "operation": "DROP CONSTRAINT", "replaces_metadata": True}, True),
        ({"changes_data": False, "operation": "RENAME COLUMN", "replaces_metadata": True}, False),
        ({"changes_data": False, "operation": "CREATE OR REPLACE TABLE", "replaces_metadata": True}, False),
        ({"changes_data": False, "operation": "ADD COLUMNS", "replaces_metadata": True}, False),
        ({"changes_data": True, "operation": "SET TBLPROPERTIES", "replaces_metadata": True}, False),
        ({"changes_data": True, "operation": "OPTIMIZE"}, False),
    ],
)
def test_maintenance_is_harmless_and_a_change_of_rows_or_columns_is_not(fields, harmless):
    """I6: by what a commit did to the table, and only then by what it calls itself."""
    assert is_harmless(commit(**fields)) is harmless


def test_a_watermark_is_published_only_with_a_complete_view():
    stamps: dict[bool, Mapping[str, object]] = {
        completes: stamp_for(barrier_of(completes=completes), "changes") for completes in (False, True)
    }
    assert "watermark" not in stamps[False]
    assert stamps[True] == {**stamps[False], "watermark": "2026-03-29T01:30:00+00:00", "digest": stamps[True]["digest"]}


def test_every_part_of_an_incarnation_has_its_own_transaction():
    """I5: each is written once; a zombie of another incarnation cannot use it up."""
    parts = [*OF_CHANGES, snapshot_part(0), snapshot_part(1)]
    ids = [
        transaction_id(identity, part) for identity in (IDENTITY, ViewIdentity("paid_orders", "b2")) for part in parts
    ]
    assert len(set(ids)) == len(ids) == 2 * len(parts)
    assert creation_id(IDENTITY) == creation_id(ViewIdentity("paid_orders", "b2")) not in ids
    assert creation_id(ViewIdentity("others", "a1")) != creation_id(IDENTITY)


@pytest.mark.parametrize(
    ("stamp", "earlier"),
    [
        ({"event": "epoch", "incarnation": "a1", "epoch": 1}, True),
        ({"event": GIVEN_UP, "incarnation": "a1", "epoch": 1}, True),
        ({"event": "epoch", "incarnation": "a1", "epoch": 2}, False),
        ({"event": "epoch", "incarnation": "a0", "epoch": 1}, False),
        ({"event": "create", "incarnation": "a1"}, False),
        (None, False),
    ],
)
def test_a_commit_is_of_an_earlier_epoch_of_the_incarnation_alone(stamp, earlier):
    assert is_of_earlier_epoch(commit(stamp), IDENTITY, BARRIER) is earlier


def test_the_stamp_of_an_epoch_is_read_back_as_its_own():
    written = stamp_for(BARRIER, "changes")
    assert is_ours(commit(written), IDENTITY, BARRIER, TableVersion(version=1))
    assert (written["job"], written["epoch"], written["part"]) == ("paid_orders", 2, "changes")
    assert creates(commit({"event": "create", "incarnation": "a1"}), IDENTITY)
    assert not creates(commit(written), IDENTITY)


def test_a_fence_publishes_no_watermark():
    assert "watermark" not in stamp_for(barrier_of(completes=True), "changes", event=GIVEN_UP)
