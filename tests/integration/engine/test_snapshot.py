"""The strategy ``snapshot``: one version, file by file, in any order of keys; then the log up to the present."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import ChangeFeedGapError, DuplicateKeyError, InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.scan.progress import InProgress
from airflow_backfill_provider.engine import spark_engine
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.lake.tables.existing import is_table
from airflow_backfill_provider.protocol.finish import finish_job
from airflow_backfill_provider.strategies.snapshot import FILES
from airflow_backfill_provider.strategies.snapshot.scan import FILES_END
from tests.integration.engine.attempts import Asleep, is_killed
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.test_crash_points import POINTS
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

QUERY = "SELECT id, name FROM upstream WHERE id % 7 <> 2"
DIRECTLY = "SELECT id, name FROM {upstream} WHERE id % 7 <> 2"
VECTORS = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}


@pytest.fixture
def scattered(lakehouse: Lakehouse) -> Lakehouse:
    """Four files of ten rows, whose keys overlap all over."""
    make_files(lakehouse, rows=10)
    return lakehouse


def make_files(lakehouse: Lakehouse, *, rows: int) -> None:
    """Create an upstream of four files."""
    lakehouse.make_upstream("id BIGINT, name STRING", VECTORS)
    for remainder in range(4):
        lakehouse.sql(
            f"INSERT INTO {{upstream}} SELECT /*+ COALESCE(1) */ id * 4 + {remainder}, concat('n', id) "
            f"FROM range({rows})"
        )


def begin(lakehouse: Lakehouse, **fields: Any) -> Lakehouse:
    lakehouse.create(**{"strategy": "snapshot", "query": QUERY, "rate_limit": 15, **fields})
    return lakehouse


def change(lakehouse: Lakehouse, number: int = 1) -> None:
    """Change rows of every file, move keys, remove rows and add some."""
    lakehouse.sql(f"UPDATE {{upstream}} SET name = 'changed {number}' WHERE id % 3 = 0")
    lakehouse.sql(f"DELETE FROM {{upstream}} WHERE id % 10 = {number}")
    lakehouse.sql(f"UPDATE {{upstream}} SET id = id + 1000 * {number} WHERE id % 11 = {number}")
    lakehouse.sql(f"INSERT INTO {{upstream}} VALUES ({-number}, 'first'), ({90 + number}, 'last')")


def positions(lakehouse: Lakehouse) -> set[object]:
    return {getattr(progress, "position", None) for progress in lakehouse.backfill.store.state().vnodes}


def test_files_are_read_in_the_order_of_the_log_and_the_log_is_replayed(scattered: Lakehouse) -> None:
    """I1 after each epoch, at the pinned version until all files are read."""
    begin(scattered)
    pinned = scattered.backfill.settings().first_offset
    first = scattered.epoch()
    assert first is not None
    assert first.snapshot_read_row_count == 15
    assert positions(scattered) == {(1, 4)}
    scattered.assert_truth()
    change(scattered)
    second = scattered.epoch()
    assert second is not None
    assert second.snapshot_read_row_count == 15
    scattered.assert_truth()
    assert positions(scattered) == {(3, -1)}
    third = scattered.epoch()
    assert third is not None
    assert third.snapshot_read_row_count == 10
    assert not third.completed
    # All rows of the pinned version are read, and no vnode is Completed: the changes are still to come.
    assert positions(scattered) == {FILES_END}
    assert {type(progress) for progress in scattered.backfill.store.state().vnodes} == {InProgress}
    assert [barrier.upstream.to_offset for barrier in scattered.barriers()] == [pinned] * 3
    scattered.assert_truth()
    fourth = scattered.epoch()
    while fourth is not None and not fourth.completed:
        fourth = scattered.epoch()
    assert fourth is not None
    scattered.assert_equals_query(DIRECTLY)
    status = scattered.backfill.status()
    assert (status.finished, status.rows_read, status.lag_versions) == (True, 40, 0)
    listed = scattered.backfill.settings().own_table(FILES)
    assert is_table(listed, scattered.storage_options)
    finish_job(store=scattered.backfill.store, requested_by="tester")
    assert not is_table(listed, scattered.storage_options)
    change(scattered, 2)
    scattered.finish()
    scattered.assert_equals_query(DIRECTLY)


@pytest.mark.exhaustive
def test_one_epoch_reads_everything_if_nothing_changed(scattered: Lakehouse) -> None:
    begin(scattered, rate_limit=None)
    commit = scattered.epoch()
    assert commit is not None
    assert (commit.completed, commit.snapshot_read_row_count) == (True, 40)
    scattered.assert_equals_query(DIRECTLY)


@pytest.mark.exhaustive
def test_the_replay_is_bounded_by_the_rate_limit(scattered: Lakehouse) -> None:
    begin(scattered, rate_limit=40)
    for number in range(4):
        scattered.sql(f"UPDATE {{upstream}} SET name = 'round {number}' WHERE id % 2 = {number % 2}")
    scattered.finish()
    # Two commits of twenty rows each fit.
    assert [barrier.upstream.to_offset.number for barrier in scattered.barriers()] == [4, 6, 8]
    scattered.assert_equals_query(DIRECTLY)


@pytest.mark.exhaustive
def test_deleted_rows_mapped_columns_and_partitions(lakehouse: Lakehouse) -> None:
    """Deletion vectors hide rows of the pinned version, and of versions after it."""
    lakehouse.sql(
        "CREATE TABLE {upstream} (id BIGINT, name STRING, `a day` DATE, tags MAP<STRING, INT>) USING delta "
        "PARTITIONED BY (`a day`) TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', "
        "'delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name')"
    )
    lakehouse.sql(
        "INSERT INTO {upstream} SELECT id, concat('n', id), if(id % 3 = 0, NULL, date_add('2024-01-01', "
        "cast(id % 3 AS INT))), map('a', cast(id AS INT)) FROM range(60)"
    )
    lakehouse.sql("DELETE FROM {upstream} WHERE id % 4 = 1")
    lakehouse.sql("ALTER TABLE {upstream} RENAME COLUMN name TO label")
    lakehouse.sql("INSERT INTO {upstream} VALUES (100, 'later', DATE '2024-05-01', NULL)")
    lakehouse.create(
        strategy="snapshot", query="SELECT id, label, `a day`, tags['a'] AS tag FROM upstream", rate_limit=17
    )
    lakehouse.epoch()
    lakehouse.assert_truth()
    lakehouse.sql("DELETE FROM {upstream} WHERE id % 4 = 2")
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT id, label, `a day`, tags['a'] AS tag FROM {upstream}")


@pytest.mark.exhaustive
@pytest.mark.parametrize("policy", ["classic", exhaustive("v2")])
def test_files_are_found_in_checkpoints(lakehouse: Lakehouse, policy: str) -> None:
    """Of both layouts, with files that were removed or got a deletion vector since."""
    checkpoints = {"delta.checkpointPolicy": policy, "delta.checkpointInterval": "2"}
    lakehouse.make_upstream("id BIGINT, name STRING", {**VECTORS, **checkpoints})
    for number in range(4):
        lakehouse.sql(f"INSERT INTO {{upstream}} SELECT id + {20 * number}, 'new' FROM range(20)")
    lakehouse.sql("DELETE FROM {upstream} WHERE id % 5 = 0")
    lakehouse.sql("DELETE FROM {upstream} WHERE id < 20")
    log = lakehouse.on_disk(lakehouse.upstream_path) / "_delta_log"
    assert [*log.glob("*.checkpoint*")]
    log.joinpath(f"{0:020d}.json").unlink()
    lakehouse.create(strategy="snapshot", rate_limit=30)
    lakehouse.epoch()
    lakehouse.assert_truth()
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT * FROM {upstream}")


@pytest.mark.exhaustive
def test_columns_that_writers_fill(lakehouse: Lakehouse) -> None:
    """Identity, generated and default columns need features of the protocol that readers don't."""
    lakehouse.sql(
        "CREATE TABLE {upstream} (id BIGINT GENERATED ALWAYS AS IDENTITY, name STRING NOT NULL DEFAULT 'none', "
        "doubled STRING GENERATED ALWAYS AS (concat(name, name))) USING delta TBLPROPERTIES "
        "('delta.enableChangeDataFeed' = 'true', 'delta.feature.allowColumnDefaults' = 'supported')"
    )
    lakehouse.sql("INSERT INTO {upstream} (name) SELECT concat('n', id) FROM range(9)")
    lakehouse.create(strategy="snapshot", rate_limit=5)
    lakehouse.epoch()
    lakehouse.assert_truth()
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT * FROM {upstream}")


