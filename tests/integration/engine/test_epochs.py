"""Epochs on real Spark and Delta: what the view gets, epoch by epoch."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.scan.progress import Completed
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.lake.tables.view_identity import FINISHED_PROPERTY, view_properties
from tests.integration.engine.lakehouse import Lakehouse
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

COLUMNS = "region STRING, id BIGINT, amount DECIMAL(10,2), status STRING, note STRING"
QUERY = "SELECT id, amount * 100 AS cents, concat(status, '{id}') AS state FROM upstream WHERE status <> 'draft'"
EXPECTED = "SELECT id, amount * 100 AS cents, concat(status, '{id}') AS state FROM {upstream} WHERE status <> 'draft'"

CHANGES = [
    # Alone, because a chunk that is read at a wrong version then has the right number of rows, and other values.
    ["UPDATE {upstream} SET amount = amount + 1 WHERE id % 11 = 0"],
    [
        "DELETE FROM {upstream} WHERE id % 13 = 0",
        "INSERT INTO {upstream} VALUES (NULL, NULL, 1, 'paid', 'null key'), (NULL, -5, 2, 'paid', NULL)",
        "UPDATE {upstream} SET id = id + 1000 WHERE id % 17 = 0",
        "UPDATE {upstream} SET status = 'draft' WHERE id % 10 = 1",
        "UPDATE {upstream} SET status = 'paid' WHERE status = 'draft' AND id % 3 = 0",
        # Moves rows between distant key ranges, both ways in one version.
        """UPDATE {upstream} SET region = CASE region WHEN 'r1' THEN 'r2' ELSE 'r1' END
           WHERE region IN ('r1', 'r2') AND id % 5 = 0""",
    ],
    [
        "DELETE FROM {upstream} WHERE region = 'r0' AND id < 50",
        "INSERT INTO {upstream} SELECT 'r0', id, 7.00, 'paid', 'again' FROM range(0, 30, 3)",
        "UPDATE {upstream} SET amount = 1 WHERE id = 9",
        "UPDATE {upstream} SET amount = 2 WHERE id = 9",
    ],
]
"""Statements between epochs: each list after one."""


@pytest.fixture
def orders(lakehouse: Lakehouse) -> Lakehouse:
    """An upstream with a composite, nullable key in a few ordered files."""
    lakehouse.make_upstream(COLUMNS)
    rows = lakehouse.sql(
        """SELECT CASE WHEN id % 7 = 0 THEN NULL ELSE concat('r', id % 3) END AS region, id,
                  CAST(id * 1.5 AS DECIMAL(10,2)) AS amount,
                  CASE WHEN id % 4 = 0 THEN 'draft' ELSE 'paid' END AS status,
                  CAST(NULL AS STRING) AS note
           FROM range(400)"""
    )
    rows.repartitionByRange(3, "region", "id").write.format("delta").mode("append").save(lakehouse.upstream_path)
    return lakehouse


@pytest.mark.smoke
def test_view_is_the_query_at_every_epoch_while_the_upstream_changes(orders: Lakehouse) -> None:
    """I1 and I3 through updates, deletes, re-keying, swaps, re-inserts and rows crossing the filter."""
    orders.create(key=["region", "id"], query=QUERY, rate_limit=100)
    before = orders.backfill.store.state()
    for statements in CHANGES:
        commit = orders.epoch()
        assert commit is not None
        assert commit.snapshot_read_row_count <= 100
        orders.assert_truth()
        after = orders.backfill.store.state()
        before.require_successor(after, orders.backfill.store.settings().key_order)
        before = after
        for statement in statements:
            orders.sql(statement)
    commits = orders.finish()
    assert commits[-1].completed
    orders.assert_truth()
    orders.assert_equals_query(EXPECTED)


@pytest.mark.parametrize("strategy", ["no_shuffle", exhaustive("arrangement")])
def test_changes_wait_for_the_epoch_that_finishes_the_view(orders: Lakehouse, strategy: str) -> None:
    """One removal for all of them; a row that is inserted before its chunk is read is no duplicate then."""
    orders.create(
        key=["region", "id"], query=QUERY, rate_limit=100, strategy=strategy, vnode_count=8, visibility="on_finish"
    )
    for statements in CHANGES:
        orders.epoch()
        orders.assert_truth()
        for statement in statements:
            orders.sql(statement)
    orders.finish()
    orders.assert_equals_query(EXPECTED)
    history = orders.sql("DESCRIBE HISTORY {view}")
    assert history.filter("operation IN ('DELETE', 'MERGE')").count() == 1


def test_swapped_keys_inside_one_version_keep_both_rows(lakehouse: Lakehouse) -> None:
    """
    Inside one version an insert or postimage beats a delete or preimage of the same key.

    See docs/concepts/rules.md#changes-are-netted-by-key.
    """
    lakehouse.make_upstream("id BIGINT, name STRING")
    lakehouse.sql("INSERT INTO {upstream} VALUES (0, 'zero'), (5, 'five'), (9, 'nine')")
    lakehouse.create(rate_limit=2)
    lakehouse.epoch()
    lakehouse.sql("UPDATE {upstream} SET id = CASE id WHEN 0 THEN 5 ELSE 0 END WHERE id IN (0, 5)")
    lakehouse.finish()
    assert sorted(map(tuple, lakehouse.view().collect())) == [(0, "five"), (5, "zero"), (9, "nine")]


def test_row_that_moves_from_after_the_position_into_the_chunk_is_read_once(lakehouse: Lakehouse) -> None:
    """A row gets a key in the chunk that the same epoch reads."""
    lakehouse.make_upstream("id BIGINT, name STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('n', id) FROM range(10)")
    lakehouse.create(rate_limit=3)
    lakehouse.epoch()
    lakehouse.sql("UPDATE {upstream} SET id = 100 WHERE id = 1")
    lakehouse.sql("UPDATE {upstream} SET id = -1 WHERE id = 8")
    for _ in range(2):
        lakehouse.epoch()
        lakehouse.assert_truth()
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT * FROM {upstream}")


@pytest.mark.exhaustive
def test_finished_view_stays_fresh_and_no_epoch_is_run_without_changes(lakehouse: Lakehouse) -> None:
    """Completed vnodes let all changes through, state is written only when it changed."""
    lakehouse.make_upstream("id BIGINT, name STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, 'a' FROM range(5)")
    lakehouse.create()
    lakehouse.finish()
    finished = protocol.finish_job(store=lakehouse.backfill.store, requested_by="tester")
    assert finished.finished_epoch == 1
    assert (view_properties(lakehouse.view_path, lakehouse.storage_options) or {})[FINISHED_PROPERTY] == "true"
    state = lakehouse.backfill.store.state()
    lakehouse.sql("INSERT INTO {upstream} VALUES (7, 'new')")
    lakehouse.sql("DELETE FROM {upstream} WHERE id = 0")
    commit = lakehouse.epoch()
    assert commit is not None
    assert (commit.snapshot_read_row_count, commit.upstream_output_row_count) == (0, 2)
    assert lakehouse.backfill.store.state() == state
    lakehouse.assert_equals_query("SELECT * FROM {upstream}")
    lakehouse.sql("OPTIMIZE {upstream}")
    assert lakehouse.inject() is None
    status = lakehouse.backfill.status()
    assert (status.progress, status.finished, status.vnodes.completed) == (1.0, True, 4)


@pytest.mark.exhaustive
def test_paused_barrier_reads_no_snapshot_and_applies_changes(lakehouse: Lakehouse) -> None:
    """I4, and docs/concepts/rules.md#the-settings-decide: pause and rate limit 0 are independent of each other."""
    lakehouse.make_upstream("id BIGINT, name STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, 'a' FROM range(9)")
    lakehouse.create(rate_limit=3)
    store = lakehouse.backfill.store
    lakehouse.epoch()
    mutations.pause_job(store=store, requested_by="tester")
    assert lakehouse.inject() is None
    lakehouse.sql("UPDATE {upstream} SET name = 'b'")
    commit = lakehouse.epoch()
    assert commit is not None
    assert (commit.snapshot_read_row_count, commit.upstream_output_row_count) == (0, 3)
    lakehouse.assert_truth()
    mutations.throttle_job(0, store=store, requested_by="tester")
    mutations.resume_job(store=store, requested_by="tester")
    assert lakehouse.inject() is None
    mutations.throttle_job(1, store=store, requested_by="tester")
    commit = lakehouse.epoch()
    assert commit is not None
    assert commit.snapshot_read_row_count == 1
    applied = [pinned.mutation.value for pinned in list(lakehouse.barriers())[-1].mutations]
    assert applied == ["throttle", "resume", "throttle"]
    mutations.throttle_job(None, store=store, requested_by="tester")
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT * FROM {upstream}")


