"""How many rows there are: by the log, or else by the files, and without those that are hidden."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core.errors import DataFileError
from airflow_backfill_provider.lake.files import row_counts
from airflow_backfill_provider.lake.files.row_counts import LoggedFile, RowCount, stored_rows
from airflow_backfill_provider.lake.tables.table_files import table_files
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.builders import order_of
from tests.deletion_vectors import actions_of, added_in, write_actions

LONG = order_of("long")


def files_of(path, version=None):
    return DeltaSource(str(path)).files_at(offset_of(DeltaTable(path).version() if version is None else version))


def recount(path, version, rows):
    """Change the row count of the file in the commit; ``None`` removes it."""
    actions = actions_of(path, version)
    for action in actions:
        if added := action.get("add"):
            statistics = json.loads(added["stats"]) | {"numRecords": rows}
            added["stats"] = json.dumps({name: value for name, value in statistics.items() if value is not None})
    write_actions(path, version, *actions)


@pytest.fixture
def table(tmp_path):
    """A table of ten rows in one file, and five in another."""
    write_deltalake(tmp_path, pa.table({"k1": range(10)}))
    write_deltalake(tmp_path, pa.table({"k1": range(10, 15)}), mode="append")
    return tmp_path


def test_counts_of_the_log_need_no_look_at_any_file(table):
    for file in table.glob("*.parquet"):
        file.unlink()
    assert files_of(table).live_rows() == RowCount(15)
    assert files_of(table).row_count() == 15


@pytest.mark.parametrize("count", [None, -3, 0, 10**12])
def test_a_missing_or_impossible_count_is_read_from_the_file(table, count):
    recount(table, 0, count)
    files = files_of(table)
    assert (files.live_rows(), files.row_count(), DeltaSource(str(table)).row_count(offset_of(1))) == (
        RowCount(15),
        15,
        15,
    )
    assert sorted(file.row_count for file in files.files(LONG)) == [5, 10]
    assert sorted(file.rows for file in table_files(str(table)).files) == [5, 10]


def test_a_file_that_is_gone_and_not_counted_is_named(table):
    recount(table, 0, None)
    gone = added_in(table, 0)["path"]
    (table / gone).unlink()
    with pytest.raises(DataFileError, match=f"{gone}.*is gone"):
        files_of(table).live_rows()


def test_a_footer_is_read_once(table):
    recount(table, 0, None)
    assert files_of(table).row_count() == 15
    (table / added_in(table, 0)["path"]).unlink()
    assert files_of(table).row_count() == 15


def test_with_very_many_files_some_are_read_and_the_others_estimated_by_their_bytes(monkeypatch):
    monkeypatch.setattr(row_counts, "MOST_FOOTERS", 3)
    files = [LoggedFile(f"f{number}", None, 100 * (number + 1)) for number in range(6)]
    read = []
    counts = stored_rows([*files, LoggedFile("counted", 7, 10)], lambda path: read.append(path) or 10 * int(path[1:]))
    assert sorted(read) == ["f0", "f2", "f4"]
    # 60 rows in 900 bytes
    assert counts == [
        RowCount(0),
        RowCount(13, is_exact=False),
        RowCount(20),
        RowCount(27, is_exact=False),
        RowCount(40),
        RowCount(40, is_exact=False),
        RowCount(7),
    ]


def test_an_estimate_says_so(table, monkeypatch):
    monkeypatch.setattr(row_counts, "MOST_FOOTERS", 1)
    recount(table, 0, None)
    recount(table, 1, None)
    files = files_of(table)
    assert not files.live_rows().is_exact
    assert sorted(file.is_exact for file in files.files(LONG)) == [False, True]


# --- deletion vectors -----------------------------------------------------------------------------
