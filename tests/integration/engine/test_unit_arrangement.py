"""
History of groups read unit by unit, under strategy ``arrangement``, on real Spark.

After every epoch that readers may see, the view has the query's rows of the units that were read, and of no others. The
query is run by Spark over the whole upstream. Which units were read is decided here in Python, from the positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.jobs import mutations
from tests.integration.engine.grouped_orders import DiedError, die_at
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


@pytest.fixture
def sales(lakehouse: Lakehouse) -> Iterator[Lakehouse]:
    """Give an upstream in which half of the rows are of one customer."""
    lakehouse.make_upstream(COLUMNS)
    lakehouse.sql(f"INSERT INTO {{upstream}} {ROWS} FROM range(60)")
    yield lakehouse
    crash_points.install(None)


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
    lake.change(
        f"UPDATE {{upstream}} SET customer = CASE WHEN customer = 'big' THEN 'c{random.randint(1, 9)}' ELSE 'big' END, "
        f"amount = {random.randint(0, 4)} WHERE id % 11 = {random.randint(0, 10)}"
    )
    if epoch % 2:
        lake.change(f"UPDATE {{upstream}} SET customer = NULL WHERE id % 13 = {random.randint(0, 12)}")
        lake.change(f"DELETE FROM {{upstream}} WHERE customer = 'c{random.randint(1, 9)}'")
    lake.change(f"INSERT INTO {{upstream}} {ROWS} FROM range({100 * epoch}, {100 * epoch + 5})")


POINTS = (
    CrashPoint.BEFORE_CHANGES_COMMIT,
    CrashPoint.AFTER_CHANGES_COMMIT,
    CrashPoint.BEFORE_ARRANGEMENT_COMMIT,
    CrashPoint.AFTER_ARRANGEMENT_COMMIT,
    CrashPoint.BEFORE_SNAPSHOT_COMMIT,
    CrashPoint.AFTER_SNAPSHOT_COMMIT,
    CrashPoint.BEFORE_STATE_COMMIT,
    CrashPoint.AFTER_STATE_COMMIT,
    CrashPoint.BEFORE_LOG_COMMIT,
)
"""The points of an epoch that is run by one task run."""


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
        query=query, strategy="arrangement", visibility="every_epoch", rate_limit=35, vnode_count=4, parallelism=2
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
    assert len(commits) > 1
    change(sales, random, 40)
    sales.finish()
    assert_read_units_are_right(sales, query, units)
    sales.assert_truth()


@pytest.mark.exhaustive
def test_changes_wait_until_all_groups_are_read_and_survive_death_at_every_commit(sales: Lakehouse) -> None:
    """I1 and I2 where groups are as of several offsets, and rows move between read and unread ones meanwhile."""
    settings = sales.create(query=BY_CUSTOMER, rate_limit=25, vnode_count=4)
    assert (settings.strategy, settings.definition.visibility) == ("arrangement", "on_finish")
    random = Random(3)
    for epoch, point in enumerate(
        (
            CrashPoint.BEFORE_SNAPSHOT_COMMIT,
            CrashPoint.AFTER_SNAPSHOT_COMMIT,
            CrashPoint.BEFORE_CHANGES_COMMIT,
            CrashPoint.AFTER_CHANGES_COMMIT,
        ),
        start=1,
    ):
        change(sales, random, epoch)
        dies_and_is_run_again(sales, point)
        if epoch == 2:  # groups that were read at once lag behind, and a verification knows it
            sales.assert_truth()
    sales.finish()
    assert sales.backfill.store.state_of(sales.backfill.store.settings()).completed
    assert_read_units_are_right(sales, BY_CUSTOMER, ["customer"])
    sales.assert_truth()


def dies_and_is_run_again(lake: Lakehouse, point: CrashPoint) -> bool:
    """Run an epoch whose first attempt dies at a point; return whether it came there."""
    barrier = lake.inject()
    if barrier is None:
        return False
    crash_points.install(die_at(point))
    try:
        lake.run(barrier)
    except DiedError:
        crash_points.install(None)
        lake.run(barrier)
        return True
    finally:
        crash_points.install(None)
    return False


@pytest.mark.parametrize("point", [exhaustive(point) for point in POINTS])
def test_an_epoch_that_dies_is_run_again(sales: Lakehouse, point: CrashPoint) -> None:
    """I2 at each commit, with changes of read and unread groups and with a chunk, under ``every_epoch``."""
    sales.create(
        query=BY_CUSTOMER, strategy="arrangement", visibility="every_epoch", rate_limit=12, vnode_count=4, parallelism=2
    )
    sales.epoch()
    random = Random(5)
    for epoch in (2, 3):
        change(sales, random, epoch)
        assert dies_and_is_run_again(sales, point)
        assert_read_units_are_right(sales, BY_CUSTOMER, ["customer"])
    sales.finish()
    assert_read_units_are_right(sales, BY_CUSTOMER, ["customer"])


@pytest.mark.parametrize(
    "point", [exhaustive(CrashPoint.BEFORE_ARRANGEMENT_COMMIT), exhaustive(CrashPoint.AFTER_ARRANGEMENT_COMMIT)]
)
def test_a_creation_that_dies_is_completed(sales: Lakehouse, point: CrashPoint) -> None:
    """The arrangement is of the version that was pinned, whatever changed meanwhile."""
    job = {"query": BY_CUSTOMER, "strategy": "arrangement", "visibility": "every_epoch", "vnode_count": 4}
    crash_points.install(die_at(point))
    with pytest.raises(DiedError):
        sales.create(**job)
    crash_points.install(None)
    change(sales, Random(2), 1)
    sales.create(**job)
    sales.finish()
    assert_read_units_are_right(sales, BY_CUSTOMER, ["customer"])


@pytest.mark.exhaustive
def test_a_repair_beside_a_chunk_mends_read_groups_and_leaves_the_others_to_the_chunk(sales: Lakehouse) -> None:
    """A repaired group is written from all of its rows, once, whether the epoch also reads a chunk or not."""
    sales.create(query=BY_CUSTOMER, strategy="arrangement", visibility="every_epoch", rate_limit=35, vnode_count=4)
    sales.epoch()
    sales.sql("UPDATE {view} SET total = 99")
    sales.sql("INSERT INTO {view} (customer, n) VALUES ('stray', 1), ('big', 5), (NULL, 6)")
    change(sales, Random(1), 2)
    mutations.repair_job(vnodes=["0-3"], store=sales.backfill.store, requested_by="tester")
    sales.epoch()
    assert_read_units_are_right(sales, BY_CUSTOMER, ["customer"])
    sales.sql("INSERT INTO {view} (customer, n) VALUES ('big', 5), (NULL, 6)")
    mutations.repair_job(units=["big", None], store=sales.backfill.store, requested_by="tester")
    sales.finish()
    assert_read_units_are_right(sales, BY_CUSTOMER, ["customer"])
    sales.assert_truth()


@pytest.mark.exhaustive
def test_a_job_is_throttled_paused_rescaled_and_resumed(sales: Lakehouse) -> None:
    """Settings of speed hold for groups, too; rows that change meanwhile reach the groups that were read."""
    sales.create(query=BY_CUSTOMER, strategy="arrangement", visibility="every_epoch", rate_limit=5, vnode_count=4)
    store, random = sales.backfill.store, Random(9)
    sales.epoch()
    for epoch, mutate in enumerate(
        (
            lambda: mutations.pause_job(store=store, requested_by="tester"),
            lambda: mutations.resume_job(store=store, requested_by="tester"),
            lambda: mutations.rescale_job(3, store=store, requested_by="tester"),
            lambda: mutations.throttle_job(15, store=store, requested_by="tester"),
        ),
        start=1,
    ):
        mutate()
        change(sales, random, epoch)
        sales.epoch()
        assert_read_units_are_right(sales, BY_CUSTOMER, ["customer"])
    sales.finish()
    assert_read_units_are_right(sales, BY_CUSTOMER, ["customer"])


@pytest.mark.exhaustive
def test_a_warning_names_a_group_above_the_rate_limit_and_it_is_read_whole(sales: Lakehouse) -> None:
    """A chunk ends between groups, so only a group above the limit exceeds it, and is read alone."""
    sales.create(query=BY_CUSTOMER, strategy="arrangement", rate_limit=3, vnode_count=1)
    seen = []
    for _ in range(12):
        barrier = sales.inject()
        if barrier is None:
            break
        seen.append((sales.run(barrier).snapshot_read_row_count, barrier.warnings))
    largest = max(seen)
    assert largest[0] > 20
    assert any("one group has" in warning for warning in largest[1])
    assert all(rows <= 3 or any("one group has" in warning for warning in warnings) for rows, warnings in seen)
    assert_read_units_are_right(sales, BY_CUSTOMER, ["customer"])
