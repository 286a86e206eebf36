"""A Delta table without change data feed becomes a view, epoch by epoch: every appended row exactly once."""

from __future__ import annotations

import datetime as dt
import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import (
    ChangeFeedGapError,
    MissingRowsError,
    UpstreamError,
    UpstreamReplacedError,
)
from airflow_backfill_provider.jobs.verification import verifier
from tests.builders import commit_file
from tests.integration.engine.attempts import is_killed
from tests.integration.engine.lakehouse import Lakehouse

pytestmark = pytest.mark.spark

WITHOUT_FEED = {"delta.enableChangeDataFeed": "false"}


class DiedError(Exception):
    """An attempt died."""


@pytest.fixture
def events(lakehouse: Lakehouse) -> Lakehouse:
    """Ten files of ten rows."""
    lakehouse.make_upstream("id BIGINT, name STRING", WITHOUT_FEED)
    for number in range(10):
        append(lakehouse, number)
    return lakehouse


def append(events: Lakehouse, number: int, rows: int = 10) -> None:
    """Append one file."""
    events.change(
        f"INSERT INTO {{upstream}} SELECT /*+ COALESCE(1) */ id + {number * 1000}, concat('n', id) FROM range({rows})"
    )


def create(events: Lakehouse, **fields: object) -> None:
    events.create(
        **{
            "upstream": {"path": events.upstream_path, "append_only": True},
            "query": "SELECT id, name FROM upstream",
            **fields,
        }
    )


def ids(events: Lakehouse) -> list[int]:
    return sorted(row["id"] for row in events.view().select("id").collect())


def upstream_ids(events: Lakehouse) -> list[int]:
    return sorted(row["id"] for row in events.sql("SELECT id FROM {upstream}").collect())


@pytest.mark.exhaustive
def test_the_past_is_read_in_bounded_epochs_and_rows_that_come_meanwhile_once(events: Lakehouse) -> None:
    """I1 to I4: cuts inside of files."""
    create(events, rate_limit=24)
    counts = []
    for number in range(3):
        commit = events.epoch()
        assert commit is not None
        counts.append(commit.rows_read)
        append(events, 100 + number)
    assert counts == [24, 48, 72]
    events.assert_truth()
    events.finish()
    assert events.backfill.status().finished
    assert ids(events) == upstream_ids(events)
    append(events, 200)
    assert events.epoch() is not None
    assert events.epoch() is None
    assert ids(events) == upstream_ids(events)
    events.assert_truth()


@pytest.mark.exhaustive
def test_compaction_in_the_middle_changes_nothing(events: Lakehouse) -> None:
    """The files that OPTIMIZE rewrote are still there, and what it wrote has no new rows."""
    create(events, rate_limit=35)
    events.epoch()
    events.sql("OPTIMIZE {upstream}")
    append(events, 100)
    events.finish()
    events.sql("OPTIMIZE {upstream}")
    append(events, 101)
    events.finish()
    assert ids(events) == upstream_ids(events)
    events.assert_truth()


@pytest.mark.exhaustive
def test_vacuum_of_files_that_are_not_read_is_refused_and_a_rebuild_begins_with_the_compacted_ones(
    events: Lakehouse,
) -> None:
    """I6: refused before an epoch is pinned, and nothing is read twice."""
    create(events, rate_limit=35)
    events.epoch()
    compact_and_vacuum(events)
    with pytest.raises(ChangeFeedGapError, match=r"is gone, and with it rows.*\(7 such files\).*VACUUM removed it"):
        events.epoch()
    events.rebuild(upstream={"path": events.upstream_path, "append_only": True}, query="SELECT id, name FROM upstream")
    events.finish()
    assert ids(events) == upstream_ids(events)
    events.assert_truth()


@pytest.mark.exhaustive
def test_vacuum_of_files_that_were_read_leaves_the_view_as_it_is(events: Lakehouse) -> None:
    """What is left is compared, and new rows are read."""
    create(events)
    events.finish()
    compact_and_vacuum(events)
    append(events, 100)
    events.finish()
    assert ids(events) == upstream_ids(events)
    events.assert_truth()


def compact_and_vacuum(events: Lakehouse) -> None:
    events.sql("OPTIMIZE {upstream}")
    events.sql("ALTER TABLE {upstream} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 0 hours')")
    DeltaTable(events.upstream_path, storage_options=events.storage_options).vacuum(
        retention_hours=0, enforce_retention_duration=False, dry_run=False
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("statement", "operation"),
    [
        ("DELETE FROM {upstream} WHERE id % 10 = 3", "DELETE"),
        ("UPDATE {upstream} SET name = 'x' WHERE id = 5", "UPDATE"),
        ("INSERT OVERWRITE {upstream} VALUES (1, 'x')", "WRITE"),
    ],
)
def test_a_commit_that_changes_rows_is_refused(events: Lakehouse, statement: str, operation: str) -> None:
    """I6."""
    create(events, rate_limit=35)
    events.epoch()
    events.sql(statement)
    with pytest.raises(UpstreamError, match=rf"version 11 of .* removes or changes rows \({operation}\).*rebuild"):
        events.epoch()
    events.rebuild(upstream={"path": events.upstream_path, "append_only": True}, query="SELECT id, name FROM upstream")
    events.finish()
    assert ids(events) == upstream_ids(events)


