"""Windows of versions: which ones the log still holds, and whether the used columns stayed the same in them."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream, UpstreamColumn
from airflow_backfill_provider.core.errors import (
    ChangeFeedGapError,
    UpstreamSchemaChangedError,
)
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.builders import (
    commit_file,
)
from tests.unit.sources.delta.delta_tables import mapped

# --- gaps -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("from_version", "to_version"), [(4, 9), (5, 9), (8, 9), (9, 9), (3, 3), (9, 3)])
def test_a_window_that_the_log_still_holds_is_accepted(cleaned, from_version, to_version):
    assert cleaned.latest().number == 9
    cleaned.require_changes(offset_of(from_version), offset_of(to_version))


@pytest.mark.parametrize(("from_version", "first"), [(-1, 0), (0, 1), (3, 4)])
def test_a_window_whose_versions_were_cleaned_up_is_refused(cleaned, from_version, first):
    """I6: a change feed gap."""
    with pytest.raises(ChangeFeedGapError, match=f"from version {first} on, but its log begins at version 5") as caught:
        cleaned.require_changes(offset_of(from_version), offset_of(9))
    assert "Rebuild the job" in str(caught.value)
    assert "delta.logRetentionDuration" in str(caught.value)


def test_a_log_without_commits_is_a_gap(cleaned):
    for version in range(5, 10):
        commit_file(cleaned.location, version).unlink()
    with pytest.raises(ChangeFeedGapError, match="begins at version none"):
        cleaned.require_changes(offset_of(3), offset_of(9))


def test_a_hole_in_the_middle_of_the_window_is_a_gap(cleaned):
    """I6: for example after a restore of some files only. The gap is found before Spark is started."""
    commit_file(cleaned.location, 7).unlink()
    with pytest.raises(ChangeFeedGapError):
        cleaned.require_changes(offset_of(5), offset_of(9))


def test_a_window_whose_last_version_is_missing_is_a_gap(cleaned):
    commit_file(cleaned.location, 9).unlink()
    with pytest.raises(ChangeFeedGapError, match="its log lacks version 9"):
        cleaned.require_changes(offset_of(5), offset_of(9))


def test_whether_a_window_changed_rows(orders):
    orders.add(1)
    orders.add(2)
    orders.compact()
    orders.add(3)
    table = orders.table
    assert table.has_changes(offset_of(0), offset_of(1))
    assert not table.has_changes(offset_of(1), offset_of(2)), "compaction changes no row"
    assert table.has_changes(offset_of(1), offset_of(3))
    assert not table.has_changes(offset_of(3), offset_of(3))
    commit_file(orders.path, 2).unlink()
    assert table.has_changes(offset_of(1), offset_of(2)), "an unknown commit may have changed rows"


def test_a_long_window_is_not_read_commit_by_commit(orders):
    orders.add(1)
    assert orders.table.has_changes(offset_of(0), offset_of(10**6))


# --- schemas --------------------------------------------------------------------------------------


def test_a_column_that_was_renamed_is_known_by_its_name_in_the_files(tmp_path):
    table = mapped(tmp_path / "t", ("order", pa.int64(), "col-1"), ("id", pa.int64(), "col-2"))
    assert table.at().physical_names == {"order": "col-1", "id": "col-2"}
    used = UpstreamColumn(name="id", type="long", physical_name="col-1")
    table.require_used_columns(offset_of(-1), offset_of(0), ResolvedUpstream(table_id="t", columns=(used,)))
    gone = UpstreamColumn(name="id", type="long", physical_name="col-3")
    with pytest.raises(UpstreamSchemaChangedError, match="'col-3' is gone"):
        table.require_used_columns(offset_of(-1), offset_of(0), ResolvedUpstream(table_id="t", columns=(gone,)))


def test_versions_in_which_a_column_had_another_type_are_refused(tmp_path):
    """The type changed and changed back. The changes in between would be read with the wrong type."""
    path = str(tmp_path / "orders")
    for ids in ([1], ["one"], [1]):
        write_deltalake(path, pa.table({"id": ids}), mode="overwrite", schema_mode="overwrite")
    resolved = ResolvedUpstream(table_id="t", columns=(UpstreamColumn(name="id", type="long"),))
    DeltaSource(path).require_used_columns(offset_of(1), offset_of(2), resolved)
    with pytest.raises(UpstreamSchemaChangedError, match="version 1 of .*column 'id' was long and is string"):
        DeltaSource(path).require_used_columns(offset_of(0), offset_of(2), resolved)


def test_columns_that_a_job_does_not_use_may_change_in_a_window(tmp_path):
    path = str(tmp_path / "orders")
    for other in ({"a": [1]}, {"a": ["x"]}, {}, {"a": [1]}):
        write_deltalake(path, pa.table({"id": [1], **other}), mode="overwrite", schema_mode="overwrite")
    resolved = ResolvedUpstream(table_id="t", columns=(UpstreamColumn(name="id", type="long"),))
    DeltaSource(path).require_used_columns(offset_of(0), offset_of(3), resolved)


@pytest.mark.parametrize("from_version", [0, 1])
def test_changes_from_before_a_used_column_was_a_partition_column_are_refused(tmp_path, from_version):
    """Delta would read a null from each of these changes."""
    path = str(tmp_path / "orders")
    for _ in range(3):
        write_deltalake(path, pa.table({"id": [1], "day": [1]}), mode="append")
    written = commit_file(path, 0).read_text(encoding="utf-8").splitlines()
    metadata = next(line for line in written if line.startswith('{"metaData"'))
    for version in (1, 2):
        with commit_file(path, version).open("a", encoding="utf-8") as commit:
            commit.write("\n" + metadata.replace('"partitionColumns":[]', '"partitionColumns":["day"]') + "\n")
    used = ResolvedUpstream(table_id="t", columns=(UpstreamColumn(name="day", type="long"),))
    table = DeltaSource(path)
    table.require_used_columns(offset_of(from_version), offset_of(2), ResolvedUpstream(table_id="t", columns=()))
    if from_version:
        table.require_used_columns(offset_of(from_version), offset_of(2), used)
        return
    with pytest.raises(UpstreamSchemaChangedError, match="partitioned by day since version 1"):
        table.require_used_columns(offset_of(from_version), offset_of(2), used)


# --- values ---------------------------------------------------------------------------------------


NIGHT = "2026-01-01 00:00:00"
UPSTREAM = ResolvedUpstream(
    table_id="t", columns=(UpstreamColumn(name="id", type="long"), UpstreamColumn(name="at", type="timestamp"))
)


def compacted(path, before, after):
    """Write a table that is partitioned by a timestamp, and compact it; return it as the package reads it."""
    for i in range(2):
        rows = pa.table({"id": pa.array([i]), "at": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC)])})
        write_deltalake(path, rows, mode="append", partition_by=["at"])
    DeltaTable(path).optimize.compact()
    log = commit_file(path, 2)
    actions = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    for action in actions:
        for kind, text in (("remove", before), ("add", after)):
            if kind in action:
                action[kind]["partitionValues"] = {"at": text}
    log.write_text("".join(json.dumps(action) + "\n" for action in actions), encoding="utf-8")
    return DeltaSource(str(path))


def test_a_compaction_that_moves_a_timestamp_is_refused(tmp_path):
    """I6: an OPTIMIZE in Los Angeles reads a timestamp without a zone as one there, and records no change."""
    table = compacted(tmp_path / "t", NIGHT, "2026-01-01T08:00:00.000000Z")
    with pytest.raises(ChangeFeedGapError, match="version 2 .* other values of the partition columns at, .*rebuild"):
        table.require_kept_values(offset_of(0), offset_of(2), UPSTREAM)
    table.require_kept_values(offset_of(0), offset_of(1), UPSTREAM)
    unused = ResolvedUpstream(table_id="t", columns=UPSTREAM.columns[:1])
    table.require_kept_values(offset_of(0), offset_of(2), unused)


@pytest.mark.parametrize("after", [NIGHT, "2026-01-01T00:00:00.000000Z", "2026-01-01 01:00:00+01:00"])
def test_a_compaction_that_writes_the_same_instant_is_accepted(tmp_path, after):
    compacted(tmp_path / "t", NIGHT, after).require_kept_values(offset_of(0), offset_of(2), UPSTREAM)


def test_partition_columns_of_text_are_known_by_version(tmp_path):
    """Spark reads an empty value of these as a text, which means null in the log."""
    rows = pa.table({"id": pa.array([1]), "day": pa.array([1]), "name": pa.array([""])})
    write_deltalake(tmp_path / "t", rows, partition_by=["day", "name"])
    assert DeltaSource(str(tmp_path / "t")).empty_is_null(offset_of(0)) == ["name"]