@pytest.mark.exhaustive
def test_an_empty_upstream_is_finished_at_once(lakehouse: Lakehouse) -> None:
    lakehouse.make_upstream("id BIGINT, name STRING")
    begin(lakehouse, query="SELECT * FROM upstream")
    commit = lakehouse.epoch()
    assert commit is not None
    assert commit.completed
    assert lakehouse.view().count() == 0


@pytest.mark.exhaustive
def test_parallel_parts_share_the_files_and_a_rescale_takes_effect_at_once(scattered: Lakehouse) -> None:
    begin(scattered, parallelism=2, rate_limit=20)
    barrier = scattered.inject()
    assert barrier is not None
    assert len(barrier.parts) == 2
    scattered.run(barrier)
    scattered.assert_truth()
    assert scattered.job is not None
    mutations.rescale_job(store=scattered.backfill.store, requested_by="tester", parallelism=3)
    change(scattered)
    scattered.finish()
    scattered.assert_equals_query(DIRECTLY)


@pytest.mark.exhaustive
def test_a_paused_job_waits_with_its_changes_and_a_replay_goes_on(scattered: Lakehouse) -> None:
    begin(scattered)
    scattered.epoch()
    change(scattered)
    store = scattered.backfill.store
    mutations.pause_job(store=store, requested_by="tester")
    assert scattered.epoch() is None
    mutations.resume_job(store=store, requested_by="tester")
    while positions(scattered) != {FILES_END}:
        scattered.epoch()
    mutations.pause_job(store=store, requested_by="tester")
    commits = scattered.finish()
    assert commits
    assert not commits[-1].completed
    scattered.assert_truth()
    mutations.resume_job(store=store, requested_by="tester")
    commit = scattered.epoch()
    assert commit is not None
    assert commit.completed
    scattered.assert_equals_query(DIRECTLY)


