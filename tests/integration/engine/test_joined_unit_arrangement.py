"""
History of groups over a join, read unit by unit under strategy ``arrangement``, on real Spark.

After every epoch the view has the query's rows of the units that were read, as of one instant of all tables, and of no
others. The query is run by Spark over all tables. Which units were read is decided here in Python, from the positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.jobs.verification import verifier
from tests.integration.engine.grouped_orders import DiedError, die_at
from tests.integration.engine.lakehouse import TESTER, Lakehouse
from tests.integration.engine.star_histories import StarHistory
from tests.integration.engine.star_shop import StarShop
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

STAR = ("orders", "customers", "countries")
LINES = ("orders", "customers", "lines")
BY_TITLE = (
    "SELECT n.title, count(*) AS n, sum(o.amount) AS total, max(o.amount) AS most FROM orders AS o LEFT JOIN customers "
    "AS c ON c.id = o.customer LEFT JOIN countries AS n ON n.code = c.country GROUP BY n.title"
)
BY_PRODUCT = (
    "SELECT c.name, l.product, count(*) AS n, sum(l.price) AS price, min(o.amount) AS least FROM orders AS o "
    "LEFT JOIN customers AS c ON c.id = o.customer LEFT JOIN lines AS l ON l.order_id = o.id GROUP BY c.name, l.product"
)
HAVING = (
    "SELECT customer % 3 AS part, l.product, count(DISTINCT price) AS prices FROM orders AS o JOIN lines AS l "
    "ON l.order_id = o.id WHERE EXISTS (SELECT 1 FROM customers AS c WHERE c.id = o.customer AND c.country = 'fr') "
    "GROUP BY 1, 2 HAVING count(*) > 1"
)
TOP = (
    "SELECT o.id, c.country, row_number() OVER (PARTITION BY c.country ORDER BY o.amount, o.id) AS place "
    "FROM orders AS o JOIN customers AS c ON c.id = o.customer QUALIFY place <= 2"
)
BEFORE = (
    "SELECT b.amount AS before, count(*) AS n, sum(o.amount) AS total FROM orders AS o "
    "LEFT JOIN orders AS b ON b.id = o.parent GROUP BY b.amount"
)
KINDS = [
    exhaustive(BY_PRODUCT, LINES, ["name", "product"], 30, name="fan-out"),
    exhaustive(BY_TITLE, STAR, ["title"], 6, name="chain"),
    exhaustive(HAVING, LINES, ["part", "product"], 6, name="having"),
    exhaustive(TOP, ("orders", "customers"), ["country"], 6, name="window"),
    exhaustive(BEFORE, ("orders",), ["before"], 6, name="self-join"),
]


@pytest.fixture
def shop(lakehouse: Lakehouse) -> Iterator[StarShop]:
    """The tables of a star."""
    yield StarShop.of(lakehouse)
    crash_points.install(None)


def start(shop: StarShop, query: str, **fields: object) -> None:
    """Create a job that reads some groups at a time."""
    shop.start(query, **{"strategy": "arrangement", "visibility": "every_epoch", "rate_limit": 30, **fields})


def assert_read_units_are_right(shop: StarShop, units: Sequence[str]) -> None:
    """Hold I1 for the units that were read: the view has the query's rows of these, and of no other."""
    backfill = shop.backfill
    settings = backfill.store.settings()
    scan = settings.scan
    ranges, order = scan.read(backfill.store.state_of(settings)), scan.order
    vnode = f"pmod(hash({', '.join(units)}), {settings.definition.vnode_count})"
    found = shop.spark.sql(f"SELECT *, {vnode} AS vnode_of_it FROM ({shop.over_tables()})").collect()
    expected = [
        row[:-1]
        for row in found
        if any(covered.contains((row["vnode_of_it"], *(row[unit] for unit in units)), order) for covered in ranges)
    ]
    columns = [name for name in found[0].__fields__ if name != "vnode_of_it"]
    shown = [tuple(row) for row in shop.view().select(*columns).collect()]
    assert sorted(map(repr, shown)) == sorted(map(repr, expected))


