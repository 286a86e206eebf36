"""Views of groups, joins and unions that keep former rows: what each epoch left, from its beginning to its end."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import LongType, StringType, StructField, StructType

from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.keep import Keep, ValidBy
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.jobs import creation, mutations
from airflow_backfill_provider.jobs.maintenance.forgetting import forget_keys
from airflow_backfill_provider.jobs.row_questions import why
from airflow_backfill_provider.sources.delta.versions import version_of
from airflow_backfill_provider.spark.former_rows import with_columns_of
from airflow_backfill_provider.spark.former_units import FormerUnits, contradicting_units
from docs.blocks import ROOT
from tests import former_units
from tests.dying import died
from tests.integration.engine.lakehouse import CHANGE_DATA_FEED, Lakehouse
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

COLUMNS = StructType([StructField("shop", StringType()), StructField("n", LongType())])
UNITS = ("a", "b", None)


def some_rows(chance: random.Random) -> Counter[tuple[Any, ...]]:
    """Return rows of some units, among them equal ones."""
    rows = [(unit, chance.choice([1, 2, None])) for unit in UNITS if chance.random() < 0.7 for _ in range(3)]
    return Counter(chance.sample(rows, chance.randint(0, len(rows))))


@pytest.mark.parametrize("keep", [Keep.HISTORY, Keep.DELETED])
@pytest.mark.parametrize("units", [("shop",), exhaustive((), name="the-whole-view")], ids=str)
def test_rows_that_equal_each_other_begin_and_end_one_by_one(
    spark: SparkSession, keep: Keep, units: tuple[str, ...]
) -> None:
    chance = random.Random(f"{keep} {units}")
    former = FormerUnits(keep, COLUMNS, units)
    schema = with_columns_of(COLUMNS, keep, ValidBy.EPOCH)
    view: list[Any] = []
    states = {}
    for epoch in range(1, 7):
        states[epoch] = some_rows(chance)
        old = [row for row in view if keep is Keep.DELETED or row._is_current]
        fresh = spark.createDataFrame([*states[epoch].elements()], COLUMNS)
        left = [row for row in view if row not in old]
        view = left + former.after(spark.createDataFrame(old, schema), fresh, F.lit(epoch).cast("bigint")).collect()
        found = Counter(((row.shop, row.n), *row[2:]) for row in view)
        assert found == (
            former_units.history_of(states)
            if keep is Keep.HISTORY
            else former_units.deleted_of(states, lambda row: row[: len(units)])
        )
    up_to = F.lit(6)
    kept = spark.createDataFrame(view, schema)
    assert contradicting_units(kept, keep, units, up_to).isEmpty()
    end = "_valid_to" if keep is Keep.HISTORY else "_deleted_at"
    assert not contradicting_units(kept.withColumn(end, F.lit(7).cast("bigint")), keep, units, up_to).isEmpty()


TABLES = {
    "orders": "id BIGINT, customer BIGINT, status STRING, amount BIGINT",
    "customers": "id BIGINT, name STRING",
}
GROUPS = "SELECT status, count(*) AS n, sum(amount) AS total FROM orders GROUP BY status"
TOP = "SELECT id, status, amount FROM orders QUALIFY row_number() OVER (PARTITION BY status ORDER BY amount, id) <= 2"
TOTAL = "SELECT count(*) AS n, max(amount) AS most FROM orders"
JOIN = "SELECT o.id, c.name FROM orders AS o JOIN customers AS c ON c.id = o.customer WHERE o.status <> 'open'"
LINES = "SELECT c.id, c.name, o.status FROM customers AS c LEFT JOIN orders AS o ON o.customer = c.id"
BY_NAME = (
    "SELECT c.name, sum(o.amount) AS total FROM orders AS o JOIN customers AS c ON c.id = o.customer GROUP BY c.name"
)
UNION = "SELECT status AS word FROM orders UNION ALL SELECT name FROM customers"


class Shop(Lakehouse):
    """Orders and customers that change at random, and a view over them."""

    chance = random.Random(0)

    def begin(self, query: str, **fields: Any) -> None:
        """Make the tables, with some rows, and create the job."""
        self.chance = random.Random(f"{query} {fields}")
        for name, columns in TABLES.items():
            properties = ", ".join(f"'{key}' = '{value}'" for key, value in CHANGE_DATA_FEED.items())
            self.spark.sql(f"CREATE TABLE {self.table(name)} ({columns}) USING delta TBLPROPERTIES ({properties})")
        self.write("INSERT INTO orders SELECT id, id % 5, concat('s', id % 3), id % 4 FROM range(20)")
        self.write("INSERT INTO customers SELECT id, concat('c', id % 3) FROM range(4)")
        self.query = query
        read = {name: {"path": f"{self.folder}/{name}", "key": ["id"]} for name in TABLES if name in query}
        if list(read) == ["orders"]:
            fields |= {"upstream": read["orders"], "query": query.replace("FROM orders", "FROM upstream")}
        else:
            fields |= {"upstreams": read, "query": query}
        self.job = BackfillJob(name="kept", materialized_view=self.view_path, vnode_count=4, **fields)
        self.start_job(creation.create_job, self.backfill)

    def table(self, name: str) -> str:
        return f"delta.{quote(f'{self.folder}/{name}')}"

    def write(self, statement: str) -> None:
        for name in TABLES:
            statement = statement.replace(f"{name} ", f"{self.table(name)} ")
        self.spark.sql(statement)

    def change(self, *statements: str) -> None:
        """Change some rows at random."""
        assert not statements
        some = f"id % {self.chance.randint(2, 5)} = {self.chance.randint(0, 1)}"
        fresh = self.chance.randint(100, 10**6)
        self.write(
            self.chance.choice(
                [
                    f"UPDATE orders SET status = 's{self.chance.randint(0, 3)}' WHERE {some}",
                    f"UPDATE orders SET customer = {self.chance.randint(0, 4)}, amount = amount + 1 WHERE {some}",
                    f"DELETE FROM orders WHERE {some} AND customer = {self.chance.randint(0, 4)}",
                    "DELETE FROM orders WHERE status = 's1'",
                    f"INSERT INTO orders VALUES ({fresh}, 1, 's1', 3), ({fresh + 1}, NULL, NULL, NULL)",
                    f"UPDATE customers SET name = 'c{self.chance.randint(0, 4)}' WHERE {some}",
                    f"DELETE FROM customers WHERE id = {self.chance.randint(0, 3)}",
                    f"INSERT INTO customers SELECT {fresh}, 'c1'",
                ]
            )
        )

    def rows(self) -> Counter[tuple[Any, ...]]:
        """Return what the query gives now, by Spark alone."""
        for name in TABLES:
            self.spark.read.format("delta").load(f"{self.folder}/{name}").createOrReplaceTempView(name)
        return Counter(map(tuple, self.spark.sql(self.query).collect()))

    def point(self) -> int:
        """Return what the view has of the newest epoch."""
        assert self.job is not None
        *_, newest = self.barriers()
        return newest.epoch if self.job.valid_by is ValidBy.EPOCH else version_of(newest.upstream.to_offset)

    def kept(self) -> Counter[tuple[Any, ...]]:
        """Return the view's rows, each with the columns of its past."""
        assert self.job is not None
        names = self.spark.sql(self.query).columns
        rows = self.view().select(*names, *self.job.keep.columns).collect()
        return Counter(((*row[: len(names)],), *row[len(names) :]) for row in rows)


