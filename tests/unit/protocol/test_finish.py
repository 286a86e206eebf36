"""Finishing a job: once, when every vnode is Completed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.epoch.settings import SettingsChange
from airflow_backfill_provider.core.errors import NotFinishedError
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.state.store import BackfillStore
from airflow_backfill_provider.strategies.arrangement.files import ArrangementFiles
from airflow_backfill_provider.strategies.arrangement.location import location_of
from tests.property.backfilling import Backfilling

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def test_a_job_is_finished_only_when_every_vnode_is_completed(backfilling, store):
    """docs/concepts/rules.md#finishing-happens-once."""
    for _ in range(2):
        with pytest.raises(NotFinishedError, match="run more epochs") as caught:
            protocol.finish_job(store=store, requested_by="x")
        assert caught.value.retryable
        backfilling.epoch()
    settings = protocol.finish_job(store=store, requested_by="x")
    assert (settings.finished_epoch, settings.change) == (2, SettingsChange.FINISH)


def test_a_job_is_not_finished_before_the_completing_epoch_is_in_the_log(backfilling, store):
    """A crash between the state and the log: the epoch is repaired first."""
    backfilling.epoch()

    def die(point):
        if point is CrashPoint.BEFORE_LOG_COMMIT:
            raise RuntimeError("died")

    crash_points.install(die)
    with pytest.raises(RuntimeError):
        backfilling.epoch()
    crash_points.install(None)
    assert store.state().completed
    with pytest.raises(NotFinishedError):
        protocol.finish_job(store=store, requested_by="x")
    backfilling.epoch()
    assert protocol.finish_job(store=store, requested_by="x").finished_epoch == 2


def test_finishing_is_idempotent_and_names_the_epoch_that_completed(backfilling, store):
    """docs/concepts/rules.md#finishing-happens-once."""
    backfilling.finish()
    backfilling.orders.add(50)
    backfilling.epoch()
    first = protocol.finish_job(store=store, requested_by="one")
    assert first.finished_epoch == 2
    backfilling.orders.add(51)
    backfilling.epoch()
    assert protocol.finish_job(store=store, requested_by="two") == first
    assert [record.change for record in store.settings_history()].count(SettingsChange.FINISH) == 1


def test_finishers_at_once_finish_once(backfilling, store):
    """Exactly once."""
    backfilling.finish()
    with ThreadPoolExecutor(6) as threads:
        found = list(
            threads.map(
                lambda n: protocol.finish_job(store=BackfillStore(store.location), requested_by=f"r{n}"), range(6)
            )
        )
    assert found == [found[0]] * 6
    assert [record.change for record in store.settings_history()].count(SettingsChange.FINISH) == 1


def test_a_job_that_is_rebuilt_while_it_is_finished_is_not_finished(lake):
    """The rebuilt job has its own arrangement, which its epochs need."""
    arranging = Backfilling(lake, strategy="arrangement")
    arranging.orders.add(*range(5))
    arranging.create()
    arranging.finish()

    class Sleeper(BackfillStore):
        def change_settings(self, change):
            arranging.rebuild()
            return super().change_settings(change)

    with pytest.raises(NotFinishedError, match="was rebuilt meanwhile; run more epochs"):
        protocol.finish_job(store=Sleeper(arranging.job.state), requested_by="x")
    settings = arranging.store.settings()
    assert settings.finished_epoch is None
    assert ArrangementFiles(location_of(settings)).exists()
    arranging.finish()
    assert len(arranging.rows()) == 5


def test_a_paused_job_can_be_finished_and_stays_fresh(backfilling, store):
    backfilling.finish()
    mutations.pause_job(store=store, requested_by="x")
    assert protocol.finish_job(store=store, requested_by="x").finished_epoch == 2
    backfilling.orders.add(50)
    backfilling.epoch()
    backfilling.assert_truth()
