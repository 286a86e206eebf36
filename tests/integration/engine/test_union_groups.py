"""
Views of groups over tables that are united, and that all keep changing.

After every epoch such a view is its query over all tables as of one instant (I1): whichever branch the changed rows are
of, and wherever an attempt died.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from airflow_backfill_provider.core import errors
from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.protocol import repairs
from airflow_backfill_provider.shapes.group.grouping_query import Technique
from tests.dying import dies_at
from tests.integration.engine.attempts import Asleep
from tests.integration.engine.lakehouse import TESTER, Lakehouse
from tests.integration.engine.shop_histories import History
from tests.integration.engine.shops import ALL_SALES, SALES, Shops

pytestmark = pytest.mark.spark

TOTALS = f"SELECT name, count(*) AS n, sum(amount) AS total, max(amount) AS most FROM ({ALL_SALES}) AS s GROUP BY name"
"""A branch that is a join, keys of two types, and one table in two branches."""

ONCE = (
    "SELECT amount AS n, customer FROM berlin UNION ALL SELECT amount, customer FROM paris "
    "UNION SELECT 1, id FROM berlin"
)
"""Rows that are there several times, in one table and in two."""

AROUND_COMMIT = (CrashPoint.BEFORE_CHANGES_COMMIT, CrashPoint.AFTER_CHANGES_COMMIT)


@pytest.fixture
def shops(lakehouse: Lakehouse) -> Iterator[Shops]:
    yield Shops(lakehouse.spark, lakehouse.folder)
    crash_points.install(None)


def technique_of(shops: Shops) -> Technique:
    return Technique.FOLD if shops.backfill.require_created().state_columns else Technique.SLICE


def test_a_fold_over_a_union_follows_every_branch(shops: Shops) -> None:
    """I1 and I2: the changes of all branches, and of what they are joined with, through attempts that die."""
    shops.make("berlin", "online", "customers", rows=12)
    shops.define_sales(TOTALS)
    shops.start()
    shops.change("UPDATE {online} SET amount = 9 WHERE code = 'o2'")
    shops.finish()
    shops.assert_united()
    assert technique_of(shops) is Technique.FOLD
    shops.change(
        "UPDATE {customers} SET name = 'renamed' WHERE id = 1",
        "DELETE FROM {customers} WHERE id = 2",
        "UPDATE {berlin} SET amount = 3 WHERE id = 8",
        "UPDATE {berlin} SET customer = 1, amount = 7 WHERE id = 2",
        "DELETE FROM {online} WHERE code = 'o3'",
        "INSERT INTO {online} VALUES ('o300', NULL, 3), ('c1', 1, 4)",
        # Another row of a key comes and goes, and what the first one is joined with changes.
        "INSERT INTO {berlin} VALUES (1, 4, 100)",
        "DELETE FROM {berlin} WHERE amount = 100",
    )
    barrier = shops.pin()
    for point in AROUND_COMMIT:
        with dies_at(point):
            shops.run(barrier)
    shops.run(barrier)
    shops.assert_united()
    # What a row of berlin counts for changes with its customer's name; the second branch over berlin joins nothing.
    shops.change("UPDATE {customers} SET name = 'again' WHERE id = 1")
    commit = shops.epoch()
    assert commit is not None
    assert commit.work is not None
    assert (commit.work.technique, commit.work.units) == ("fold", 3), "renamed, again and twice"
    shops.assert_united()
    assert shops.epoch() is None


@pytest.mark.exhaustive
def test_union_removes_duplicates_of_all_tables(shops: Shops) -> None:
    """I1: a row stays as long as any branch has it, and goes with the last one; nulls are equal."""
    shops.make("berlin", "paris", rows=8)
    shops.define_sales(ONCE)
    shops.start()
    shops.finish()
    assert technique_of(shops) is Technique.SLICE
    shops.change("DELETE FROM {paris} WHERE id IN (0, 1, 2)", "UPDATE {berlin} SET amount = 70 WHERE id IN (0, 2)")
    shops.epoch()
    shops.assert_united()


@pytest.mark.exhaustive
def test_a_repair_of_union_names_rows_and_joins_the_changes(shops: Shops) -> None:
    """I6 and I7: rows that are missing, and one that no branch has."""
    shops.make("berlin", "paris", rows=8)
    shops.define_sales(ONCE)
    shops.start()
    shops.finish()
    shops.sql("DELETE FROM {view} WHERE n = 3")
    shops.sql("INSERT INTO {view} VALUES (99, NULL)")
    verifier.verify_job(shops.backfill, engine=lambda: shops.engine, requester=TESTER)
    asked = repairs.ask_for_repair(shops.backfill, requested_by="tester")
    assert asked is not None
    assert set(asked.repair.units) == {("3", "3"), ("99", None)}
    shops.change("INSERT INTO {paris} VALUES (50, 3, 4)", "DELETE FROM {berlin} WHERE id = 4")
    shops.epoch()
    shops.assert_united()


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["paris", "berlin"])
def test_a_key_of_any_branch_that_is_there_twice_is_refused(shops: Shops, name: str) -> None:
    """I6: before the write, also if the row's group is there already."""
    shops.make("berlin", "paris", rows=4)
    shops.define_sales(f"SELECT shop, sum(amount) AS total FROM ({SALES}) AS s GROUP BY shop")
    shops.start()
    shops.finish()
    shops.change(f"INSERT INTO {{{name}}} VALUES (3, NULL, 100)")
    with pytest.raises(errors.DuplicateKeyError, match=rf"{name} has several rows .* give upstreams\.{name}\.key"):
        shops.epoch()
    shops.change(f"DELETE FROM {{{name}}} WHERE amount = 100")
    shops.epoch()
    shops.assert_united()


