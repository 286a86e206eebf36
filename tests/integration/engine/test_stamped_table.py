"""What a table's own log says of an epoch's writes, and how far back it is read for that; no JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.errors import EpochFailedError, MaterializedViewError
from airflow_backfill_provider.engine.stamped_table import CHANGES, StampedTable, snapshot_part, transaction_id
from airflow_backfill_provider.lake.view_identity import ViewIdentity
from tests.builders import barrier_of, commit_file

pytestmark = pytest.mark.spark

IDENTITY = ViewIdentity("orders", "incarnation")


class Log:
    """A log whose commits are written down by hand."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder)
        self.version = -1
        (folder / "_delta_log").mkdir(parents=True)
        self.commit({"event": "create", "incarnation": IDENTITY.incarnation})

    @property
    def table(self) -> StampedTable:
        """The table; what is asked here needs no session."""
        return StampedTable(cast("SparkSession", None), self.path)

    def commit(self, stamp: dict[str, Any], part: str | None = None) -> None:
        self.version += 1
        actions: list[dict[str, Any]] = [{"commitInfo": {"operation": "WRITE", "userMetadata": json.dumps(stamp)}}]
        if part is not None:
            actions.append({"txn": {"appId": transaction_id(IDENTITY, part), "version": stamp["epoch"]}})
        commit_file(self.path, self.version).write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")

    def write(self, epoch: int, part: str, *, digest: str = "", incarnation: str = IDENTITY.incarnation) -> None:
        digest = digest or barrier_of(epoch).digest
        self.commit({"event": "epoch", "incarnation": incarnation, "epoch": epoch, "digest": digest}, part)

    def damage(self, version: int) -> None:
        commit_file(self.path, version).write_text("{", encoding="utf-8")


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path / "view")


def test_a_part_that_no_epoch_wrote_yet_is_not_looked_for_beyond_the_epoch_before(log):
    for epoch in (1, 2, 3):
        log.write(epoch, snapshot_part(0))
    log.damage(1)
    log.damage(2)
    assert not log.table.is_written(CHANGES, IDENTITY, barrier_of(4))


def test_a_part_is_found_behind_other_parts_of_its_epoch(log):
    log.write(1, snapshot_part(0))
    log.write(2, CHANGES)
    log.write(2, snapshot_part(0))
    log.write(2, snapshot_part(1))
    assert log.table.is_written(CHANGES, IDENTITY, barrier_of(2))
    assert not log.table.is_written(snapshot_part(2), IDENTITY, barrier_of(2))


def test_a_later_epoch_of_the_part_is_seen_behind_other_parts_of_later_epochs(log):
    """I5: an attempt that was overtaken writes nothing."""
    log.write(2, snapshot_part(0))
    log.write(2, CHANGES)
    with pytest.raises(EpochFailedError, match="overtaken"):
        log.table.is_written(snapshot_part(0), IDENTITY, barrier_of(1))


def test_commits_of_another_incarnation_end_nothing(log):
    log.write(2, CHANGES)
    log.write(1, snapshot_part(0), incarnation="another")
    assert log.table.is_written(CHANGES, IDENTITY, barrier_of(2))


def test_a_write_of_the_epoch_from_another_plan_is_refused(log):
    """I5: what lies there is not what the pinned barrier would have written."""
    log.write(2, CHANGES, digest="0" * 32)
    with pytest.raises(MaterializedViewError, match="version 1 of .* holds epoch 2 .* from another plan"):
        log.table.is_written(CHANGES, IDENTITY, barrier_of(2))