def run(shop: StarShop, *points: CrashPoint) -> bool:
    """Run an epoch, after attempts that die at some points; return whether there was one."""
    barrier = shop.inject()
    if barrier is None:
        return False
    for point in points:
        crash_points.install(die_at(point))
        try:
            shop.run(barrier)
        except DiedError:
            continue
        finally:
            crash_points.install(None)
        return True
    shop.run(barrier)
    return True


CHANGES = (
    ["UPDATE {customers} SET name = 'moved' WHERE id = 1", "UPDATE {orders} SET customer = 3 WHERE id = 8"],
    [
        "UPDATE {lines} SET product = 'p9' WHERE order_id = 3",
        "UPDATE {lines} SET price = 9 WHERE line = 1",
        "DELETE FROM {orders} WHERE id = 4",
        "UPDATE {customers} SET name = 'c0' WHERE id = 2",
        "DELETE FROM {customers} WHERE id = 0",
    ],
)
"""Before each epoch: customers take their orders from group to group, and orders have lines in several groups."""


def test_every_epoch_has_the_groups_that_were_read_as_of_one_instant_of_all_tables(shop: StarShop) -> None:
    """I1 and I2: changes of each table, of read and unread groups, before the first chunk, too; and attempts die."""
    shop.fill(*LINES)
    start(shop, BY_PRODUCT, parallelism=2)
    settings = shop.backfill.store.settings()
    assert (settings.shape, settings.strategy) == ("joined_groups", "arrangement")
    for epoch, statements in enumerate(CHANGES):
        shop.change(*statements)
        run(shop, *([CrashPoint.AFTER_ARRANGEMENT_COMMIT, CrashPoint.AFTER_CHANGES_COMMIT] if epoch == 1 else []))
        assert_read_units_are_right(shop, ["name", "product"])
        if epoch == 1:
            assert not shop.backfill.store.state_of(settings).completed
            shop.assert_truth()
    shop.finish()
    assert shop.backfill.store.state_of(settings).completed
    shop.assert_query()


@pytest.mark.parametrize(("query", "tables", "units", "rate_limit"), KINDS)
def test_random_histories_of_all_tables(
    shop: StarShop, query: str, tables: Sequence[str], units: list[str], rate_limit: int
) -> None:
    """I1 after each epoch, for other queries: changes of every table, of read and unread groups."""
    history = StarHistory(shop, tables, seed=11)
    start(shop, query, parallelism=2, rate_limit=rate_limit)
    settings = shop.backfill.store.settings()
    for epoch in range(1, 20):
        history.change()
        run(shop)
        assert_read_units_are_right(shop, units)
        if epoch == 1:
            assert not shop.backfill.store.state_of(settings).completed
            shop.assert_truth()
        if shop.backfill.store.state_of(settings).completed:
            break
    assert epoch > 1
    history.change()
    shop.finish()
    shop.assert_joined()


POINTS = (
    CrashPoint.BEFORE_ARRANGEMENT_COMMIT,
    CrashPoint.AFTER_ARRANGEMENT_COMMIT,
    CrashPoint.BEFORE_CHANGES_COMMIT,
    CrashPoint.AFTER_CHANGES_COMMIT,
    CrashPoint.BEFORE_SNAPSHOT_COMMIT,
    CrashPoint.AFTER_SNAPSHOT_COMMIT,
    CrashPoint.BEFORE_STATE_COMMIT,
    CrashPoint.AFTER_STATE_COMMIT,
    CrashPoint.BEFORE_LOG_COMMIT,
)
"""The points of an epoch that is run by one task run."""


@pytest.mark.parametrize("point", [exhaustive(point) for point in POINTS])
def test_an_epoch_that_dies_is_run_again(shop: StarShop, point: CrashPoint) -> None:
    """I2 at each commit, with changes of all tables, in read and unread groups, beside a chunk."""
    history = StarHistory(shop, LINES, seed=5)
    start(shop, BY_PRODUCT, parallelism=2)
    run(shop)
    for _ in range(2):
        history.change()
        run(shop, point)
        assert_read_units_are_right(shop, ["name", "product"])
    shop.finish()
    shop.assert_joined()


