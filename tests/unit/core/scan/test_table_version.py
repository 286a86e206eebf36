"""Versions of a job's tables, as an epoch leaves them."""

from __future__ import annotations

from airflow_backfill_provider.core.scan.table_version import TableVersion, TableVersions, commit_fields
from tests.builders import NOW, barrier_of, commit_of

LEFT = TableVersions(
    view=TableVersion(version=7, written_at=NOW),
    strategy={"arrangement": TableVersion(version=3)},
    rows_present=12,
)


def test_a_commit_gives_back_the_versions_that_were_written_into_it():
    assert commit_of(barrier_of(), **commit_fields(LEFT)).tables == LEFT


def test_a_commit_without_versions_gives_back_none():
    assert commit_fields(None) == {"view_version": None}
    assert commit_of(barrier_of(), **commit_fields(None)).tables is None


def test_a_version_of_another_time_is_another_version():
    """A restored older copy that was written to has the same number."""
    assert TableVersion(version=7) != TableVersion(version=7, written_at=NOW)