@pytest.mark.exhaustive
def test_empty_upstream_completes_at_once_and_later_rows_arrive(lakehouse: Lakehouse) -> None:
    """docs/concepts/rules.md#no-position-is-not-the-null-key: no position differs from the position of a null key."""
    lakehouse.make_upstream("id BIGINT, name STRING")
    lakehouse.create(rate_limit=2)
    lakehouse.finish()
    assert set(lakehouse.backfill.store.state().vnodes) == {Completed(None, 0)}
    lakehouse.sql("INSERT INTO {upstream} VALUES (NULL, 'null key'), (1, 'one')")
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT * FROM {upstream}")


def test_one_row_with_a_null_key(lakehouse: Lakehouse) -> None:
    """docs/concepts/rules.md#upstreams-without-rows-and-of-one-row: a one-row upstream, its key null."""
    lakehouse.make_upstream("id BIGINT, name STRING")
    lakehouse.sql("INSERT INTO {upstream} VALUES (NULL, 'only'), (1, 'one')")
    lakehouse.create(rate_limit=1)
    lakehouse.epoch()
    assert lakehouse.backfill.store.state().vnodes[0].position == (None,)
    lakehouse.sql("UPDATE {upstream} SET name = 'changed' WHERE id IS NULL")
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT * FROM {upstream}")


