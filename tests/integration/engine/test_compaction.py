"""Compaction on real Spark and Delta: fewer files, the same rows, and epochs before, after and beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from airflow_backfill_provider.applications.spark_settings import storage_options_from_environment
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.core.status.compaction import CompactionPolicy, CompactionStep
from airflow_backfill_provider.jobs.maintenance import compaction
from airflow_backfill_provider.jobs.maintenance.compaction import JobCompaction
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.spark.named_relations import sql_over
from airflow_backfill_provider.strategies.arrangement.location import location_of
from tests.dying import dies_at
from tests.integration.engine.lakehouse import Lakehouse, UnlockedEngine

pytestmark = pytest.mark.spark

POLICY = CompactionPolicy(at=2)
CHANGE_DATA_FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture
def numbers(lakehouse: Lakehouse) -> Lakehouse:
    """An upstream of 300 rows."""
    lakehouse.make_upstream("id BIGINT, name STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('n', id) FROM range(300)")
    return lakehouse


def compact(lakehouse: Lakehouse, policy: CompactionPolicy = POLICY) -> JobCompaction:
    return compaction.compact_job(lakehouse.backfill, engine=lambda: lakehouse.engine, policy=policy)


def look(lakehouse: Lakehouse) -> JobCompaction:
    return compaction.look(lakehouse.backfill, POLICY)


def rows(lakehouse: Lakehouse) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, lakehouse.view().collect()))


def changed_rows(lakehouse: Lakehouse, since: int) -> int:
    """Count the rows of the view's own change feed from a version on."""
    feed = lakehouse.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", since)
    return feed.load(lakehouse.view_path).count()


def version_of(lakehouse: Lakehouse) -> int:
    return DeltaTable(lakehouse.view_path, storage_options=lakehouse.storage_options).version()


def paths(path: str) -> set[str]:
    return set(DeltaTable(path, storage_options=storage_options_from_environment() or None).file_uris())


@pytest.mark.exhaustive
def test_after_thirty_small_epochs_a_compaction_leaves_few_files_and_readers_notice_nothing(numbers: Lakehouse):
    """I1, I2: same rows for new and running readers, none in the change feed, and the epochs go on."""
    numbers.create(rate_limit=10, table_properties=CHANGE_DATA_FEED)
    for step in range(30):
        numbers.epoch()
        if step % 10 == 4:
            numbers.sql(f"UPDATE {{upstream}} SET name = 'changed {step}' WHERE id % 50 = {step}")
    newest = numbers.backfill.store.pinned(30)
    before, files = rows(numbers), len(paths(numbers.view_path))
    reader = numbers.view()
    assert files > 20
    assert look(numbers).view.saved_files == files - 1

    done = compact(numbers)

    assert (done.view.step, done.view.files) == (CompactionStep.COMPACT, files)
    assert len(paths(numbers.view_path)) == 1
    assert rows(numbers) == before
    assert sorted(map(tuple, reader.collect())) == before
    version = version_of(numbers)
    assert changed_rows(numbers, version) == 0

    settings = numbers.backfill.settings()
    numbers.engine.run_epoch(settings, newest, since=None)
    assert version_of(numbers) == version, "a replay is skipped by its transaction ids"

    numbers.sql("UPDATE {upstream} SET name = 'later' WHERE id < 5")
    numbers.sql("DELETE FROM {upstream} WHERE id = 7")
    numbers.finish()
    numbers.assert_truth()
    numbers.assert_equals_query("SELECT * FROM {upstream}")
    assert changed_rows(numbers, version + 1) == 5 * 2 + 1


def test_nothing_is_done_and_no_spark_is_started_while_nothing_is_due(numbers: Lakehouse):
    numbers.create(rate_limit=100)
    numbers.finish()

    def no_engine() -> UnlockedEngine:
        raise AssertionError("an engine was made")

    done = compaction.compact_job(numbers.backfill, engine=no_engine, policy=CompactionPolicy())
    assert not done.due


