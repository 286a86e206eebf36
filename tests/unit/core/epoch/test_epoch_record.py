"""The records of an epoch: its reports and its commit."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit, EpochReport, GivenUpEpoch
from airflow_backfill_provider.core.scan.table_version import TableVersion, TableVersions
from tests.builders import NOW, barrier_of, commit_of, report_of


def test_a_commit_survives_the_barrier_log():
    commit = commit_of(barrier_of(), seconds={"changes": 0.1, "chunk": 1e-9})
    assert EpochCommit.model_validate_json(commit.model_dump_json()) == commit


@pytest.mark.parametrize("part", [None, 0, 3])
def test_a_report_survives_the_barrier_log(part):
    report = report_of(barrier_of(), part, rows={0: 3, 255: 1})
    assert EpochReport.model_validate_json(report.model_dump_json()) == report


def test_a_commit_names_the_versions_that_the_epoch_left():
    own = {"arrangement": TableVersion(version=4, written_at=NOW)}
    commit = commit_of(barrier_of(), view_version=7, view_written_at=NOW, strategy_tables=own, rows_present=99)
    view = TableVersion(version=7, written_at=NOW)
    assert commit.tables == TableVersions(view=view, strategy=own, rows_present=99)
    assert commit.model_copy(update={"view_version": 0}).tables.view.version == 0


def test_a_commit_before_any_write_to_the_view_names_no_version():
    assert commit_of(barrier_of(), view_version=None).tables is None


def test_a_given_up_epoch_keeps_the_rest_of_its_barrier_and_its_commit():
    given_up = GivenUpEpoch(barrier=barrier_of(parts=()), commit=commit_of(barrier_of(), given_up=True))
    assert GivenUpEpoch.model_validate_json(given_up.model_dump_json()) == given_up
