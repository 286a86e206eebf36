"""What a run's interval means for its epochs."""

from __future__ import annotations

import datetime as dt

import pytest
from airflow.sdk.api.datamodels._generated import DagRunType

from airflow_backfill_provider.hooks.task_run import empty_interval_warning, requester_of, until_of
from tests.unit.stand_in import context

NOON = dt.datetime(2026, 3, 29, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize("run_type", [DagRunType.SCHEDULED, DagRunType.BACKFILL])
def test_a_run_of_a_schedule_goes_up_to_the_end_of_its_interval(run_type):
    run = context(run_type=run_type, data_interval_start=NOON - dt.timedelta(hours=1), data_interval_end=NOON)

    assert until_of(run) == NOON
    assert empty_interval_warning(run) is None


def test_each_mapped_task_run_is_its_own_requester():
    """I2: a retry finds its own barrier, and not that of the run beside it."""
    asked = [requester_of(context("run_epoch", map_index=number)) for number in (-1, 0, 3)]

    assert [requester.map_index for requester in asked] == [-1, 0, 3]
    assert len(set(asked)) == 3


def test_an_interval_of_length_zero_is_an_instant_and_explained():
    run = context(run_type=DagRunType.SCHEDULED, data_interval_start=NOON, data_interval_end=NOON)

    assert until_of(run) == NOON
    assert "up to 2026-03-29 12:00:00 UTC" in empty_interval_warning(run)


@pytest.mark.parametrize("run_type", [DagRunType.MANUAL, DagRunType.ASSET_TRIGGERED])
def test_any_other_run_has_its_interval_made_up(run_type):
    run = context(run_type=run_type, data_interval_start=NOON, data_interval_end=NOON)

    assert until_of(run) is None
    assert empty_interval_warning(run) is None
