"""The arrangement on real Spark and Delta: a position for each vnode, several task runs, rescale, crashes, repair."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import BackfillError, DuplicateKeyError, EpochFailedError, StateError
from airflow_backfill_provider.core.scan.progress import Completed, InProgress
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.spark.stamps import snapshot_part, transaction_id
from airflow_backfill_provider.strategies.arrangement.files import ArrangementFiles
from airflow_backfill_provider.strategies.arrangement.location import location_of
from tests.dying import dies_at
from tests.integration.engine.lakehouse import Lakehouse

pytestmark = pytest.mark.spark

QUERY = "SELECT id, name FROM upstream WHERE customer <> 3"
EXPECTED = "SELECT id, name FROM {upstream} WHERE customer <> 3"


@pytest.fixture
def customers(lakehouse: Lakehouse) -> Lakehouse:
    """An upstream whose keys come in random order; a row's vnode comes from its customer, not from its key."""
    lakehouse.make_upstream("id STRING, customer INT, name STRING")
    insert(lakehouse, range(120))
    return lakehouse


def insert(lakehouse: Lakehouse, ids: Sequence[int]) -> None:
    lakehouse.sql(
        "INSERT INTO {upstream} SELECT sha2(CAST(id AS STRING), 256), CAST(id % 13 AS INT), concat('n', id) "
        f"FROM range({ids[0]}, {ids[-1] + 1})"
    )


def churn(lakehouse: Lakehouse, step: int) -> None:
    """Change, move, remove and add rows all over the key space, in three versions."""
    insert(lakehouse, range(1000 + 5 * step, 1005 + 5 * step))
    lakehouse.sql(
        f"""MERGE INTO {{upstream}} t USING (SELECT {step} AS step) s ON t.customer % 6 = s.step % 6
            WHEN MATCHED AND t.id < '2' THEN DELETE
            WHEN MATCHED AND t.id < '8' THEN UPDATE SET customer = (t.customer + 1) % 13
            WHEN MATCHED THEN UPDATE SET name = concat(t.name, 'x')"""
    )


def create(lakehouse: Lakehouse, **fields: Any) -> None:
    fields = {"strategy": "arrangement", "query": QUERY, "vnode_count": 7, "rate_limit": 40, **fields}
    distribution = fields.pop("distribution_key", ["customer"])
    key = fields.pop("key", ["id"])
    upstream = {"path": lakehouse.upstream_path, "key": key, "distribution_key": distribution}
    lakehouse.create(upstream=upstream, **fields)


def test_a_vnode_is_sparks_own_hash_partition(lakehouse: Lakehouse) -> None:
    """Design: ``repartition(vnode_count, key)`` is the hash dispatcher."""
    lakehouse.make_upstream("id BIGINT, name STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('n', id) FROM range(100)")
    create(lakehouse, vnode_count=256, distribution_key=["id", "name"], query="SELECT * FROM upstream")
    arranged = lakehouse.spark.read.format("delta").load(location_of(lakehouse.backfill.settings()))
    dispatched = arranged.repartition(256, "id", "name").withColumn("partition", F.spark_partition_id())
    assert dispatched.filter("partition <> __vnode").count() == 0


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("parallelisms", "rate_limit"),
    [([1, 4, 2, 2], 60), ([1, 4, 4, 1, 2, 2, 2, 2], 40)],
    ids=["out and in", "out, in and on"],
)
def test_a_backfill_through_rescales(customers: Lakehouse, parallelisms: list[int], rate_limit: int) -> None:
    """I1 to I4: from 1 to 4 task runs, from 4 to 1, and at the end with Completed vnodes."""
    create(customers, rate_limit=rate_limit)
    store = customers.backfill.store
    completed: dict[int, int] = {}
    for step, parallelism in enumerate(parallelisms):
        churn(customers, step)
        mutations.rescale_job(parallelism, store=store, requested_by="tester")
        before = store.state()
        barrier = customers.inject()
        assert barrier is not None
        commit = customers.run(barrier)
        state = store.state()
        before.require_successor(state, store.settings().key_order)
        customers.assert_truth()
        assert len(barrier.parts) <= parallelism
        for first, last in barrier.vnode_ranges:
            begun = [vnode for vnode in range(first, last + 1) if isinstance(state.vnodes[vnode], InProgress)]
            inherited = [vnode for vnode in begun if isinstance(before.vnodes[vnode], InProgress)]
            assert len(begun) <= max(len(inherited), 1)
        for vnode, rows in completed.items():
            assert state.vnodes[vnode].row_count == rows, "a completed vnode is never scanned again"
        completed |= {v: p.row_count for v, p in enumerate(state.vnodes) if isinstance(p, Completed)}
        if commit.completed:
            break
    assert commit.completed
    arrangement = ArrangementFiles(location_of(store.settings()), customers.storage_options)
    assert arrangement.exists()
    protocol.finish_job(store=store, requested_by="tester")
    assert not arrangement.exists()
    churn(customers, 9)
    customers.finish()
    customers.assert_equals_query(EXPECTED)
    assert {len(barrier.parts) for barrier in customers.barriers()} >= {1, 4}


