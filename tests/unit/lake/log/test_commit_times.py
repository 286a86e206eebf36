"""Commit times by Delta's own rules, from one listing of the log."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_backfill_provider.core.errors import TableLogError, UpstreamError
from airflow_backfill_provider.lake.log.commit_times import CommitTimes, RecordedSince, recorded_times
from airflow_backfill_provider.lake.log.delta_log import DeltaLog, LogFiles
from tests.builders import commit_file

NO_LOG = DeltaLog("/nowhere")


def at(millis):
    return dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=millis)


def times(*written, first=0, checkpoints=()):
    """The versions from ``first`` on, whose files were written at these times."""
    return CommitTimes(NO_LOG, LogFiles(dict(enumerate(written, first)), dict.fromkeys(checkpoints, ())), None)


# --- by the files ---------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(0, 30))
def test_a_version_found_at_an_instant_was_committed_by_then_and_the_next_one_later(written, millis):
    found = times(*written)
    committed = [found.at(version) for version in range(len(written))]
    assert committed == sorted(set(committed)), "each version is later than the one before it"
    version = found.version_at(at(millis))
    by_then = [number for number, instant in enumerate(committed) if instant <= at(millis)]
    assert version == (by_then[-1] if by_then else None)


def test_a_version_that_is_not_later_counts_as_a_millisecond_later():
    found = times(10, 10, 5, 30)
    assert [found.at(version) for version in range(4)] == [at(10), at(11), at(12), at(30)]


def test_an_instant_between_two_milliseconds_has_the_version_before():
    found = times(10, 11)
    assert found.version_at(at(10) + dt.timedelta(microseconds=999)) == 0
    assert found.version_at(at(11)) == 1


def test_versions_that_cannot_be_read_any_more_have_no_time():
    found = times(10, 20, 30, first=5, checkpoints=[6])
    assert (found.at(4), found.at(5), found.at(6), found.at(8)) == (None, None, at(20), None)
    assert (found.version_at(at(19)), found.version_at(at(20))) == (None, 6)


# --- by what commits record -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "since"),
    [
        ({}, None),
        ({"delta.enableInCommitTimestamps": "false"}, None),
        ({"delta.enableInCommitTimestamps": "True"}, RecordedSince(0, 0)),
        (
            {
                "delta.enableInCommitTimestamps": "true",
                "delta.inCommitTimestampEnablementVersion": "7",
                "delta.inCommitTimestampEnablementTimestamp": "70",
            },
            RecordedSince(7, 70),
        ),
    ],
)
def test_a_tables_properties_say_since_when_commits_record_their_time(properties, since):
    assert RecordedSince.of(properties) == since


@pytest.fixture
def recorded(tmp_path):
    """Versions 0 and 1 by their files, at 10 and 20; versions 2 and 3 record 200 and 300 and lie in newer files."""
    log = DeltaLog(str(tmp_path))
    for version, millis in ((2, 200), (3, 300)):
        file = commit_file(tmp_path, version)
        file.parent.mkdir(exist_ok=True)
        info = {"commitInfo": {"inCommitTimestamp": millis}}
        file.write_text(json.dumps(info, separators=(",", ":")), encoding="utf-8")
    return CommitTimes(log, LogFiles({0: 10, 1: 20, 2: 9_000, 3: 9_001}, {}), RecordedSince(2, 200))


def test_from_then_on_the_recorded_time_counts(recorded):
    assert [recorded.at(version) for version in range(4)] == [at(10), at(20), at(200), at(300)]
    found = [recorded.version_at(at(millis)) for millis in (9, 10, 199, 200, 299, 300, 9_999)]
    assert found == [None, 0, 1, 2, 2, 3, 3]


def test_a_commit_that_records_none_is_named_with_what_to_do(recorded, tmp_path):
    commit_file(tmp_path, 3).write_text('{"commitInfo":{}}', encoding="utf-8")
    with pytest.raises(TableLogError, match=r"version 3 of .* has no in-commit timestamp.*rebuild the job"):
        recorded.at(3)


def record(folder, *millis):
    """Commits that record these times, from version 0; ``None`` for one that records none."""
    for version, recorded_at in enumerate(millis):
        file = commit_file(folder, version)
        file.parent.mkdir(exist_ok=True)
        info = {} if recorded_at is None else {"inCommitTimestamp": recorded_at}
        file.write_text(json.dumps({"commitInfo": info}, separators=(",", ":")), encoding="utf-8")
    return DeltaLog(str(folder))


def test_the_recorded_times_of_a_window_are_those_of_its_versions(tmp_path):
    log = record(tmp_path, 10, 20, 21, 90)
    assert recorded_times(log, 0, 2) == {1: 20_000, 2: 21_000}
    assert recorded_times(log, -1, 0) == {0: 10_000}


def test_the_version_before_a_window_may_be_gone_or_without_a_time(tmp_path):
    """The feature was switched on with version 1, or the log was cleaned up."""
    assert recorded_times(record(tmp_path, None, 20), 0, 1) == {1: 20_000}
    commit_file(tmp_path, 0).unlink()
    assert recorded_times(DeltaLog(str(tmp_path)), 0, 1) == {1: 20_000}


@pytest.mark.parametrize(
    ("millis", "said"),
    [
        ((10, None, 30), "version 1 of .* has no in-commit timestamp.*ALTER TABLE"),
        ((10, 20, 20), "version 2 of .* is not later than that of the version before it"),
        ((10, 9, 30), "version 1 of .* is not later than that of the version before it"),
    ],
)
def test_times_that_do_not_order_the_versions_are_refused(tmp_path, millis, said):
    """I6: what is kept would be in another order than it was."""
    with pytest.raises(UpstreamError, match=said):
        recorded_times(record(tmp_path, *millis), 0, 2)
