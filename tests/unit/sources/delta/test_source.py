"""Opening a Delta table as a job's upstream, and asking for its newest version and its rows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.errors import (
    ChangeFeedGapError,
    UpstreamNotFoundError,
)
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.builders import (
    commit_file,
)
from tests.unit.sources.delta.delta_tables import order_by


@pytest.mark.parametrize("make", ["nothing", "an empty folder", "files", "a file"])
def test_a_path_without_a_table_is_refused_with_what_to_do(tmp_path, make):
    """I6."""
    path = tmp_path / "orders"
    if make == "a file":
        path.write_text("x")
    elif make != "nothing":
        path.mkdir()
        if make == "files":
            (path / "data.csv").write_text("x")
    for look in (DeltaSource(str(path)).latest, DeltaSource(str(path)).at):
        with pytest.raises(UpstreamNotFoundError) as caught:
            look()
        assert str(path) in str(caught.value)


def test_looking_for_a_table_makes_none(tmp_path):
    with pytest.raises(UpstreamNotFoundError, match=r"check upstream\.path, or create the table first"):
        DeltaSource(str(tmp_path / "orders")).at()
    assert list(tmp_path.iterdir()) == []


def test_a_version_that_does_not_exist_is_named(orders):
    orders.add(1)
    with pytest.raises(UpstreamNotFoundError, match="at version 5"):
        orders.table.at(offset_of(5))


def test_a_damaged_log_is_an_upstream_that_cannot_be_read(orders):
    orders.add(1)
    commit_file(orders.path, 0).write_text('{"metaData": {"id"', encoding="utf-8")
    with pytest.raises(UpstreamNotFoundError, match="cannot be read"):
        orders.table.at()


@pytest.mark.parametrize("nested", [False, True])
def test_two_columns_that_differ_only_in_case_are_named(orders, nested):
    """Also if no query uses them: deltalake opens no such table."""
    orders.add(1)
    file = commit_file(orders.path, 0)
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    (metadata,) = (line["metaData"] for line in lines if "metaData" in line)
    schema = json.loads(metadata["schemaString"])
    twice = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("other", "OTHER")]
    within = {"name": "s", "type": {"type": "struct", "fields": twice}, "nullable": True, "metadata": {}}
    schema["fields"] += [within] if nested else twice
    metadata["schemaString"] = json.dumps(schema)
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    with pytest.raises(UpstreamNotFoundError, match="two columns OTHER whose names differ only in case") as refused:
        orders.table.at()
    assert "write the table anew with another name" in str(refused.value)


def test_a_version_before_the_log_begins_is_gone(every_minute):
    DeltaTable(every_minute.path).create_checkpoint()
    for version in range(3):
        commit_file(every_minute.path, version).unlink()
    with pytest.raises(ChangeFeedGapError, match="version 2 of .* is gone: .* begins with version 3"):
        every_minute.table.row_count(offset_of(2))


def test_files_are_those_of_the_version(orders):
    orders.add(1, 2)
    orders.add(3)
    orders.change([1], amount=5)
    assert [len(orders.table.files_at(offset_of(version)).statistics(order_by("id"))[0]) for version in (0, 1, 2)] == [
        1,
        2,
        1,
    ]
    assert [orders.table.row_count(offset_of(version)) for version in (0, 1, 2)] == [2, 3, 3]
    files, _ = orders.table.files_at(offset_of(2)).statistics(order_by("id"))
    assert files[0].size == (Path(orders.path) / files[0].path).stat().st_size


def test_files_of_a_described_version_are_known_without_reading_the_log_again(orders):
    orders.add(1, 2)
    table = DeltaSource(orders.path)
    table.at()
    shutil.rmtree(Path(orders.path, "_delta_log"))
    assert table.row_count(offset_of(0)) == 2
    assert len(table.files_at(offset_of(0)).statistics(order_by("id"))[0]) == 1


def test_the_newest_version_is_found_without_reading_the_commits(orders):
    orders.add(1)
    orders.add(2)
    for version in (0, 1):
        commit_file(orders.path, version).write_text("", encoding="utf-8")
    assert DeltaSource(orders.path).latest().number == 1


def test_a_table_that_was_replaced_is_described_again(orders):
    """I6: nothing read from the old table is kept."""
    orders.add(1, 2)
    table = DeltaSource(orders.path)
    before = table.at()
    shutil.rmtree(orders.path)
    orders.add(1)
    assert table.at().table_id != before.table_id
    assert table.row_count(offset_of(0)) == 1


def test_an_empty_table_has_no_files(orders):
    orders.add()
    assert orders.table.row_count(offset_of(0)) == 0
    assert [file for file in orders.table.files_at(offset_of(0)).statistics(order_by("id"))[0] if file.row_count] == []


def test_files_are_those_of_the_version_also_after_another_one_was_described(orders):
    orders.add(1)
    orders.add(2, 3)
    table = orders.table
    assert table.at().offset == offset_of(1)
    assert (table.row_count(offset_of(0)), table.row_count(offset_of(1))) == (1, 3)


def test_rows_that_the_log_does_not_count_are_counted_in_the_file(orders):
    orders.add(1, 2)
    orders.add(3, 4, 5)
    log = commit_file(orders.path, 0)
    actions = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    log.write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")
    assert orders.table.row_count(offset_of(1)) == 5
