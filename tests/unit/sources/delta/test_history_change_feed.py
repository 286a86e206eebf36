"""How long a Delta table keeps the changes that a job has not read yet."""

from __future__ import annotations

import datetime as dt

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.builders import (
    committed_at,
)
from tests.unit.sources.delta.delta_tables import at_minute


def test_the_feed_says_since_when_versions_are_unread(every_minute):
    feed = every_minute.table.change_feed(offset_of(2))
    assert (feed.latest.number, feed.kept_for) == (5, dt.timedelta(days=7))
    assert feed.unread_since == feed.needed_since == at_minute(3)
    assert feed.needed == offset_of(3)


@pytest.mark.parametrize("read_up_to", [5, 9, None])
def test_a_feed_without_needed_changes(every_minute, read_up_to):
    feed = every_minute.table.change_feed(None if read_up_to is None else offset_of(read_up_to))
    assert feed.latest.number == 5
    assert (feed.unread_since, feed.needed and feed.needed.number, feed.needed_since) == (None, None, None)


def test_changes_before_the_next_epochs_window_may_be_needed(every_minute):
    feed = every_minute.table.change_feed(offset_of(4), needed_after=offset_of(1))
    assert feed.unread_since == at_minute(5)
    assert (feed.needed and feed.needed.number, feed.needed_since) == (2, at_minute(2))


def test_a_version_without_changes_is_unread_but_not_needed(orders):
    orders.add(1)
    orders.add(2)
    orders.compact()
    orders.add(3)
    for version in range(4):
        committed_at(orders.path, version, at_minute(version))
    feed = orders.table.change_feed(offset_of(1))
    assert feed.unread_since == at_minute(2)
    assert (feed.needed and feed.needed.number, feed.needed_since) == (3, at_minute(3))


def test_changes_whose_commit_was_cleaned_up_are_needed_since_an_unknown_time(cleaned):
    feed = cleaned.change_feed(offset_of(2))
    assert (feed.latest, feed.needed) == (offset_of(9), offset_of(3))
    assert (feed.unread_since, feed.needed_since) == (None, None)


def test_the_feed_has_the_tables_retention(orders):
    orders.add(1)
    DeltaTable(orders.path).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 36 hours"})
    feed = orders.table.change_feed(None)
    assert feed.kept_for == dt.timedelta(hours=36)
    assert feed.kept_by == "delta.deletedFileRetentionDuration, delta.logRetentionDuration"
