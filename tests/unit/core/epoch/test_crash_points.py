"""The crash points: each is at a known point of the protocol."""

from __future__ import annotations

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.epoch.stages import STAGES

OF_NO_EPOCH = {
    CrashPoint.AFTER_SUCCESSION_STATE,
    CrashPoint.AFTER_SUCCESSION_SETTINGS,
    CrashPoint.BEFORE_CREATION_COMMIT,
    CrashPoint.AFTER_CREATION_COMMIT,
}

INSIDE_OF_A_STAGE = {
    CrashPoint.BEFORE_FILES_COMMIT,
    CrashPoint.AFTER_REMOVAL_COMMIT,
    CrashPoint.BEFORE_ARRANGEMENT_COMMIT,
    CrashPoint.AFTER_ARRANGEMENT_COMMIT,
    CrashPoint.BEFORE_READ_AHEAD_COMMIT,
    CrashPoint.AFTER_READ_AHEAD_COMMIT,
}

BEFORE_EPOCHS = {
    CrashPoint.BEFORE_LANDING_COMMIT,
    CrashPoint.AFTER_LANDING_COMMIT,
    CrashPoint.BEFORE_CLEAN_UP_COMMIT,
    CrashPoint.AFTER_CLEAN_UP_COMMIT,
}

OF_SHARED_EPOCHS = {CrashPoint.BEFORE_REPORT, CrashPoint.AFTER_REPORT}


OF_GIVING_UP = {
    CrashPoint.BEFORE_FENCE,
    CrashPoint.AFTER_CHUNK_FENCE,
    CrashPoint.AFTER_FENCE,
    CrashPoint.BEFORE_GIVING_UP,
}


def test_every_crash_point_is_around_one_stage_or_in_a_named_group():
    around = [point for stage in STAGES for point in (stage.before, stage.after) if point]
    assert len(around) == len(set(around))
    assert set(around) | OF_NO_EPOCH | INSIDE_OF_A_STAGE | OF_SHARED_EPOCHS | OF_GIVING_UP | BEFORE_EPOCHS == set(
        CrashPoint
    )


def test_the_stages_stand_in_the_order_of_their_crash_points():
    around = [point for stage in STAGES for point in (stage.before, stage.after) if point]
    assert around == [point for point in CrashPoint if point in around]


def test_a_point_calls_the_installed_callback_until_it_is_removed():
    seen = []
    crash_points.install(seen.append)
    crash_points.reached(CrashPoint.AFTER_PIN)
    crash_points.reached(CrashPoint.BEFORE_REPORT)
    crash_points.install(None)
    crash_points.reached(CrashPoint.AFTER_REPORT)
    assert seen == [CrashPoint.AFTER_PIN, CrashPoint.BEFORE_REPORT]