def test_a_row_with_a_null_key_changes_whatever_its_values_are(lakehouse: Lakehouse) -> None:
    """Python has no instant in the year 0, which Spark has, and no epoch needs it there."""
    lakehouse.make_upstream("id BIGINT, at TIMESTAMP, n INT")
    lakehouse.sql("INSERT INTO {upstream} VALUES (NULL, TIMESTAMP'0000-06-01 00:00:00', 1), (1, NULL, 1)")
    lakehouse.create()
    lakehouse.finish()
    lakehouse.sql("UPDATE {upstream} SET n = 2 WHERE id IS NULL")
    lakehouse.finish()
    lakehouse.assert_truth()
    assert lakehouse.view().filter("n = 2").count() == 1


@pytest.mark.exhaustive
def test_a_job_is_about_some_vnodes_and_keys_alone(lakehouse: Lakehouse) -> None:
    """I1 within a part of the upstream: its chunk, its changes and its verification, and its count of rows."""
    lakehouse.make_upstream("id BIGINT, name STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, 'a' FROM range(40)")
    part = "SELECT * FROM {upstream} WHERE pmod(hash(id), 4) IN (0, 2) AND id > 3 AND id <= 30"
    lakehouse.create(strategy="no_shuffle", restrict_to={"vnodes": [0, 2], "keys": {"after": [3], "up_to": [30]}})
    (commit,) = lakehouse.finish()
    assert 0 < commit.snapshot_read_row_count == lakehouse.sql(part).count() < 27
    # Each row is changed; some move in, out, or from one end to the other.
    lakehouse.sql("UPDATE {upstream} SET id = (id + 7) % 40, name = 'b'")
    lakehouse.finish()
    lakehouse.assert_equals_query(part)
    lakehouse.assert_truth()


@pytest.mark.exhaustive
def test_dropped_key_columns_are_kept_hidden(orders: Lakehouse) -> None:
    """A query without the key still finds its rows when they change."""
    orders.create(key=["region", "id"], query="SELECT amount, note FROM upstream", rate_limit=150)
    orders.epoch()
    assert orders.view().columns == ["amount", "note", "__key_region", "__key_id"]
    orders.sql("UPDATE {upstream} SET note = 'changed' WHERE id % 2 = 0")
    orders.sql("DELETE FROM {upstream} WHERE id % 5 = 0")
    orders.finish()
    orders.assert_equals_query("SELECT amount, note FROM {upstream}")


