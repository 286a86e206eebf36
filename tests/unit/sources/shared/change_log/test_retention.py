"""A change log is cleaned up: old changes become a gap, and all else answers as before."""

from __future__ import annotations

import datetime as dt
import pathlib

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import ChangeFeedGapError, ConcurrentUpdateError
from airflow_backfill_provider.lake.files.rows import read_rows
from airflow_backfill_provider.sources.shared.change_log.changes import LoggedKind
from airflow_backfill_provider.sources.shared.change_log.retention import KEPT_FOR_PROPERTY
from airflow_backfill_provider.sources.shared.change_log.table import ChangeLog
from tests.dying import died
from tests.unit.sources.shared.change_log.histories import HISTORY, change, elsewhere, minute, rows_of

pytestmark = pytest.mark.slow  # many commits of a change log

KEPT_FOR = dt.timedelta(days=30)
DAY = dt.timedelta(days=1)
NOW = minute(60)


def stored(log):
    """All rows, in order."""
    rows = read_rows(DeltaTable(log.location), ending='ORDER BY "offset", number, kind').to_pylist()
    return [(row["offset"], row["kind"]) for row in rows]


def set_property(log, name, value):
    DeltaTable(log.location).alter.set_table_properties({name: value}, raise_if_not_exists=False)


@pytest.fixture
def noted(log):
    """A log that is landed through 30, which was noted, and then through 40."""
    log.retention.clean_up(NOW)
    log.land([change(35), change(35, 2, of="6")], after=30, through=40)
    return log


def test_a_log_keeps_changes_for_thirty_days_unless_its_property_says_otherwise(log):
    assert DeltaTable(log.location).metadata().configuration[KEPT_FOR_PROPERTY] == "interval 30 days"
    assert (log.retention.changes_kept_for(), log.retention.unreadable()) == (KEPT_FOR, "")
    set_property(log, KEPT_FOR_PROPERTY, "interval 0 hours")
    assert (log.retention.changes_kept_for(), log.retention.unreadable()) == (dt.timedelta(0), "")
    set_property(log, KEPT_FOR_PROPERTY, "a month")
    assert (log.retention.changes_kept_for(), log.retention.unreadable()) == (
        None,
        "backfill.changesKeptFor = 'a month'",
    )


def test_changes_stay_as_long_as_they_are_kept(noted):
    """From when they are known to be landed; when they were committed does not matter."""
    before = stored(noted)
    noted.retention.clean_up(NOW + KEPT_FOR - dt.timedelta(seconds=1))
    assert stored(noted) == [*before, (40, "landed")]
    assert noted.queries.complete_after() == 10


def test_older_changes_become_a_gap_and_the_rest_stays(noted):
    noted.retention.clean_up(NOW + KEPT_FOR)
    assert stored(noted) == [(28, "gap"), (28, "mark"), (35, "insert"), (35, "insert"), (40, "landed")]
    assert noted.queries.landed_through == ChangeLog(noted.location).queries.landed_through == 40
    noted.land([change(45)], after=40, through=50)
    assert noted.queries.landed_through == 50


def test_what_is_left_of_a_log_answers_as_before_or_says_that_it_cannot(noted):
    """I6."""
    noted.retention.clean_up(NOW + KEPT_FOR)
    assert [noted.queries.committed_at(offset) for offset in (27, 28, 30, 34)] == [None, *[minute(28)] * 3]
    assert (noted.queries.committed_at(99), noted.queries.offset_at(minute(99))) == (minute(35), 35)
    assert [noted.queries.offset_at(minute(at)) for at in (27.9, 28, 34)] == [None, 28, 28]
    assert noted.queries.complete_after() == 28
    assert noted.queries.transactions_within(28, 40) == {(35, 1_035)}
    assert noted.queries.earliest_of([1_028, 1_035], up_to=40) == 35
    assert noted.queries.has_changes("5", 28, 40)
    assert noted.queries.columns_within("5", 28, 40) == []
    for after in (28, 30, 35):
        noted.queries.require_changes("5", after, 40)
    for after in (0, 10, 27):
        with pytest.raises(ChangeFeedGapError) as refused:
            noted.queries.require_changes("5", after, 40)
        assert "cleaned up 30 d 0 h after they were landed (table property backfill.changesKeptFor" in str(
            refused.value
        )
        assert str(refused.value).endswith("; rebuild the job")


