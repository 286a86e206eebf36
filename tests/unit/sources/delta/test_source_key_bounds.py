"""The bounds of the keys in a Delta table's data files, and the exact keys in them."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from airflow_backfill_provider.core.errors import (
    UpstreamError,
)
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyField, KeyOrder, KeyRange
from airflow_backfill_provider.lake.files.key_index import arrow_type
from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.builders import (
    commit_file,
    in_order,
    order_of,
    write_table,
)
from tests.unit.sources.delta.delta_tables import order_by

VALUES = {
    "byte": [-128, 127, 0],
    "short": [-32768, 5],
    "integer": [-(2**31), 2**31 - 1],
    "long": [-(2**63), 2**63 - 1, 2**53 + 1],
    "string": ["a", "ä", "\U00010000", "\ufffd", "x" * 31 + "é", "x" * 200 + "z", "\U0010ffff" * 40],
    "decimal(5,3)": [Decimal("-99.999"), Decimal("0.001")],
    "decimal(15,2)": [Decimal("-9999999999999.99"), Decimal("9999999999999.98")],
    "date": [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)],
    "timestamp": [
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC),
        dt.datetime(2024, 2, 29, 0, 0, 0, 1999, dt.UTC),
        dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    ],
    "timestamp_ntz": [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 3, 31, 2, 30, 0, 1001)],
    "binary": [b"", b"\x00", b"\xff"],
    "boolean": [True, False],
}


def assert_bounds_hold_all_keys(table, order, keys_by_file):
    """Statistics are hints: a bound may be wide, but no key may lie outside of it."""
    files, index = table.files_at(offset_of(table.latest().number)).statistics(order)
    assert len(files) == len(keys_by_file)
    found = []
    for file in files:
        keys = [index.nth([file], EVERYTHING, n) for n in range(1, file.row_count + 1)]
        assert index.nth([file], EVERYTHING, file.row_count + 1) is None
        for key in keys:
            assert order.compare(file.lower, key) <= 0
            assert order.compare(key, file.upper) <= 0
        found.append([order.encode(key) for key in keys])
    in_file = [in_order([(value,) for value in keys], order) for keys in keys_by_file]
    assert sorted(found, key=str) == sorted(([order.encode(key) for key in keys] for keys in in_file), key=str)


@pytest.mark.slow
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    "kind",
    [*VALUES, "decimal(20,2)", "decimal(38,0)"],
)
def test_no_key_of_any_type_lies_outside_of_its_files_bounds(tmp_path, kind, descending):
    """A bound that is too narrow lets a chunk exceed its rate limit."""
    values = VALUES | {
        "decimal(20,2)": [Decimal("1234567890123456.82"), Decimal("1234567890123456.80")],
        "decimal(38,0)": [Decimal("9" * 38), Decimal(1)],
    }
    order = order_of((kind, descending))
    columns = [values[kind], values[kind][:1], [None, *values[kind][1:]], [None, None]]
    for column in columns:
        table = write_table(tmp_path / "t", {"k1": pa.array(column, arrow_type(order.fields[0]))})
    assert table.at().types["k1"] == kind
    assert_bounds_hold_all_keys(table, order, columns)


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_the_last_instant_is_a_key_like_any_other(tmp_path, kind):
    """9999-12-31 23:59:59.999 is what many systems write for `forever`."""
    order = order_of(kind)
    forever = dt.datetime(9999, 12, 31, 23, 59, 59, 999000, dt.UTC if kind == "timestamp" else None)
    table = write_table(tmp_path / "t", {"k1": pa.array([forever], arrow_type(order.fields[0]))})
    assert_bounds_hold_all_keys(table, order, [[forever]])


def test_a_missing_statistic_leaves_the_rest_of_a_bound_open(tmp_path):
    """Design: the statistics of the leading columns are used up to the first one that is missing."""
    columns = {"a": pa.array([1, 2]), "b": pa.array([b"x", b"y"]), "c": pa.array([3, 4])}
    order = KeyOrder(
        (
            KeyField(name="a", type="long"),
            KeyField(name="b", type="binary"),
            KeyField(name="c", type="long", descending=True),
        )
    )
    files, index = write_table(tmp_path / "t", columns).files_at(offset_of(0)).statistics(order)
    assert (files[0].lower, files[0].upper) == ((1,), (2,))
    assert index.nth(files, EVERYTHING, 2) == (2, b"y", 4)


def test_files_without_statistics_have_no_bounds_and_are_counted_by_their_footer(tmp_path):
    table = write_table(tmp_path / "t", {"k": pa.array([3, 1, 2])})
    file = commit_file(table.location, 0)
    actions = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    file.write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")
    files, index = table.files_at(offset_of(0)).statistics(order_by("k"))
    assert (files[0].row_count, files[0].lower, files[0].upper) == (3, (), ())
    assert index.nth(files, EVERYTHING, 1) == (1,)


NAMES = [
    "order id",
    "a.b",
    'quo"te',
    "it's",
    "back`tick",
    "ünï",
    "UPPER",
    "a,b;c",
    "{x}",
    "a%b",
    "a/b",
    "a=b",
    "select",
]


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_key_column_may_have_any_name(tmp_path, name, partitioned):
    table = write_table(
        tmp_path / "t",
        {name: pa.array([3, 1, 2, None]), "other": pa.array([0, 0, 0, 0])},
        partition_by=[name] if partitioned else None,
    )
    order = order_by(name)
    files, index = table.files_at(offset_of(0)).statistics(order)
    assert [index.nth(files, EVERYTHING, n) for n in range(1, 5)] == [(None,), (1,), (2,), (3,)]
    lowers = sorted((file.lower for file in files), key=str)
    assert lowers == ([(1,), (2,), (3,), (None,)] if partitioned else [(None,)])


def test_a_column_named_like_anothers_path_is_not_mixed_up_with_it(tmp_path):
    table = write_table(
        tmp_path / "t", {"a": pa.array([{"b": 1}, {"b": 2}]), "a.b": pa.array([30, 40]), "b": pa.array([5, 6])}
    )
    files, index = table.files_at(offset_of(0)).statistics(order_by("b"))
    assert (files[0].lower, index.nth(files, EVERYTHING, 2)) == ((5,), (6,))


PARTITION_VALUES = {
    "string": ["a b", "a/b", "a%b", "%20", "a=b", "ünï", "'", '"', "`", "a:b", "#", "?", "+", " ", "x\ny", "\\", "*"],
    "integer": [-5, 0, 7],
    "long": [-(2**63), 2**63 - 1],
    "date": [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    "timestamp": [dt.datetime(2024, 1, 1, 0, 0, 0, 999999, dt.UTC), dt.datetime(1969, 12, 31, 23, 0, tzinfo=dt.UTC)],
    "timestamp_ntz": [dt.datetime(2024, 3, 31, 2, 30, 0, 1)],
    "boolean": [True, False],
    "decimal(20,2)": [Decimal("123456789012345678.99")],
}


@pytest.mark.parametrize("kind", PARTITION_VALUES)
def test_a_partition_column_may_be_the_key(tmp_path, kind):
    order = order_of(kind)
    values = [*PARTITION_VALUES[kind], None]
    table = write_table(
        tmp_path / "t",
        {"k1": pa.array(values, arrow_type(order.fields[0])), "other": pa.array(range(len(values)))},
        partition_by=["k1"],
    )
    assert_bounds_hold_all_keys(table, order, [[value] for value in values])
    files, _ = table.files_at(offset_of(0)).statistics(order)
    assert all(file.lower == file.upper for file in files), "a partition's value is exact"


def test_a_partition_column_may_be_part_of_the_key(tmp_path):
    table = write_table(
        tmp_path / "t",
        {"region": pa.array(["b", "a", None, "a"]), "id": pa.array([1, 2, 3, 4])},
        partition_by=["region"],
    )
    order = KeyOrder((KeyField(name="id", type="long", descending=True), KeyField(name="region", type="string")))
    files, index = table.files_at(offset_of(0)).statistics(order)
    assert [index.nth(files, EVERYTHING, n) for n in (1, 2, 3, 4)] == [(4, "a"), (3, None), (2, "a"), (1, "b")]
    assert index.nth(files, KeyRange((3, None), None), 1) == (2, "a")
    assert sorted(str((file.lower, file.upper)) for file in files) == [
        "((1, 'b'), (1, 'b'))",
        "((3, None), (3, None))",
        "((4, 'a'), (2, 'a'))",
    ]


@pytest.mark.parametrize("root", ["file:///elsewhere", "file:/elsewhere", "/elsewhere", "s3a://bucket/elsewhere"])
@pytest.mark.parametrize("logs_rows", [True, False])
def test_a_shallow_clone_is_refused(tmp_path, orders, root, logs_rows):
    """I6: its data files belong to another table, which may vacuum them; whatever is asked first says so."""
    orders.add(1)
    file = commit_file(orders.path, 0)
    actions = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["path"] = f"{root}/{action['add']['path']}"
            if not logs_rows:
                del action["add"]["stats"]
    file.write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")
    files = orders.table.files_at(offset_of(0))
    with pytest.raises(UpstreamError, match="shallow clone"):
        files.statistics(order_by("id"))
    with pytest.raises(UpstreamError, match="shallow clone"):
        files.row_count()


def test_a_file_with_null_keys_alone_begins_and_ends_with_them(tmp_path):
    table = write_table(tmp_path / "t", {"id": pa.array([None, None], pa.int64())})
    ((file,), _) = table.files_at(offset_of(0)).statistics(order_by("id"))
    assert (file.lower, file.upper) == ((None,), (None,))


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_a_files_last_instant_is_no_later_than_its_bound(tmp_path, kind):
    """Statistics have milliseconds only, so an instant may be later than its statistic."""
    last = dt.datetime(2024, 2, 29, 0, 0, 0, 1999, dt.UTC if kind == "timestamp" else None)
    order = order_of(kind)
    table = write_table(tmp_path / "t", {"k1": pa.array([last], arrow_type(order.fields[0]))})
    ((file,), _) = table.files_at(offset_of(0)).statistics(order)
    assert file.lower <= (last,) <= file.upper


def test_a_key_beyond_the_years_of_python_is_no_bound(tmp_path):
    """Spark knows later years. Other databases' ``infinity`` arrives as one of them."""
    days = pa.array([0, 2_932_897, None], pa.int32()).cast(pa.date32())
    order = KeyOrder((KeyField(name="day", type="date"),))
    table = write_table(tmp_path / "plain", {"day": days})
    ((file,), index) = table.files_at(offset_of(0)).statistics(order)
    assert (file.lower, file.upper) == ((None,), ())
    assert index.nth([file], EVERYTHING, 2) == (dt.date(1970, 1, 1),)
    with pytest.raises(
        UpstreamError, match="end at a key whose column 'day' has a value that cannot be stored as a position"
    ):
        index.nth([file], EVERYTHING, 3)