@pytest.fixture
def shop(spark: SparkSession, lake: Path) -> Shop:
    return Shop(spark, lake)


SNAPSHOT = {"strategy": "snapshot"}
SOME_AT_A_TIME = {"rate_limit": 8, "visibility": "every_epoch"}
DEATHS = (None, CrashPoint.AFTER_PIN, CrashPoint.BEFORE_CHANGES_COMMIT, CrashPoint.AFTER_CHANGES_COMMIT)


@pytest.mark.parametrize(
    ("query", "fields", "rounds"),
    [
        (JOIN, SNAPSHOT, 1),
        exhaustive(JOIN, SNAPSHOT, 6, name="join"),
        exhaustive(GROUPS, SNAPSHOT, 6, name="groups"),
        exhaustive(GROUPS, {"valid_by": "epoch"}, 6, name="groups-by-epoch"),
        exhaustive(GROUPS, {"strategy": "arrangement", **SOME_AT_A_TIME}, 6, name="groups-arranged"),
        exhaustive(TOP, SNAPSHOT, 6, name="top"),
        exhaustive(TOTAL, SNAPSHOT, 6, name="total"),
        exhaustive(LINES, SNAPSHOT, 6, name="lines"),
        exhaustive(JOIN, {"strategy": "no_shuffle", **SOME_AT_A_TIME}, 6, name="join-in-chunks"),
        exhaustive(BY_NAME, SNAPSHOT, 6, name="groups-of-a-join"),
        exhaustive(UNION, SNAPSHOT, 6, name="union"),
        exhaustive(
            GROUPS, {**SNAPSHOT, "table_properties": {"delta.enableDeletionVectors": "false"}}, 6, name="merged"
        ),
        exhaustive(GROUPS, {**SNAPSHOT, "partition_by": ["_is_current"]}, 6, name="partitioned"),
    ],
)
def test_a_history_has_what_each_epoch_left(shop: Shop, query: str, fields: dict[str, Any], rounds: int) -> None:
    """I1 and I7: in spite of attempts that die; rows that an epoch leaves as they were go on."""
    shop.begin(query, keep="history", **fields)
    shop.finish()
    assert shop.job is not None
    states: dict[int, Counter[tuple[Any, ...]]] = {}
    for _ in range(rounds):
        states[shop.point()] = shop.rows()
        for _ in range(shop.chance.randint(1, 2)):
            shop.change()
        died(shop.chance.choice(DEATHS), shop.finish)
        shop.finish()
    states[shop.point()] = shop.rows()
    first = min(states)
    # What several epochs of a first load wrote, they wrote at several points.
    found = Counter({(row, max(begin, first), *rest): n for (row, begin, *rest), n in shop.kept().items()})
    assert found == former_units.history_of(states)
    shop.assert_truth()


