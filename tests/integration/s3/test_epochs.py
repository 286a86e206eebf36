"""Epochs with every table in a bucket: what is promised of a local lake holds there, too."""

from __future__ import annotations

import shutil

import pytest

from airflow_backfill_provider.applications.spark_settings import storage_options_to_environment
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.core.log_store import LOG_STORE
from airflow_backfill_provider.core.status.compaction import CompactionPolicy
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.jobs.maintenance.compaction import compact_job
from airflow_backfill_provider.spark.commit_safety import require_safe_commits
from tests.integration.engine.attempts import Asleep, is_killed
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.test_crash_points import POINTS
from tests.integration.s3.bucket import BucketLakehouse
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

QUERY = "SELECT id, name FROM upstream WHERE price < 7"

IN_A_BUCKET = [point for point in POINTS if point is not CrashPoint.BEFORE_FILES_COMMIT]
"""Only to a table in a folder, files are added by deltalake."""

AFTER_COMMITS = [CrashPoint.AFTER_CHANGES_COMMIT, CrashPoint.AFTER_SNAPSHOT_COMMIT]
"""Here a bucket differs from a folder: in what the next attempt finds of a commit by Spark."""


def change(lakehouse: Lakehouse, number: int = 1) -> None:
    """Change the upstream on both sides of any position."""
    lakehouse.sql(f"UPDATE {{upstream}} SET name = 'changed {number}' WHERE id % 4 = 0")
    lakehouse.sql(f"DELETE FROM {{upstream}} WHERE id % 5 = {number}")
    lakehouse.sql(f"INSERT INTO {{upstream}} VALUES ({-number}, 'first', 1), ({90 + number}, 'last', 1)")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "fields",
    [
        exhaustive({"strategy": "no_shuffle"}),
        exhaustive({"strategy": "snapshot"}),
        {"strategy": "arrangement", "parallelism": 2},
        exhaustive({"strategy": "arrangement", "visibility": "on_finish"}),
        exhaustive({"strategy": "no_shuffle", "visibility": "on_finish"}),
    ],
)
def test_a_backfill_is_complete(lakehouse: BucketLakehouse, fields: dict[str, object]) -> None:
    """I1 to I4: history, changes on both sides of the position, and changes afterwards."""
    lakehouse.create(query=QUERY, rate_limit=5, **fields)
    lakehouse.epoch()
    lakehouse.assert_truth()
    change(lakehouse)
    lakehouse.finish()
    change(lakehouse, 2)
    lakehouse.finish()
    lakehouse.assert_truth()
    lakehouse.assert_equals_query("SELECT id, name FROM {upstream} WHERE price < 7")
    assert lakehouse.backfill.status().finished


@pytest.mark.exhaustive
@pytest.mark.parametrize("points", [AFTER_COMMITS, IN_A_BUCKET], ids=len)
def test_killed_at_points_one_after_another(
    spark_remote: str, lakehouse: BucketLakehouse, monkeypatch: pytest.MonkeyPatch, points: list[CrashPoint]
) -> None:
    """I2: each attempt of the epoch dies one step later; the last one commits it, and nothing is lost or doubled."""
    lakehouse.create(query=QUERY, rate_limit=4)
    lakehouse.epoch()
    change(lakehouse)
    assert lakehouse.job is not None
    for name, value in storage_options_to_environment(lakehouse.storage_options).items():
        monkeypatch.setenv(name, value)
    for point in points:
        assert is_killed(spark_remote, lakehouse.job.state, point), point
    assert not is_killed(spark_remote, lakehouse.job.state)
    assert [commit.epoch for commit in lakehouse.backfill.store.commits()] == [1, 2]
    lakehouse.assert_truth()
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT id, name FROM {upstream} WHERE price < 7")


@pytest.mark.exhaustive
def test_a_driver_that_wakes_up_after_another_one_writes_nothing(lakehouse: BucketLakehouse) -> None:
    """I5: no lock of this machine takes part; the log store lets one of the two commit."""
    lakehouse.create(query=QUERY, rate_limit=4)
    lakehouse.epoch()
    change(lakehouse)
    barrier = lakehouse.inject()
    assert barrier is not None
    zombie = Asleep(CrashPoint.BEFORE_SNAPSHOT_COMMIT, lambda: lakehouse.run(barrier, lakehouse.another_engine()))
    lakehouse.run(barrier, lakehouse.another_engine())
    zombie.ends()
    assert zombie.hung
    assert zombie.error is None
    lakehouse.assert_truth()


@pytest.mark.exhaustive
def test_rows_are_repaired_files_are_compacted_and_the_job_is_rebuilt(lakehouse: BucketLakehouse) -> None:
    lakehouse.create(query=QUERY, rate_limit=4)
    lakehouse.finish()
    lakehouse.sql("DELETE FROM {view} WHERE id = 2")
    mutations.repair_job(vnodes=["0-3"], store=lakehouse.backfill.store, requested_by="tester")
    lakehouse.finish()
    lakehouse.assert_truth()
    compact_job(lakehouse.backfill, engine=lambda: lakehouse.engine, policy=CompactionPolicy(at=1))
    lakehouse.assert_truth()
    lakehouse.rebuild(query="SELECT id FROM upstream")
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT id FROM {upstream}")


def test_spark_is_started_with_the_log_store(lakehouse: BucketLakehouse) -> None:
    """A session cannot choose another one: Delta reads the setting of Spark's start."""
    require_safe_commits(lakehouse.spark, [lakehouse.view_path])
    store = lakehouse.spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(
        lakehouse.spark._jsparkSession, lakehouse.upstream_path
    ).store()
    path = lakehouse.spark._jvm.org.apache.hadoop.fs.Path(lakehouse.upstream_path)
    assert LOG_STORE in store.getDelegate(path).logStoreImpl().getClass().getName()


@pytest.mark.exhaustive
def test_a_creation_that_died_before_its_commit_is_done_again(lakehouse: BucketLakehouse) -> None:
    """I2: Spark writes a file without rows first, and takes a folder with one for a table."""
    lakehouse.create()
    view = lakehouse.on_disk(lakehouse.view_path)
    for commit in view.glob("_delta_log/*.*"):
        commit.unlink()
    shutil.rmtree(lakehouse.on_disk(f"{lakehouse.folder}/_backfill"))
    assert list(view.glob("part-*.parquet"))
    lakehouse.create()
    lakehouse.finish()
    lakehouse.assert_truth()


def test_a_place_with_files_of_somebody_is_refused(lakehouse: BucketLakehouse) -> None:
    """I6."""
    view = lakehouse.on_disk(lakehouse.view_path)
    view.mkdir()
    (view / "thesis.txt").write_text("precious")
    with pytest.raises(MaterializedViewError, match="holds files, but no Delta table; choose an empty folder"):
        lakehouse.create()
    assert not lakehouse.on_disk(f"{lakehouse.folder}/_backfill").exists()
