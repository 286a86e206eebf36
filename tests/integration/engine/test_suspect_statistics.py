"""
Wrong statistics, names and schemas of files in the upstream's log never hide a row.

The upstreams are written by delta-rs or by hand, so Spark sees their logs for the first time when a job is created.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from airflow_backfill_provider.core.errors import MissingRowsError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder
from airflow_backfill_provider.jobs import creation, mutations
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.lake.tables import rows_in_ranges
from airflow_backfill_provider.spark import predicates
from tests.integration.engine.lakehouse import CHANGE_DATA_FEED, Lakehouse
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

Statistics = dict[str, Any]


def write(lakehouse: Lakehouse, *files: dict[str, pa.Array]) -> None:
    """Write each of some files in a separate commit, by delta-rs."""
    for columns in files:
        write_deltalake(lakehouse.upstream_path, pa.table(columns), mode="append", configuration=CHANGE_DATA_FEED)


def restate(lakehouse: Lakehouse, edit: Callable[[Statistics], Statistics | None], *, version: int = 0) -> None:
    """Edit the statistics of the files in a commit."""
    commit = Path(lakehouse.upstream_path, "_delta_log", f"{version:020d}.json")
    actions = [json.loads(line) for line in commit.read_text(encoding="utf-8").splitlines()]
    for action in actions:
        if "add" in action:
            edited = edit(json.loads(action["add"]["stats"]))
            action["add"]["stats"] = None if edited is None else json.dumps(edited)
    commit.write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")


def bounds(low: int, high: int) -> Callable[[Statistics], Statistics]:
    """Return an edit that gives the key other bounds."""
    return lambda found: {
        **found,
        "minValues": {**found["minValues"], "id": low},
        "maxValues": {**found["maxValues"], "id": high},
    }


def numbers(first: int, last: int) -> dict[str, pa.Array]:
    return {"id": pa.array(range(first, last + 1), pa.int64()), "amount": pa.array(range(first, last + 1), pa.int64())}


def ids(lakehouse: Lakehouse, column: str = "id") -> list[Any]:
    return sorted(row[column] for row in lakehouse.view().select(quote(column)).collect())


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        exhaustive(pa.decimal128(20, 0), [Decimal(5 * 10**19) + 7 * step for step in range(-20, 20)], name="whole"),
        pytest.param(pa.decimal128(38, 18), [Decimal(1) + Decimal(step).scaleb(-18) for step in range(40)], id="long"),
        exhaustive(
            pa.decimal128(18, 4),
            [Decimal("95759157456403.5008") + Decimal(step).scaleb(-4) for step in range(40)],
            name="short",
        ),
    ],
)
def test_rounded_bounds_of_decimals_hide_no_row(
    lakehouse: Lakehouse, type_: pa.DataType, values: list[Decimal]
) -> None:
    """
    I1: delta-rs writes them as floats, of whole numbers as much as fits into 64 bits.

    Epochs would find a hidden row by counting, so the conditions on the key are tried by themselves, too.
    """
    write(lakehouse, *({"id": pa.array(values[start::4], type_)} for start in range(4)))
    order = KeyOrder((KeyField(name="id", type=f"decimal({type_.precision},{type_.scale})"),))
    upstream = lakehouse.spark.read.format("delta").load(lakehouse.upstream_path)
    for number in (0, 11, 38):
        value = (sorted(values)[number],)
        assert upstream.filter(predicates.at_or_before(order, value)).count() == number + 1
        assert upstream.filter(predicates.after(order, value)).count() == 39 - number
    lakehouse.create(rate_limit=11, strategy="no_shuffle")
    commits = lakehouse.finish()
    assert ids(lakehouse) == sorted(values)
    assert [commit.snapshot_read_row_count for commit in commits] == [11, 11, 11, 7]


@pytest.mark.exhaustive
@pytest.mark.parametrize("declared", [(1, 5), (6, 10), (3, 3)])
def test_a_file_with_wrong_bounds_loses_no_row(lakehouse: Lakehouse, declared: tuple[int, int]) -> None:
    """I1, I6: rows that statistics keep out of their own chunk are found by counting, and read all the same."""
    write(lakehouse, numbers(1, 10))
    restate(lakehouse, bounds(*declared))
    lakehouse.create(rate_limit=5, strategy="no_shuffle")
    commits = lakehouse.finish()
    assert ids(lakehouse) == [*range(1, 11)]
    assert commits[-1].rows_present == 10


def test_rows_that_earlier_epochs_missed_keep_the_view_from_being_finished(
    lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I6: a row below its file's bounds, which its chunk left out, in a table that is too large to read all keys."""
    monkeypatch.setattr(rows_in_ranges, "FEW_ROWS", 0)
    write(lakehouse, numbers(1, 10), {**numbers(11, 20), "id": pa.array([5_000, *range(12, 21)], pa.int64())})
    restate(lakehouse, bounds(11, 6_000), version=1)
    write(lakehouse, {**numbers(1, 1), "id": pa.array([0], pa.int64())})
    restate(lakehouse, bounds(100, 200), version=2)
    lakehouse.create(rate_limit=10, strategy="no_shuffle")
    with pytest.raises(MissingRowsError, match="1 row .* statistics"):
        lakehouse.finish()
    status = lakehouse.backfill.status()
    assert (status.finished, 0 in ids(lakehouse)) == (False, False)
    # This helps: write all rows again, read or not.
    mutations.repair_job(store=lakehouse.backfill.store, requested_by="tester", vnodes=["0-3"])
    lakehouse.finish()
    assert ids(lakehouse) == [0, *range(1, 11), *range(12, 21), 5_000]
    status = lakehouse.backfill.status()
    assert status.finished
    assert (status.rows_read, status.rows_estimated) == (21, 21), "the row that only the repair found counts as read"


