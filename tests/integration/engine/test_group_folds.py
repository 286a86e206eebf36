"""
Views of groups that are maintained by a fold, on real Spark: after every epoch the view is the user's query.

The query is run by Spark itself over the whole upstream, without any code of the package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import DataFrame

from airflow_backfill_provider.core import refresh_cost
from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.refresh_cost import EpochCost
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.protocol import repairs
from airflow_backfill_provider.sources.delta.history import DeltaHistory
from airflow_backfill_provider.spark.stamped_table import StampedTable
from tests.integration.engine.grouped_orders import COLUMNS, assert_follows, die_at_each, make_orders, truth
from tests.integration.engine.lakehouse import TESTER, Lakehouse
from tests.variants import exhaustive

pytestmark = pytest.mark.spark


@pytest.fixture
def orders(lakehouse: Lakehouse) -> Iterator[Lakehouse]:
    make_orders(lakehouse)
    yield lakehouse
    crash_points.install(None)


QUERIES = [
    pytest.param(
        "WITH paid AS (SELECT id, upper(customer) AS who, amount AS paid FROM upstream WHERE NOT amount <=> 8) "
        "SELECT min(p.paid) AS least, sum(paid) / count(*) AS mean, count(paid) FILTER (WHERE id > 3) AS n, 'x' AS x "
        "FROM paid p GROUP BY p.who",
        id="steps-expressions-and-hidden-units",
    ),
    exhaustive("SELECT customer, product, avg(amount) AS mean, max(at) AS last FROM upstream GROUP BY ALL", name="all"),
    exhaustive("SELECT DISTINCT product, amount > 1 AS big FROM upstream", name="distinct"),
    exhaustive("SELECT count(*) AS n, coalesce(sum(amount), 0) AS total, max(at) AS last FROM upstream", name="global"),
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_fold_follows_the_upstream_through_changes_and_crashes(orders: Lakehouse, query: str) -> None:
    """I1, I2 and I7, where keys change groups, extremes go, and groups vanish, come back, and are NULL."""
    settings = orders.create(query=query, table_properties={"delta.enableDeletionVectors": "true"})
    assert settings.state_columns
    assert_follows(orders, query, gone="customer = 'c2' OR amount = 0 AND customer = 'c1'")


@pytest.mark.parametrize("vectors", ["false", exhaustive("true", name="vectors")])
def test_an_attempt_whose_merge_comes_second_writes_nothing(
    orders: Lakehouse, monkeypatch: pytest.MonkeyPatch, vectors: str
) -> None:
    """
    I5: both have folded the changes before either writes them; Delta skips the second by its transaction id.

    With deletion vectors there is no MERGE, and the second one finds its version taken.
    """
    query = "SELECT customer, count(*) AS n, min(amount) AS least FROM upstream GROUP BY customer"
    orders.create(query=query, table_properties={"delta.enableDeletionVectors": vectors})
    orders.finish()
    orders.change("UPDATE {upstream} SET customer = 'new' WHERE id < 7")
    barrier = orders.inject()
    assert barrier is not None
    first, attempt = orders.unlocked_engine(), StampedTable._attempt

    def overtaken(table: StampedTable, write: Callable[[], None]) -> object:
        monkeypatch.undo()
        orders.run(barrier, orders.unlocked_engine())
        return attempt(table, write)

    monkeypatch.setattr(StampedTable, "_attempt", overtaken)
    orders.run(barrier, first)
    orders.assert_equals_query(truth(query))


@pytest.mark.exhaustive
def test_an_epoch_reads_the_rows_of_its_groups_once(orders: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the MERGE reads comes on top."""
    query = "SELECT customer, count(*) AS n, sum(amount) AS total FROM upstream GROUP BY customer"
    orders.create(query=query)
    orders.finish()
    orders.change("UPDATE {upstream} SET amount = amount + 1 WHERE id < 7")
    read_at, versions = StampedTable.read_at, list[int]()

    def counted(table: StampedTable, version: int) -> DataFrame:
        versions.append(version)
        return read_at(table, version)

    monkeypatch.setattr(StampedTable, "read_at", counted)
    orders.epoch()
    assert len(versions) == 1
    orders.assert_equals_query(truth(query))