def test_a_clean_up_removes_in_one_commit(noted):
    before = DeltaTable(noted.location).version()
    noted.retention.clean_up(NOW + KEPT_FOR)
    commits = sorted((pathlib.Path(noted.location) / "_delta_log").glob("*.json"))
    assert [path.name for path in commits if '"Overwrite"' in path.read_text()] == [f"{before + 1:020}.json"]


def test_clean_ups_follow_each_other(noted):
    noted.retention.clean_up(NOW + DAY)
    noted.land([change(45)], after=40, through=50)
    noted.retention.clean_up(NOW + KEPT_FOR)
    assert stored(noted)[:3] == [(28, "gap"), (28, "mark"), (35, "insert")]
    noted.retention.clean_up(NOW + KEPT_FOR + DAY)
    assert stored(noted) == [(35, "gap"), (35, "mark"), (45, "insert"), (50, "landed")]
    assert (noted.queries.complete_after(), noted.queries.landed_through) == (35, 50)


def test_an_idle_log_keeps_its_last_time_and_is_not_written_again_and_again(noted):
    for number in range(5):
        noted.retention.clean_up(NOW + (number + 1) * KEPT_FOR)
    assert stored(noted) == [(35, "gap"), (35, "mark"), (40, "landed")]
    assert (noted.queries.committed_at(40), noted.queries.offset_at(NOW), noted.queries.landed_through) == (
        minute(35),
        35,
        40,
    )
    with pytest.raises(ChangeFeedGapError):
        noted.queries.require_changes("5", 34, 40)


def test_the_newest_partitions_of_each_table_stay(empty):
    names = [("5", 12, "old"), ("6", 13, "other"), ("5", 15, "new")]
    empty.land(
        [change(at, kind=LoggedKind.PARTITIONS, of=of, new={"1": n}) for of, at, n in names], after=10, through=20
    )
    empty.land([change(22), change(25)], after=20, through=30)
    empty.retention.clean_up(NOW)
    empty.land([change(35)], after=30, through=40)
    empty.retention.clean_up(NOW + KEPT_FOR)
    assert [row for row in stored(empty) if row[1] == "partitions"] == [(13, "partitions"), (15, "partitions")]
    found = [empty.queries.partitions_of(of) for of in ("5", "6", "7")]
    assert [known and known.names for known in found] == [{"1": "new"}, {"1": "other"}, None]


def test_nothing_is_removed_after_an_offset_that_some_reader_may_still_need(noted):
    noted.retention.clean_up(NOW + KEPT_FOR, up_to=20)
    assert stored(noted)[:3] == [(20, "gap"), (20, "mark"), (25, "truncate")]


@pytest.mark.parametrize("written", ["interval 1 month", "soon", ""])
def test_nothing_is_removed_if_it_is_unknown_how_long_changes_are_kept(noted, written):
    set_property(noted, KEPT_FOR_PROPERTY, written)
    before = stored(noted)
    noted.retention.clean_up(NOW + 100 * KEPT_FOR)
    assert stored(noted) == [*before, (40, "landed")]


def test_a_longer_time_is_obeyed(noted):
    set_property(noted, KEPT_FOR_PROPERTY, "interval 9999999 days")
    before = stored(noted)
    noted.retention.clean_up(NOW + 100 * KEPT_FOR)
    assert stored(noted) == [*before, (40, "landed")]


