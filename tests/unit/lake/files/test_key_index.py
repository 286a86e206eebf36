"""Exact keys of data files: only the key columns, each file once, in the order of keys."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq
import pytest

from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyField, KeyOrder, KeyRange
from airflow_backfill_provider.lake.files.key_index import ArrowKeyIndex, arrow_type, keys_within
from tests.builders import order_of


class CountingFiles(arrow_fs.FileSystemHandler):
    """Local files that record which of them were opened."""

    def __init__(self, folder):
        self._local = arrow_fs.SubTreeFileSystem(str(folder), arrow_fs.LocalFileSystem())
        self.opened = []

    def open_input_file(self, path):
        self.opened.append(path)
        return pa.PythonFile(self._local.open_input_file(path), mode="r")

    def __getattr__(self, name):
        return getattr(self._local, name)

    def _unused(self, *_):
        raise NotImplementedError

    get_type_name = get_file_info = get_file_info_selector = create_dir = delete_dir = delete_dir_contents = _unused
    delete_root_dir_contents = delete_file = move = copy_file = open_input_stream = open_output_stream = _unused
    open_append_stream = normalize_path = _unused


def index_of(folder, order, tables, **partitions):
    """Write Parquet files and return an index over them, its files, and the file system that counts."""
    counting = CountingFiles(folder)
    files = []
    for number, table in enumerate(tables):
        pq.write_table(pa.table(table), folder / f"{number}.parquet")
        files.append(FileStatistics(path=f"{number}.parquet", row_count=len(next(iter(table.values())))))
    names = {field.name: field.name for field in order.fields}
    values = {path: {name: pa.scalar(value) for name, value in found.items()} for path, found in partitions.items()}
    return ArrowKeyIndex(arrow_fs.PyFileSystem(counting), order, names, values), files, counting


LONG = order_of("long")


def test_names_that_begin_with_a_dot_are_no_paths(tmp_path):
    order = KeyOrder((KeyField(name=".", type="long"), KeyField(name=".a.b", type="boolean", descending=True)))
    tables = [{".": [2, 1], ".a.b": [True, None]}, {".": [2, 1], ".a.b": [False, True]}]
    index, files, _ = index_of(tmp_path, order, tables)
    assert [index.nth(files, EVERYTHING, n) for n in range(1, 6)] == [(1, None), (1, True), (2, True), (2, False), None]


def test_keys_are_counted_and_found_after_a_position(tmp_path):
    index, files, _ = index_of(tmp_path, LONG, [{"k1": [5, 1, None]}, {"k1": [3, 4, 2]}])
    assert [index.count(file, EVERYTHING) for file in files] == [3, 3]
    assert [index.count(file, KeyRange((3,), None)) for file in files] == [1, 1]
    assert [index.nth(files, EVERYTHING, n) for n in range(1, 8)] == [(None,), (1,), (2,), (3,), (4,), (5,), None]
    assert index.nth(files, KeyRange((3,), None), 1) == (4,)
    assert index.nth(files, KeyRange((5,), None), 1) is None


def test_a_null_key_is_a_position_with_all_other_keys_after_it(tmp_path):
    """docs/concepts/rules.md#no-position-is-not-the-null-key."""
    index, files, _ = index_of(tmp_path, LONG, [{"k1": [None, 1]}])
    assert index.count(files[0], KeyRange((None,), None)) == 1
    assert index.count(files[0], EVERYTHING) == 2


@pytest.mark.parametrize("descending", [False, True])
def test_a_range_of_keys_of_several_columns_has_the_keys_that_the_order_says(descending):
    order = order_of(("long", descending), "string", "boolean")
    keys = list(itertools.product([None, 1, 2], [None, "a", "b"], [None, False, True]))
    columns = zip(order.fields, zip(*keys, strict=True), strict=True)
    table = pa.table({field.name: pa.array(values, arrow_type(field)) for field, values in columns})
    bounds = [None, *keys[::2], (None,), (1,), (2, "a")]
    for within in itertools.starmap(KeyRange, itertools.product(bounds, bounds)):
        found = [tuple(row.values()) for row in keys_within(table, order, within).to_pylist()]
        assert found == [key for key in keys if within.contains(key, order)]


def test_a_file_that_is_older_than_a_key_column_has_nulls_in_it(tmp_path):
    index, files, _ = index_of(tmp_path, order_of("long", "string"), [{"k1": [2, 1]}, {"k1": [1], "k2": ["a"]}])
    assert [index.nth(files, EVERYTHING, n) for n in (1, 2, 3)] == [(1, None), (1, "a"), (2, None)]


def test_no_files_have_no_keys():
    index = ArrowKeyIndex(arrow_fs.LocalFileSystem(), LONG, {}, {})
    assert index.nth([], EVERYTHING, 1) is None


def test_a_file_is_opened_once_however_often_it_is_read(tmp_path):
    index, files, counting = index_of(tmp_path, LONG, [{"k1": [1, 2]}, {"k1": [3]}, {"k1": [4]}])
    index.count(files[0], KeyRange((1,), None))
    for n in (1, 2, 3):
        index.nth(files[:2], EVERYTHING, n)
    assert counting.opened == ["0.parquet", "1.parquet"]