@pytest.mark.exhaustive
def test_an_epoch_that_died_is_redone_after_a_compaction(numbers: Lakehouse):
    """I2: at each point, what was written before it is in the view once afterwards."""
    numbers.create(rate_limit=40)
    numbers.epoch()
    for point in (
        CrashPoint.BEFORE_CHANGES_COMMIT,
        CrashPoint.AFTER_CHANGES_COMMIT,
        CrashPoint.AFTER_SNAPSHOT_COMMIT,
        CrashPoint.AFTER_STATE_COMMIT,
    ):
        numbers.sql(f"UPDATE {{upstream}} SET name = concat(name, '{point.value[0]}') WHERE id % 7 = 0")
        barrier = numbers.inject()
        assert barrier is not None
        with dies_at(point):
            numbers.run(barrier)
        compact(numbers, CompactionPolicy(at=1))
        numbers.run(barrier)
        numbers.assert_truth()
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")


@pytest.mark.exhaustive
def test_maintenance_by_hand_does_not_count_as_a_foreign_write(numbers: Lakehouse):
    numbers.create(rate_limit=40)
    for _ in range(4):
        numbers.epoch()
    numbers.sql("OPTIMIZE {view}")
    numbers.sql("UPDATE {upstream} SET name = 'x' WHERE id < 10")
    numbers.epoch()
    numbers.sql("OPTIMIZE {view} ZORDER BY (id)")
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")

    numbers.sql("DELETE FROM {view} WHERE id = 1")
    numbers.sql("OPTIMIZE {view}")
    numbers.sql("UPDATE {upstream} SET name = 'y' WHERE id = 2")
    with pytest.raises(MaterializedViewError, match="was not written by job"):
        numbers.epoch()


@pytest.mark.exhaustive
def test_rows_that_deletion_vectors_hide_are_purged(numbers: Lakehouse):
    numbers.create(rate_limit=300, table_properties={"delta.enableDeletionVectors": "true", **CHANGE_DATA_FEED})
    numbers.finish()
    numbers.sql("DELETE FROM {upstream} WHERE id % 3 = 0")
    numbers.epoch()
    before = rows(numbers)
    found = look(numbers).view
    assert found.deleted_share == pytest.approx(1 / 3)
    assert found.step is CompactionStep.PURGE

    compact(numbers)

    assert look(numbers).view.deleted_share == 0
    assert rows(numbers) == before
    assert changed_rows(numbers, version_of(numbers)) == 0
    numbers.sql("UPDATE {upstream} SET name = 'x' WHERE id < 10")
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")


@pytest.mark.exhaustive
def test_another_view_at_the_path_is_left_alone(numbers: Lakehouse):
    numbers.create(rate_limit=40)
    numbers.epoch()
    numbers.spark.range(3).write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(
        numbers.view_path
    )
    numbers.sql("ALTER TABLE {view} UNSET TBLPROPERTIES ('backfill.job')")
    version = version_of(numbers)
    with pytest.raises(MaterializedViewError):
        compact(numbers, CompactionPolicy(at=1))
    assert version_of(numbers) == version


# --- beside an epoch ------------------------------------------------------------------------------