@pytest.mark.exhaustive
@pytest.mark.parametrize("vnode_count", [1, 32_768])
def test_composite_null_and_string_keys(lakehouse: Lakehouse, vnode_count: int) -> None:
    """Any number of vnodes; keys of several columns and directions, nulls among them."""
    lakehouse.make_upstream("region STRING, number BIGINT, amount INT")
    lakehouse.sql(
        "INSERT INTO {upstream} SELECT nullif(concat('r', id % 3), 'r0'), nullif(id, 7), CAST(id AS INT) FROM range(60)"
    )
    create(
        lakehouse,
        key=["region", {"column": "number", "descending": True}],
        distribution_key=["region", "number"],
        query="SELECT amount FROM upstream",
        vnode_count=vnode_count,
        rate_limit=25,
        parallelism=min(3, vnode_count),
    )
    for step in range(2):
        lakehouse.sql(f"UPDATE {{upstream}} SET number = number + 100 WHERE number % 4 = {step}")
        lakehouse.sql(f"DELETE FROM {{upstream}} WHERE number % 7 = {step}")
        commit = lakehouse.epoch()
        assert commit is not None
        assert commit.snapshot_read_row_count <= 25
        lakehouse.assert_truth()
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT amount, region AS `__key_region`, number AS `__key_number` FROM {upstream}")


@pytest.mark.exhaustive
def test_task_runs_share_an_epoch_and_only_the_failed_part_is_redone(customers: Lakehouse) -> None:
    """One application applies the changes, each reads its part, and the last one to report commits."""
    create(customers, parallelism=3)
    store = customers.backfill.store
    customers.epoch()
    churn(customers, 0)
    barrier = customers.inject()
    assert barrier is not None
    assert len(barrier.parts) == 3

    def part(index: int) -> Any:
        engine = customers.unlocked_engine()
        return protocol.read_chunk_part(barrier, index, store=store, engine=engine)

    with pytest.raises(EpochFailedError, match="changes"):
        part(0)
    assert protocol.apply_changes(barrier, store=store, engine=customers.engine) is None
    assert part(1) is None
    with dies_at(CrashPoint.AFTER_SNAPSHOT_COMMIT):
        part(2)
    assert part(0) is None
    assert store.commit_of(barrier.epoch) is None
    assert {report.part for report in store.reports(barrier)} == {None, 0, 1}
    version = customers.view().count()
    commit = part(2)
    assert commit is not None
    assert customers.view().count() == version, "the part was written before it died; it is not written again"
    assert commit.snapshot_read_row_count == sum(
        sum(report.rows.values()) for report in store.reports(barrier) if report.part is not None
    )
    assert part(1) == commit
    customers.assert_truth()
    customers.finish()
    customers.assert_equals_query(EXPECTED)


