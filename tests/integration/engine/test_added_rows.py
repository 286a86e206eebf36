"""Groups of rows that are only appended: each row is added to its group once, and need not be read again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import ChangeFeedGapError, InvalidJobError
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.protocol import repairs
from airflow_backfill_provider.spark.stamped_table import StampedTable
from tests.integration.engine.grouped_orders import COLUMNS, die_at_each, truth
from tests.integration.engine.lakehouse import TESTER, Lakehouse
from tests.integration.engine.test_append_only import WITHOUT_FEED, compact_and_vacuum
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

BY_CUSTOMER = "SELECT customer, count(*) AS n, sum(amount) AS total FROM upstream GROUP BY customer"


@pytest.fixture
def orders(lakehouse: Lakehouse) -> Iterator[Lakehouse]:
    """Four files of ten orders, whose customers have orders in each."""
    lakehouse.make_upstream(COLUMNS, WITHOUT_FEED)
    for number in range(4):
        append(lakehouse, number)
    yield lakehouse
    crash_points.install(None)


def append(orders: Lakehouse, number: int) -> None:
    """Append one file. One customer is NULL, and each file has one customer of its own."""
    orders.change(
        "INSERT INTO {upstream} SELECT /*+ COALESCE(1) */ id, CASE id % 6 WHEN 5 THEN NULL WHEN 4 THEN "
        f"concat('new', id) ELSE concat('c', id % 6) END, concat('p', id % 3), CAST(id % 4 AS INT), "
        f"TIMESTAMP_NTZ'2026-01-30 00:00:00' - make_dt_interval(id) FROM range({number * 10}, {number * 10 + 10})"
    )


def create(orders: Lakehouse, query: str = BY_CUSTOMER, **fields: object) -> None:
    settings = orders.create(upstream={"path": orders.upstream_path, "append_only": True}, query=query, **fields)
    assert (settings.strategy, bool(settings.state_columns)) == ("source", True)


QUERIES = [
    pytest.param(
        "WITH paid AS (SELECT upper(customer) AS who, amount AS paid, at FROM upstream WHERE NOT amount <=> 3) "
        "SELECT min(paid) AS least, max(at) AS last, sum(paid) / count(*) AS mean, 'x' AS x FROM paid GROUP BY who",
        id="steps-extremes-and-hidden-units",
    ),
    exhaustive("SELECT DISTINCT product, amount > 1 AS big FROM upstream", name="distinct"),
    exhaustive("SELECT count(*) AS n, coalesce(sum(amount), 0) AS total, max(at) AS last FROM upstream", name="global"),
]


@pytest.mark.parametrize("query", QUERIES)
def test_chunks_and_appended_rows_are_added_once_through_crashes(orders: Lakehouse, query: str) -> None:
    """I1 to I3: after each epoch the view is the query over the rows that were read, whichever attempts died."""
    create(orders, query, rate_limit=13)
    counts = []
    for point in (CrashPoint.AFTER_PIN, CrashPoint.AFTER_SNAPSHOT_COMMIT, CrashPoint.AFTER_STATE_COMMIT):
        append(orders, 10 + len(counts))
        die_at_each(orders, point)
        commit = orders.epoch()
        assert commit is not None
        counts.append(commit.rows_read)
        orders.assert_truth()
    assert counts == [13, 26, 39]
    orders.finish()
    orders.assert_equals_query(truth(query))
    append(orders, 20)
    commit = orders.epoch()
    assert commit is not None
    assert commit.work is not None
    assert (commit.work.technique, commit.work.rows_read) == ("fold", 0)
    append(orders, 21)
    die_at_each(orders, CrashPoint.AFTER_CHANGES_COMMIT)
    orders.epoch()
    assert orders.epoch() is None
    orders.assert_equals_query(truth(query))


@pytest.mark.exhaustive
def test_an_attempt_that_comes_second_adds_nothing(orders: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """I5: both have folded a chunk before either writes it."""
    create(orders, rate_limit=15)
    orders.epoch()
    barrier = orders.inject()
    assert barrier is not None
    first, attempt = orders.unlocked_engine(), StampedTable._attempt

    def overtaken(table: StampedTable, write: object) -> object:
        monkeypatch.undo()
        orders.run(barrier, orders.unlocked_engine())
        return attempt(table, write)

    monkeypatch.setattr(StampedTable, "_attempt", overtaken)
    orders.run(barrier, first)
    orders.assert_truth()
    orders.finish()
    orders.assert_equals_query(truth(BY_CUSTOMER))


@pytest.mark.exhaustive
def test_one_row_over_nothing(lakehouse: Lakehouse) -> None:
    """I1: a query without GROUP BY has a row before the first row comes."""
    query = "SELECT count(*) AS n, sum(amount) AS total FROM upstream"
    lakehouse.make_upstream(COLUMNS, WITHOUT_FEED)
    create(lakehouse, query)
    lakehouse.finish()
    assert lakehouse.backfill.status().finished
    lakehouse.assert_equals_query(truth(query))
    append(lakehouse, 1)
    lakehouse.epoch()
    lakehouse.assert_equals_query(truth(query))
    lakehouse.assert_truth()


def test_what_differs_is_repaired_from_the_rows(orders: Lakehouse) -> None:
    """I7: together with rows that come."""
    create(orders)
    orders.finish()
    orders.sql("UPDATE {view} SET n = 100, total = 7 WHERE customer = 'c2'")
    orders.sql("INSERT INTO {view} SELECT * FROM {view} WHERE customer = 'c1'")
    found = verifier.verify_job(orders.backfill, engine=lambda: orders.engine, requester=TESTER)
    assert {key.key for key in found.keys} == {("c1",), ("c2",)}
    assert repairs.ask_for_repair(orders.backfill, requested_by="tester") is not None
    append(orders, 10)
    orders.epoch()
    orders.assert_equals_query(truth(BY_CUSTOMER))
    orders.assert_truth()
    append(orders, 11)
    orders.epoch()
    orders.assert_equals_query(truth(BY_CUSTOMER))


def test_groups_of_rows_that_are_gone_are_neither_verified_nor_repaired(orders: Lakehouse) -> None:
    """I6: the files of counted rows were compacted and removed, so nobody can compute the groups again."""
    create(orders)
    orders.finish()
    # Asked for in time, but rows go before the epoch.
    mutations.repair_job(store=orders.backfill.store, vnodes=["0-3"], requested_by="tester")
    compact_and_vacuum(orders)
    with pytest.raises(ChangeFeedGapError, match=r"is gone or was changed \(4 such files\).*counts these rows"):
        verifier.compare_now(orders.backfill, orders.engine)
    *_, barrier = orders.barriers()
    with pytest.raises(ChangeFeedGapError, match="is gone"):
        # If rows go between the check and the read, none is left out.
        orders.engine._tables.open(orders.backfill.settings()).job_rows.at(barrier.upstream.to_offset).count()
    append(orders, 10)
    orders.epoch()
    *_, barrier = orders.barriers()
    assert not barrier.repair
    assert "the repair that was asked for is left out: file " in " ".join(barrier.warnings)
    orders.assert_equals_query(truth(BY_CUSTOMER))


@pytest.mark.exhaustive
def test_a_pinned_repair_whose_rows_go_is_given_up(orders: Lakehouse) -> None:
    """I6: nothing is written from the rows that are left."""
    create(orders)
    orders.finish()
    mutations.repair_job(store=orders.backfill.store, vnodes=["0-3"], requested_by="tester")
    barrier = orders.inject()
    assert barrier is not None
    assert barrier.repair
    compact_and_vacuum(orders)
    with pytest.raises(ChangeFeedGapError, match="counts these rows"):
        orders.run(barrier)
    append(orders, 10)
    orders.finish()
    orders.assert_equals_query(truth(BY_CUSTOMER))


def test_a_query_whose_types_cannot_be_folded_is_refused(orders: Lakehouse) -> None:
    """I6: the text alone does not tell."""
    with pytest.raises(InvalidJobError, match=r"query: rows of .* are only appended.*cannot be folded.*make a view of"):
        create(orders, "SELECT customer, sum(CAST(amount AS DOUBLE)) AS s FROM upstream GROUP BY customer")


@pytest.mark.exhaustive
def test_files_that_come_are_added(lakehouse: Lakehouse, tmp_path: Path) -> None:
    """I1: also files that are removed after they were read."""
    folder = tmp_path / "landing"
    folder.mkdir()
    (folder / "1.csv").write_text("shop,amount\na,1\nb,2\na,3\n")
    settings = lakehouse.create(
        upstream={"files": {"path": str(folder), "format": "csv", "schema": "shop STRING, amount INT"}},
        query="SELECT shop, count(*) AS n, max(amount) AS most FROM upstream GROUP BY shop",
        rate_limit=2,
    )
    assert settings.strategy == "source"
    lakehouse.finish()
    lakehouse.assert_truth()
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "2.csv").write_text("shop,amount\nb,9\nc,1\n")
    lakehouse.epoch()
    rows = {tuple(row)[:3] for row in lakehouse.view().select("shop", "n", "most").collect()}
    assert rows == {("a", 2, 3), ("b", 2, 9), ("c", 1, 1)}
    with pytest.raises(ChangeFeedGapError, match="1 such files"):
        verifier.compare_now(lakehouse.backfill, lakehouse.engine)