@pytest.mark.exhaustive
def test_bounds_of_restricted_keys_and_of_a_repair_hide_no_row(lakehouse: Lakehouse) -> None:
    write(lakehouse, numbers(1, 10))
    restate(lakehouse, bounds(1, 2))
    lakehouse.create(rate_limit=3, strategy="no_shuffle", restrict_to={"keys": {"after": [4], "up_to": [9]}})
    lakehouse.finish()
    assert ids(lakehouse) == [*range(5, 10)]
    mutations.repair_job(store=lakehouse.backfill.store, requested_by="tester", vnodes=["0-3"])
    lakehouse.finish()
    assert ids(lakehouse) == [*range(5, 10)]
    mutations.repair_job(store=lakehouse.backfill.store, requested_by="tester", keys=[[8]])
    lakehouse.finish()
    assert ids(lakehouse) == [*range(5, 10)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("strategy", ["no_shuffle", "arrangement"])
def test_wrong_statistics_of_a_column_that_the_query_filters_by_hide_no_row(
    lakehouse: Lakehouse, strategy: str
) -> None:
    """I1: neither from the view, nor from a repair, nor from a verification."""
    write(lakehouse, numbers(1, 10))
    restate(lakehouse, lambda found: {**found, "nullCount": {"id": 0, "amount": 10}})
    write(lakehouse, numbers(11, 20))
    restate(lakehouse, lambda found: {**found, "maxValues": {**found["maxValues"], "amount": 12}}, version=1)
    lakehouse.create(rate_limit=7, strategy=strategy, query="SELECT id FROM upstream WHERE amount > 4 AND amount <> 15")
    lakehouse.finish()
    expected = [number for number in range(5, 21) if number != 15]
    assert ids(lakehouse) == expected
    lakehouse.sql("DELETE FROM {view} WHERE id > 5")
    assert not verifier.compare_now(lakehouse.backfill, lakehouse.engine).equal
    mutations.repair_job(store=lakehouse.backfill.store, requested_by="tester", vnodes=["0-3"])
    lakehouse.finish()
    assert ids(lakehouse) == expected
    lakehouse.assert_truth()


def test_no_statistics_hide_a_row_from_groups_that_are_computed_anew(lakehouse: Lakehouse) -> None:
    """
    I1: in a file whose only value is -0.0, Spark finds no 0.0, although both are equal.

    Neither may bounds in the log that are wrong.
    """
    kept = {"id": pa.array([1, 2], pa.int64()), "shop": ["a", "b"], "x": pa.array([-0.0, -0.0], pa.float32())}
    write(lakehouse, kept, {"id": pa.array([3], pa.int64()), "shop": ["a"], "x": pa.array([0.0], pa.float32())})
    query = "SELECT shop, median(id) AS m, count(*) AS n FROM upstream WHERE x = 0.0 GROUP BY shop"
    lakehouse.create(query=query)
    lakehouse.finish()
    write(lakehouse, {"id": pa.array([4, 5], pa.int64()), "shop": ["a", "b"], "x": pa.array([0.0, 0.0], pa.float32())})
    lakehouse.epoch()
    assert {(row["shop"], row["n"]) for row in lakehouse.view().collect()} == {("a", 3), ("b", 2)}
    mutations.repair_job(store=lakehouse.backfill.store, vnodes=["0-3"], requested_by="tester")
    lakehouse.epoch()
    assert {(row["shop"], row["n"]) for row in lakehouse.view().collect()} == {("a", 3), ("b", 2)}


@pytest.mark.exhaustive
def test_no_statistics_hide_a_row_from_a_view_that_is_computed_whole(lakehouse: Lakehouse) -> None:
    """I1: likewise, in each epoch after the first."""
    write(lakehouse, {"id": pa.array([1], pa.int64()), "x": pa.array([-0.0], pa.float32())})
    lakehouse.create(
        query="SELECT id, row_number() OVER (ORDER BY id) AS n FROM upstream WHERE x = 0.0", refresh="full"
    )
    lakehouse.finish()
    write(lakehouse, {"id": pa.array([2], pa.int64()), "x": pa.array([0.0], pa.float32())})
    lakehouse.epoch()
    assert ids(lakehouse) == [1, 2]


def test_changes_to_nan_reach_groups(lakehouse: Lakehouse) -> None:
    """I1: Spark keeps bounds of rows that it keeps, without their NaN, and skips what lies outside of them."""
    lakehouse.make_upstream("id BIGINT, shop STRING, x DOUBLE")
    lakehouse.change("INSERT INTO {upstream} SELECT id, 'a', id FROM range(9)")
    query = "SELECT shop, median(id) AS m, count(*) AS n FROM {upstream} WHERE x > 5 GROUP BY shop"
    lakehouse.create(query=query.format(upstream="upstream"))
    lakehouse.finish()
    lakehouse.change("INSERT INTO {upstream} SELECT 10 + id, 'b', double('NaN') FROM range(3)")
    lakehouse.epoch()
    lakehouse.assert_equals_query(query)
    lakehouse.change("UPDATE {upstream} SET shop = 'c', x = double('NaN') WHERE id = 8")
    lakehouse.epoch()
    lakehouse.assert_equals_query(query)
    lakehouse.change("UPDATE {upstream} SET x = 0 WHERE isnan(x)")
    lakehouse.epoch()
    lakehouse.assert_equals_query(query)


@pytest.mark.parametrize("deletion_vectors", ["true", exhaustive("false", name="false")])
def test_changes_to_nan_reach_rows(lakehouse: Lakehouse, deletion_vectors: str) -> None:
    """I1: likewise, whether rows of the view are replaced at their places or merged."""
    lakehouse.make_upstream("id BIGINT, x DOUBLE")
    lakehouse.change("INSERT INTO {upstream} SELECT id, id FROM range(9)")
    query = "SELECT id, x FROM {upstream} WHERE x > 5"
    properties = {"delta.enableDeletionVectors": deletion_vectors}
    lakehouse.create(query=query.format(upstream="upstream"), table_properties=properties)
    lakehouse.finish()
    lakehouse.change("UPDATE {upstream} SET x = double('NaN') WHERE id IN (0, 8)")
    lakehouse.epoch()
    lakehouse.assert_equals_query(query)
    lakehouse.change("UPDATE {upstream} SET x = 0 WHERE isnan(x)")
    lakehouse.epoch()
    lakehouse.assert_equals_query(query)


def test_no_statistics_hide_rows_that_a_dimension_affects(lakehouse: Lakehouse) -> None:
    """I1: the log says that no row of the lead has a customer."""
    write(lakehouse, {"id": pa.array([1, 2], pa.int64()), "customer": pa.array([7, 8], pa.int64())})
    restate(lakehouse, lambda found: {**found, "nullCount": {"id": 0, "customer": 2}})
    customers = f"{lakehouse.folder}/customers"
    names = {"id": pa.array([7, 8], pa.int64()), "name": ["ann", "bob"]}
    write_deltalake(customers, pa.table(names), configuration=CHANGE_DATA_FEED)
    lakehouse.job = BackfillJob(
        name="orders_view",
        upstreams={
            "orders": {"path": lakehouse.upstream_path, "key": ["id"]},
            "customers": {"path": customers, "key": ["id"]},
        },
        materialized_view=lakehouse.view_path,
        query="SELECT o.id, c.name FROM orders AS o JOIN customers AS c ON c.id = o.customer",
        vnode_count=4,
    )
    lakehouse.start_job(creation.create_job, lakehouse.backfill)
    lakehouse.finish()
    assert {tuple(row) for row in lakehouse.view().select("id", "name").collect()} == {(1, "ann"), (2, "bob")}
    lakehouse.sql(f"UPDATE delta.{quote(customers)} SET name = 'eve' WHERE id = 7")
    lakehouse.epoch()
    assert {tuple(row) for row in lakehouse.view().select("id", "name").collect()} == {(1, "eve"), (2, "bob")}


@pytest.mark.exhaustive
def test_an_arrangement_of_keys_with_wrong_bounds_is_refused_or_whole(lakehouse: Lakehouse) -> None:
    write(lakehouse, numbers(1, 10))
    restate(lakehouse, bounds(1, 2))
    lakehouse.create(rate_limit=3, strategy="arrangement", restrict_to={"keys": {"after": [4]}})
    lakehouse.finish()
    assert ids(lakehouse) == [*range(5, 11)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("records", [5, 10_000, None])
def test_wrong_numbers_of_rows_decide_nothing(lakehouse: Lakehouse, records: int | None) -> None:
    """A wrong count in the log is no reason to refuse rows that were all read."""
    write(lakehouse, numbers(1, 10), numbers(11, 20))
    restate(lakehouse, lambda found: {**found, "numRecords": records})
    lakehouse.create(rate_limit=6, strategy="no_shuffle")
    lakehouse.finish()
    assert ids(lakehouse) == [*range(1, 21)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("statistics", [exhaustive(True), False], ids=["statistics", "none"])
def test_a_key_column_in_another_case_in_the_files(lakehouse: Lakehouse, statistics: bool) -> None:
    """I1: files that were there before the table was made of them, beside those that Spark wrote."""
    folder = Path(lakehouse.upstream_path)
    folder.mkdir()
    for number, name in enumerate(("ID", "id")):
        rows = numbers(1 + 10 * number, 10 + 10 * number)
        pq.write_table(pa.table({name: rows["id"], "amount": rows["amount"]}), folder / f"{number}.parquet")
    without = "" if statistics else " NO STATISTICS"
    parquet = f"parquet.{quote(lakehouse.upstream_path)}"
    schema = lakehouse.spark.read.schema("id BIGINT, amount BIGINT").parquet(lakehouse.upstream_path).schema
    assert schema.names == ["id", "amount"]
    lakehouse.sql(f"CONVERT TO DELTA {parquet}{without}")
    lakehouse.sql("ALTER TABLE {upstream} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    name = next(name for name in lakehouse.sql("SELECT * FROM {upstream}").columns if name.lower() == "id")
    lakehouse.create(rate_limit=7, strategy="no_shuffle", key=[name])
    lakehouse.epoch()
    lakehouse.sql("INSERT INTO {upstream} SELECT id, id FROM range(21, 25)")
    commits = lakehouse.finish()
    assert ids(lakehouse, name) == [*range(1, 25)]
    assert all(commit.snapshot_read_row_count for commit in commits)


@pytest.mark.exhaustive
def test_a_key_of_a_table_that_maps_its_columns_by_id(lakehouse: Lakehouse) -> None:
    properties = {**CHANGE_DATA_FEED, "delta.columnMapping.mode": "id"}
    lakehouse.make_upstream("id BIGINT, amount BIGINT", properties)
    lakehouse.sql("INSERT INTO {upstream} SELECT id, id FROM range(1, 21)")
    lakehouse.sql("ALTER TABLE {upstream} RENAME COLUMN id TO number")
    lakehouse.sql("ALTER TABLE {upstream} RENAME COLUMN amount TO id")
    lakehouse.create(rate_limit=7, strategy="no_shuffle", key=["number"])
    lakehouse.finish()
    assert ids(lakehouse, "number") == [*range(1, 21)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("strategy", ["no_shuffle", exhaustive("arrangement")])
def test_statistics_in_files_of_a_field_are_not_those_of_a_column_of_its_path(
    lakehouse: Lakehouse, strategy: str
) -> None:
    """Spark and Parquet mix up the column `a.b` and the field b of the column a."""
    structs = pa.array([{"a": 1, "b": None if n % 3 else f"text {n}"} for n in range(10)])
    keys = pa.array([n * 7 % 10 for n in range(10)], pa.int64())
    folder = Path(lakehouse.upstream_path)
    folder.mkdir()
    pq.write_table(pa.table({"a.b": keys, "a": structs}), folder / "old.parquet")
    lakehouse.spark.sql(f"CONVERT TO DELTA parquet.{quote(str(folder))} NO STATISTICS")
    lakehouse.sql("ALTER TABLE {upstream} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    lakehouse.create(key=["a.b"], rate_limit=3, strategy=strategy)
    lakehouse.epoch()
    lakehouse.sql("UPDATE {upstream} SET a = named_struct('a', 2L, 'b', 'changed') WHERE `a.b` % 5 = 0")
    commits = lakehouse.finish()
    assert sum(commit.snapshot_read_row_count for commit in commits) == 7
    lakehouse.assert_equals_query("SELECT * FROM {upstream}")


@pytest.mark.exhaustive
@pytest.mark.parametrize("indexed", [exhaustive(32), 0])
def test_a_key_beside_a_struct_of_the_same_path(lakehouse: Lakehouse, indexed: int) -> None:
    properties = {**CHANGE_DATA_FEED, "delta.dataSkippingNumIndexedCols": str(indexed)}
    lakehouse.make_upstream("a STRUCT<b: BIGINT>, `a.b` BIGINT, id BIGINT", properties)
    lakehouse.sql("INSERT INTO {upstream} SELECT named_struct('b', 100 - id), id, id FROM range(1, 21)")
    lakehouse.create(
        rate_limit=6, strategy="no_shuffle", key=["a.b"], query="SELECT `a.b` AS number, a.b FROM upstream"
    )
    lakehouse.epoch()
    lakehouse.sql("UPDATE {upstream} SET a = named_struct('b', 7L) WHERE id < 3")
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT `a.b` AS number, a.b FROM {upstream}")
