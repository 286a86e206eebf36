"""What a table's log shows of an epoch's writes, and how far back it is read; no JVM."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.errors import EpochFailedError, MaterializedViewError, StateError
from airflow_backfill_provider.core.scan.table_version import TableVersion
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.spark.stamped_table import VIEW_TABLE, StampedTable
from airflow_backfill_provider.spark.stamps import CHANGES, REPAIR, snapshot_part, transaction_id
from airflow_backfill_provider.strategies.arrangement.table import ARRANGEMENT_TABLE
from tests.builders import NOW, barrier_of, commit_file

pytestmark = pytest.mark.spark

IDENTITY = ViewIdentity("orders", "incarnation")

COLUMN = {"name": "id", "type": "long", "nullable": True, "metadata": {}}
NEW_TABLE = (
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
    {
        "metaData": {
            "id": "view",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": [COLUMN]}),
            "partitionColumns": [],
            "configuration": {},
        }
    },
)
NEW_ROWS = {"add": {"path": "new.parquet", "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}}
SAME_ROWS = {"add": {"path": "compacted.parquet", "dataChange": False}}
METADATA = {"metaData": {"id": "another"}}
CONFLICT = PySparkException("[DELTA_CONCURRENT_DELETE_READ] a file was deleted")


class Log:
    """A log whose commits are written down by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = str(folder)
        self.version = -1
        (folder / "_delta_log").mkdir(parents=True)
        self.commit({"event": "create", "incarnation": IDENTITY.incarnation}, None, *NEW_TABLE)

    @property
    def table(self) -> StampedTable:
        """The table; these tests need no session."""
        return StampedTable(cast("SparkSession", None), self.path, VIEW_TABLE)

    def commit(
        self, stamp: dict[str, Any], part: str | None = None, *did: dict[str, Any], timestamp: int | None = None
    ) -> None:
        self.version += 1
        info: dict[str, Any] = {"operation": "WRITE", "userMetadata": json.dumps(stamp)}
        if timestamp is not None:
            info["timestamp"] = int(at_minute(timestamp).timestamp() * 1000)
        actions: list[dict[str, Any]] = [{"commitInfo": info}, *did]
        if part is not None:
            actions.append({"txn": {"appId": transaction_id(IDENTITY, part), "version": stamp["epoch"]}})
        commit_file(self.path, self.version).write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")

    def write(self, epoch: int, part: str, *, digest: str = "", incarnation: str = IDENTITY.incarnation) -> None:
        digest = digest or barrier_of(epoch).digest
        self.commit({"event": "epoch", "incarnation": incarnation, "epoch": epoch, "digest": digest}, part, NEW_ROWS)

    def damage(self, version: int) -> None:
        commit_file(self.path, version).write_text("{", encoding="utf-8")


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path / "view")


def test_the_search_for_a_part_that_no_epoch_wrote_ends_at_the_previous_epoch(log):
    for epoch in (1, 2, 3):
        log.write(epoch, snapshot_part(0))
    log.damage(1)
    log.damage(2)
    assert not log.table.is_written(CHANGES, IDENTITY, barrier_of(4))


def test_a_part_is_found_before_other_parts_of_its_epoch(log):
    log.write(1, snapshot_part(0))
    log.write(2, CHANGES)
    log.write(2, snapshot_part(0))
    log.write(2, snapshot_part(1))
    assert log.table.is_written(CHANGES, IDENTITY, barrier_of(2))
    assert not log.table.is_written(snapshot_part(2), IDENTITY, barrier_of(2))


def test_a_later_epoch_of_the_part_is_found_before_other_parts_of_later_epochs(log):
    """I5: an attempt that was overtaken writes nothing."""
    log.write(2, snapshot_part(0))
    log.write(2, CHANGES)
    with pytest.raises(EpochFailedError, match="overtaken"):
        log.table.is_written(snapshot_part(0), IDENTITY, barrier_of(1))


def test_commits_of_another_incarnation_do_not_end_the_search(log):
    log.write(2, CHANGES)
    log.write(1, snapshot_part(0), incarnation="another")
    assert log.table.is_written(CHANGES, IDENTITY, barrier_of(2))


def test_a_write_of_the_epoch_from_another_plan_is_refused(log):
    """I5: the commit differs from that of the pinned barrier."""
    log.write(2, CHANGES, digest="0" * 32)
    with pytest.raises(
        MaterializedViewError, match="version 1 of .* holds epoch 2 .*, but not as the pinned barrier has it"
    ):
        log.table.is_written(CHANGES, IDENTITY, barrier_of(2))


# --- what may follow the version that the previous epoch left -------------------------------------


def at_minute(minute: int) -> dt.datetime:
    return NOW + dt.timedelta(minutes=minute)


def left_at(version: int, minute: int = 0) -> TableVersion:
    return TableVersion(version=version, written_at=at_minute(minute))


