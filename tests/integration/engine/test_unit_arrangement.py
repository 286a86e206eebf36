"""
History of groups read unit by unit, under strategy ``arrangement``, on real Spark.

After every epoch that readers may see, the view has the query's rows of the units that were read, and of no others. The
query is run by Spark over the whole upstream. Which units were read is decided here in Python, from the positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from tests.integration.engine.lakehouse import Lakehouse
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

COLUMNS = "id BIGINT, customer STRING, day DATE, price DECIMAL(9,2), amount INT"

ROWS = (
    "SELECT id, CASE WHEN id % 7 = 0 THEN NULL WHEN id % 2 = 0 THEN 'big' ELSE concat('c', id % 9) END, "
    "date_add(DATE'2026-01-01', CAST(id % 3 AS INT)), CAST(id % 4 AS DECIMAL(9,2)) / 2, CAST(id % 5 AS INT)"
)

BY_CUSTOMER = "SELECT customer, count(*) AS n, sum(amount) AS total, max(price) AS most FROM upstream GROUP BY customer"
BY_SEVERAL = (
    "WITH sold AS (SELECT id, upper(customer) AS who, day, price, amount FROM upstream WHERE amount <> 3) "
    "SELECT who, day, price, count(DISTINCT amount) AS amounts FROM sold GROUP BY who, day, price"
)
LATEST = "SELECT * FROM upstream QUALIFY row_number() OVER (PARTITION BY customer ORDER BY amount DESC, id) <= 2"


class DiedError(Exception):
    """An attempt died."""


@pytest.fixture
def sales(lakehouse: Lakehouse) -> Iterator[Lakehouse]:
    """Give an upstream in which half of the rows are of one customer."""
    lakehouse.make_upstream(COLUMNS)
    lakehouse.sql(f"INSERT INTO {{upstream}} {ROWS} FROM range(60)")
    yield lakehouse
    crash_points.install(None)


def die_at(point: CrashPoint) -> Callable[[CrashPoint], None]:
    def die(reached: CrashPoint) -> None:
        if reached is point:
            raise DiedError

    return die


def assert_read_units_are_right(lake: Lakehouse, query: str, units: list[str]) -> None:
    """Hold I1 for the units that were read: the view has the query's rows of these, and of no other."""
    backfill = lake.backfill
    settings = backfill.store.settings()
    state = backfill.store.state_of(settings)
    scan = settings.scan
    ranges, order = scan.read(state), scan.order
    values = ", ".join(units)
    vnode = f"pmod(hash({values}), {settings.definition.vnode_count})"
    whole = query.replace("FROM upstream", "FROM {upstream} AS upstream")
    placed = lake.sql(f"SELECT *, {vnode} AS vnode_of_it FROM ({whole})").collect()
    found = [row.asDict() for row in placed]
    expected = [
        {name: value for name, value in row.items() if name != "vnode_of_it"}
        for row in found
        if any(covered.contains((row["vnode_of_it"], *(row[unit] for unit in units)), order) for covered in ranges)
    ]
    columns = [name for name in placed[0].__fields__ if name != "vnode_of_it"]
    shown = [row.asDict() for row in lake.view().select(*columns).collect()]
    assert sorted(map(repr, shown)) == sorted(map(repr, expected))


def change(lake: Lakehouse, random: Random, epoch: int) -> None:
    """Move rows between groups, let groups vanish and come back, and make new ones."""
    lake.sql(
        f"UPDATE {{upstream}} SET customer = CASE WHEN customer = 'big' THEN 'c{random.randint(1, 9)}' ELSE 'big' END, "
        f"amount = {random.randint(0, 4)} WHERE id % 11 = {random.randint(0, 10)}"
    )
    if epoch % 2:
        lake.sql(f"UPDATE {{upstream}} SET customer = NULL WHERE id % 13 = {random.randint(0, 12)}")
        lake.sql(f"DELETE FROM {{upstream}} WHERE customer = 'c{random.randint(1, 9)}'")
    lake.sql(f"INSERT INTO {{upstream}} {ROWS} FROM range({100 * epoch}, {100 * epoch + 5})")


@pytest.mark.parametrize(
    ("query", "units"),
    [
        pytest.param(BY_CUSTOMER, ["customer"], id="one-column"),
        exhaustive(BY_SEVERAL, ["who", "day", "price"], name="several-columns"),
        exhaustive(LATEST, ["customer"], name="window"),
    ],
)
def test_every_epoch_has_the_read_groups_as_of_its_own_end(sales: Lakehouse, query: str, units: list[str]) -> None:
    """I1 after each epoch, with changes of read and unread groups, a group of half the table, and NULL groups."""
    settings = sales.create(
        query=query, strategy="arrangement", visibility="every_epoch", rate_limit=12, vnode_count=4, parallelism=2
    )
    assert (settings.shape, settings.strategy) == ("group", "arrangement")
    random, commits = Random(7), []
    for epoch in range(1, 30):
        change(sales, random, epoch)
        commit = sales.epoch()
        assert commit is not None
        commits.append(commit)
        assert_read_units_are_right(sales, query, units)
        if epoch == 2:
            sales.assert_truth()
        if commit.completed:
            break
    assert len(commits) > 2
    change(sales, random, 40)
    sales.finish()
    assert_read_units_are_right(sales, query, units)
    sales.assert_truth()
