"""A table's newest version, looked at again and again."""

from __future__ import annotations

import shutil

import pytest

from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.log.version_watch import VersionWatch
from tests.builders import Orders, commit_file


@pytest.fixture
def orders(lake):
    return Orders(lake)


def test_a_new_version_is_seen_and_several_at_once(orders):
    watch = VersionWatch(orders.path)
    orders.add(1)
    assert watch.latest() == 0
    orders.add(2)
    orders.add(3)
    assert watch.latest() == watch.latest() == 2


def test_a_table_that_does_not_exist_yet(orders):
    watch = VersionWatch(orders.path)
    assert watch.latest() is None
    orders.add(1)
    assert watch.latest() == 0


def test_a_table_that_was_deleted_and_created_again_with_fewer_versions(orders):
    watch = VersionWatch(orders.path)
    for number in range(3):
        orders.add(number)
    assert watch.latest() == 2
    shutil.rmtree(orders.path)
    assert watch.latest() is None
    orders.add(1)
    assert watch.latest() == 0


def test_a_table_that_was_created_again_with_as_many_versions(orders):
    watch = VersionWatch(orders.path)
    orders.add(1)
    assert watch.latest() == 0
    before = watch.written
    assert (watch.latest(), watch.written) == (0, before)
    shutil.rmtree(orders.path)
    orders.add(2)
    assert watch.latest() == 0
    assert watch.written != before


def test_a_log_whose_old_commits_were_cleaned_up(orders):
    for number in range(3):
        orders.add(number)
    commit_file(orders.path, 0).unlink()
    assert VersionWatch(orders.path).latest() == 2


def test_a_look_without_news_lists_nothing(orders, monkeypatch):
    orders.add(1)
    watch = VersionWatch(orders.path)
    watch.latest()

    def refuse(_):
        raise AssertionError("a log of thousands of commits would be listed at every look")

    monkeypatch.setattr(DeltaLog, "versions", refuse)
    assert watch.latest() == 0