def test_writes_of_the_epoch_itself_may_follow_the_previous_epoch(log):
    log.write(1, snapshot_part(0))
    log.write(2, CHANGES)
    log.commit({"event": "compact"}, None, SAME_ROWS)
    log.write(2, snapshot_part(0))
    for since in (left_at(1), left_at(2), left_at(4), None):
        log.table.require_untouched(IDENTITY, barrier_of(2), since)
    with pytest.raises(MaterializedViewError, match="version 1 of .* was not written by job"):
        log.table.require_untouched(IDENTITY, barrier_of(2), left_at(0))


@pytest.mark.parametrize(
    "stamp",
    [
        {},
        {"event": "epoch", "incarnation": "another", "epoch": 2, "digest": "0" * 32},
        {"event": "epoch", "incarnation": IDENTITY.incarnation, "epoch": 2, "digest": "0" * 32},
        {"event": "epoch", "incarnation": IDENTITY.incarnation, "epoch": 1, "digest": "0" * 32},
        {"event": "create", "incarnation": IDENTITY.incarnation},
    ],
    ids=["no stamp", "another incarnation", "another plan", "an earlier epoch", "a creation"],
)
def test_any_other_write_after_the_previous_epoch_is_refused(log, stamp):
    """I6: a write of an earlier epoch after it means that the table was restored from an older copy."""
    log.write(1, snapshot_part(0))
    log.commit(stamp, None, NEW_ROWS)
    log.write(2, CHANGES)
    with pytest.raises(
        MaterializedViewError, match=r"version 2 of .* \(WRITE\) was not written by job orders; .* repair"
    ):
        log.table.require_untouched(IDENTITY, barrier_of(2), left_at(1))


def test_missing_versions_after_the_previous_epoch_are_refused(log):
    """I6: their contents are unknown."""
    for epoch in (1, 2, 2, 2):
        log.write(epoch, snapshot_part(epoch))
    commit_file(log.path, 1).unlink()
    log.table.require_untouched(IDENTITY, barrier_of(2), left_at(1))
    commit_file(log.path, 2).unlink()
    for since in (left_at(1), None):
        with pytest.raises(MaterializedViewError, match="lacks version 2, so it does not show what was written"):
            log.table.require_untouched(IDENTITY, barrier_of(2), since)


@pytest.mark.parametrize(("kind", "error"), [(VIEW_TABLE, MaterializedViewError), (ARRANGEMENT_TABLE, StateError)])
def test_a_table_continues_where_the_previous_epoch_left_it(log, kind, error):
    """I6: a copy that is written to gets other commits with the same numbers."""
    for minute in (1, 2):
        log.commit({}, timestamp=minute)
    table = StampedTable(cast("SparkSession", None), log.path, kind)
    for since in (None, left_at(1, 1), left_at(2, 2), TableVersion(version=1), TableVersion(version=0)):
        assert table.require_continued(barrier_of(2), since) == left_at(2, 2)
    with pytest.raises(
        error, match=f"^{kind.name}: .* is at version 2, but epoch 1 left it at version 3; the table was"
    ):
        table.require_continued(barrier_of(2), left_at(3, 3))
    for version in (1, 2):
        with pytest.raises(
            error, match=f"^{kind.name}: version {version} of .* restored from an older copy and written since"
        ):
            table.require_continued(barrier_of(2), left_at(version, 3))


def test_a_write_whose_commit_was_cleaned_up_is_not_tried_forever(log):
    """Delta skips it, because the table has its transaction id, but no log shows which plan it was from."""
    table = DeltaTable.create(log.folder / "cleaned", pa.schema([("id", pa.int64())]))
    part = transaction_id(IDENTITY, CHANGES)
    written = CommitProperties(app_transactions=[Transaction(part, 2)])
    write_deltalake(table, pa.table({"id": [1]}), mode="append", commit_properties=written)
    table.create_checkpoint()
    write_deltalake(table, pa.table({"id": [2]}), mode="append")
    for version in (0, 1):
        commit_file(log.folder / "cleaned", version).unlink()

    class Skipping(StampedTable):
        """Writes nothing, like Delta for a transaction that it has seen."""

        def append(self, rows: Any, part: str, identity: Any, barrier: Any, facts: Any = None) -> None:
            self.once(part, identity, barrier, lambda: None, may_be_empty=False)

    cleaned = Skipping(cast("SparkSession", None), str(log.folder / "cleaned"), VIEW_TABLE)
    with pytest.raises(
        MaterializedViewError, match=f"part {CHANGES} of epoch 2 was written to .* removed from the log"
    ) as caught:
        cleaned.append(None, CHANGES, IDENTITY, barrier_of(2))
    assert not caught.value.retryable
    with pytest.raises(EpochFailedError, match="does not show it"):
        cleaned.append(None, CHANGES, IDENTITY, barrier_of(3))


