"""Columns of data files are found as Spark finds them, whichever writer wrote the file."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq
import pytest

from airflow_backfill_provider.core.errors import DataFileError
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder, KeyRange
from airflow_backfill_provider.lake.files.stored_columns import read_stored
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.builders import order_of, write_table


def stored(folder, table, names, field_ids=None):
    pq.write_table(table, folder / "file.parquet")
    files = arrow_fs.SubTreeFileSystem(str(folder), arrow_fs.LocalFileSystem())
    return read_stored(files, "file.parquet", names, field_ids)


def with_id(name, values, field_id):
    return pa.table(
        [pa.array(values)], pa.schema([pa.field(name, pa.int64(), metadata={"PARQUET:field_id": field_id})])
    )


def test_the_case_of_a_name_makes_no_difference(tmp_path):
    """A table that was converted keeps files whose writers spelt their columns otherwise."""
    assert stored(tmp_path, pa.table({"ID": [1, 2], "Note": ["a", "b"]}), ["id"]).to_pydict() == {"id": [1, 2]}


def test_a_column_that_is_never_null_in_a_file_may_be_null_like_in_the_others(tmp_path):
    never = pa.table({"id": [1]}, pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    found = [stored(tmp_path, table, ["id"]) for table in (never, pa.table({"id": [None, 2]}))]
    assert pa.concat_tables(found).to_pydict() == {"id": [1, None, 2]}


def test_names_that_differ_only_in_case_are_ambiguous(tmp_path):
    with pytest.raises(pa.ArrowInvalid, match="ID, id all match id"):
        stored(tmp_path, pa.table({"ID": [1], "id": [2]}), ["id"])


def test_a_column_is_found_by_its_id_where_the_table_maps_columns_by_id(tmp_path):
    assert stored(tmp_path, with_id("anything", [7], "3"), ["col-1"], {"col-1": 3}).to_pydict() == {"col-1": [7]}
    assert stored(tmp_path, with_id("col-1", [7], "4"), ["col-1"], {"col-1": 3}).column_names == []


def test_a_column_that_a_file_does_not_have_is_missing_and_its_rows_are_not(tmp_path):
    found = stored(tmp_path, pa.table({"other": [1, 2, 3]}), ["id"])
    assert (found.column_names, found.num_rows) == ([], 3)


@pytest.mark.parametrize("struct_first", [True, False])
def test_a_dot_in_a_name_is_no_path_into_a_struct(tmp_path, struct_first):
    columns = {"a": pa.array([{"b": 10}, {"b": 11}]), "a.b": pa.array([1, 2])}
    names = [*columns] if struct_first else [*reversed(columns)]
    table = pa.table({name: columns[name] for name in names})
    assert stored(tmp_path, table, ["a.b"]).to_pydict() == {"a.b": [1, 2]}


def test_a_key_beside_a_struct_of_the_same_path_has_its_own_statistics(tmp_path):
    """Flattened, the log's statistics of `a.b` and of the field b of a would have one name."""
    rows = {"a.b": [1, 2, 3], "a": [{"b": 10}, {"b": 11}, {"b": 12}]}
    table = write_table(tmp_path / "t", {"a.b": pa.array(rows["a.b"]), "a": pa.array(rows["a"])})
    order = KeyOrder((KeyField(name="a.b", type="long"),))
    (file,), _ = table.files_at(offset_of(0)).statistics(order)
    assert (file.lower, file.upper, file.row_count) == ((1,), (3,), 3)
    assert table.files_at(offset_of(0)).keys(order).count(file, KeyRange((1,), None)) == 2


def test_a_file_whose_columns_cannot_be_told_apart_is_named(tmp_path):
    table = write_table(tmp_path / "t", {"k1": pa.array([1])})
    (path,) = (tmp_path / "t").glob("*.parquet")
    pq.write_table(pa.table({"k1": [1], "K1": [2]}), path)
    with pytest.raises(DataFileError, match=path.name):
        DeltaSource(table.location).files_at(offset_of(0)).keys(order_of("long")).read(
            FileStatistics(path=path.name, row_count=1)
        )
