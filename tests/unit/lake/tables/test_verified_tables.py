"""Which version of a view an epoch left, by the view's own log."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from airflow_backfill_provider.core.errors import VerificationFailedError
from airflow_backfill_provider.lake.tables.verified_tables import table_id, view_version_of
from tests.builders import commit_file


@pytest.fixture
def view(lake):
    return str(lake / "view")


def commit(view, **stamp):
    """Write a version of the view that says this of itself."""
    properties = CommitProperties(custom_metadata={"userMetadata": json.dumps(stamp)} if stamp else None)
    write_deltalake(view, pa.table({"id": [1]}), mode="append", commit_properties=properties)


def epoch(view, number, incarnation="a1"):
    commit(view, event="epoch", epoch=number, incarnation=incarnation)


def test_a_later_epoch_is_left_out_and_another_writers_commit_before_it_is_not(view):
    commit(view, event="create", incarnation="a1")  # version 0
    epoch(view, 1)
    epoch(view, 1)
    commit(view)  # 3: another writer
    epoch(view, 2)  # 4
    epoch(view, 2)
    commit(view)  # 6: another writer
    assert [view_version_of(view, "a1", number) for number in (0, 1, 2, 3)] == [0, 3, 6, 6]


def test_epochs_of_another_incarnation_are_no_later_ones(view):
    epoch(view, 1, "old")
    commit(view, event="create", incarnation="a1")
    epoch(view, 2)
    epoch(view, 9, "old")
    assert view_version_of(view, "a1", 2) == 3


def test_a_log_whose_old_entries_are_gone(view):
    for number in range(1, 5):
        epoch(view, number)
    table = DeltaTable(view)
    table.create_checkpoint()
    for version in (0, 1):
        commit_file(view, version).unlink()
    assert view_version_of(view, "a1", 1) == 1
    assert view_version_of(view, "a1", 4) == 3


def test_the_table_of_a_path(view, lake):
    commit(view)
    assert table_id(view) == str(DeltaTable(view).metadata().id)
    with pytest.raises(VerificationFailedError, match="so it cannot be verified"):
        table_id(str(lake / "nowhere"))