@pytest.mark.exhaustive
def test_what_was_read_is_repaired_and_nothing_else(scattered: Lakehouse) -> None:
    begin(scattered, query="SELECT * FROM upstream")
    scattered.epoch()
    scattered.sql("DELETE FROM {view} WHERE id < 20")
    mutations.repair_job(store=scattered.backfill.store, requested_by="tester", vnodes=range(4), keys=[])
    scattered.epoch()
    scattered.assert_truth()
    change(scattered)
    scattered.finish()
    scattered.assert_equals_query("SELECT * FROM {upstream}")


def test_keys_in_different_files_that_repeat_are_found_before_the_view_is_finished(
    scattered: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I6: no chunk is a range of keys, so none of them can find it; creation checks only the keys of small tables."""
    monkeypatch.setattr(spark_engine, "CHECKED_AT_CREATION", 0)
    scattered.sql("INSERT INTO {upstream} SELECT id, 'again' FROM {upstream} WHERE id = 8")
    begin(scattered)
    with pytest.raises(DuplicateKeyError):
        scattered.finish()
    assert not scattered.backfill.status().finished


@pytest.mark.exhaustive
def test_a_rebuild_reads_the_files_of_a_table_that_was_made_anew(scattered: Lakehouse) -> None:
    """I6; one process has both tables open, and both have the same versions."""
    begin(scattered, rate_limit=20)
    scattered.epoch()
    shutil.rmtree(scattered.on_disk(scattered.upstream_path))
    make_files(scattered, rows=12)
    scattered.rebuild(strategy="snapshot", query=QUERY, rate_limit=24)
    scattered.finish()
    scattered.assert_truth()


@pytest.mark.exhaustive
def test_a_part_of_the_upstream(scattered: Lakehouse) -> None:
    begin(scattered, restrict_to={"vnodes": [0, 2], "keys": {"after": [3], "up_to": [30]}}, rate_limit=6)
    scattered.epoch()
    scattered.assert_truth()
    change(scattered)
    scattered.finish()
    scattered.assert_truth()


def test_every_epoch_is_refused() -> None:
    fields = {"name": "a", "upstream": {"path": "/u", "key": ["id"]}, "materialized_view": "/v", "query": QUERY}
    with pytest.raises(InvalidJobError, match="use on_finish, or another strategy"):
        BackfillJob(**fields, strategy="snapshot", visibility="every_epoch")


def test_a_chunk_opens_only_its_files(scattered: Lakehouse) -> None:
    begin(scattered, rate_limit=10)
    settings = scattered.backfill.settings()
    scattered.epoch()
    listed = scattered.spark.read.format("delta").load(settings.own_table(FILES))
    assert listed.select("__file").distinct().count() == 4
    assert len(listed.filter("__file = 2").inputFiles()) == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("phase", ["files", "replay", "end"])
def test_killed_at_every_point_one_after_another(spark_remote: str, scattered: Lakehouse, phase: str) -> None:
    """I2: each attempt of the epoch dies one step later; the last one commits it, and nothing is lost or doubled."""
    begin(scattered, rate_limit=20)
    scattered.epoch()
    change(scattered)
    if phase != "files":
        scattered.epoch()
    if phase == "end":
        while (barrier := scattered.inject()) is not None and not barrier.completes:
            scattered.run(barrier)
    assert scattered.job is not None
    for point in POINTS:
        is_killed(spark_remote, scattered.job.state, point)
    assert not is_killed(spark_remote, scattered.job.state)
    scattered.assert_truth()
    scattered.finish()
    scattered.assert_equals_query(DIRECTLY)


@pytest.mark.exhaustive
def test_a_zombie_writes_nothing(scattered: Lakehouse) -> None:
    """I5."""
    begin(scattered)
    scattered.epoch()
    change(scattered)
    barrier = scattered.inject()
    assert barrier is not None
    zombie = Asleep(CrashPoint.BEFORE_SNAPSHOT_COMMIT, lambda: scattered.run(barrier, scattered.unlocked_engine()))
    scattered.run(barrier, scattered.unlocked_engine())
    zombie.ends()
    assert zombie.hung
    scattered.assert_truth()
    scattered.finish()
    scattered.assert_equals_query(DIRECTLY)


@pytest.mark.exhaustive
def test_files_that_were_vacuumed_too_early_are_named(scattered: Lakehouse) -> None:
    """I6: never missing rows."""
    begin(scattered)
    scattered.epoch()
    scattered.sql("OPTIMIZE {upstream}")
    assert scattered.backfill.read().feed.needed is not None, "the headroom counts from the compaction"
    session = scattered.spark.newSession()
    session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    session.sql(f"VACUUM {scattered.upstream} RETAIN 0 HOURS")
    with pytest.raises(ChangeFeedGapError, match="they were vacuumed"):
        scattered.epoch()
    assert not scattered.backfill.status().finished
