"""A change log: landed once and in order, by one process at a time, and asked without a JVM."""

from __future__ import annotations

import datetime as dt
import pathlib
import shutil
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core import crash_points
from airflow_backfill_provider.core.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import (
    ChangeFeedGapError,
    ConcurrentUpdateError,
    DatabaseUnavailableError,
    DataFileError,
    UpstreamReplacedError,
)
from airflow_backfill_provider.lake.rows import read_rows
from airflow_backfill_provider.sources.change_log import table
from airflow_backfill_provider.sources.change_log.changes import LoggedChange, LoggedKind
from airflow_backfill_provider.sources.change_log.table import KEPT_FOR_PROPERTY, ChangeLog, LoggedColumns
from airflow_backfill_provider.sources.postgres.pgoutput import DecodingError
from tests.builders import Template, logged
from tests.dying import died

ORIGIN = "postgresql system 1, database 2, slot mine"
AT = dt.datetime(2026, 3, 29, 1, 30, tzinfo=dt.UTC)


def minute(number):
    return AT + dt.timedelta(minutes=number)


def change(offset, number=1, kind=LoggedKind.INSERT, of="5", **fields):
    """A change that was committed as many minutes after the first as its offset says."""
    known = {"transaction": 1_000 + offset, "committed_at": minute(offset), "table": of, "kind": kind}
    return LoggedChange(offset=offset, number=number, **{**known, **fields})