def test_a_clean_up_is_due_once_a_day(log):
    """A new log's first one a day after its creation."""
    created = minute(10)
    assert [log.retention.is_clean_up_due(created + after) for after in (DAY - dt.timedelta(seconds=1), DAY)] == [
        False,
        True,
    ]
    log.retention.clean_up(NOW)
    log.land([change(35)], after=30, through=40)
    assert [log.retention.is_clean_up_due(NOW + after) for after in (DAY - dt.timedelta(seconds=1), DAY)] == [
        False,
        True,
    ]


def test_small_files_become_one_and_their_readers_can_end(log):
    """They stay for a week after that."""
    reader = DeltaTable(log.location)
    assert len(reader.file_uris()) == 3
    log.retention.clean_up(NOW)
    assert len(DeltaTable(log.location).file_uris()) == 1
    assert read_rows(reader).num_rows == len(HISTORY) + 1
    assert rows_of(log)[-1] == (30, 0, "landed")


@pytest.mark.parametrize(("needed", "expected"), [(15, NOW), (30, NOW), (31, None), (40, None)])
def test_how_long_a_change_is_kept_counts_from_when_it_was_known_to_be_landed(noted, needed, expected):
    assert noted.queries.kept_since(needed) == expected


@pytest.mark.parametrize(
    ("of", "after", "expected"),
    [("5", 0, (10, "gap")), ("5", 10, (15, "insert")), ("5", 28, (35, "insert")), ("5", 35, None), ("7", 10, None)],
)
def test_the_first_row_that_a_job_needs(noted, of, after, expected):
    assert noted.queries.first_needed(of, after) == expected


def test_of_a_landing_and_a_clean_up_at_once_one_starts_over(noted):
    """The landing reads first, or the clean-up does."""
    slow = ChangeLog(noted.location)

    def overtaken():
        yield change(45)
        elsewhere(lambda: ChangeLog(noted.location).retention.clean_up(NOW + KEPT_FOR))

    with pytest.raises(ConcurrentUpdateError):
        slow.land(overtaken(), after=40, through=50)
    assert (stored(noted)[0], noted.queries.landed_through) == ((28, "gap"), 40)
    noted.retention.clean_up(NOW + KEPT_FOR + DAY)
    before = stored(noted)

    def land(point):
        if point is CrashPoint.BEFORE_CLEAN_UP_COMMIT:
            crash_points.install(None)
            elsewhere(lambda: ChangeLog(noted.location).land([change(45)], after=40, through=50))

    crash_points.install(land)
    try:
        with pytest.raises(ConcurrentUpdateError):
            slow.retention.clean_up(NOW + 2 * KEPT_FOR + DAY)
    finally:
        crash_points.install(None)
    assert stored(noted) == sorted([*before, (45, "insert")])
    assert noted.retention.is_clean_up_due(NOW + 2 * KEPT_FOR + DAY)
    noted.retention.clean_up(NOW + 2 * KEPT_FOR + DAY)
    assert stored(noted) == [(35, "gap"), (35, "mark"), (45, "insert"), (50, "landed")]


@pytest.mark.parametrize("point", [CrashPoint.BEFORE_CLEAN_UP_COMMIT, CrashPoint.AFTER_CLEAN_UP_COMMIT])
def test_a_clean_up_that_died_is_done_again(noted, point):
    then = NOW + KEPT_FOR
    assert died(point, lambda: noted.retention.clean_up(then))
    again = ChangeLog(noted.location)
    assert (again.queries.landed_through, again.retention.is_clean_up_due(then)) == (40, True)
    again.retention.clean_up(then)
    assert stored(again) == [(28, "gap"), (28, "mark"), (35, "insert"), (35, "insert"), (40, "landed")]


def test_two_gaps_become_one(noted):
    noted.skip_to(50, if_before=41, why="lost", at=minute(50))
    noted.retention.clean_up(NOW + DAY)
    noted.land([change(55)], after=50, through=60)
    noted.retention.clean_up(NOW + DAY + KEPT_FOR)
    assert stored(noted) == [(35, "mark"), (50, "gap"), (55, "insert"), (60, "landed")]
    assert (noted.queries.complete_after(), noted.queries.committed_at(52)) == (50, minute(35))
