"""Rows that deletion vectors hide: how many, by the log."""

from __future__ import annotations

import json
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.lake.files.row_counts import RowCount
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.log.hidden_rows import hidden_row_counts
from airflow_backfill_provider.lake.tables.table_files import table_files
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.builders import commit_file, order_of
from tests.deletion_vectors import added_in, hide, removed, write_actions

LONG = order_of("long")


def files_of(path, version=None):
    return DeltaSource(str(path)).files_at(offset_of(DeltaTable(path).version() if version is None else version))


@pytest.fixture
def table(tmp_path):
    """A table of ten rows in one file, and five in another."""
    write_deltalake(tmp_path, pa.table({"k1": range(10)}))
    write_deltalake(tmp_path, pa.table({"k1": range(10, 15)}), mode="append")
    return tmp_path


def test_rows_that_a_deletion_vector_hides_are_not_counted(table):
    first = added_in(table, 0)
    hide(table, first, [0, 3, 4])
    files = files_of(table)
    assert (files.live_rows(), files.row_count()) == (RowCount(12), 15)
    found = {file.path: (file.row_count, file.hidden_rows, file.is_exact) for file in files.files(LONG)}
    assert found[first["path"]] == (7, 3, True)
    assert sorted((f.rows, f.deleted_rows) for f in table_files(str(table)).files) == [(5, 0), (10, 3)]
    masks = files.hidden_rows()
    assert masks is not None
    assert masks[first["path"]].to_pylist().count(False) == 3, "what deltalake reads of the vector itself"


def test_the_newest_deletion_vector_of_a_file_counts(table):
    first = added_in(table, 0)
    newest = hide(table, hide(table, first, [0]), [0, 3, 4, 5])
    assert [files_of(table, version).live_rows().rows for version in (1, 2, 3)] == [15, 14, 11]
    write_actions(table, 4, removed(newest), {"add": first})
    assert files_of(table).live_rows() == RowCount(15), "put back without one"


def test_deletion_vectors_are_found_in_a_checkpoint_and_after_it(table):
    first, second = added_in(table, 0), added_in(table, 1)
    first = hide(table, first, [0, 3])
    hide(table, second, [1])
    DeltaTable(table).create_checkpoint()
    for version in range(3):
        commit_file(table, version).unlink()
    assert files_of(table).live_rows() == RowCount(12)
    hide(table, first, [0, 3, 4])
    assert files_of(table).live_rows() == RowCount(11)


@pytest.mark.parametrize("cardinality", [-1, 11])
def test_a_deletion_vector_that_hides_more_than_there_is_makes_the_count_an_estimate(table, cardinality):
    hide(table, added_in(table, 0), [0], cardinality=cardinality)
    assert files_of(table).live_rows() == RowCount(15, is_exact=False)


# --- reading the log ------------------------------------------------------------------------------


def adds(*rows):
    """Actions that add files, each with the number of rows that are hidden, or ``None`` for no vector."""
    for path, hidden in rows:
        vector = {} if hidden is None else {"deletionVector": {"storageType": "i", "cardinality": hidden}}
        yield {"add": {"path": path, "size": 1, **vector}}


@pytest.fixture
def log(tmp_path):
    """Writes a commit of actions; the log's folder exists from the start."""
    (tmp_path / "_delta_log" / "_sidecars").mkdir(parents=True)
    return partial(write_actions, tmp_path)


def hidden(folder, version):
    return hidden_row_counts(DeltaLog(str(folder)), version)


VECTOR = pa.struct([("storageType", pa.string()), ("cardinality", pa.int64())])
ADD = pa.struct([("path", pa.string()), ("deletionVector", VECTOR)])


def checkpoint(folder, name, *rows, sidecars=()):
    """Write a checkpoint, or a part of one, in Parquet."""
    added = [action["add"] for action in adds(*rows)]
    columns = {
        "add": pa.array([*added, *[None] * len(sidecars)], ADD),
        "sidecar": pa.array(
            [*[None] * len(added), *({"path": path} for path in sidecars)], pa.struct([("path", pa.string())])
        ),
    }
    pq.write_table(pa.table(columns), folder / "_delta_log" / name)


def test_the_newest_entry_of_a_file_counts_up_to_the_version(log, tmp_path):
    log(0, *adds(("a", None), ("b", 2)))
    log(1, *adds(("a", 1)), {"commitInfo": {"note": 'not an "add" of a file'}})
    log(2, *adds(("a", 3), ("b", None), ("läke%20o%27brien", 5)))
    assert [hidden(tmp_path, version) for version in range(3)] == [
        {"b": 2},
        {"a": 1, "b": 2},
        {"a": 3, "läke o'brien": 5},
    ]


@pytest.mark.parametrize("cardinality", [-1, "3", 1.5])
def test_an_impossible_number_is_unknown(log, tmp_path, cardinality):
    log(0, *adds(("a", cardinality)))
    assert hidden(tmp_path, 0) == {"a": None}


def test_commits_after_the_newest_whole_checkpoint_are_read(log, tmp_path):
    """Versions 0 to 5 are gone; of the checkpoint of version 6 a part is missing, and that of 9 is too new."""
    checkpoint(tmp_path, f"{4:020d}.checkpoint.{1:010d}.{2:010d}.parquet", ("a", 4))
    checkpoint(tmp_path, f"{4:020d}.checkpoint.{2:010d}.{2:010d}.parquet", ("b", 5), ("c", None))
    checkpoint(tmp_path, f"{6:020d}.checkpoint.{1:010d}.{2:010d}.parquet", ("a", 6))
    checkpoint(tmp_path, f"{9:020d}.checkpoint.parquet", ("a", 9))
    for version in range(5, 9):
        log(version, *adds(("c", version)))
    assert hidden(tmp_path, 4) == {"a": 4, "b": 5}
    assert hidden(tmp_path, 8) == {"a": 4, "b": 5, "c": 8}


@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_a_checkpoint_may_name_its_files_in_sidecars(log, tmp_path, kind):
    name = f"{3:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.{kind}"
    if kind == "parquet":
        checkpoint(tmp_path, name, ("a", 1), sidecars=["s.parquet"])
    else:
        lines = [*adds(("a", 1)), {"sidecar": {"path": "s.parquet", "sizeInBytes": 1}}]
        (tmp_path / "_delta_log" / name).write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    checkpoint(tmp_path, "_sidecars/s.parquet", ("b", 2), ("c", None))
    assert hidden(tmp_path, 3) == {"a": 1, "b": 2}


def test_a_log_that_lacks_a_commit_cannot_be_read(log, tmp_path):
    log(1, *adds(("a", 1)))
    with pytest.raises(FileNotFoundError):
        hidden(tmp_path, 1)