@pytest.mark.exhaustive
def test_a_creation_that_dies_is_completed_as_of_the_versions_that_were_pinned(shop: StarShop) -> None:
    """The units of the arrangement are those of creation, whichever table changed meanwhile."""
    history = StarHistory(shop, STAR, seed=2)
    crash_points.install(die_at(CrashPoint.BEFORE_ARRANGEMENT_COMMIT))
    with pytest.raises(DiedError):
        start(shop, BY_TITLE)
    crash_points.install(None)
    history.change()
    shop.create_defined()
    run(shop)
    assert_read_units_are_right(shop, ["title"])
    shop.finish()
    shop.assert_joined()


@pytest.mark.exhaustive
def test_a_lead_that_rests_moves_between_groups_before_the_first_chunk(shop: StarShop) -> None:
    """I1: the lead's offset is that of creation still, and its rows are in other units by then."""
    shop.fill(*STAR)
    start(shop, BY_TITLE)
    shop.change("UPDATE {customers} SET country = 'es'", "INSERT INTO {countries} VALUES ('de', 'Germany')")
    while run(shop):
        assert_read_units_are_right(shop, ["title"])
        shop.change("UPDATE {customers} SET country = IF(country <=> 'es', 'fr', 'es') WHERE id % 2 = 0")
        if shop.backfill.store.state_of(shop.backfill.store.settings()).completed:
            break
    shop.finish()
    shop.assert_joined()


@pytest.mark.exhaustive
def test_a_repair_beside_a_chunk_mends_read_groups_and_leaves_the_others_to_the_chunk(shop: StarShop) -> None:
    """A repaired group is written from all of its joined rows, once, and one that is not read yet only goes."""
    shop.fill(*LINES)
    start(shop, BY_PRODUCT)
    run(shop)
    shop.sql("UPDATE {view} SET n = 99")
    shop.sql("INSERT INTO {view} (name, product, n) VALUES ('stray', 'p0', 1), (NULL, 'p1', 5), ('c1', 'p2', 5)")
    shop.change("UPDATE {customers} SET name = 'new' WHERE id = 2", "DELETE FROM {lines} WHERE line = 1")
    mutations.repair_job(vnodes=["0-3"], store=shop.backfill.store, requested_by="tester")
    run(shop)
    assert_read_units_are_right(shop, ["name", "product"])
    shop.finish()
    shop.sql("INSERT INTO {view} (name, product, n) VALUES ('stray', 'p0', 1)")
    verifier.verify_job(shop.backfill, engine=lambda: shop.engine, requester=TESTER)
    mutations.repair_job(units=[["stray", "p0"]], store=shop.backfill.store, requested_by="tester")
    shop.finish()
    shop.assert_joined()


@pytest.mark.exhaustive
def test_a_job_is_throttled_paused_rescaled_and_resumed(shop: StarShop) -> None:
    """Settings of speed hold for groups over a join, too; changes of all tables meanwhile reach the groups read."""
    history = StarHistory(shop, STAR, seed=9)
    start(shop, BY_TITLE, rate_limit=5)
    store = shop.backfill.store
    run(shop)
    for mutate in (
        lambda: mutations.pause_job(store=store, requested_by="tester"),
        lambda: mutations.resume_job(store=store, requested_by="tester"),
        lambda: mutations.rescale_job(3, store=store, requested_by="tester"),
        lambda: mutations.throttle_job(15, store=store, requested_by="tester"),
    ):
        mutate()
        history.change()
        run(shop)
        assert_read_units_are_right(shop, ["title"])
    shop.finish()
    shop.assert_joined()


@pytest.mark.exhaustive
def test_changes_of_several_tables_do_not_wait_under_arrangement(shop: StarShop) -> None:
    """I6: while they wait, a group would be as of older versions of all tables."""
    shop.fill(*STAR)
    with pytest.raises(InvalidJobError, match="use strategy snapshot, or every_epoch"):
        start(shop, BY_TITLE, visibility="on_finish")
    shop.start(BY_TITLE, visibility="every_epoch")
    assert shop.backfill.store.settings().strategy == "arrangement"
