"""An opened change log: always its newest version, of which no more is read than it takes."""

from __future__ import annotations

import pathlib
import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.errors import ChangeFeedGapError, DataFileError
from airflow_backfill_provider.sources.shared.change_log.changes import LoggedKind
from airflow_backfill_provider.sources.shared.change_log.table import ChangeLog
from tests.unit.sources.shared.change_log.histories import AT, ORIGIN, change, minute


def test_what_another_process_landed_is_seen(empty):
    assert not empty.queries.has_changes("5", 0, 99)
    ChangeLog(empty.location).land([change(15)], after=10, through=20)
    assert (empty.queries.landed_through, empty.queries.has_changes("5", 0, 99)) == (20, True)


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
    assert long.queries.committed_at(offset) == (None if expected is None else minute(expected))
    assert long.queries.offset_at(minute(offset)) == expected


def test_a_mark_is_found_wherever_it_lies(long):
    assert (long.queries.mark("read"), long.queries.mark("another"), long.queries.mark("'")) == (38, None, None)


@pytest.mark.parametrize(
    "question",
    [
        lambda log: log.queries.committed_at(999),
        lambda log: log.queries.committed_at(125),
        lambda log: log.queries.offset_at(minute(999)),
        lambda log: log.queries.has_changes("5", 124, 999),
        lambda log: log.queries.columns_within("5", 124, 999),
        lambda log: log.queries.lost_within("5", 124, 999),
        lambda log: log.queries.truncated_within("5", 124, 999),
        lambda log: log.queries.transactions_within(124, 999),
        lambda log: log.queries.first_needed("5", 124),
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
        log.queries.has_changes("5", 0, 99)


QUESTIONS = {
    "landed_through": lambda log: log.queries.landed_through,
    "has_changes": lambda log: log.queries.has_changes("5", 0, 99),
    "changed_since": lambda log: log.queries.changed_since("5", 0),
    "committed_at": lambda log: log.queries.committed_at(99),
    "offset_at": lambda log: log.queries.offset_at(AT),
    "columns_within": lambda log: log.queries.columns_within("5", 0, 99),
    "truncated_within": lambda log: log.queries.truncated_within("5", 0, 99),
    "earliest_of": lambda log: log.queries.earliest_of([1], up_to=99),
    "first_needed": lambda log: log.queries.first_needed("5", 0),
    "clean_up": lambda log: log.retention.clean_up(AT),
    "is_clean_up_due": lambda log: log.retention.is_clean_up_due(AT),
    "changes_kept_for": lambda log: log.retention.changes_kept_for(),
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