@pytest.mark.exhaustive
def test_damaged_state_is_found_and_repaired(orders: Lakehouse) -> None:
    """I6: a verification compares hidden columns, too, without naming them, and a repair computes them from rows."""
    query = "SELECT customer, sum(amount) AS total FROM upstream GROUP BY customer"
    hidden = list(orders.create(query=query).state_columns)
    orders.finish()
    orders.sql(f"UPDATE {{view}} SET {hidden[-1]} = 1000 WHERE customer = 'c3'")
    found = verifier.verify_job(orders.backfill, engine=lambda: orders.engine, requester=TESTER)
    assert [key.columns for key in found.keys] == [()]
    asked = repairs.ask_for_repair(orders.backfill, requested_by="tester")
    assert asked is not None
    assert set(asked.repair.units) == {("c3",)}
    orders.change("UPDATE {upstream} SET amount = amount + 1 WHERE id < 12")
    orders.epoch()
    orders.assert_truth()
    orders.change("UPDATE {upstream} SET amount = amount + 1 WHERE id < 12")
    orders.epoch()
    orders.assert_equals_query(truth(query))


@pytest.mark.exhaustive
def test_hidden_columns_are_no_columns_of_an_upstream(orders: Lakehouse) -> None:
    """Of a job over the view, and of the view's lineage; a rebuild makes them as they were."""
    orders.create(query="SELECT customer, sum(amount) AS total FROM upstream GROUP BY customer")
    view = DeltaHistory(orders.backfill.job.view_location)
    assert list(view.at().types) == ["customer", "total"]
    orders.finish()
    orders.rebuild(query="SELECT customer, max(amount) AS most FROM upstream GROUP BY customer")
    orders.finish()
    assert list(view.at().types) == ["customer", "most"]
    comments = {field.name: field.metadata.get("comment") for field in orders.view().schema.fields}
    assert [name for name, comment in comments.items() if comment is None] == ["customer", "most"]


@pytest.mark.exhaustive
def test_a_folded_row_over_nothing_stays(lakehouse: Lakehouse) -> None:
    """I1: before the first row and after the last, also if only the files of the view's newest version are left."""
    query = "SELECT count(*) AS n, sum(amount) AS total FROM upstream"
    lakehouse.make_upstream(COLUMNS)
    assert lakehouse.create(query=query).state_columns
    lakehouse.finish()
    lakehouse.assert_equals_query(truth(query))
    lakehouse.change("INSERT INTO {upstream} SELECT id, 'c', 'p', 2, NULL FROM range(3)")
    lakehouse.epoch()
    lakehouse.assert_equals_query(truth(query))
    lakehouse.sql("OPTIMIZE {view}")
    lakehouse.sql("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
    lakehouse.sql("VACUUM {view} RETAIN 0 HOURS")
    lakehouse.change("DELETE FROM {upstream}")
    lakehouse.epoch()
    lakehouse.assert_equals_query(truth(query))
    lakehouse.assert_truth()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "query",
    [
        "SELECT customer, count(DISTINCT product) AS n FROM upstream GROUP BY customer",
        "SELECT customer || count(*) AS n FROM upstream GROUP BY customer",
        "SELECT customer, sum(CAST(amount AS DOUBLE)) AS n FROM upstream GROUP BY customer",
    ],
)
def test_what_cannot_be_folded_is_computed_anew(orders: Lakehouse, query: str) -> None:
    assert not orders.create(query=query).state_columns


@pytest.mark.exhaustive
def test_epochs_that_compute_the_whole_view_and_those_that_fold_take_turns(
    orders: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I1 and I2: a fold goes on from the state that a computed view leaves, also if attempts of both die."""
    monkeypatch.setitem(refresh_cost.EPOCH_COSTS, "fold", EpochCost(fixed=0, row=0, change=10))
    query = "SELECT customer, count(*) AS n, sum(amount) AS total, max(at) AS last FROM upstream GROUP BY customer"
    orders.create(query=query, refresh="auto")
    orders.finish()
    for change in ("id = 3", "id < 20", "id = 5"):
        orders.change(f"UPDATE {{upstream}} SET customer = 'c1', amount = 9, at = NULL WHERE {change}")
        if change != "id = 3":
            die_at_each(orders, CrashPoint.AFTER_CHANGES_COMMIT)
        orders.epoch()
        orders.assert_equals_query(truth(query))
    orders.assert_truth()
    chosen = [barrier.refresh.whole for barrier in orders.barriers() if barrier.refresh]
    assert chosen == [False, True, False]