def test_deletion_vectors_are_refused(events: Lakehouse) -> None:
    """I6: at creation as well as afterwards."""
    events.sql("ALTER TABLE {upstream} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    create(events)
    events.epoch()
    events.change("DELETE FROM {upstream} WHERE id = 3")
    with pytest.raises(UpstreamError, match=r"\(DELETE\)"):
        events.epoch()
    with pytest.raises(UpstreamError, match="has deletion vectors"):
        events.rebuild(upstream={"path": events.upstream_path, "append_only": True}, query="SELECT id FROM upstream")


@pytest.mark.exhaustive
def test_two_task_runs_share_the_splits(events: Lakehouse) -> None:
    create(events, rate_limit=40, parallelism=2)
    commits = events.finish()
    assert [commit.rows_read for commit in commits] == [40, 80, 100]
    assert ids(events) == upstream_ids(events)


@pytest.mark.exhaustive
def test_attempts_that_died_leave_every_row_once(events: Lakehouse) -> None:
    """I2."""
    create(events, rate_limit=35)
    points = (
        CrashPoint.BEFORE_LANDING_COMMIT,
        CrashPoint.AFTER_LANDING_COMMIT,
        CrashPoint.AFTER_PIN,
        CrashPoint.AFTER_SNAPSHOT_COMMIT,
        CrashPoint.AFTER_STATE_COMMIT,
    )
    for number, point in enumerate(points):

        def die(reached: CrashPoint, point: CrashPoint = point) -> None:
            if reached is point:
                raise DiedError

        append(events, 100 + number)
        crash_points.install(die)
        try:
            with pytest.raises(DiedError):
                events.epoch()
        finally:
            crash_points.install(None)
    events.finish()
    assert ids(events) == upstream_ids(events)
    events.assert_truth()


@pytest.mark.exhaustive
def test_partitions_new_columns_and_renamed_ones_are_read(lakehouse: Lakehouse) -> None:
    """Files lack the columns by which they are partitioned, and those that were added later."""
    lakehouse.sql(
        "CREATE TABLE {upstream} (id BIGINT, day DATE, `a b` STRING) USING delta PARTITIONED BY (day, `a b`) "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    lakehouse.change("INSERT INTO {upstream} VALUES (1, DATE'2024-01-01', 'x/ü 1+%'), (2, NULL, NULL)")
    lakehouse.sql("ALTER TABLE {upstream} RENAME COLUMN id TO number")
    lakehouse.sql("ALTER TABLE {upstream} ADD COLUMNS (nested STRUCT<x: INT, y: STRING>)")
    query = "SELECT number, day, `a b`, nested FROM upstream"
    create(lakehouse, query=query)
    lakehouse.epoch()
    lakehouse.change("INSERT INTO {upstream} VALUES (3, DATE'2024-01-02', 'z', named_struct('x', 1, 'y', 'w'))")
    lakehouse.finish()
    lakehouse.assert_equals_query(query.replace("upstream", "{upstream}"))
    lakehouse.assert_truth()


def test_values_are_those_of_deltas_own_scan(lakehouse: Lakehouse) -> None:
    """Other writers don't pad CHAR, and partitions may have empty texts: before the job's creation, and after it."""
    lakehouse.sql(
        "CREATE TABLE {upstream} (id BIGINT, code CHAR(4), nested STRUCT<codes: ARRAY<CHAR(3)>>, part CHAR(3), "
        "day STRING, at TIMESTAMP, number INT) USING delta PARTITIONED BY (part, day, at, number)"
    )
    create(lakehouse, query="SELECT id, code, nested, part, day, at, number FROM upstream")
    append_elsewhere(lakehouse, 1)
    lakehouse.rebuild(
        upstream={"path": lakehouse.upstream_path, "append_only": True},
        query="SELECT id, code, nested, part, day, at, number FROM upstream",
    )
    lakehouse.epoch()
    append_elsewhere(lakehouse, 11)
    lakehouse.finish()
    assert {row["code"] for row in lakehouse.view().collect()} == {"ab  ", "abcd", None}
    assert {row["part"] for row in lakehouse.view().collect()} == {"x  ", None}
    assert {row["day"] for row in lakehouse.view().collect()} == {"d", None}
    # Delta's own scan reads an empty value in the log as a text, and pads it.
    lakehouse.assert_equals_query(
        "SELECT id, code, nested, nullif(part, '   ') AS part, nullif(day, '') AS day, at, number FROM {upstream}"
    )
    lakehouse.sql("OPTIMIZE {upstream}")
    lakehouse.assert_truth()


@pytest.mark.exhaustive
def test_a_warm_engine_reads_the_files_of_a_table(spark_remote: str, events: Lakehouse) -> None:
    """I1: Spark Connect refuses some plans that Spark takes."""
    create(events)
    job = events.job
    assert job is not None
    assert not is_killed(spark_remote, job.state)
    assert ids(events) == upstream_ids(events)


def test_a_verification_does_not_share_the_mistakes_of_epochs(
    lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I1: Delta's own scan finds the values, also in files that are compacted."""
    lakehouse.sql("CREATE TABLE {upstream} (id BIGINT, code CHAR(4), day STRING) USING delta PARTITIONED BY (day)")
    lakehouse.change("INSERT INTO {upstream} SELECT /*+ COALESCE(1) */ id, 'ab', 'd' FROM range(9)")
    monkeypatch.setattr("airflow_backfill_provider.sources.append_only.reader._char", lambda _: {})
    create(lakehouse, query="SELECT * FROM upstream")
    lakehouse.epoch()
    monkeypatch.setattr("airflow_backfill_provider.sources.append_only.commits.partition_values", lambda _: {})
    lakehouse.change("INSERT INTO {upstream} SELECT /*+ COALESCE(1) */ id, 'abcd', 'd' FROM range(11, 14)")
    lakehouse.epoch()
    lakehouse.sql("OPTIMIZE {upstream}")
    outcome = verifier.compare_now(lakehouse.backfill, lakehouse.engine)
    assert outcome.expected_rows == outcome.found_rows == 12
    assert {key.columns for key in outcome.keys} == {("code",), ("day",)}
    assert sum(difference.keys for difference in outcome.differences) == 12


def append_elsewhere(events: Lakehouse, begin: int) -> None:
    """Append rows as a writer does that is not Spark."""
    instant = dt.datetime(2024, 1, 1, 1, 2, 3, 456789, tzinfo=dt.UTC)
    rows = pa.table(
        {
            "id": pa.array([begin, begin + 1, begin + 2], pa.int64()),
            "code": ["ab", "abcd", None],
            "nested": [{"codes": ["q"]}, {"codes": None}, None],
            "part": ["x", None, ""],
            "day": ["d", "", None],
            "number": pa.array([1, None, 3], pa.int32()),
            "at": pa.array([instant, None, instant], pa.timestamp("us", "UTC")),
        }
    )
    options = events.storage_options
    write_deltalake(events.upstream_path, rows, mode="append", storage_options=options)
    newest = DeltaTable(events.upstream_path, storage_options=options).version()
    file = commit_file(events.on_disk(events.upstream_path), newest)
    logged = file.read_text()
    assert '"number":null' in logged
    file.write_text(logged.replace('"number":null', '"number":""'))


@pytest.mark.exhaustive
def test_columns_of_wider_types_are_read(lakehouse: Lakehouse) -> None:
    """Files from before have the narrower types."""
    lakehouse.sql(
        "CREATE TABLE {upstream} (id BIGINT, number INT, part INT) USING delta PARTITIONED BY (part) "
        "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
    )
    lakehouse.change("INSERT INTO {upstream} VALUES (1, 1, 1)")
    lakehouse.sql("ALTER TABLE {upstream} ALTER COLUMN number TYPE BIGINT")
    lakehouse.sql("ALTER TABLE {upstream} ALTER COLUMN part TYPE BIGINT")
    lakehouse.change("INSERT INTO {upstream} VALUES (2, 5000000000, 5000000000)")
    create(lakehouse, query="SELECT id, number, part FROM upstream")
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT id, number, part FROM {upstream}")


@pytest.mark.exhaustive
def test_a_table_that_is_made_anew_is_refused(events: Lakehouse) -> None:
    """I6."""
    create(events)
    events.finish()
    events.sql("DROP TABLE {upstream}")
    shutil.rmtree(events.on_disk(events.upstream_path), ignore_errors=True)
    events.make_upstream("id BIGINT, name STRING", WITHOUT_FEED)
    with pytest.raises(UpstreamReplacedError, match="rebuild the job"):
        events.epoch()


@pytest.mark.exhaustive
def test_wrong_statistics_do_not_lose_rows(events: Lakehouse) -> None:
    """I6: a file has more rows than the log says."""
    create(events)
    events.epoch()
    append(events, 100)
    file = commit_file(events.on_disk(events.upstream_path), 11)
    file.write_text(file.read_text().replace('\\"numRecords\\":10', '\\"numRecords\\":9'))
    for crc in file.parent.glob(".*.crc"):
        crc.unlink()
    events.sql("REFRESH TABLE {upstream}")
    events.rebuild(upstream={"path": events.upstream_path, "append_only": True}, query="SELECT id FROM upstream")
    with pytest.raises(MissingRowsError, match="not those that were asked for"):
        events.epoch()
