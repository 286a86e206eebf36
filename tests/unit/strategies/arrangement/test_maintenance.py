"""Compacting an arrangement's files of changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_backfill_provider.core.status.compaction import CompactionPolicy, CompactionStep
from airflow_backfill_provider.lake.tables.table_files import table_files
from airflow_backfill_provider.strategies.arrangement.files import ArrangementFiles
from airflow_backfill_provider.strategies.arrangement.location import location_of
from airflow_backfill_provider.strategies.arrangement.maintenance import compaction_of
from tests.property.backfilling import Prepared


def change_one_row(backfilling):
    for amount in range(3):
        backfilling.orders.change([119], amount=amount + 10)
        backfilling.epoch()


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """A job with 120 rows in the base of its arrangement, and a change in each of three epochs; read, not changed."""
    folder = tmp_path_factory.mktemp("arranged")
    job = {"strategy": "arrangement", "vnode_count": 4, "rate_limit": 5}
    return Prepared(folder, range(120), change_one_row, **job).restore().store.settings()


def planned(settings, **policy):
    return compaction_of(settings, location_of(settings), CompactionPolicy(**policy), None)


def test_changes_are_written_together_and_the_base_is_left_alone(settings):
    """Each is laid out by key; together they would not be."""
    files = ArrangementFiles(location_of(settings))
    sizes = sorted(file.size for file in table_files(files.path).files)
    smallest = files.smallest_of_base(settings.base_epoch, settings.own_columns)
    assert smallest == sizes[3], "the three files of changes are smaller"
    plan = planned(settings, at=2)
    assert (plan.step, plan.files, plan.saved_files) == (CompactionStep.COMPACT, 6, 2)
    assert plan.smaller_than == smallest


def test_a_file_counts_as_small_below_half_of_the_policys_target(settings):
    plan = planned(settings, at=2, target_file_size=20)
    assert (plan.smaller_than, plan.step) == (10, None)


def test_nothing_is_due_below_the_minimum_saving(settings):
    assert planned(settings, at=3).step is None


def test_an_arrangement_that_is_gone_is_not_compacted(settings, tmp_path: Path):
    assert compaction_of(settings, str(tmp_path / "nowhere"), CompactionPolicy(at=1), None) is None
