"""A change log: created once, landed once and in order, by one process at a time, and dropped."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable, Schema

from airflow_backfill_provider.core.errors import (
    ChangeFeedGapError,
    ConcurrentUpdateError,
    DatabaseUnavailableError,
    StateError,
    UpstreamReplacedError,
)
from airflow_backfill_provider.sources.postgres.pgoutput import DecodingError
from airflow_backfill_provider.sources.shared.change_log import table
from airflow_backfill_provider.sources.shared.change_log.changes import SCHEMA
from airflow_backfill_provider.sources.shared.change_log.table import ChangeLog
from tests.builders import logged
from tests.unit.sources.shared.change_log.histories import HISTORY, ORIGIN, change, elsewhere, minute, rows_of


@pytest.fixture(params=[table.MOST_IN_MEMORY, -1], ids=["in memory", "streamed"], autouse=True)
def _each_way(request, monkeypatch):
    """Land in either way: few changes through deltalake, many in a file that is written batch by batch."""
    monkeypatch.setattr(table, "MOST_IN_MEMORY", request.param)


# --- creation -------------------------------------------------------------------------------------


def test_a_log_begins_where_it_was_created(empty):
    assert (empty.exists(), empty.queries.landed_through, rows_of(empty)) == (True, 10, [])


def test_creating_a_log_again_changes_nothing(empty):
    empty.land([change(15)], after=10, through=20)
    before = logged(empty.location)
    ChangeLog(empty.location).create(ORIGIN, 99, at=minute(10))
    assert logged(empty.location) == before
    assert ChangeLog(empty.location).queries.landed_through == 20


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
        _ = ChangeLog(log.location).queries.landed_through
    ChangeLog(log.location).create(ORIGIN, 10, at=minute(10))
    assert (log.exists(), log.queries.landed_through) == (True, 10)


def test_of_two_creations_at_once_the_first_one_decides_where_the_log_begins(lake, monkeypatch):
    log = ChangeLog(str(lake / "log"))
    made = log._created

    def overtaken(origin):
        found = made(origin)
        ChangeLog(log.location).create(ORIGIN, 12, at=minute(10))
        return found

    monkeypatch.setattr(log, "_created", overtaken)
    log.create(ORIGIN, 10, at=minute(10))
    assert (log.queries.landed_through, rows_of(log)) == (12, [])


def test_a_half_made_log_of_something_else_is_not_completed(lake):
    log = ChangeLog(str(lake / "log"))
    log._created("another")
    with pytest.raises(UpstreamReplacedError):
        ChangeLog(log.location).create(ORIGIN, 10, at=minute(10))


def test_changes_that_are_left_out_are_unknown_to_all_who_need_them(log):
    """I6."""
    log.skip_to(50, if_before=30, why="none", at=minute(50))
    assert (log.queries.landed_through, log.queries.lost_within("5", 30, 30)) == (30, [])
    log.skip_to(50, if_before=31, why="changes before then", at=minute(50))
    assert log.queries.landed_through == 50
    assert [log.queries.lost_within(of, 30, 50) for of in ("5", "6")] == [["changes before then"]] * 2
    assert log.queries.lost_within("5", 50, 50) == []


def test_a_dropped_log_can_be_created_again(log):
    log.drop()
    assert not log.exists()
    log.create(ORIGIN, 70, at=minute(70))
    assert (log.queries.landed_through, rows_of(log)) == (70, [])


# --- landing --------------------------------------------------------------------------------------


def test_landings_are_appended_in_order(log):
    assert rows_of(log) == [(row.offset, row.number, row.kind.value) for row in HISTORY]
    assert log.queries.landed_through == 30


def test_each_landing_is_one_commit(empty):
    before = DeltaTable(empty.location).version()
    empty.land((change(15, number) for number in range(20_001)), after=10, through=20)
    assert DeltaTable(empty.location).version() == before + 1
    assert len(rows_of(empty)) == 20_001


def test_a_landing_without_changes_is_recorded(empty):
    empty.land([], after=10, through=20)
    assert (ChangeLog(empty.location).queries.landed_through, rows_of(empty)) == (20, [])


@pytest.mark.parametrize("after", [9, 11, 20])
def test_a_landing_that_does_not_follow_the_last_one_is_refused(empty, after):
    before = logged(empty.location)
    with pytest.raises(ConcurrentUpdateError, match="another process landed changes into .* try again"):
        empty.land([change(15)], after=after, through=30)
    assert logged(empty.location) == before


def test_of_two_landings_after_the_same_offset_one_is_refused(empty):
    one, two = ChangeLog(empty.location), ChangeLog(empty.location)
    assert one.queries.landed_through == two.queries.landed_through == 10
    one.land([change(15)], after=10, through=20)
    with pytest.raises(ConcurrentUpdateError):
        two.land([change(15), change(25)], after=10, through=30)
    assert (rows_of(empty), two.queries.landed_through) == ([(15, 1, "insert")], 20)
    two.land([change(25)], after=20, through=30)
    assert rows_of(empty) == [(15, 1, "insert"), (25, 1, "insert")]


@pytest.mark.parametrize("through", [15, 20, 30])
def test_a_landing_that_is_overtaken_while_it_reads_is_refused(empty, through):
    """The other one commits after this one looked how far the log is landed, and before it commits."""

    def overtaken():
        yield change(15)
        elsewhere(lambda: ChangeLog(empty.location).land([change(15)], after=10, through=20))

    with pytest.raises(ConcurrentUpdateError) as refused:
        empty.land(overtaken(), after=10, through=through)
    assert refused.value.retryable
    assert (rows_of(empty), empty.queries.landed_through) == ([(15, 1, "insert")], 20)


def test_a_landing_that_is_overtaken_before_it_reads_is_refused(empty, monkeypatch):
    made = table.arrow_batches

    def overtaken(changes):
        monkeypatch.setattr(table, "arrow_batches", made)
        ChangeLog(empty.location).land([change(15)], after=10, through=20)
        return made(changes)

    monkeypatch.setattr(table, "arrow_batches", overtaken)
    with pytest.raises(ConcurrentUpdateError):
        empty.land([change(15)], after=10, through=20)
    assert (rows_of(empty), empty.queries.landed_through) == ([(15, 1, "insert")], 20)


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
    assert (rows_of(empty), empty.queries.landed_through) == ([], 10)
    empty.land([change(15)], after=10, through=20)
    assert rows_of(empty) == [(15, 1, "insert")]


# --- the secret -----------------------------------------------------------------------------------


def test_each_log_has_a_secret_of_its_own(empty, lake):
    other = ChangeLog(str(lake / "another"))
    other.create(ORIGIN, 10, at=minute(0))
    assert len({empty.secret(), other.secret(), ""}) == 3
    assert ChangeLog(empty.location).secret() == empty.secret()


def test_a_log_whose_secret_was_taken_away_is_refused(lake):
    """I6: without a secret, whoever may connect to the database could write marks."""
    location = str(lake / "without")
    DeltaTable.create(location, Schema.from_arrow(SCHEMA))
    with pytest.raises(StateError, match="has lost its table property backfill.marksSignedWith"):
        ChangeLog(location).secret()
