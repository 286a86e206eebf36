"""What sources with a file log answer without a JVM: offsets, what is new, and what is refused."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core.errors import ChangeFeedGapError, UpstreamReplacedError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources import open_source
from airflow_backfill_provider.sources.shared.file_log.source import FileLogSource
from airflow_backfill_provider.sources.split_offsets import ends_of, window


def opened(folder: Path, **upstream: object) -> FileLogSource:
    job = BackfillJob(
        name="j", upstream=upstream, materialized_view=str(folder / "view"), query="SELECT id FROM upstream"
    )
    source = open_source(job.upstream)
    assert isinstance(source, FileLogSource)
    return source


def table(folder: Path) -> FileLogSource:
    return opened(folder, path=str(folder / "events"), append_only=True)


def files(folder: Path) -> FileLogSource:
    return opened(folder, files={"path": str(folder / "in"), "format": "json", "schema": "id INT"})


def append(folder: Path, rows: int = 3) -> None:
    write_deltalake(str(folder / "events"), pa.table({"id": range(rows)}), mode="append")


def put(folder: Path, name: str, rows: int = 3) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / name).write_text('{"id": 1}\n' * rows)


def total(offset: Offset | None) -> int:
    assert offset is not None
    return sum(ends_of(offset).values())


def test_rows_are_known_once_the_log_is_refreshed_and_the_watch_sees_them_before(tmp_path: Path):
    append(tmp_path)
    source = table(tmp_path)
    assert total(source.at().offset) == 3
    assert not source.log.read().exists
    source.refresh()
    watch = table(tmp_path).watch()
    known, state = watch.look()
    assert known == source.latest()
    append(tmp_path, 4)
    assert total(source.latest()) == 3
    newer, newer_state = watch.look()
    assert (total(newer), newer_state == state) == (7, False)
    assert newer is not None
    assert watch.seen_at(newer) <= dt.datetime.now(dt.UTC)
    source.refresh()
    source.refresh()
    assert source.latest() == newer
    assert watch.look()[0] == newer


def test_what_is_lacking_is_told(tmp_path: Path):
    append(tmp_path)
    source = table(tmp_path)
    source.refresh()
    first = source.latest()
    append(tmp_path)
    feed = source.change_feed(first)
    assert (total(feed.latest), feed.replaced) == (6, "")
    assert feed.unread_since is not None
    DeltaTable(str(tmp_path / "events")).delete("id = 1")
    assert "removes or changes rows (DELETE)" in source.change_feed(first).replaced
    assert total(source.newest()) == 4


def test_compaction_adds_nothing_and_files_that_vacuum_removed_are_missed(tmp_path: Path):
    """I6."""
    append(tmp_path)
    append(tmp_path)
    source = table(tmp_path)
    source.refresh()
    known = source.latest()
    events = DeltaTable(str(tmp_path / "events"))
    events.optimize.compact()
    source.refresh()
    assert source.latest() == known
    source.require_changes(source.splits.beginnings(), known)
    everything = window(source.splits.beginnings(), known)
    assert source.splits.lost(everything) == ""
    events.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(ChangeFeedGapError, match=r"\(2 such files\)"):
        table(tmp_path).require_changes(source.splits.beginnings(), known)
    lost = table(tmp_path).splits.lost(everything)
    assert lost.endswith("is gone or was changed (2 such files)")


def test_a_log_that_is_gone_is_another_history(tmp_path: Path):
    """I6: and a restart makes one."""
    put(tmp_path, "a")
    source = files(tmp_path)
    source.refresh()
    point = source.point(source.latest())
    source.require_same_history(point)
    source.restart()
    source.refresh()
    with pytest.raises(UpstreamReplacedError, match="was made anew: rebuild the job"):
        source.require_same_history(point)


def test_offsets_at_instants_follow_the_times_of_files(tmp_path: Path):
    for number, name in enumerate("abc"):
        put(tmp_path, name, number + 1)
        os.utime(tmp_path / "in" / name, (1000 * number + 1000,) * 2)
    source = files(tmp_path)
    source.refresh()
    at = source.offset_at(dt.datetime.fromtimestamp(2500, dt.UTC))
    assert total(at) == 3
    assert at is not None
    assert source.watermark(at) == dt.datetime.fromtimestamp(2000, dt.UTC)
    assert source.offset_at(dt.datetime.fromtimestamp(500, dt.UTC)) is None


def test_the_watch_of_a_folder_sees_new_files_and_changed_ones(tmp_path: Path):
    put(tmp_path, "a")
    source = files(tmp_path)
    source.refresh()
    watch = source.watch()
    known, _ = watch.look()
    assert known == source.latest()
    put(tmp_path, "b")
    newer, _ = watch.look()
    assert newer is not None
    assert newer > source.latest()
    source.refresh()
    assert watch.look()[0] == source.latest()
    put(tmp_path, "a", 9)
    changed, _ = watch.look()
    assert changed is not None
    assert changed > source.latest()


def test_two_processes_refresh_at_once(tmp_path: Path):
    """I5: the second one starts over from what the first one added."""
    put(tmp_path, "a")
    first, second = files(tmp_path), files(tmp_path)
    first.refresh()
    put(tmp_path, "b")
    stale = second.log.read()
    found = second.new_files(stale)
    first.refresh()
    second.refresh()
    assert len(found.files) == 1
    assert first.latest() == second.latest()
    assert total(first.latest()) == 6
