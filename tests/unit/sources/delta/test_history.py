"""A Delta table's history: versions and instants, and whether it is the history that the job knows."""

from __future__ import annotations

import datetime as dt
import os

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.errors import (
    ChangeFeedGapError,
    UpstreamReplacedError,
)
from airflow_backfill_provider.core.scan.offset import HistoryPoint
from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.builders import (
    commit_file,
    committed_at,
    edit_commit,
    window_of,
)
from tests.unit.sources.delta.delta_tables import at_minute

# --- versions and instants ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("minute", "version"), [(-1000, None), (-0.001, None), (0, 0), (0.5, 0), (2.999, 2), (3, 3), (5, 5), (10**6, 5)]
)
def test_the_version_at_an_instant_is_the_newest_committed_by_then(every_minute, minute, version):
    assert every_minute.table.offset_at(at_minute(minute)) == (None if version is None else offset_of(version))


def test_an_instant_in_another_zone_is_the_same_instant(every_minute):
    zone = dt.timezone(dt.timedelta(hours=-8))
    assert every_minute.table.offset_at(at_minute(3).astimezone(zone)) == offset_of(3)


def test_versions_at_the_same_instant_count_as_a_millisecond_apart(every_minute):
    """Delta counts them this way, too."""
    for version in (2, 3, 4):
        committed_at(every_minute.path, version, at_minute(2))
    millisecond = dt.timedelta(milliseconds=1)
    found = [every_minute.table.offset_at(at_minute(2) + n * millisecond) for n in (-1, 0, 1, 2, 3)]
    assert found == [*map(offset_of, (1, 2, 3, 4, 4))]


def test_a_version_with_an_earlier_time_than_the_one_before_it_counts_after_it(every_minute):
    """A clock may go back. Without this rule a binary search over such times would give any answer."""
    committed_at(every_minute.path, 1, at_minute(4))
    millisecond = dt.timedelta(milliseconds=1)
    found = [every_minute.table.offset_at(instant) for instant in (at_minute(3), at_minute(4), at_minute(4.5))]
    assert found == [*map(offset_of, (0, 1, 4))]
    assert every_minute.table.watermark(offset_of(3)) == at_minute(4) + 2 * millisecond


def test_the_time_in_a_commit_is_ignored(every_minute):
    """Delta uses the time at which the file was written, unless the table records commit timestamps."""
    for version, stated in ((2, 1), (3, 9_999_999_999_999)):
        file = commit_file(every_minute.path, version)
        written = file.stat().st_mtime_ns
        edit_commit(every_minute.path, version, timestamp=stated)
        os.utime(file, ns=(written, written))
    assert [every_minute.table.offset_at(at_minute(minute)) for minute in (1, 2, 3)] == [*map(offset_of, (1, 2, 3))]


def test_an_instant_before_the_oldest_readable_version_has_no_version(every_minute):
    """The oldest readable version is that of a checkpoint. Commits before it may still be there."""
    DeltaTable(every_minute.path, version=3).create_checkpoint()
    for version in range(2):
        commit_file(every_minute.path, version).unlink()
    assert every_minute.table.offset_at(at_minute(2)) is None
    assert every_minute.table.offset_at(at_minute(3)) == offset_of(3)


def test_the_watermark_is_the_commit_time_of_the_version(every_minute):
    """docs/concepts/rules.md#the-watermark-waits-for-the-end."""
    assert every_minute.table.watermark(offset_of(4)) == at_minute(4)


def test_the_watermark_of_a_version_that_was_cleaned_up_is_a_gap(every_minute):
    commit_file(every_minute.path, 0).unlink()
    with pytest.raises(ChangeFeedGapError, match="version 0"):
        every_minute.table.watermark(offset_of(0))


# --- another log ----------------------------------------------------------------------------------


def window_at(version, minute):
    return window_of(0, version, mark=at_minute(minute).isoformat()).end


def test_a_log_with_more_commits_is_the_same(every_minute):
    for version in range(6):
        every_minute.table.require_same_history(window_at(version, version))


def test_a_log_that_ends_earlier_is_another(every_minute):
    """The log was restored from an older copy. The next commits get version numbers that the job has read already."""
    for version in (4, 5):
        commit_file(every_minute.path, version).unlink()
    with pytest.raises(
        UpstreamReplacedError, match="ends with version 3, but the job has read up to version 4; .* rebuild"
    ):
        every_minute.table.require_same_history(window_at(4, 4))


def test_a_log_in_which_a_version_was_written_at_another_time_is_another(every_minute):
    with pytest.raises(UpstreamReplacedError, match="version 4 of .* was written at .* older copy"):
        every_minute.table.require_same_history(window_at(4, 4.001))


def test_a_commit_that_is_gone_or_has_no_time_is_accepted(every_minute):
    edit_commit(every_minute.path, 3, timestamp=None)
    commit_file(every_minute.path, 2).unlink()
    for version in (2, 3):
        assert every_minute.table.log.written_at(version) is None
        every_minute.table.require_same_history(window_at(version, 99))


def test_a_version_that_was_reached_at_an_unknown_time_is_accepted(every_minute):
    every_minute.table.require_same_history(HistoryPoint(offset=4))
