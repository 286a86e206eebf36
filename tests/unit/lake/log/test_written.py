"""A commit file is taken for the one that was seen before only if no other can look the same."""

from __future__ import annotations

import time

import pyarrow.fs as arrow_fs

from airflow_backfill_provider.lake.log.written import Written

SECOND = 1_000_000_000


def listed(*times: int, newest: int = 0) -> dict[int, Written]:
    """Look at a log's commits with some modification times in nanoseconds."""
    files = {
        version: arrow_fs.FileInfo(f"{version}.json", arrow_fs.FileType.File, mtime_ns=modified, size=100)
        for version, modified in enumerate(times)
    }
    return Written.listed(files, max([newest, *times]))


def this_second() -> int:
    return int(time.time()) * SECOND


def test_commits_of_one_rounded_second_are_never_the_same():
    now = this_second()
    assert listed(now, now)[0] != listed(now, now)[0]
    assert listed(now, now)[1] != listed(now, now)[1]


def test_a_log_that_begins_before_its_newest_second_is_known_by_its_beginning():
    now = this_second()
    assert listed(now - SECOND, now) == listed(now - SECOND, now)
    assert listed(now - SECOND, now)[1] != listed(now - 2 * SECOND, now)[1]


def test_a_newer_file_of_the_log_shows_that_its_commits_are_older():
    now = this_second()
    assert listed(now - SECOND, newest=now) == listed(now - SECOND, newest=now)


def test_an_old_log_is_known():
    then = this_second() - 3600 * SECOND
    assert listed(then, then) == listed(then, then)


def test_exact_times_are_enough():
    exact = this_second() + 1
    assert listed(exact) == listed(exact)


def test_no_commits_are_nothing():
    assert listed() == {}


def test_a_file_alone_is_known_if_it_is_old():
    now = this_second()
    young, old = (
        arrow_fs.FileInfo("0.json", arrow_fs.FileType.File, mtime_ns=modified, size=100)
        for modified in (now, now - 3600 * SECOND)
    )
    assert Written.alone(young) != Written.alone(young)
    assert Written.alone(old) == Written.alone(old)