@pytest.mark.exhaustive
def test_each_part_of_an_epoch_is_written_and_counted_on_its_own(customers: Lakehouse) -> None:
    """I2, I5: of parts that share an epoch each has its own rows, its own transaction and its own report."""
    create(customers, parallelism=2, rate_limit=None)
    store = customers.backfill.store
    churn(customers, 0)
    barrier = customers.inject()
    assert barrier is not None
    protocol.apply_changes(barrier, store=store, engine=customers.engine)
    for part in (1, 0):
        protocol.read_chunk_part(barrier, part, store=store, engine=customers.engine)
    customers.assert_equals_query(EXPECTED)

    first, last = barrier.vnode_ranges[0]
    reported = {report.part: set(report.rows) for report in store.reports(barrier) if report.part is not None}
    assert reported.keys() == {0, 1}
    assert reported[0] == {vnode for vnode in reported[0] | reported[1] if first <= vnode <= last}
    log, identity = DeltaLog(customers.view_path, customers.storage_options), ViewIdentity.of(store.settings())
    parts = {transaction_id(identity, snapshot_part(part)): part for part in (0, 1)}
    commits = [commit for version in log.versions() if (commit := log.commit(version)) is not None]
    wrote = [(parts[name], epoch) for commit in commits for name, epoch in commit.transactions.items() if name in parts]
    assert wrote == [(1, barrier.epoch), (0, barrier.epoch)]


IN_ORDER = [
    CrashPoint.AFTER_PIN,
    CrashPoint.AFTER_CHANGES_COMMIT,
    CrashPoint.BEFORE_ARRANGEMENT_COMMIT,
    CrashPoint.AFTER_ARRANGEMENT_COMMIT,
    CrashPoint.BEFORE_SNAPSHOT_COMMIT,
    CrashPoint.AFTER_SNAPSHOT_COMMIT,
    CrashPoint.AFTER_STATE_COMMIT,
]


@pytest.mark.exhaustive
def test_dies_at_every_point_while_the_upstream_goes_on(customers: Lakehouse) -> None:
    """I2: each attempt of the epoch dies one step later; the last one commits it, and nothing is lost or doubled."""
    create(customers, parallelism=2)
    customers.epoch()
    for step, point in enumerate(IN_ORDER):
        if point in {CrashPoint.AFTER_PIN, CrashPoint.AFTER_CHANGES_COMMIT}:
            churn(customers, step)
        with dies_at(point):
            customers.epoch()
    commit = customers.epoch()
    assert commit is not None
    assert commit.epoch == 2
    customers.assert_truth()
    customers.finish()
    customers.assert_equals_query(EXPECTED)


def test_changes_that_waited_come_into_the_arrangement_before_its_last_chunk(customers: Lakehouse) -> None:
    """I1: until then chunks are read from the base alone."""
    create(customers, rate_limit=50, vnode_count=4, distribution_key=["id"], visibility="on_finish")
    arranged = location_of(customers.backfill.store.settings())
    for step in range(2):
        churn(customers, step)
        customers.epoch()
    customers.assert_truth()
    assert customers.spark.read.format("delta").load(arranged).count() == 120
    customers.finish()
    customers.assert_equals_query(EXPECTED)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "point",
    [
        CrashPoint.BEFORE_ARRANGEMENT_COMMIT,
        CrashPoint.AFTER_ARRANGEMENT_COMMIT,
    ],
)
def test_creation_that_died_is_completed_by_the_next_epoch(customers: Lakehouse, point: CrashPoint) -> None:
    """The settings pin the version that the arrangement is made of, so any task run can make it."""
    with dies_at(point):
        create(customers, rate_limit=None)
    churn(customers, 1)
    customers.finish()
    customers.assert_equals_query(EXPECTED)


@pytest.mark.exhaustive
def test_a_zombie_part_wakes_up_after_its_successor(customers: Lakehouse) -> None:
    """I5: a part of epoch 2 that continues after epoch 3 loses and doubles nothing."""
    create(customers, parallelism=2)
    store = customers.backfill.store
    customers.epoch()
    barrier = customers.inject()
    assert barrier is not None
    zombie = customers.unlocked_engine()
    settings, since = store.settings(), store.commits()[-1].tables
    customers.run(barrier)
    churn(customers, 2)
    customers.epoch()
    customers.assert_truth()
    state = store.state()
    for wake_up in (
        lambda: zombie.read_chunk_part(settings, barrier, 1, since=since),
        lambda: zombie.apply_changes(settings, barrier, since=since),
    ):
        with pytest.raises(BackfillError):
            wake_up()
    assert protocol.read_chunk_part(barrier, 1, store=store, engine=zombie) == store.commit_of(barrier.epoch)
    assert store.state() == state
    customers.assert_truth()


