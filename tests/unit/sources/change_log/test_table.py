"""A change log: landed once and in order, by one process at a time, and asked without a JVM."""

from __future__ import annotations

import datetime as dt
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.errors import (
    ChangeFeedGapError,
    ConcurrentUpdateError,
    DatabaseUnavailableError,
    UpstreamReplacedError,
)
from airflow_backfill_provider.sources.change_log import table
from airflow_backfill_provider.sources.change_log.changes import LoggedChange, LoggedKind
from airflow_backfill_provider.sources.change_log.table import ChangeLog, LoggedColumns
from airflow_backfill_provider.sources.postgres.pgoutput import DecodingError
from tests.builders import Template, logged

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


def test_rows_cannot_be_removed_from_a_log(log):
    with pytest.raises(Exception, match="append-only"):
        DeltaTable(log.location).delete()
    assert len(rows_of(log)) == len(HISTORY)


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
    assert empty.newest_of("5", 99) is None
    ChangeLog(empty.location).land([change(15)], after=10, through=20)
    assert (empty.landed_through, empty.newest_of("5", 99)) == (20, 15)


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
    ("of", "up_to", "expected"),
    [("5", 99, 28), ("5", 28, 28), ("5", 27, 25), ("5", 14, None), ("6", 24, 15), ("7", 99, None)],
)
def test_the_newest_row_of_a_table(log, of, up_to, expected):
    assert log.newest_of(of, up_to) == expected


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


# --- a log that is gone ---------------------------------------------------------------------------

QUESTIONS = {
    "landed_through": lambda log: log.landed_through,
    "has_changes": lambda log: log.has_changes("5", 0, 99),
    "changed_since": lambda log: log.changed_since("5", 0),
    "newest_of": lambda log: log.newest_of("5", 99),
    "committed_at": lambda log: log.committed_at(99),
    "offset_at": lambda log: log.offset_at(AT),
    "columns_within": lambda log: log.columns_within("5", 0, 99),
    "truncated_within": lambda log: log.truncated_within("5", 0, 99),
    "earliest_of": lambda log: log.earliest_of([1], up_to=99),
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
