"""The net changes of a window, flag by flag, for a history with one kind of change after the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.errors import DuplicateKeyError
from airflow_backfill_provider.core.scan.columns import OwnColumns
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyField, KeyOrder
from airflow_backfill_provider.core.scan.scan import by_vnode
from airflow_backfill_provider.engine.repeated_keys import resolve_doubtful
from airflow_backfill_provider.sources.delta.reader import DeltaReader
from airflow_backfill_provider.sources.delta.versions import offset_of
from airflow_backfill_provider.spark.job_rows import JobRows
from airflow_backfill_provider.spark.net_changes import (
    MeasuredChanges,
    measure_changes,
    net_by_key,
    net_changes,
    old_images,
)
from tests.builders import write_table

pytestmark = pytest.mark.spark


def rows(*entries: tuple[int, str]) -> dict[str, pa.Array]:
    """Return rows with a key, the customer that a row's vnode comes from, and a name."""
    ids, customers = zip(*entries, strict=True)
    return {"id": pa.array(ids, pa.int64()), "customer": pa.array(customers), "name": pa.array(["n"] * len(ids))}


def happen(path: str) -> Iterator[object]:
    """Make one version after the other."""
    yield write_table(path, rows((10, "a")))
    yield DeltaTable(path).update({"name": "'x'"}, predicate="id = 1")
    yield DeltaTable(path).update({"customer": "'b'"}, predicate="id = 2")
    yield DeltaTable(path).delete("id = 3")
    yield write_table(path, rows((3, "a")))
    yield write_table(path, rows((4, "b")))
    yield write_table(path, rows((11, "a")))
    yield write_table(path, rows((11, "b")))
    yield write_table(path, rows((12, "a")))
    yield DeltaTable(path).delete("id = 12")
    yield DeltaTable(path).update({"id": "11 - id"}, predicate="id IN (5, 6)")


NET = {
    # key and customer: is it there, did the row appear, did the key, was the key there twice, and rows added
    (10, "a"): (True, True, True, False, 1),
    (1, "a"): (True, False, False, False, 0),
    (2, "a"): (False, False, False, False, -1),
    (2, "b"): (True, True, False, False, 1),
    (3, "a"): (True, False, False, False, 0),
    (4, "b"): (True, True, True, False, 1),
    (11, "a"): (True, True, True, True, 1),
    (11, "b"): (True, True, True, True, 1),
    (12, "a"): (False, True, True, False, 0),
    (5, "a"): (True, False, False, False, 0),
    (6, "a"): (True, False, False, False, 0),
}


def job_rows(spark: SparkSession, path: str) -> JobRows:
    """Return the rows of a job that has a position for each vnode."""
    return JobRows(
        location=path,
        reader=DeltaReader(spark, path),
        types={"id": "long", "customer": "string", "name": "string"},
        key=KeyOrder((KeyField(name="id", type="long"),)),
        scan=by_vnode(KeyOrder((KeyField(name="id", type="long"),)), OwnColumns()),
        distribution_key=["customer"],
        vnode_count=1000,
        vnodes=frozenset(range(1000)),
        keys=EVERYTHING,
    )


def test_what_is_left_of_each_change_and_what_it_was_before(spark: SparkSession, lake: Path) -> None:
    """
    Per vnode and key, then per key; and the flags of a key that does not identify its rows (I6).

    See docs/concepts/rules.md#changes-are-netted-by-key.
    """
    path = str(lake / "orders")
    write_table(path, rows(*((number, "a") for number in range(1, 5))))
    # In a separate file: where keys change, deltalake rewrites the whole file, and the feed has each of its rows.
    write_table(path, rows((5, "a"), (6, "a")))
    for _ in happen(path):
        pass
    newest = offset_of(DeltaTable(path).version())
    source = job_rows(spark, path)
    net = net_changes(source, offset_of(1), newest, F.lit(True)).persist()
    flags = ("__is_upsert", "__appeared", "__key_appeared", "__has_double", "__rows_added")
    found = net.collect()
    assert {(row["id"], row["customer"]): tuple(row[flag] for flag in flags) for row in found} == NET
    assert len(found) == len(NET)
    assert {row["name"] for row in found if row["id"] == 1} == {"x"}

    assert measure_changes(source, net, F.lit(True)).some_doubtful
    with pytest.raises(DuplicateKeyError):
        resolve_doubtful(source, net, newest)
    sound = net.filter("NOT __has_double")
    assert measure_changes(source, sound, F.col("id") < 5) == MeasuredChanges(
        5, 4, 1, some_appeared=True, some_doubtful=False, has_nulls=(False,), key_bytes=0, value_bytes=9
    )
    by_key = {row["id"]: row for row in net_by_key(source, sound).collect()}
    assert {number: (row["__is_upsert"], row["__appeared"]) for number, row in by_key.items()} == {
        **dict.fromkeys((1, 2, 3, 5, 6), (True, False)),
        **dict.fromkeys((4, 10), (True, True)),
        12: (False, True),
    }
    assert (by_key[2]["customer"], len(by_key)) == ("b", 8)
    net.unpersist()

    # docs/concepts/changes.md: the image at the window's begin, which is the one before the first change.
    with_old = net_changes(source, offset_of(1), newest, F.lit(True), source.columns)
    old = old_images(source, with_old).collect()
    before = {(number, "a"): "n" for number in (1, 2, 3, 5, 6)}
    assert {(row["id"], row["customer"]): row["name"] for row in old} == before


def test_old_images_cost_no_shuffle_and_no_scan_and_nothing_where_nobody_needs_them(
    spark: SparkSession, lake: Path
) -> None:
    """Both images come out of one pass; the plan of a view of rows has nothing of the old one."""
    path = str(lake / "orders")
    write_table(path, rows((1, "a"), (2, "a")))
    DeltaTable(path).update({"name": "'x'"}, predicate="id = 1")
    source = job_rows(spark, path)
    plain, with_old = (
        net_changes(source, offset_of(0), offset_of(1), F.lit(True), columns) for columns in (None, ("name",))
    )
    plans = [net._jdf.queryExecution().executedPlan().toString() for net in (plain, with_old)]
    work = [[plan.count(node) for node in ("Exchange", "Sort", "Window", "Scan")] for plan in plans]
    assert work[0] == work[1]
    assert set(with_old.columns) - set(plain.columns) == {"__old"}
    assert "__old" not in plans[0]
    assert [tuple(row) for row in old_images(source, with_old).collect()] == [("n",)]