@pytest.mark.exhaustive
def test_a_zombie_of_an_epoch_adds_nothing_after_its_successor(shops: Shops) -> None:
    """I5: it has read the changes of all branches, and wakes when another attempt has committed them and more."""
    shops.make("berlin", "online", "customers", rows=6)
    shops.define_sales(TOTALS)
    shops.start()
    shops.finish()
    shops.change("UPDATE {berlin} SET amount = 50 WHERE id < 3", "DELETE FROM {online} WHERE code = 'o1'")
    barrier = shops.pin()
    zombie = Asleep(CrashPoint.BEFORE_CHANGES_COMMIT, lambda: shops.run(barrier, shops.unlocked_engine()))
    shops.run(barrier)
    shops.change("UPDATE {berlin} SET amount = 60 WHERE id < 2", "INSERT INTO {online} VALUES ('o1', 1, 1)")
    shops.epoch()
    shops.assert_united()
    zombie.ends()
    shops.assert_united()
    assert shops.epoch() is None


KINDS = {
    "fold": (Technique.FOLD, TOTALS),
    "union": (Technique.SLICE, ONCE),
    "union-of-joins": (
        Technique.SLICE,
        "SELECT c.name, b.amount FROM berlin AS b JOIN customers AS c ON c.id = b.customer UNION DISTINCT "
        "SELECT c.name, o.amount FROM online AS o LEFT JOIN customers AS c ON c.id = o.customer",
    ),
    "distinct": (
        Technique.FOLD,
        f"SELECT DISTINCT amount, name FROM ({ALL_SALES}) AS s",
    ),
    "having": (
        Technique.SLICE,
        f"SELECT shop, amount % 3 AS part, count(*) AS n FROM ({SALES}) AS s GROUP BY shop, amount % 3 "
        "HAVING count(*) > 1",
    ),
    "global-fold": (Technique.FOLD, f"SELECT count(*) AS n, sum(amount) AS total FROM ({SALES}) AS s"),
    "global-slice": (Technique.SLICE, f"SELECT count(DISTINCT amount) AS n FROM ({SALES}) AS s"),
    "each-joins-the-other": (
        Technique.FOLD,
        "SELECT amount, count(*) AS n FROM (SELECT p.amount FROM berlin AS b LEFT JOIN paris AS p ON p.id = b.customer "
        "UNION ALL SELECT p.amount FROM paris AS p WHERE EXISTS (SELECT 1 FROM berlin AS o WHERE o.customer = p.id)) "
        "AS u GROUP BY amount",
    ),
    "common-tables": (
        Technique.FOLD,
        "WITH sales AS (SELECT amount, customer FROM berlin UNION ALL SELECT amount, customer FROM paris), "
        "kept AS (SELECT customer, amount * 2 AS twice FROM sales WHERE amount <> 4) "
        "SELECT customer, sum(twice) / count(*) AS mean FROM kept GROUP BY customer",
    ),
    "rank": (
        Technique.SLICE,
        f"SELECT shop, id, rank() OVER (PARTITION BY shop ORDER BY amount) AS place FROM ({SALES}) AS s "
        "QUALIFY place <= 2",
    ),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
def test_random_histories_of_all_tables(shops: Shops, kind: str) -> None:
    """I1, I2 and I7: windows of several commits of several branches, repairs, deaths anywhere."""
    technique, query = KINDS[kind]
    history, chance = History(shops, seed=len(kind)), Random(kind)
    shops.define_sales(query)
    shops.make(*shops.tables, rows=chance.choice([6, 16]))
    shops.start()
    assert technique_of(shops) is technique
    for number in range(4):
        history.change()
        if chance.random() < 0.5:
            history.change()
        barrier = shops.inject()
        if number and barrier is not None and barrier.has_changes and chance.random() < 0.6:
            with dies_at(chance.choice(AROUND_COMMIT)):
                shops.run(barrier)
        shops.finish()
        shops.assert_united()
