"""Compacting a view from a terminal."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake


@pytest.fixture
def scattered(created):
    """A job whose view lies in six small files."""
    for n in range(6):
        rows = pa.table({"rows_are_only_counted": pa.array([n], pa.int64())})
        write_deltalake(view_of(created), rows, mode="append")
    return created


def view_of(job):
    return job.definition["materialized_view"]


def test_small_files_are_written_together(scattered, engine):
    engine.starts = 0
    result = scattered("compact", "--at", "5")

    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "small_orders: view: 6 files; due: a compaction saves 5 files",
        "small_orders: view: 6 files became 1",
    ]
    assert engine.starts == 1
    assert len(DeltaTable(view_of(scattered)).file_uris()) == 1


def test_nothing_is_compacted_below_the_minimum_saving(scattered, engine):
    engine.starts = 0
    result = scattered("compact")

    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "small_orders: view: 6 files; not due: a compaction saves 5 files",
        "small_orders: nothing to compact",
    ]
    assert engine.starts == 0


def test_a_dry_run_only_says_what_would_be_done(scattered, engine):
    engine.starts = 0
    version = DeltaTable(view_of(scattered)).version()
    result = scattered("compact", "--dry-run", "--at", "1")

    assert result.exit_code == 0
    assert result.stdout == "small_orders: view: 6 files; due: a compaction saves 5 files\n"
    assert (engine.starts, DeltaTable(view_of(scattered)).version()) == (0, version)


def test_a_job_that_was_not_created_is_refused(job):
    result = job("compact")
    assert result.exit_code == 1
    assert "was not created yet" in result.stderr


def test_fewer_than_one_file_is_wrong_usage(created):
    assert created("compact", "--at", "0").exit_code == 2