@pytest.mark.exhaustive
def test_a_key_inserted_twice_is_refused_before_the_view_has_it(customers: Lakehouse) -> None:
    """I6, also where the first of the two lies in the arrangement and is not read yet."""
    create(customers, rate_limit=10)
    customers.epoch()
    customers.sql("INSERT INTO {upstream} SELECT id, customer, 'again' FROM {upstream}")
    with pytest.raises(DuplicateKeyError):
        customers.finish()


@pytest.mark.exhaustive
def test_a_missing_arrangement_is_refused(customers: Lakehouse) -> None:
    """I6: epochs have read from it, and a new one would have other rows."""
    create(customers)
    customers.epoch()
    ArrangementFiles(location_of(customers.backfill.settings()), customers.storage_options).drop()
    with pytest.raises(StateError, match="arrangement"):
        customers.epoch()


@pytest.mark.exhaustive
@pytest.mark.parametrize("strategy", ["no_shuffle", "arrangement"])
def test_a_part_of_the_upstream(customers: Lakehouse, strategy: str) -> None:
    """A job may be about some vnodes and a range of keys; rows move in and out of it."""
    create(
        customers,
        strategy=strategy,
        restrict_to={"vnodes": ["0-2", 5], "keys": {"after": ["1"], "up_to": ["d"]}},
    )
    expected = EXPECTED + " AND pmod(hash(customer), 7) IN (0, 1, 2, 5) AND id > '1' AND id <= 'd'"
    for step in range(2):
        customers.epoch()
        churn(customers, step)
    customers.finish()
    customers.assert_equals_query(expected)
    status = customers.backfill.status()
    assert status.vnodes.completed == 7
    assert status.finished


@pytest.mark.exhaustive
@pytest.mark.parametrize("strategy", ["no_shuffle", "arrangement"])
def test_a_repair_rewrites_the_chosen_rows(customers: Lakehouse, strategy: str) -> None:
    """Another writer removed, doubled and changed rows of the view, and added some that no upstream ever had."""
    create(customers, strategy=strategy)
    store = customers.backfill.store
    customers.epoch()
    view = customers.view_name
    for statement in (
        f"DELETE FROM {view} WHERE id LIKE '1%'",
        f"INSERT INTO {view} SELECT * FROM {view} WHERE id LIKE '2%'",
        f"UPDATE {view} SET name = 'wrong' WHERE id LIKE '3%'",
        f"INSERT INTO {view} VALUES ('none', 'stray'), ('other', 'stray')",
    ):
        customers.spark.sql(statement)
    mutations.repair_job(store=store, requested_by="tester", vnodes=["0-6"])
    churn(customers, 3)
    customers.epoch()
    customers.assert_truth()
    customers.spark.sql(f"INSERT INTO {view} VALUES ('none', 'stray')")
    mutations.repair_job(store=store, requested_by="tester", keys=["none"])
    barrier = customers.inject()
    assert barrier is not None
    customers.run(barrier)
    customers.assert_truth()
    customers.finish()
    customers.assert_equals_query(EXPECTED)


@pytest.mark.exhaustive
def test_column_names_that_parquet_does_not_allow(spark: SparkSession, tmp_path: Path) -> None:
    """The arrangement keeps all names and types of the upstream."""
    lakehouse = Lakehouse(spark, tmp_path)
    lakehouse.make_upstream(
        "`the key` STRING, `a.b` STRUCT<x: INT, y: ARRAY<STRING>>, `unused one` INT",
        {"delta.enableChangeDataFeed": "true", "delta.columnMapping.mode": "name"},
    )
    lakehouse.sql(
        "INSERT INTO {upstream} SELECT concat('k', id), named_struct('x', CAST(id AS INT), 'y', array('z')), 1 "
        "FROM range(20)"
    )
    create(
        lakehouse,
        key=["the key"],
        distribution_key=["a.b"],
        query="SELECT `the key` AS k, `a.b`.x AS x FROM upstream",
        rate_limit=12,
    )
    lakehouse.epoch()
    lakehouse.sql("UPDATE {upstream} SET `a.b` = named_struct('x', 99, 'y', array('w')) WHERE `the key` LIKE 'k1%'")
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT `the key` AS k, `a.b`.x AS x FROM {upstream}")