@pytest.mark.exhaustive
def test_columns_added_to_the_upstream_do_not_disturb_a_star(lakehouse: Lakehouse) -> None:
    """A star means the columns that the upstream had when the job was created."""
    lakehouse.make_upstream("id BIGINT, name STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, 'a' FROM range(6)")
    lakehouse.create(rate_limit=3)
    lakehouse.epoch()
    lakehouse.sql("ALTER TABLE {upstream} ADD COLUMN (later INT)")
    lakehouse.sql("INSERT INTO {upstream} VALUES (-1, 'new', 3)")
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT id, name FROM {upstream}")


@pytest.mark.exhaustive
def test_chunk_reads_only_the_files_that_hold_it(lakehouse: Lakehouse) -> None:
    """A 10x larger upstream costs the same per epoch: files outside of the chunk are not even opened."""
    lakehouse.make_upstream("id BIGINT, name STRING")
    for start in range(0, 1000, 100):
        lakehouse.sql(f"INSERT INTO {{upstream}} SELECT /*+ COALESCE(1) */ id, 'a' FROM range({start}, {start + 100})")
    lakehouse.create(rate_limit=100)
    lakehouse.epoch()
    barrier = lakehouse.inject()
    assert barrier is not None
    (part,) = barrier.parts
    assert [covered.up_to for covered in part.ranges] == [("199",)]
    files = lakehouse.backfill.upstream.blocks(
        barrier.upstream.to_offset, lakehouse.backfill.store.settings().key_order
    )
    for file in files:
        if file.lower[0] >= 300 or file.upper[0] < 100:
            (lakehouse.on_disk(lakehouse.upstream_path) / file.path).unlink()
    commit = lakehouse.run(barrier)
    assert commit.snapshot_read_row_count == 100
    assert lakehouse.view().count() == 200


@pytest.mark.parametrize("strategy", [exhaustive("no_shuffle"), "arrangement"])
def test_mutations_between_the_epochs_of_one_task_run_take_effect_with_the_next_epoch(
    lakehouse: Lakehouse, strategy: str
) -> None:
    """One engine, and a barrier for each epoch: changes, a pause, a resume with a repair, and another limit."""
    lakehouse.make_upstream("id BIGINT, name STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('n', id) FROM range(40)")
    lakehouse.create(rate_limit=10, strategy=strategy)
    task = Requester(dag_id="d", run_id="r", task_id="t")
    backfill = lakehouse.backfill
    asked: dict[str, Any] = {"store": backfill.store, "requested_by": "vera"}

    def pause() -> None:
        lakehouse.sql("UPDATE {upstream} SET name = 'changed' WHERE id % 4 = 0")
        mutations.pause_job(**asked)

    def resume() -> None:
        mutations.resume_job(**asked)
        mutations.repair_job(keys=[[0]], vnodes=[], **asked)

    meanwhile = [pause, resume, lambda: mutations.throttle_job(None, **asked), lambda: None]
    first = protocol.inject_barrier(store=backfill.store, upstream=backfill.upstream, requester=task).barrier
    assert first is not None
    for done in protocol.run_epochs(
        first, store=backfill.store, upstream=backfill.upstream, engine=lambda _: lakehouse.engine, epochs=9
    ):
        assert done.commit is not None
        lakehouse.assert_truth()
        meanwhile.pop(0)()
    barriers = list(lakehouse.barriers())
    assert [barrier.paused for barrier in barriers] == [False, True, False, False]
    assert [bool(barrier.repair) for barrier in barriers] == [False, False, True, False]
    assert [bool(barrier.parts) for barrier in barriers] == [True, False, True, True]
    assert {barrier.injected_by for barrier in barriers} == {task}
    assert backfill.store.commits()[-1].completed
    lakehouse.assert_equals_query("SELECT * FROM {upstream}")


@pytest.mark.exhaustive
def test_rebuild_starts_over_with_another_definition(lakehouse: Lakehouse) -> None:
    """An explicit rebuild is the one thing that goes back (I3)."""
    lakehouse.make_upstream("id BIGINT, name STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, 'a' FROM range(6)")
    lakehouse.create(rate_limit=3)
    lakehouse.epoch()
    lakehouse.rebuild(rate_limit=2, query="SELECT id, upper(name) AS loud FROM upstream WHERE id > 0")
    assert lakehouse.view().count() == 0
    commits = lakehouse.finish()
    assert commits[0].epoch == 2
    lakehouse.assert_equals_query("SELECT id, upper(name) AS loud FROM {upstream} WHERE id > 0")
    lakehouse.assert_truth()
