"""Rows of a table are found by values of some columns, with the places where they lie; what is unusual is refused."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_backfill_provider.lake.files import deletion_vectors
from airflow_backfill_provider.lake.files.deletion_vectors import hidden_rows, write_hidden_rows
from airflow_backfill_provider.lake.log.added_files import open_plain
from airflow_backfill_provider.lake.log.arrow_types import arrow_schema
from airflow_backfill_provider.lake.tables import rows_by_value as module
from airflow_backfill_provider.lake.tables.rows_by_value import rows_by_value
from tests.deletion_vectors import write_actions
from tests.unit.lake.log.test_plain_tables import field, made

FILE, OTHER = "part-00000-a.parquet", "part-00001-a.parquet"
PLACES = ("__file", "__row")
FIELDS = (field("n"), field("shop", "string"), field("amount", "decimal(10,2)"), field("mean", "double"))
FEATURES = ("appendOnly", "invariants", "deletionVectors")

Values = tuple[int | None, str | None, Decimal | None, float | None]


def table_of(folder: Path, *files: pa.Table, fields=FIELDS, hidden: dict[str, set[int]] | None = None, **writing):
    """Write a table, in files of several groups of rows each."""
    made(folder, *fields, features=FEATURES, enableDeletionVectors="true")
    names = [f"part-0000{number}-a.parquet" for number in range(len(files))]
    vectors = write_hidden_rows(folder, hidden)[1] if hidden else {}
    for name, rows in zip(names, files, strict=True):
        pq.write_table(rows, folder / name, **({"row_group_size": 3} | writing))
    adds = []
    for name in names:
        entry = {"path": name, "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}
        vector = vectors.get(name)
        adds.append({"add": {**entry, "deletionVector": vector} if vector else entry})
    write_actions(folder, 1, *adds)
    return folder


def of(*rows: Values) -> pa.Table:
    columns = [*zip(*rows, strict=True)] or [()] * len(FIELDS)
    return pa.table([pa.array(values, kind) for values, kind in zip(columns, TYPES, strict=True)], schema=SCHEMA)


SCHEMA = arrow_schema(FIELDS)
TYPES = SCHEMA.types


def found(folder: Path, wanted: pa.Table) -> pa.Table | None:
    return rows_by_value(str(folder), 1, open_plain(str(folder)), wanted, PLACES)


ROWS = (
    *((1, "a", Decimal("1.50"), 0.5), (2, "b", None, None), (None, "a", Decimal("-2.25"), 1.5)),
    *((4, None, Decimal("1.50"), 0.5), (1, "a", Decimal("9.00"), 2.5), (6, "", Decimal("0.00"), -0.0)),
    *((None, None, None, None), (8, "a", Decimal("1.50"), 0.5)),
)


DRAWN = st.tuples(
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, "", "a"]),
    st.sampled_from([None, Decimal("1.50"), Decimal("-2.25")]),
    st.sampled_from([None, 0.5, -0.0]),
)


@given(
    rows=st.lists(DRAWN, max_size=12),
    cut=st.integers(0, 12),
    hidden=st.frozensets(st.integers(0, 11)),
    wanted=st.lists(DRAWN, max_size=4),
    names=st.sampled_from([("n",), ("shop",), ("amount",), ("shop", "n"), ("n", "shop", "amount")]),
)
@example(
    rows=[(number, shop, None, None) for number in (1, 2) for shop in ("", "a")],
    cut=4,
    hidden=frozenset(),
    wanted=[(1, "a", None, None), (2, "", None, None)],
    names=("n", "shop"),
)
def test_rows_with_wanted_values_are_found_at_their_places(tmp_path_factory, rows, cut, hidden, wanted, names):
    """I1: nulls are values, several columns count together, and hidden rows are not there."""
    files = [rows[:cut], rows[cut:]]
    numbers = [{row for row in hidden if row < len(file)} for file in files]
    named = {f"part-0000{number}-a.parquet": gone for number, gone in enumerate(numbers) if gone}
    folder = table_of(tmp_path_factory.mktemp("table"), *(of(*file) for file in files), hidden=named)
    places = [SCHEMA.names.index(name) for name in names]
    values = {tuple(row[place] for place in places) for row in wanted}
    expected = [
        (*row, f"part-0000{number}-a.parquet", place)
        for number, file in enumerate(files)
        for place, row in enumerate(file)
        if place not in numbers[number] and tuple(row[at] for at in places) in values
    ]
    result = found(folder, of(*wanted).select(names))
    assert result is not None
    assert sorted(map(repr, (tuple(row.values()) for row in result.to_pylist()))) == sorted(map(repr, expected))


def test_groups_of_rows_without_wanted_values_are_not_read(tmp_path, monkeypatch):
    """A view is sorted by its units, and a few of them lie close together."""
    rows = of(*((number, "a", None, None) for number in range(30)))
    folder = table_of(tmp_path, rows)
    read: list[int] = []
    iter_batches = pq.ParquetFile.iter_batches

    def noted(self, size, row_groups, **reading):
        read.extend(row_groups)
        return iter_batches(self, size, row_groups=row_groups, **reading)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", noted)
    result = found(folder, pa.table({"n": [13, 14]}))
    assert result is not None
    assert (result["__row"].to_pylist(), sorted(set(read))) == ([13, 14], [4])
    assert found(folder, pa.table({"n": [13, None]})) is not None
    assert set(read) == set(range(10)), "of groups that may have nulls, none is left out"


def test_a_batch_is_not_longer_than_its_group(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MOST_ROWS", 4)
    monkeypatch.setattr(module, "_LEAST_ROWS", 1)
    folder = table_of(tmp_path, of(*((number, str(number), None, None) for number in range(25))), row_group_size=10)
    result = found(folder, pa.table({"shop": ["3", "4", "9", "10", "24"]}))
    assert result is not None
    assert result["n"].to_pylist() == result["__row"].to_pylist() == [3, 4, 9, 10, 24]


def test_few_long_texts_are_read_at_once(tmp_path, monkeypatch):
    """A thousand rows of a megabyte each would not fit into memory."""
    monkeypatch.setattr(module, "_BATCH_BYTES", 20_000)
    monkeypatch.setattr(module, "_LEAST_ROWS", 2)
    texts = [str(number) * 5_000 for number in range(9)]
    folder = table_of(
        tmp_path, of(*((number, text, None, None) for number, text in enumerate(texts))), row_group_size=9
    )
    sizes: list[int] = []
    iter_batches = pq.ParquetFile.iter_batches

    def noted(self, size, **reading):
        sizes.append(size)
        return iter_batches(self, size, **reading)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", noted)
    for wanted, looked_at in ({"n": [0, 8]}, module._MOST_FIXED_ROWS), ({"shop": [texts[0], texts[8]]}, 3):
        sizes.clear()
        result = found(folder, pa.table(wanted))
        assert result is not None
        assert (result["shop"].to_pylist(), sizes) == ([texts[0], texts[8]], [looked_at, 3])


@pytest.mark.parametrize("name", ["mean", "ratio"])
def test_spark_finds_floating_point_numbers(tmp_path, name):
    """I1: it takes 0.0 and -0.0 for equal."""
    kind = "double" if name == "mean" else "float"
    folder = table_of(tmp_path, pa.table({name: pa.array([0.0])}), fields=[field(name, kind)])
    assert found(folder, pa.table({name: [-0.0]})) is None


LONG = pa.array([1], pa.int64())


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(pa.table({"m": LONG}), id="another name"),
        pytest.param(pa.table({"N": LONG}), id="another case"),
        pytest.param(pa.table({"n": LONG.cast(pa.int32())}), id="another type"),
        pytest.param(pa.table([LONG, LONG], ["n", "n"]), id="two of a name"),
    ],
)
def test_spark_reads_files_with_other_columns(tmp_path, stored):
    assert found(table_of(tmp_path, stored, fields=[field("n")]), pa.table({"n": LONG})) is None


@pytest.mark.parametrize(
    ("said", "is_left"),
    [
        ({"org.apache.spark.version": "2.4.8"}, True),
        ({"org.apache.spark.version": "4.1.0"}, False),
        ({"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""}, True),
        ({"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyINT96": ""}, True),
        ({}, False),
    ],
)
@pytest.mark.parametrize("has_days", [True, False])
def test_spark_reads_days_of_another_calendar(tmp_path, said, is_left, has_days):
    """I1: an adopted view may have files of an old Spark."""
    rows = pa.table({"n": LONG, **({"on": pa.array([dt.date(1500, 1, 1)])} if has_days else {})})
    fields = [field("n"), *([field("on", "date")] if has_days else [])]
    folder = table_of(tmp_path, rows.replace_schema_metadata(said), fields=fields)
    assert (found(folder, pa.table({"n": LONG})) is None) is (is_left and has_days)


def test_instants_in_an_old_notation_are_instants(tmp_path):
    at = dt.datetime(1500, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC)
    stored = pa.table({"at": pa.array([at], pa.timestamp("us", "UTC"))})
    folder = table_of(
        tmp_path, stored, fields=[field("at", "timestamp")], use_deprecated_int96_timestamps=True, store_schema=False
    )
    assert pq.ParquetFile(folder / FILE).schema.column(0).physical_type == "INT96"
    result = found(folder, pa.table({"at": pa.array([at], pa.timestamp("us", "Europe/Berlin"))}))
    assert result is not None
    assert result["at"].to_pylist() == [at]


def test_spark_reads_what_is_damaged_or_elsewhere(tmp_path):
    """I6: it says what is wrong with a file."""
    folder = table_of(tmp_path, of(*ROWS))
    wanted = pa.table({"n": LONG})
    write_actions(
        folder,
        2,
        {
            "add": {
                "path": "/else/x.parquet",
                "partitionValues": {},
                "size": 1,
                "modificationTime": 0,
                "dataChange": True,
            }
        },
    )
    assert rows_by_value(str(folder), 2, open_plain(str(folder)), wanted, PLACES) is None
    (folder / FILE).write_bytes(b"PAR1")
    assert found(folder, wanted) is None
    (folder / FILE).unlink()
    assert found(folder, wanted) is None


def test_many_rows_are_left_to_spark(tmp_path, monkeypatch):
    """A unit may have any number of rows."""
    folder = table_of(tmp_path, of(*itertools.islice(itertools.cycle(ROWS), 50)))
    wanted = pa.table({"shop": ["a"]})
    assert found(folder, wanted) is not None
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    assert found(folder, wanted) is None


def test_hidden_rows_are_decoded_of_files_with_wanted_rows_alone(tmp_path, monkeypatch):
    """Those of a view with a long life are many, and all of its files have some."""
    folder = table_of(tmp_path, of(*ROWS), of((9, "z", None, None)), hidden={FILE: {0}, OTHER: {7}})
    decoded: list[object] = []

    def noted(table, vector):
        decoded.append(vector["cardinality"])
        return hidden_rows(table, vector)

    monkeypatch.setattr(deletion_vectors, "hidden_rows", noted)
    result = found(folder, pa.table({"n": [9]}))
    assert result is not None
    assert (result.num_rows, decoded) == (1, [1])
    monkeypatch.setattr(deletion_vectors, "_MOST_HIDDEN", 0)
    assert found(folder, pa.table({"n": [9]})) is None


def test_nothing_is_wanted_of_all_rows(tmp_path):
    """Spark computes views that are one group."""
    assert found(table_of(tmp_path, of(*ROWS)), pa.table({})) is None
