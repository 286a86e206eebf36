"""The stages of an epoch: one list for crash points, timings and documents."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.epoch.repair import Repair
from airflow_backfill_provider.core.epoch.stages import STAGES, StageKind, changes_stages, part_stages, stage_of
from tests.builders import barrier_of


def test_every_kind_is_one_stage():
    assert [stage.kind for stage in STAGES] == list(StageKind)
    assert all(stage_of(kind).kind is kind for kind in StageKind)


def test_a_part_is_counted_before_it_is_written():
    assert [stage.kind for stage in part_stages()] == [StageKind.COUNT_PART, StageKind.WRITE_PART]


@pytest.mark.parametrize("repair", [Repair(), Repair(vnodes=(1,))])
@pytest.mark.parametrize("counts_chunk", [False, True])
def test_the_changes_come_after_all_that_can_be_refused(repair, counts_chunk):
    """I6: bad input is refused before anything is written."""
    kinds = [stage.kind for stage in changes_stages(barrier_of(repair=repair), counts_chunk=counts_chunk)]
    assert kinds == sorted(kinds, key=list(StageKind).index)
    assert (StageKind.REPAIR in kinds, StageKind.COUNT_CHUNK in kinds) == (bool(repair), counts_chunk)
    # I7: one stage writes what a reader of the view sees at once.
    assert (StageKind.WRITE_CHANGES in kinds) is not bool(repair)
    assert kinds[0] is StageKind.CHECK_TABLES
    assert kinds[-1] is StageKind.KEEP_CHANGES


def test_a_stage_announces_its_points_and_adds_its_time():
    seen = []
    crash_points.install(seen.append)
    seconds = {"changes": 100.0}
    try:
        with stage_of(StageKind.WRITE_CHANGES).entered(seconds):
            seen.append("work")
    finally:
        crash_points.install(None)
    assert seen == [CrashPoint.BEFORE_CHANGES_COMMIT, "work", CrashPoint.AFTER_CHANGES_COMMIT]
    assert seconds["changes"] > 100


def test_a_stage_that_fails_is_not_done():
    seen = []
    crash_points.install(seen.append)
    seconds = {}
    try:
        with pytest.raises(ZeroDivisionError), stage_of(StageKind.WRITE_PART).entered(seconds):
            raise ZeroDivisionError
    finally:
        crash_points.install(None)
    assert (seen, seconds) == ([CrashPoint.BEFORE_SNAPSHOT_COMMIT], {})
