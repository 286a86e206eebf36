"""Undoing a rebuild: what is refused. What comes back is tested on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.settings import SettingsChange
from airflow_backfill_provider.core.errors import NotFinishedError, VersionGoneError
from airflow_backfill_provider.core.job.cut_over import CutOverKind
from airflow_backfill_provider.jobs import revert
from tests.builders import PAID
from tests.unit.jobs.test_succession import grow

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def put_back(backfilling):
    return revert.put_back(backfilling.store, engine=backfilling.engine, requested_by="x", clock=backfilling.clock)


def test_a_job_that_was_never_rebuilt(backfilling):
    backfilling.finish()
    with pytest.raises(NotFinishedError, match="job .* was never rebuilt, so there is nothing to put back"):
        put_back(backfilling)


def test_a_view_that_was_not_finished(backfilling):
    backfilling.epoch()
    backfilling.rebuild(query=PAID)
    with pytest.raises(NotFinishedError, match="had no finished view before it was rebuilt"):
        put_back(backfilling)


def test_a_version_that_the_view_no_longer_has(backfilling):
    backfilling.finish()
    protocol.finish_job(store=backfilling.store, requested_by="x")
    left = backfilling.store.commits()[-1].view_version
    before = backfilling.rebuild(query=PAID)
    engines = len(backfilling.engines)
    for entry in (1, left):
        Path(backfilling.view.path, "_delta_log", f"{entry:020}.json").unlink()
    with pytest.raises(VersionGoneError, match="lacks the log of that version; it was deleted"):
        put_back(backfilling)
    assert backfilling.store.settings() == before
    assert len(backfilling.engines) == engines, "no Spark was started for this"


def test_a_rebuild_that_grows_is_given_up(backfilling):
    backfilling.finish()
    protocol.finish_job(store=backfilling.store, requested_by="x")
    grow(backfilling)
    assert revert.give_up_successor(backfilling.store, requested_by="ann") is CutOverKind.REBUILD
    settings = backfilling.store.settings()
    assert (settings.change, settings.successor, settings.requested_by) == (SettingsChange.REVERT, None, "ann")
    assert revert.give_up_successor(backfilling.store, requested_by="ann") is None