HISTORY = [
    change(15, kind=LoggedKind.COLUMNS, new={"id": "long"}),
    change(15, 2, new={"id": "1"}),
    change(15, 3, of="6", new={"id": "9"}),
    change(20, kind=LoggedKind.MARK, of="", new={"text": "read"}),
    change(25, kind=LoggedKind.TRUNCATE),
    change(25, 2, kind=LoggedKind.TRUNCATE),
    change(25, 3, of="6", kind=LoggedKind.TRUNCATE),
    change(28, kind=LoggedKind.COLUMNS, new={"id": "long", "note": "<point>"}),
    change(28, 2, kind=LoggedKind.DELETE, old={"id": "1"}),
]
"""What is landed through 30, in two landings: (10, 20] and (20, 30]."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    def fill(folder):
        log = ChangeLog(str(folder / "log"))
        log.create(ORIGIN, 10, at=minute(10))
        log.land(HISTORY[:4], after=10, through=20)
        log.land(HISTORY[4:], after=20, through=30)

    return Template(tmp_path_factory.mktemp("logs"), fill)


@pytest.fixture
def log(made):
    """A log that is landed through 30."""
    return ChangeLog(str(made.restore() / "log"))


@pytest.fixture
def empty(lake):
    """A log that begins after 10."""
    log = ChangeLog(str(lake / "log"))
    log.create(ORIGIN, 10, at=minute(10))
    return log


def rows_of(log):
    """Offset, number and kind of what was landed, without the row that says where the log begins."""
    rows = DeltaTable(log.location).to_pyarrow_table().sort_by([("offset", "ascending"), ("number", "ascending")])
    first, *others = [(row["offset"], row["number"], row["kind"]) for row in rows.to_pylist()]
    assert first[1:] == (0, "gap")
    return others


# --- creation -------------------------------------------------------------------------------------


def test_a_log_begins_where_it_was_created(empty):
    assert (empty.exists(), empty.landed_through, rows_of(empty)) == (True, 10, [])


def test_creating_a_log_again_changes_nothing(empty):
    empty.land([change(15)], after=10, through=20)
    before = logged(empty.location)
    ChangeLog(empty.location).create(ORIGIN, 99, at=minute(10))
    assert logged(empty.location) == before
    assert ChangeLog(empty.location).landed_through == 20


def test_the_log_of_something_else_is_refused_with_both(empty):
    before = logged(empty.location)
    for call in (lambda log: log.create("another", 10, at=minute(10)), lambda log: log.require_origin("another")):
        with pytest.raises(UpstreamReplacedError) as refused:
            call(ChangeLog(empty.location))
        assert f"the change log at {empty.location} is of {ORIGIN}, not of another" in str(refused.value)
    assert logged(empty.location) == before
    ChangeLog(empty.location).require_origin(ORIGIN)


def test_a_creation_that_died_halfway_is_completed(lake):
    """After the table, before the record of where it begins."""
    log = ChangeLog(str(lake / "log"))
    log._created(ORIGIN)
    assert not ChangeLog(log.location).exists()
    with pytest.raises(ChangeFeedGapError):
        _ = ChangeLog(log.location).landed_through
    ChangeLog(log.location).create(ORIGIN, 10, at=minute(10))
    assert (log.exists(), log.landed_through) == (True, 10)


def test_of_two_creations_at_once_the_first_one_decides_where_the_log_begins(lake, monkeypatch):
    log = ChangeLog(str(lake / "log"))
    made = log._created

    def overtaken(origin):
        found = made(origin)
        ChangeLog(log.location).create(ORIGIN, 12, at=minute(10))
        return found

    monkeypatch.setattr(log, "_created", overtaken)
    log.create(ORIGIN, 10, at=minute(10))
    assert (log.landed_through, rows_of(log)) == (12, [])


def test_a_half_made_log_of_something_else_is_not_completed(lake):
    log = ChangeLog(str(lake / "log"))
    log._created("another")
    with pytest.raises(UpstreamReplacedError):
        ChangeLog(log.location).create(ORIGIN, 10, at=minute(10))


def test_changes_that_are_left_out_are_unknown_to_all_who_need_them(log):
    """I6."""
    log.skip_to(50, if_before=30, why="none", at=minute(50))
    assert (log.landed_through, log.lost_within("5", 30, 30)) == (30, [])
    log.skip_to(50, if_before=31, why="changes before then", at=minute(50))
    assert log.landed_through == 50
    assert [log.lost_within(of, 30, 50) for of in ("5", "6")] == [["changes before then"]] * 2
    assert log.lost_within("5", 50, 50) == []


def test_all_transactions_are_there_after_the_beginning_and_after_a_gap(log):
    assert log.complete_after() == 10
    log.skip_to(50, if_before=31, why="lost", at=minute(50))
    assert log.complete_after() == 50


def test_transactions_that_changed_rows_are_listed(log):
    assert log.transactions_within(10, 30) == {(15, 1_015), (28, 1_028)}
    assert log.transactions_within(15, 27) == set()


def test_a_dropped_log_can_be_created_again(log):
    log.drop()
    assert not log.exists()
    log.create(ORIGIN, 70, at=minute(70))
    assert (log.landed_through, rows_of(log)) == (70, [])


# --- landing --------------------------------------------------------------------------------------


def test_landings_are_appended_in_order(log):
    assert rows_of(log) == [(row.offset, row.number, row.kind.value) for row in HISTORY]
    assert log.landed_through == 30


def test_each_landing_is_one_commit(empty):
    before = DeltaTable(empty.location).version()
    empty.land((change(15, number) for number in range(20_001)), after=10, through=20)
    assert DeltaTable(empty.location).version() == before + 1
    assert len(rows_of(empty)) == 20_001


def test_a_landing_without_changes_is_recorded(empty):
    empty.land([], after=10, through=20)
    assert (ChangeLog(empty.location).landed_through, rows_of(empty)) == (20, [])


@pytest.mark.parametrize("after", [9, 11, 20])
def test_a_landing_that_does_not_follow_the_last_one_is_refused(empty, after):
    before = logged(empty.location)
    with pytest.raises(ConcurrentUpdateError, match="another process landed changes into .* try again"):
        empty.land([change(15)], after=after, through=30)
    assert logged(empty.location) == before


def test_of_two_landings_after_the_same_offset_one_is_refused(empty):
    one, two = ChangeLog(empty.location), ChangeLog(empty.location)
    assert one.landed_through == two.landed_through == 10
    one.land([change(15)], after=10, through=20)
    with pytest.raises(ConcurrentUpdateError):
        two.land([change(15), change(25)], after=10, through=30)
    assert (rows_of(empty), two.landed_through) == ([(15, 1, "insert")], 20)
    two.land([change(25)], after=20, through=30)
    assert rows_of(empty) == [(15, 1, "insert"), (25, 1, "insert")]


def elsewhere(call):
    """Call something as another process would: not within what this one is doing in deltalake."""
    with ThreadPoolExecutor(1) as other:
        other.submit(call).result()


@pytest.mark.parametrize("through", [15, 20, 30])
def test_a_landing_that_is_overtaken_while_it_reads_is_refused(empty, through):
    """The other one commits after this one looked how far the log is landed, and before it commits."""

    def overtaken():
        yield change(15)
        elsewhere(lambda: ChangeLog(empty.location).land([change(15)], after=10, through=20))

    with pytest.raises(ConcurrentUpdateError) as refused:
        empty.land(overtaken(), after=10, through=through)
    assert refused.value.retryable
    assert (rows_of(empty), empty.landed_through) == ([(15, 1, "insert")], 20)


def test_a_landing_that_is_overtaken_before_it_reads_is_refused(empty, monkeypatch):
    made = table.arrow_batches

    def overtaken(changes):
        monkeypatch.setattr(table, "arrow_batches", made)
        ChangeLog(empty.location).land([change(15)], after=10, through=20)
        return made(changes)

    monkeypatch.setattr(table, "arrow_batches", overtaken)
    with pytest.raises(ConcurrentUpdateError):
        empty.land([change(15)], after=10, through=20)
    assert (rows_of(empty), empty.landed_through) == ([(15, 1, "insert")], 20)


@pytest.mark.parametrize(
    "error",
    [
        DatabaseUnavailableError("No space left on device"),
        DecodingError("the message ends too early"),
        KeyboardInterrupt(),
    ],
    ids=repr,
)
def test_a_landing_whose_changes_fail_raises_their_error_and_can_be_made_again(empty, error):
    """deltalake would make a text of it, and then nobody would know whether a retry helps."""

    def fails():
        yield change(15)
        raise error

    with pytest.raises(type(error)) as failed:
        empty.land(fails(), after=10, through=20)
    assert failed.value is error
    assert (rows_of(empty), empty.landed_through) == ([], 10)
    empty.land([change(15)], after=10, through=20)
    assert rows_of(empty) == [(15, 1, "insert")]


def test_what_another_process_landed_is_seen(empty):
    assert not empty.has_changes("5", 0, 99)
    ChangeLog(empty.location).land([change(15)], after=10, through=20)
    assert (empty.landed_through, empty.has_changes("5", 0, 99)) == (20, True)


# --- questions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of", "after", "up_to", "expected"),
    [
        ("5", 0, 99, True),
        ("5", 14, 15, True),
        ("5", 15, 24, False),
        ("5", 24, 25, True),
        ("5", 25, 27, False),
        ("5", 27, 28, True),
        ("5", 28, 99, False),
        ("5", 0, 14, False),
        ("6", 14, 15, True),
        ("6", 15, 24, False),
        ("7", 0, 99, False),
        # A mark is of no table, and of no rows.
        ("", 0, 99, False),
    ],
)
def test_a_window_has_changes_if_rows_of_the_table_changed_in_it(log, of, after, up_to, expected):
    assert log.has_changes(of, after, up_to) is expected


@pytest.mark.parametrize(
    ("of", "after", "expected"),
    [("5", 10, 15), ("5", 14, 15), ("5", 15, 25), ("5", 25, 28), ("5", 28, None), ("6", 15, 25), ("7", 0, None)],
)
def test_the_oldest_change_of_a_table_after_an_offset(log, of, after, expected):
    assert log.changed_since(of, after) == (None if expected is None else minute(expected))


def test_columns_alone_are_no_change(empty):
    empty.land([change(15, kind=LoggedKind.COLUMNS, new={"id": "long"})], after=10, through=20)
    assert not empty.has_changes("5", 0, 99)
    assert empty.changed_since("5", 0) is None


@pytest.mark.parametrize("kind", ["insert", "update", "delete", "truncate"])
def test_each_change_of_rows_is_a_change(empty, kind):
    empty.land([change(15, kind=LoggedKind(kind))], after=10, through=20)
    assert empty.has_changes("5", 10, 20)


@pytest.mark.parametrize(
    ("offset", "expected"), [(14, None), (15, 15), (19, 15), (20, 20), (24, 20), (28, 28), (99, 28)]
)
def test_an_offset_was_committed_with_the_newest_transaction_up_to_it(log, offset, expected):
    assert log.committed_at(offset) == (None if expected is None else minute(expected))


@pytest.mark.parametrize(("at", "expected"), [(14.9, None), (15, 15), (19.9, 15), (20, 20), (99, 28)])
def test_the_offset_at_an_instant_is_the_newest_one_that_was_committed_then(log, at, expected):
    assert log.offset_at(minute(at)) == expected
    assert log.offset_at(minute(at).astimezone(dt.timezone(dt.timedelta(hours=5)))) == expected


@pytest.mark.parametrize(
    ("of", "after", "up_to", "expected"),
    [
        ("5", 0, 99, [15, 28]),
        ("5", 14, 15, [15]),
        ("5", 15, 28, [28]),
        ("5", 15, 27, []),
        ("5", 28, 99, []),
        ("6", 0, 99, []),
    ],
)
def test_the_columns_within_a_window(log, of, after, up_to, expected):
    known = {15: {"id": "long"}, 28: {"id": "long", "note": "<point>"}}
    assert log.columns_within(of, after, up_to) == [LoggedColumns(offset, known[offset]) for offset in expected]


def test_columns_of_one_transaction_come_in_its_order(empty):
    """The last ones are in force after it, wherever they are stored."""
    numbers = [7, 3, 11, 1, 9, 5, 2]
    rows = [change(15, number, LoggedKind.COLUMNS, new={f"c{number}": "long"}) for number in numbers]
    empty.land(rows, after=10, through=20)
    assert [list(found.types) for found in empty.columns_within("5", 10, 20)] == [[f"c{n}"] for n in sorted(numbers)]


@pytest.mark.parametrize(
    ("of", "after", "up_to", "expected"),
    [("5", 0, 99, (25, 2)), ("5", 24, 25, (25, 2)), ("5", 25, 99, None), ("6", 0, 99, (25, 3)), ("7", 0, 99, None)],
)
def test_the_last_truncation_within_a_window(log, of, after, up_to, expected):
    assert log.truncated_within(of, after, up_to) == expected


@pytest.mark.parametrize(
    ("transactions", "up_to", "expected"),
    [
        ([1_025, 1_015], 99, 15),
        ([1_025], 99, 25),
        ([1_025, 1_028], 25, 25),
        ([1_025], 24, None),
        ([1], 99, None),
        ([], 99, None),
        ({1_020: 0}, 99, 20),
    ],
)
def test_the_first_offset_of_some_transactions(log, transactions, up_to, expected):
    assert log.earliest_of(transactions, up_to=up_to) == expected


# --- the end of a long log ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """A log with a file for each of 12 transactions, at 15, 25, …, 125; and where their files begin."""
    log = ChangeLog(str(tmp_path_factory.mktemp("logs") / "log"))
    log.create(ORIGIN, 10, at=minute(10))
    for number in range(1, 13):
        rows = [change(number * 10 + 5)]
        if number == 3:
            rows.append(change(38, kind=LoggedKind.MARK, of="", new={"text": "read"}))
        log.land(rows, after=number * 10, through=number * 10 + 10)
    return log


@pytest.mark.parametrize(
    ("offset", "expected"), [(14, None), (15, 15), (24, 15), (38, 38), (44, 38), (99, 95), (125, 125), (999, 125)]
)
def test_the_time_of_an_offset_is_found_wherever_it_lies(long, offset, expected):
    assert long.committed_at(offset) == (None if expected is None else minute(expected))
    assert long.offset_at(minute(offset)) == expected


def test_a_mark_is_found_wherever_it_lies(long):
    assert (long.mark("read"), long.mark("another"), long.mark("'")) == (38, None, None)


def test_the_newest_mark_with_a_text_counts(empty):
    """It covers what the readers saw, whichever attempt wrote it."""
    rows = [change(offset, kind=LoggedKind.MARK, of="", new={"text": "read"}) for offset in (12, 15)]
    empty.land(rows, after=10, through=20)
    assert empty.mark("read") == 15


@pytest.mark.parametrize(
    "question",
    [
        lambda log: log.committed_at(999),
        lambda log: log.committed_at(125),
        lambda log: log.offset_at(minute(999)),
        lambda log: log.has_changes("5", 124, 999),
        lambda log: log.columns_within("5", 124, 999),
        lambda log: log.lost_within("5", 124, 999),
        lambda log: log.truncated_within("5", 124, 999),
        lambda log: log.transactions_within(124, 999),
        lambda log: log.first_needed("5", 124),
    ],
)
def test_a_question_about_the_end_of_the_log_reads_its_end_only(long, lake, question):
    """Every other file may as well be gone."""
    copy = ChangeLog(shutil.copytree(long.location, str(lake / "log")))
    for action in pa.table(DeltaTable(copy.location).get_add_actions(flatten=True)).to_pylist():
        if action["max.offset"] < 125:
            (lake / "log" / action["path"]).unlink()
    assert question(copy) == question(long)


def test_a_log_without_its_files_cannot_be_read_which_says_what_to_do(log):
    """I6."""
    for action in pa.table(DeltaTable(log.location).get_add_actions(flatten=True)).to_pylist():
        (pathlib.Path(log.location) / action["path"]).unlink()
    with pytest.raises(
        DataFileError, match="the change log at .* cannot be read .* restore it from a copy, or rebuild"
    ):
        log.has_changes("5", 0, 99)


# --- cleaning up ----------------------------------------------------------------------------------

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
    log.clean_up(NOW)
    log.land([change(35), change(35, 2, of="6")], after=30, through=40)
    return log


def test_a_log_keeps_changes_for_thirty_days_unless_its_property_says_otherwise(log):
    assert DeltaTable(log.location).metadata().configuration[KEPT_FOR_PROPERTY] == "interval 30 days"
    assert (log.changes_kept_for(), log.unreadable()) == (KEPT_FOR, "")
    set_property(log, KEPT_FOR_PROPERTY, "interval 0 hours")
    assert (log.changes_kept_for(), log.unreadable()) == (dt.timedelta(0), "")
    set_property(log, KEPT_FOR_PROPERTY, "a month")
    assert (log.changes_kept_for(), log.unreadable()) == (None, "backfill.changesKeptFor = 'a month'")


def test_changes_stay_as_long_as_they_are_kept(noted):
    """From when they are known to be landed; when they were committed does not matter."""
    before = stored(noted)
    noted.clean_up(NOW + KEPT_FOR - dt.timedelta(seconds=1))
    assert stored(noted) == [*before, (40, "landed")]
    assert noted.complete_after() == 10


def test_older_changes_become_a_gap_and_the_rest_stays(noted):
    noted.clean_up(NOW + KEPT_FOR)
    assert stored(noted) == [(28, "gap"), (28, "mark"), (35, "insert"), (35, "insert"), (40, "landed")]
    assert noted.landed_through == ChangeLog(noted.location).landed_through == 40
    noted.land([change(45)], after=40, through=50)
    assert noted.landed_through == 50


def test_what_is_left_of_a_log_answers_as_before_or_says_that_it_cannot(noted):
    """I6."""
    noted.clean_up(NOW + KEPT_FOR)
    assert [noted.committed_at(offset) for offset in (27, 28, 30, 34)] == [None, *[minute(28)] * 3]
    assert (noted.committed_at(99), noted.offset_at(minute(99))) == (minute(35), 35)
    assert [noted.offset_at(minute(at)) for at in (27.9, 28, 34)] == [None, 28, 28]
    assert noted.complete_after() == 28
    assert noted.transactions_within(28, 40) == {(35, 1_035)}
    assert noted.earliest_of([1_028, 1_035], up_to=40) == 35
    assert noted.has_changes("5", 28, 40)
    assert noted.columns_within("5", 28, 40) == []
    for after in (28, 30, 35):
        noted.require_changes("5", after, 40)
    for after in (0, 10, 27):
        with pytest.raises(ChangeFeedGapError) as refused:
            noted.require_changes("5", after, 40)
        assert "cleaned up 30 d 0 h after they were landed (table property backfill.changesKeptFor" in str(
            refused.value
        )
        assert str(refused.value).endswith("; rebuild the job")


def test_a_clean_up_removes_in_one_commit(noted):
    before = DeltaTable(noted.location).version()
    noted.clean_up(NOW + KEPT_FOR)
    commits = sorted((pathlib.Path(noted.location) / "_delta_log").glob("*.json"))
    assert [path.name for path in commits if '"Overwrite"' in path.read_text()] == [f"{before + 1:020}.json"]


def test_clean_ups_follow_each_other(noted):
    noted.clean_up(NOW + DAY)
    noted.land([change(45)], after=40, through=50)
    noted.clean_up(NOW + KEPT_FOR)
    assert stored(noted)[:3] == [(28, "gap"), (28, "mark"), (35, "insert")]
    noted.clean_up(NOW + KEPT_FOR + DAY)
    assert stored(noted) == [(35, "gap"), (35, "mark"), (45, "insert"), (50, "landed")]
    assert (noted.complete_after(), noted.landed_through) == (35, 50)


def test_an_idle_log_keeps_its_last_time_and_is_not_written_again_and_again(noted):
    for number in range(5):
        noted.clean_up(NOW + (number + 1) * KEPT_FOR)
    assert stored(noted) == [(35, "gap"), (35, "mark"), (40, "landed")]
    assert (noted.committed_at(40), noted.offset_at(NOW), noted.landed_through) == (minute(35), 35, 40)
    with pytest.raises(ChangeFeedGapError):
        noted.require_changes("5", 34, 40)


def test_the_newest_partitions_of_each_table_stay(empty):
    names = [("5", 12, "old"), ("6", 13, "other"), ("5", 15, "new")]
    empty.land(
        [change(at, kind=LoggedKind.PARTITIONS, of=of, new={"1": n}) for of, at, n in names], after=10, through=20
    )
    empty.land([change(22), change(25)], after=20, through=30)
    empty.clean_up(NOW)
    empty.land([change(35)], after=30, through=40)
    empty.clean_up(NOW + KEPT_FOR)
    assert [row for row in stored(empty) if row[1] == "partitions"] == [(13, "partitions"), (15, "partitions")]
    assert [empty.partitions_of(of) for of in ("5", "6", "7")] == [{"1": "new"}, {"1": "other"}, None]


def test_nothing_is_removed_after_an_offset_that_some_reader_may_still_need(noted):
    noted.clean_up(NOW + KEPT_FOR, up_to=20)
    assert stored(noted)[:3] == [(20, "gap"), (20, "mark"), (25, "truncate")]


@pytest.mark.parametrize("written", ["interval 1 month", "soon", ""])
def test_nothing_is_removed_if_it_is_unknown_how_long_changes_are_kept(noted, written):
    set_property(noted, KEPT_FOR_PROPERTY, written)
    before = stored(noted)
    noted.clean_up(NOW + 100 * KEPT_FOR)
    assert stored(noted) == [*before, (40, "landed")]


def test_a_longer_time_is_obeyed(noted):
    set_property(noted, KEPT_FOR_PROPERTY, "interval 9999999 days")
    before = stored(noted)
    noted.clean_up(NOW + 100 * KEPT_FOR)
    assert stored(noted) == [*before, (40, "landed")]


def test_a_log_that_was_append_only_is_cleaned_up_too(noted):
    set_property(noted, "delta.appendOnly", "true")
    noted.clean_up(NOW + KEPT_FOR)
    assert stored(noted)[0] == (28, "gap")
    assert DeltaTable(noted.location).metadata().configuration["delta.appendOnly"] == "false"


def test_a_clean_up_is_due_once_a_day(log):
    """A new log's first one a day after its creation."""
    created = minute(10)
    assert [log.is_clean_up_due(created + after) for after in (DAY - dt.timedelta(seconds=1), DAY)] == [False, True]
    log.clean_up(NOW)
    log.land([change(35)], after=30, through=40)
    assert [log.is_clean_up_due(NOW + after) for after in (DAY - dt.timedelta(seconds=1), DAY)] == [False, True]