class Gate:
    """A function in SQL that returns what it gets; a "gate" waits, inside of Spark, until the test lets it through."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._reached, self._open = folder / "reached", folder / "open"
        reached, opened = str(self._reached), str(self._open)

        def gate(value: str) -> str:
            import time
            from pathlib import Path

            if value == "gate":
                Path(reached).touch()
            while value == "gate" and not Path(opened).exists():
                time.sleep(0.02)
            return value

        spark.udf.register("gate", gate)

    def wait_until_reached(self, thread: threading.Thread) -> None:
        while not self._reached.exists():
            assert thread.is_alive(), "it never reached the gate"
            thread.join(0.05)

    def open(self) -> None:
        self._open.touch()


@pytest.fixture
def gate(spark: SparkSession, tmp_path: Path) -> Iterator[Gate]:
    made = Gate(spark, tmp_path)
    yield made
    made.open()


def run_beside(lakehouse: Lakehouse, gate: Gate, meanwhile: Callable[[Lakehouse], None]) -> BaseException | None:
    """Run the next epoch, do something while its merge is under way, and return the result of the epoch."""
    barrier = lakehouse.inject()
    assert barrier is not None
    outcome: list[BaseException] = []

    def run() -> None:
        try:
            lakehouse.run(barrier, UnlockedEngine(lakehouse.spark, lakehouse.storage_options))
        except Exception as error:  # noqa: BLE001 - handed to the test
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    gate.wait_until_reached(thread)
    other = Lakehouse(lakehouse.spark.newSession(), lakehouse.folder, lakehouse.storage_options)
    other.engine = UnlockedEngine(other.spark, other.storage_options)
    other.job = lakehouse.job
    meanwhile(other)
    gate.open()
    thread.join()
    return outcome[0] if outcome else None


@pytest.fixture
def gated(numbers: Lakehouse, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> Lakehouse:
    """A view in three files, and a change whose merge waits at the gate."""
    # No job's query may call a function that is not Spark's own.
    monkeypatch.setattr(
        "airflow_backfill_provider.spark.query.sql_over",
        lambda spark, text, rows: sql_over(spark, text.replace("concat(name)", "gate(name)"), rows),
    )
    numbers.create(rate_limit=100, query="SELECT id, concat(name) AS name FROM upstream")
    numbers.finish()
    # One row, so that one task waits: Spark has two cores here, and the compaction needs one.
    numbers.sql("UPDATE {upstream} SET name = 'gate' WHERE id = 5")
    return numbers


@pytest.mark.exhaustive
def test_an_epoch_that_loses_to_a_compaction_writes_once_more_and_is_right(gated: Lakehouse, gate: Gate):
    """I2: nothing is lost or doubled; the merge that lost wrote nothing."""
    assert run_beside(gated, gate, compact) is None

    log = DeltaLog(gated.view_path, gated.storage_options)
    operations = [log.commit(version) for version in log.versions()[-2:]]
    assert [commit.operation for commit in operations if commit] == ["OPTIMIZE", "MERGE"]
    gated.assert_equals_query("SELECT * FROM {upstream}")


@pytest.mark.exhaustive
def test_an_epoch_that_loses_to_another_writer_does_not_overwrite_its_rows(gated: Lakehouse, gate: Gate):
    """I6: the next attempt refuses the foreign write."""

    def update(other: Lakehouse) -> None:
        other.sql("UPDATE {view} SET name = 'mine' WHERE id = 105")

    error = run_beside(gated, gate, update)

    assert "DELTA_CONCURRENT" in str(error)
    with pytest.raises(MaterializedViewError, match="was not written by job"):
        gated.epoch()


# --- the arrangement ------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_the_changes_of_an_arrangement_are_compacted_and_its_base_stays_as_it_is(numbers: Lakehouse):
    numbers.create(rate_limit=20, strategy="arrangement")
    settings = numbers.backfill.settings()
    base = paths(location_of(settings))
    for step in range(6):
        numbers.sql(f"UPDATE {{upstream}} SET name = concat(name, '{step}') WHERE id % 5 = 0")
        numbers.sql(f"DELETE FROM {{upstream}} WHERE id = {100 + step}")
        numbers.epoch()
    files = len(paths(location_of(settings)))
    found = look(numbers).own_tables["arrangement"]
    assert found is not None
    assert found.saved_files == files - len(base) - 1 == 5

    compact(numbers)

    assert base < paths(location_of(settings))
    assert len(paths(location_of(settings))) == len(base) + 1
    numbers.sql("UPDATE {upstream} SET name = 'last' WHERE id % 3 = 0")
    numbers.finish()
    numbers.assert_truth()
    numbers.assert_equals_query("SELECT * FROM {upstream}")
    assert not look(numbers).own_tables, "no epoch reads it any more"