# --- writes ---------------------------------------------------------------------------------------


def once(log: Log, *attempts: Callable[[], None], may_be_empty: bool = False) -> tuple[bool, int]:
    """Write the changes of epoch 2 by attempts in order; return whether it wrote, and the number of attempts."""
    left = list(attempts)

    def write() -> None:
        left.pop(0)()

    written = log.table.once(CHANGES, IDENTITY, barrier_of(2), write, may_be_empty=may_be_empty)
    return written, len(attempts) - len(left)


def fails(error: Exception) -> Callable[[], None]:
    def write() -> None:
        raise error

    return write


def nothing() -> None:
    """Commit nothing."""


def test_a_write_is_made_once_and_only_the_log_proves_it(log):
    """I2: also if Delta reported a failure after the commit."""

    def commits_and_fails() -> None:
        log.write(2, CHANGES)
        raise CONFLICT

    assert once(log, commits_and_fails) == (True, 1)
    assert once(log) == (True, 0)


def test_a_write_that_the_log_does_not_show_is_an_error_unless_there_may_be_nothing_to_write(log):
    with pytest.raises(EpochFailedError, match="does not show it"):
        once(log, nothing)
    assert once(log, nothing, may_be_empty=True) == (False, 1)


def test_a_write_that_lost_to_a_compaction_is_made_once_more_and_not_twice(log):
    """I2: no other writer came between."""
    log.write(1, CHANGES)

    def loses() -> None:
        log.commit({"event": "compact", "incarnation": IDENTITY.incarnation}, None, SAME_ROWS)
        raise CONFLICT

    def commits_and_fails() -> None:
        log.write(2, CHANGES)
        raise CONFLICT

    assert once(log, loses, commits_and_fails) == (True, 2)


def test_a_write_that_lost_twice_fails(log):
    log.write(1, CHANGES)
    with pytest.raises(PySparkException, match="DELTA_CONCURRENT"):
        once(log, fails(CONFLICT), fails(CONFLICT), nothing)
    with pytest.raises(PySparkException, match="out of memory"):
        once(log, fails(PySparkException("out of memory")), nothing)


@pytest.mark.parametrize(
    ("incarnation", "did", "compaction_alone"),
    [
        (IDENTITY.incarnation, NEW_ROWS, True),
        ("another", NEW_ROWS, False),
        ("", NEW_ROWS, False),
        ("", METADATA, False),
        (IDENTITY.incarnation, METADATA, True),
    ],
)
def test_only_commits_that_change_no_row_and_no_column_may_come_between(log, incarnation, did, compaction_alone):
    """I6: a foreign write is not overwritten, even if a compaction follows it."""
    log.commit({"event": "epoch", "incarnation": incarnation, "epoch": 1}, None, did)
    log.commit({}, None, SAME_ROWS)
    assert log.table._lost_to_compaction(CONFLICT, IDENTITY) is compaction_alone
    assert not log.table._lost_to_compaction(PySparkException("out of memory"), IDENTITY)


def test_a_statement_that_changes_nothing_leaves_its_transaction_all_the_same(spark, lake):
    """I2: a replay after the chunk could remove a row of the chunk. I5: an id that was used up writes nothing."""
    path = str(lake / "view")
    write_deltalake(path, pa.table({"id": [1, 2]}))
    table = StampedTable(spark, path, VIEW_TABLE)
    table.run(f"DELETE FROM {table.sql_name} WHERE id > 9", CHANGES, IDENTITY, barrier_of(2))
    newest = table.log.commit(table.log.newest().version)
    assert newest is not None
    assert newest.transactions == {transaction_id(IDENTITY, CHANGES): 2}
    assert json.loads(newest.user_metadata or "")["part"] == CHANGES
    table.run(f"DELETE FROM {table.sql_name}", CHANGES, IDENTITY, barrier_of(2))
    table.run(f"DELETE FROM {table.sql_name} WHERE id = 2", REPAIR, IDENTITY, barrier_of(2))
    newest = table.log.commit(table.log.newest().version)
    assert newest is not None
    assert (newest.operation, newest.transactions) == ("DELETE", {transaction_id(IDENTITY, REPAIR): 2})
    table.append(spark.range(5, 7), snapshot_part(1), IDENTITY, barrier_of(2))
    newest = table.log.commit(table.log.newest().version)
    assert newest is not None
    assert newest.transactions == {transaction_id(IDENTITY, snapshot_part(1)): 2}

    table.burn_transaction(transaction_id(IDENTITY, snapshot_part(0)))
    for late in (2, 2**40):
        with pytest.raises(EpochFailedError, match="overtaken"):
            table.append(spark.range(1), snapshot_part(0), IDENTITY, barrier_of(2).model_copy(update={"epoch": late}))
    assert sorted(row["id"] for row in table.read().collect()) == [1, 5, 6]