def test_small_files_become_one_and_their_readers_can_end(log):
    """They stay for a week after that."""
    reader = DeltaTable(log.location)
    assert len(reader.file_uris()) == 3
    log.clean_up(NOW)
    assert len(DeltaTable(log.location).file_uris()) == 1
    assert read_rows(reader).num_rows == len(HISTORY) + 1
    assert rows_of(log)[-1] == (30, 0, "landed")


@pytest.mark.parametrize(("needed", "expected"), [(15, NOW), (30, NOW), (31, None), (40, None)])
def test_how_long_a_change_is_kept_counts_from_when_it_was_known_to_be_landed(noted, needed, expected):
    assert noted.kept_since(needed) == expected


@pytest.mark.parametrize(
    ("of", "after", "expected"),
    [("5", 0, (10, "gap")), ("5", 10, (15, "insert")), ("5", 28, (35, "insert")), ("5", 35, None), ("7", 10, None)],
)
def test_the_first_row_that_a_job_needs(noted, of, after, expected):
    assert noted.first_needed(of, after) == expected


def test_of_a_landing_and_a_clean_up_at_once_one_starts_over(noted):
    """The landing reads first, or the clean-up does."""
    slow = ChangeLog(noted.location)

    def overtaken():
        yield change(45)
        elsewhere(lambda: ChangeLog(noted.location).clean_up(NOW + KEPT_FOR))

    with pytest.raises(ConcurrentUpdateError):
        slow.land(overtaken(), after=40, through=50)
    assert (stored(noted)[0], noted.landed_through) == ((28, "gap"), 40)
    noted.clean_up(NOW + KEPT_FOR + DAY)
    before = stored(noted)

    def land(point):
        if point is CrashPoint.BEFORE_CLEAN_UP_COMMIT:
            crash_points.install(None)
            elsewhere(lambda: ChangeLog(noted.location).land([change(45)], after=40, through=50))

    crash_points.install(land)
    try:
        with pytest.raises(ConcurrentUpdateError):
            slow.clean_up(NOW + 2 * KEPT_FOR + DAY)
    finally:
        crash_points.install(None)
    assert stored(noted) == sorted([*before, (45, "insert")])
    assert noted.is_clean_up_due(NOW + 2 * KEPT_FOR + DAY)
    noted.clean_up(NOW + 2 * KEPT_FOR + DAY)
    assert stored(noted) == [(35, "gap"), (35, "mark"), (45, "insert"), (50, "landed")]


