"""What commits of a change log record."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from airflow_backfill_provider.sources.shared.change_log.commits import (
    cleaned_at,
    landed_through,
    published_as,
    recorded,
)

AT = dt.datetime(2026, 3, 29, 1, 30, 15, tzinfo=dt.UTC)
ROWS = pa.table({"offset": [1]})


@pytest.fixture
def path(lake):
    write_deltalake(lake / "log", ROWS)
    return str(lake / "log")


def test_nothing_is_recorded_at_first(path):
    assert (landed_through(DeltaTable(path)), cleaned_at(DeltaTable(path))) == (None, None)


def test_a_commit_records_what_it_says_and_the_rest_stays(path):
    write_deltalake(path, ROWS, mode="append", commit_properties=recorded(landed=0, cleaned=AT))
    assert (landed_through(DeltaTable(path)), cleaned_at(DeltaTable(path))) == (0, AT)
    write_deltalake(path, ROWS, mode="append", commit_properties=recorded(landed=20))
    assert (landed_through(DeltaTable(path)), cleaned_at(DeltaTable(path))) == (20, AT)
    later = AT + dt.timedelta(days=1, microseconds=999_999)
    write_deltalake(path, ROWS, mode="append", commit_properties=recorded(cleaned=later))
    assert (landed_through(DeltaTable(path)), cleaned_at(DeltaTable(path))) == (20, AT + dt.timedelta(days=1))
    write_deltalake(path, ROWS, mode="append", commit_properties=recorded())
    assert (landed_through(DeltaTable(path)), cleaned_at(DeltaTable(path))) == (20, AT + dt.timedelta(days=1))


def test_a_commit_follows_the_version_that_was_read_or_fails(path):
    read = DeltaTable(path)
    write_deltalake(path, ROWS, mode="append")
    with pytest.raises(CommitFailedError):
        write_deltalake(read, ROWS, mode="append", commit_properties=recorded(landed=20))
    assert landed_through(DeltaTable(path)) is None


def test_what_is_published_stays_known_until_another_commit_says_otherwise(path):
    """The largest identity, too, and of a name whatever it has in it."""
    most = (1 << 56) - 1
    write_deltalake(path, ROWS, mode="append", commit_properties=recorded(published={"": 1, "7": most}))
    write_deltalake(path, ROWS, mode="append", commit_properties=recorded(landed=20, published={"7": 0}))
    DeltaTable(path).create_checkpoint()
    write_deltalake(path, ROWS, mode="append", commit_properties=recorded(cleaned=AT, published={"8": most}))
    assert [published_as(DeltaTable(path), name) for name in ("", "7", "8", "9")] == [1, 0, most, None]