def test_the_example_of_the_page(lakehouse: Lakehouse) -> None:
    """I7: although the attempt dies after its commit."""
    lakehouse.make_upstream("id BIGINT, status STRING")
    lakehouse.sql("INSERT INTO {upstream} VALUES (1, 'paid')")
    lakehouse.change("INSERT INTO {upstream} VALUES (2, 'paid')")
    lakehouse.create(query="SELECT status, count(*) AS n FROM upstream GROUP BY status", keep="history")
    lakehouse.finish()
    lakehouse.change("INSERT INTO {upstream} VALUES (3, 'paid')", "INSERT INTO {upstream} VALUES (4, 'paid')")
    died(CrashPoint.AFTER_CHANGES_COMMIT, lakehouse.epoch)
    lakehouse.finish()
    found = sorted(map(tuple, lakehouse.view().collect()))
    page = Path(ROOT, "docs/concepts/former-rows.md").read_text(encoding="utf-8")
    (first,) = (line for line in page.splitlines() if line.startswith("| paid | 2 "))
    assert first == "| paid | 2 | 2 | 4 | false |"
    assert "| paid | 4 | 4 | null | true |" in page.splitlines()
    assert found == [("paid", 2, 2, 4, False), ("paid", 4, 4, None, True)]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("query", "unit"),
    [
        (GROUPS, 1),
        (JOIN, 1),
        (TOTAL, 0),
        (BY_NAME, 1),
    ],
    ids=("groups", "join", "total", "groups-of-a-join"),
)
def test_units_that_are_gone_keep_their_last_rows(shop: Shop, query: str, unit: int) -> None:
    shop.begin(query, keep="deleted", strategy="snapshot")
    shop.finish()
    assert shop.job is not None
    states: dict[int, Counter[tuple[Any, ...]]] = {}
    for _ in range(5):
        states[shop.point()] = shop.rows()
        assert shop.kept() == former_units.deleted_of(states, lambda row: row[:unit])
        shop.change()
        shop.finish()
    shop.assert_truth()


@pytest.mark.exhaustive
def test_a_repair_a_verification_and_an_erasure_know_former_rows_of_groups(shop: Shop) -> None:
    shop.begin(GROUPS, keep="history", strategy="snapshot")
    shop.finish()
    shop.write("UPDATE orders SET amount = 50 WHERE status = 's1'")
    shop.finish()
    before = shop.kept()
    shop.sql("UPDATE {view} SET total = 0 WHERE _is_current AND status = 's2'")
    shop.write("UPDATE orders SET amount = amount WHERE id = 1")
    with pytest.raises(MaterializedViewError, match="was not written by job kept"):
        shop.epoch()
    mutations.repair_job(store=shop.backfill.store, requested_by="tester", units=["s2"])
    shop.finish()
    wrong = (("s2", 6, 0), 1, 3, False)
    (right,) = (row for row in before if row[0][0] == "s2")
    assert shop.kept() - before == Counter([wrong, (right[0], 3, None, True)])
    shop.assert_truth()
    assert forget_keys(shop.backfill, ["s1"], engine=lambda: shop.engine) == 1
    assert [row for row in shop.kept() if row[0][0] == "s1" and not row[-1]] == []
    assert why(shop.backfill, "s1").present
    shop.assert_truth()
