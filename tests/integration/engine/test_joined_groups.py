"""
Views of groups over tables that are joined, and that all keep changing.

After every epoch such a view is its query over all tables as of one instant (I1): whichever of them changed, and
wherever an attempt died.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import DuplicateKeyError, InvalidJobError
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.protocol import repairs
from airflow_backfill_provider.shapes.group.grouping_query import Technique
from tests.integration.engine.grouped_orders import die_at_each
from tests.integration.engine.lakehouse import TESTER, Lakehouse
from tests.integration.engine.star_histories import StarHistory
from tests.integration.engine.star_shop import StarShop

pytestmark = pytest.mark.spark

TABLES = ("orders", "customers", "countries")
STAR = "FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer LEFT JOIN countries AS n ON n.code = c.country"
FOLDED = f"SELECT n.title, count(*) AS n, sum(o.amount) AS total, max(o.amount) AS most {STAR} GROUP BY n.title"
SLICED = f"SELECT c.country, sum(o.amount) AS total {STAR} GROUP BY c.country HAVING count(*) > 3"
AROUND_COMMIT = (CrashPoint.BEFORE_CHANGES_COMMIT, CrashPoint.AFTER_CHANGES_COMMIT)


@pytest.fixture
def shop(lakehouse: Lakehouse) -> Iterator[StarShop]:
    """The tables of a star."""
    yield StarShop.of(lakehouse)
    crash_points.install(None)


def technique_of(shop: StarShop) -> Technique:
    return Technique.FOLD if shop.backfill.require_created().state_columns else Technique.SLICE


def test_a_fold_over_a_star_follows_every_table_of_it(shop: StarShop) -> None:
    """I1, I2 and I6: one table and all of them in a window, an attempt that dies, and a key that is there twice."""
    shop.fill(*TABLES)
    shop.start(FOLDED)
    shop.change("UPDATE {customers} SET country = 'es' WHERE id = 3")
    shop.finish()
    shop.assert_query()
    assert technique_of(shop) is Technique.FOLD

    # What an order counts for changes with its customer's country, though no order changes.
    shop.change("UPDATE {customers} SET country = 'es' WHERE id = 1")
    commit = shop.epoch()
    assert commit is not None
    assert commit.work is not None
    assert (commit.work.technique, commit.work.units, commit.work.rows_read) == ("fold", 2, 40)
    shop.assert_query()

    shop.change(
        "UPDATE {customers} SET country = 'de' WHERE id = 1",
        "UPDATE {customers} SET country = 'fr', name = 'moved' WHERE id = 1",
        "DELETE FROM {customers} WHERE id = 2",
        "INSERT INTO {customers} VALUES (5, 'new', 'de')",
        "INSERT INTO {countries} VALUES ('de', 'Germany')",
        "UPDATE {countries} SET title = 'Espagne' WHERE code = 'es'",
        "UPDATE {orders} SET customer = 3, amount = 1000 WHERE id = 8",
        "DELETE FROM {orders} WHERE id IN (9, 39)",
        "INSERT INTO {orders} VALUES (90, 5, 1, 7), (91, NULL, NULL, NULL)",
    )
    die_at_each(shop, CrashPoint.AFTER_CHANGES_COMMIT)
    shop.epoch()
    shop.assert_joined()
    assert shop.epoch() is None
    _assert_that_a_key_that_is_there_twice_is_refused(shop, "orders", "(3, 1, 1, 2000)", "amount = 2000")


@pytest.mark.exhaustive
def test_groups_over_a_star_are_computed_anew_and_repaired(shop: StarShop) -> None:
    """I6 and I7: a repair names groups, joins the changes of a dimension, and computes both from the joined rows."""
    shop.fill(*TABLES)
    shop.start(SLICED)
    shop.finish()
    shop.assert_query()
    assert technique_of(shop) is Technique.SLICE
    shop.sql("UPDATE {view} SET total = -1 WHERE country = 'fr'")
    shop.sql("INSERT INTO {view} VALUES ('stray', 1)")
    verifier.verify_job(shop.backfill, engine=lambda: shop.engine, requester=TESTER)
    asked = repairs.ask_for_repair(shop.backfill, requested_by="tester")
    assert asked is not None
    assert set(asked.repair.units) == {("fr",), ("stray",)}
    shop.change(
        "UPDATE {customers} SET country = 'es' WHERE id IN (1, 4)", "UPDATE {orders} SET customer = 4 WHERE id < 6"
    )
    shop.epoch()
    shop.assert_query()


def test_groups_by_the_column_that_using_leaves_to_the_other_side(shop: StarShop) -> None:
    """I1: Spark hides such a column, and cannot join it with rows that were made of the same tables."""
    shop.fill("orders", "customers")
    shop.start(
        "SELECT c.id, min(o.amount) AS least, count(*) AS n FROM orders AS o LEFT JOIN customers AS c USING (id) "
        "GROUP BY c.id"
    )
    shop.finish()
    shop.assert_query()
    shop.change("DELETE FROM {customers} WHERE id = 3", "UPDATE {orders} SET amount = -1 WHERE id IN (2, 30)")
    shop.epoch()
    shop.assert_joined()


@pytest.mark.exhaustive
def test_a_window_of_the_lead_alone_reads_no_other_row_of_it(shop: StarShop) -> None:
    """Both images of a changed lead are joined with tables that did not change; an extreme that goes is read again."""
    shop.fill(*TABLES)
    shop.start(FOLDED)
    shop.finish()
    for statement, rows_read in (
        ("UPDATE {orders} SET customer = 1 WHERE id = 2", 0),
        ("DELETE FROM {orders} WHERE amount = 39", 39),
    ):
        shop.change(statement)
        commit = shop.epoch()
        assert commit is not None
        assert commit.work is not None
        assert commit.work.rows_read == rows_read
        shop.assert_joined()


@pytest.mark.exhaustive
def test_an_attempt_may_die_at_every_point_of_an_epoch(shop: StarShop) -> None:
    """I2: whatever was written before, the next attempt leaves the view of a window in which two tables changed."""
    shop.fill(*TABLES)
    shop.start(FOLDED)
    shop.finish()
    points: list[CrashPoint] = []
    crash_points.install(points.append)
    shop.change("UPDATE {customers} SET country = 'es' WHERE id = 0")
    shop.epoch()
    crash_points.install(None)
    assert set(AROUND_COMMIT) < set(points)
    for number, point in enumerate(dict.fromkeys(points)):
        shop.change(
            f"UPDATE {{customers}} SET country = IF(country <=> 'fr', 'es', 'fr') WHERE id = {number % 5}",
            f"UPDATE {{orders}} SET amount = amount + 1, customer = {number % 6} WHERE id % 9 = {number % 9}",
        )
        die_at_each(shop, point)
        shop.finish()
        shop.assert_query()
    shop.assert_truth()


LINES = ("orders", "lines")
CUSTOMERS = ("orders", "customers")
KINDS = {
    "fold": (Technique.FOLD, TABLES, FOLDED),
    "having": (Technique.SLICE, TABLES, SLICED),
    "global-fold": (
        Technique.FOLD,
        CUSTOMERS,
        "SELECT count(*) AS n, sum(o.amount) AS total, max(c.name) AS last FROM orders AS o JOIN customers AS c "
        "ON c.id = o.customer",
    ),
    "global-slice": (
        Technique.SLICE,
        CUSTOMERS,
        "SELECT count(DISTINCT c.country) AS n FROM orders AS o JOIN customers AS c ON c.id = o.customer",
    ),
    "distinct": (
        Technique.FOLD,
        CUSTOMERS,
        "SELECT DISTINCT c.country, o.amount FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer",
    ),
    "steps": (
        Technique.FOLD,
        CUSTOMERS,
        "SELECT country, count(*) AS n, sum(amount) / count(*) AS mean FROM (SELECT c.country, o.amount "
        "FROM orders AS o JOIN customers AS c ON c.id = o.customer) AS j WHERE amount > 1 GROUP BY country",
    ),
    "filter": (
        Technique.FOLD,
        CUSTOMERS,
        "SELECT c.name, sum(CAST(60 / o.amount AS DECIMAL(10, 2))) FILTER (WHERE o.amount <> 0) AS s, "
        "count(o.amount) AS n FROM orders AS o JOIN customers AS c ON c.id = o.customer AND o.amount < 5 "
        "GROUP BY c.name",
    ),
    "fan-out": (
        Technique.FOLD,
        LINES,
        "SELECT l.product, count(*) AS n, sum(l.price) AS price, min(o.amount) AS least FROM orders AS o "
        "LEFT JOIN lines AS l ON l.order_id = o.id GROUP BY l.product",
    ),
    "anti-join": (
        Technique.FOLD,
        CUSTOMERS,
        "SELECT o.amount, count(*) AS n FROM orders AS o WHERE NOT EXISTS (SELECT 1 FROM customers AS c "
        "WHERE c.id = o.customer AND c.country = 'fr') GROUP BY o.amount",
    ),
    "self-join": (
        Technique.FOLD,
        ("orders",),
        "SELECT b.amount AS before, count(*) AS n, sum(o.amount) AS total FROM orders AS o "
        "LEFT JOIN orders AS b ON b.id = o.parent GROUP BY b.amount",
    ),
    "pipe": (
        Technique.SLICE,
        CUSTOMERS,
        "FROM orders AS o JOIN customers AS c ON c.id = o.customer "
        "|> AGGREGATE sum(o.amount) AS total GROUP BY country",
    ),
    "qualify": (
        Technique.SLICE,
        CUSTOMERS,
        "SELECT o.id, row_number() OVER (PARTITION BY c.country ORDER BY o.amount, o.id) AS place FROM orders AS o "
        "JOIN customers AS c ON c.id = o.customer QUALIFY place <= 2",
    ),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
def test_random_histories_of_all_tables(shop: StarShop, kind: str) -> None:
    """I1, I2 and I7: dimensions whose rows go, columns to join by that change twice in one window, deaths anywhere."""
    technique, tables, query = KINDS[kind]
    chance = random.Random(kind)
    history = StarHistory(shop, tables, seed=len(kind))
    shop.start(query)
    assert technique_of(shop) is technique
    for number in range(4):
        history.change()
        if chance.random() < 0.5:
            history.change()
        barrier = shop.inject()
        if number and barrier is not None and barrier.has_changes and chance.random() < 0.6:
            die_at_each(shop, chance.choice(AROUND_COMMIT))
        shop.finish()
        shop.assert_query()
    shop.assert_joined()


@pytest.mark.exhaustive
def test_a_key_of_a_dimension_that_is_there_twice_is_refused_before_anything_is_written(shop: StarShop) -> None:
    shop.fill(*TABLES)
    shop.start(FOLDED)
    shop.finish()
    _assert_that_a_key_that_is_there_twice_is_refused(shop, "customers", "(1, 'again', 'es')", "name = 'again'")


def _assert_that_a_key_that_is_there_twice_is_refused(shop: StarShop, table: str, again: str, is_again: str) -> None:
    """I6: before anything is written. The view stays as it was, and follows again once the duplicate is gone."""
    before = sorted(map(str, shop.view().collect()))
    shop.change(f"INSERT INTO {{{table}}} VALUES {again}")
    with pytest.raises(DuplicateKeyError, match=rf"upstreams\.{table}\.key"):
        shop.epoch()
    assert sorted(map(str, shop.view().collect())) == before
    shop.change(f"DELETE FROM {{{table}}} WHERE {is_again}")
    shop.finish()
    shop.assert_query()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("query", "said"),
    [
        (f"SELECT CAST(o.amount AS DOUBLE) AS a, count(*) AS n {STAR} GROUP BY 1", "groups by `a`, which is a DOUBLE"),
        (f"SELECT c.country, first(o.amount) AS x {STAR} GROUP BY c.country", "end .*|write min"),
        (f"SELECT c.country, count(*) {STAR} GROUP BY c.country", "has no alias; give it one"),
    ],
)
def test_what_only_the_tables_tell_is_refused_before_anything_is_written(shop: StarShop, query: str, said: str) -> None:
    shop.fill(*TABLES)
    with pytest.raises(InvalidJobError, match=said):
        shop.start(query)
    assert not shop.exists(shop.view_path)
