"""Polling a Delta table: each look returns the newest version, and the state of its commit file."""

from __future__ import annotations

import shutil

from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.delta.versions import offset_of


def test_a_table_that_is_not_there_has_no_version(orders):
    watch = orders.table.watch()
    assert watch.look() == (None, None)
    orders.add(1)
    assert watch.look()[0] == offset_of(0)


def test_a_look_is_the_same_until_the_table_changes(orders):
    watch = DeltaSource(orders.path).watch()
    orders.add(1)
    before = watch.look()
    assert watch.look() == before
    orders.add(2)
    assert watch.look()[0] == offset_of(1)


def test_a_new_table_with_as_many_versions_is_another_look(orders):
    """I6: the offset alone would not show it."""
    watch = DeltaSource(orders.path).watch()
    orders.add(1)
    offset, state = watch.look()
    shutil.rmtree(orders.path)
    orders.add(2)
    again, other = watch.look()
    assert again == offset
    assert other != state