@pytest.mark.parametrize("point", [CrashPoint.BEFORE_CLEAN_UP_COMMIT, CrashPoint.AFTER_CLEAN_UP_COMMIT])
def test_a_clean_up_that_died_is_done_again(noted, point):
    then = NOW + KEPT_FOR
    assert died(point, lambda: noted.clean_up(then))
    again = ChangeLog(noted.location)
    assert (again.landed_through, again.is_clean_up_due(then)) == (40, True)
    again.clean_up(then)
    assert stored(again) == [(28, "gap"), (28, "mark"), (35, "insert"), (35, "insert"), (40, "landed")]


def test_two_gaps_become_one(noted):
    noted.skip_to(50, if_before=41, why="lost", at=minute(50))
    noted.clean_up(NOW + DAY)
    noted.land([change(55)], after=50, through=60)
    noted.clean_up(NOW + DAY + KEPT_FOR)
    assert stored(noted) == [(35, "mark"), (50, "gap"), (55, "insert"), (60, "landed")]
    assert (noted.complete_after(), noted.committed_at(52)) == (50, minute(35))


# --- a log that is gone ---------------------------------------------------------------------------

QUESTIONS = {
    "landed_through": lambda log: log.landed_through,
    "has_changes": lambda log: log.has_changes("5", 0, 99),
    "changed_since": lambda log: log.changed_since("5", 0),
    "committed_at": lambda log: log.committed_at(99),
    "offset_at": lambda log: log.offset_at(AT),
    "columns_within": lambda log: log.columns_within("5", 0, 99),
    "truncated_within": lambda log: log.truncated_within("5", 0, 99),
    "earliest_of": lambda log: log.earliest_of([1], up_to=99),
    "first_needed": lambda log: log.first_needed("5", 0),
    "clean_up": lambda log: log.clean_up(AT),
    "is_clean_up_due": lambda log: log.is_clean_up_due(AT),
    "changes_kept_for": lambda log: log.changes_kept_for(),
    "land": lambda log: log.land([change(35)], after=30, through=40),
    "require_origin": lambda log: log.require_origin(ORIGIN),
}


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_a_log_that_is_gone_is_an_error_that_says_so(log, ask):
    """I6: its changes are nowhere else, so it must not be taken for a log without changes."""
    shutil.rmtree(log.location)
    with pytest.raises(ChangeFeedGapError, match="the change log at .* is gone, .* restore it, or rebuild the job"):
        ask(log)
    assert not log.exists()
