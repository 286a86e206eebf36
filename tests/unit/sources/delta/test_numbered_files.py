"""The files of a Delta table, in the order in which they were written, and how much its commits changed."""

from __future__ import annotations

import datetime as dt

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.scan.offset import BEGINNING, Offset
from airflow_backfill_provider.sources.delta.numbered_files import DeltaNumberedFiles
from tests.builders import Orders
from tests.deletion_vectors import added_in, hide, write_actions


@pytest.fixture
def orders(tmp_path):
    """Three files, in an order of their own."""
    made = Orders(tmp_path)
    for ids in ([5, 6, 7], [1, 2], [9]):
        made.add(*ids)
    return made


def files_of(orders):
    found = orders.table.numbered_files
    assert isinstance(found, DeltaNumberedFiles)
    return found


def test_files_are_in_the_order_in_which_they_were_written_whatever_was_read_from_a_checkpoint(orders):
    files = files_of(orders).files(Offset(2))
    assert [file.stored for file in files] == [3, 2, 1]
    assert [file.path for file in files] == [added_in(orders.path, version)["path"] for version in range(3)]
    DeltaTable(orders.path).create_checkpoint()
    assert files_of(orders).files(Offset(2)) == files
    orders.add(10)
    assert files_of(orders).files(Offset(2)) == files


def test_rows_are_counted_by_the_files_and_without_deleted_ones(orders):
    hide(orders.path, added_in(orders.path, 0), [1])
    files = files_of(orders)
    assert [(file.stored, file.live, file.is_exact) for file in files.files(Offset(3))] == [
        (3, 2, True),
        (2, 2, True),
        (1, 1, True),
    ]
    assert files.counted(Offset(3), [0, 2]) == 3


def test_nothing_is_counted_if_it_is_unknown_how_many_rows_are_deleted(orders):
    hide(orders.path, added_in(orders.path, 0), [1], cardinality=99)
    assert files_of(orders).counted(Offset(3), [0]) is None
    assert files_of(orders).counted(Offset(3), [1]) == 2


def test_a_compaction_is_the_first_commit_that_removes_a_file(orders):
    """What was removed is vacuumed sooner or later, whether or not a row has changed."""
    files = files_of(orders)
    assert files.first_removal(Offset(0), Offset(2)) is None
    orders.add(20)
    DeltaTable(orders.path).optimize.compact()
    orders.remove(9)
    removal = files.first_removal(Offset(0), Offset(5))
    assert removal is not None
    assert removal[0] == Offset(4)
    assert files.first_removal(Offset(5), Offset(5)) is None
    assert files.kept_for() == dt.timedelta(days=7)


def commit(orders, version, *, adds=1, rows=None, data_change=True, **metrics):
    added = {"path": f"f{version}", "size": 1, "modificationTime": 1, "partitionValues": {}, "dataChange": data_change}
    if rows is not None:
        added["stats"] = f'{{"numRecords": {rows}}}'
    info = {"commitInfo": {"timestamp": version, "operationMetrics": metrics}}
    write_actions(orders.path, version, info, *[{"add": added}] * adds)


@pytest.fixture
def history(orders):
    """Commits that say in different ways how much they changed."""
    commit(orders, 3, rows=1000, numUpdatedRows="4", numCopiedRows="996")
    commit(orders, 4, rows=5)
    commit(orders, 5, rows=1000, data_change=False)
    commit(orders, 6, rows=1000, numTargetRowsInserted="1", numTargetRowsDeleted="2", numOutputRows="1000")
    commit(orders, 7, numOutputRows="3")
    commit(orders, 8)
    return files_of(orders)


@pytest.mark.parametrize(
    ("rows", "steps", "end"),
    [
        (0, 0, 3),
        (4, 0, 3),
        (9, 0, 5),  # a compaction changes nothing
        (12, 0, 6),
        (14, 0, 6),
        (15, 0, 8),
        (1, 4, 6),
        (0, 100, 8),
    ],
)
def test_as_many_commits_as_report_no_more_changes(history, rows, steps, end):
    assert history.few_changes(Offset(2), Offset(8), rows=rows, steps=steps) == Offset(end)


@pytest.mark.parametrize(("at_most", "changed"), [(100, 15), (15, 15), (14, 14), (3, 3), (0, 0)])
def test_changed_rows_of_a_window_are_counted_up_to_a_limit(history, at_most, changed):
    assert history.changed_rows(Offset(2), Offset(8), at_most=at_most) == changed
    assert history.changed_rows(Offset(8), Offset(8), at_most=at_most) == 0


def test_there_is_nothing_after_the_newest_version(history):
    assert history.few_changes(Offset(8), Offset(8), rows=1, steps=1) == Offset(8)
    assert history.few_changes(BEGINNING, Offset(0), rows=1, steps=0) == Offset(0)