def test_columns_that_are_no_key_are_not_read(tmp_path):
    """A damaged page of another column does not matter, because it is never touched."""
    index, files, _ = index_of(tmp_path, LONG, [{"k1": pa.array(range(100)), "wide": pa.array(["x" * 1000] * 100)}])
    column = pq.ParquetFile(tmp_path / "0.parquet").metadata.row_group(0).column(1)
    content = bytearray((tmp_path / "0.parquet").read_bytes())
    start = column.dictionary_page_offset or column.data_page_offset
    content[start : start + column.total_compressed_size] = bytes(column.total_compressed_size)
    (tmp_path / "0.parquet").write_bytes(content)
    assert index.nth(files, EVERYTHING, 100) == (99,)


def test_partition_values_replace_a_column(tmp_path):
    order = KeyOrder((KeyField(name="region", type="string"), KeyField(name="id", type="long", descending=True)))
    index, files, _ = index_of(
        tmp_path, order, [{"id": [1, 2]}, {"id": [3]}], **{"0.parquet": {"region": "b"}, "1.parquet": {"region": None}}
    )
    assert [index.nth(files, EVERYTHING, n) for n in (1, 2, 3)] == [(None, 3), ("b", 2), ("b", 1)]
    assert index.count(files[0], KeyRange(("b", 2), None)) == 1


def test_a_key_of_partition_columns_alone_still_counts_the_rows(tmp_path):
    order = order_of("string")
    index, files, _ = index_of(tmp_path, order, [{"id": [1, 2, 3]}], **{"0.parquet": {"k1": "a"}})
    assert index.count(files[0], EVERYTHING) == 3
    assert index.count(files[0], KeyRange(("a",), None)) == 0
    assert index.nth(files, EVERYTHING, 3) == ("a",)


def test_columns_are_read_under_their_physical_names(tmp_path):
    """Column mapping: after a rename the files keep the old name."""
    index, files, _ = index_of(tmp_path, LONG, [{"col-0a1b": [2, 1]}])
    mapped = ArrowKeyIndex(index._files, LONG, {"k1": "col-0a1b"}, {})
    assert mapped.nth(files, EVERYTHING, 1) == (1,)


@pytest.mark.parametrize(
    ("kind", "stored", "expected"),
    [
        ("long", pa.array([1, 2], pa.int32()), 1),
        ("string", pa.array(["b", "a"], pa.large_string()), "a"),
        ("string", pa.array(["b", "a"]).dictionary_encode(), "a"),
        ("binary", pa.array([b"b", b"a"], pa.large_binary()), b"a"),
    ],
)
def test_files_may_store_a_type_in_another_way(tmp_path, kind, stored, expected):
    index, files, _ = index_of(tmp_path, order_of(kind), [{"k1": stored}])
    assert index.nth(files, EVERYTHING, 1) == (expected,)


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        ("timestamp", pa.array([1_700_000_000_000_001_000], pa.timestamp("ns", "UTC"))),
        ("timestamp", pa.array([1_700_000_000_000_001], pa.timestamp("us", "UTC"))),
        ("timestamp", pa.array([1_700_000_000_000_001], pa.timestamp("us", "Europe/Berlin"))),
        ("timestamp_ntz", pa.array([1_700_000_000_000_001], pa.timestamp("us"))),
    ],
)
def test_timestamps_keep_their_microseconds(tmp_path, kind, stored):
    order = order_of(kind)
    index, files, _ = index_of(tmp_path, order, [{"k1": stored}])
    found = index.nth(files, EVERYTHING, 1)
    assert order.encode(found)[0].startswith("2023-11-14T22:13:20.000001")
    assert index.count(files[0], KeyRange(found, None)) == 0


def test_timestamps_of_old_spark_versions_are_read(tmp_path):
    """INT96, which Spark wrote by default for years."""
    stored = pa.array([1_700_000_000_000_001], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"k1": stored}), tmp_path / "0.parquet", use_deprecated_int96_timestamps=True)
    order = order_of("timestamp")
    files = arrow_fs.SubTreeFileSystem(str(tmp_path), arrow_fs.LocalFileSystem())
    index = ArrowKeyIndex(files, order, {"k1": "k1"}, {})
    found = index.nth([FileStatistics(path="0.parquet", row_count=1)], EVERYTHING, 1)
    assert order.encode(found) == ("2023-11-14T22:13:20.000001Z",)


@pytest.mark.parametrize(
    ("kind", "arrow"),
    [
        ("byte", pa.int8()),
        ("short", pa.int16()),
        ("integer", pa.int32()),
        ("long", pa.int64()),
        ("decimal(5,3)", pa.decimal128(5, 3)),
        ("decimal(38,0)", pa.decimal128(38, 0)),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestamp_ntz", pa.timestamp("us")),
        ("boolean", pa.bool_()),
    ],
)
def test_every_key_type_has_its_arrow_type(kind, arrow):
    assert arrow_type(KeyField(name="k", type=kind)) == arrow


@pytest.mark.parametrize(
    ("position", "found"),
    [
        ((2, "b"), (2, "a")),
        ((2, "a"), (2, None)),
        ((2, None), (1, "z")),
        ((2, "aa"), (2, "a")),
        ((9, ""), (2, "b")),
        ((1, "z"), None),
        ((1, "a"), None),
    ],
)
def test_the_last_key_before_a_position_is_another_one(tmp_path, position, found):
    """Equal keys are passed over, in whichever file they are, and a null is a key that comes first."""
    order = order_of("long", "string")
    tables = [{"k1": [2, 2, 1], "k2": ["b", "a", "z"]}, {"k1": [2, 2, 2], "k2": ["b", None, "a"]}]
    index, files, _ = index_of(tmp_path, order, tables)
    assert index.last_before(files, KeyRange((0,), None), position) == found
    assert index.last_before(files, KeyRange(position, None), position) is None
