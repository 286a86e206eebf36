"""What the epoch of a changed query finds of the view and of the upstreams."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from airflow_backfill_provider.core.epoch.settings import SettingsChange
from airflow_backfill_provider.core.errors import MaterializedViewError
from tests.builders import PAID
from tests.property.backfilling import Backfilling

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def test_a_view_that_is_gone_is_left_to_the_epoch_to_tell(backfilling: Backfilling):
    """Its columns are unknown, and Spark refuses the epoch."""
    backfilling.finish()
    job = backfilling.job.model_copy(update={"query": PAID}).model_dump(mode="json")

    def change(settings):
        return settings.changed(SettingsChange.CHANGE, requested_by="x", requested_at=backfilling.clock(), job=job)

    backfilling.store.change_settings(change)
    shutil.rmtree(Path(backfilling.job.view_location))
    barrier = backfilling.inject()
    assert barrier.columns_change is None
    with pytest.raises(MaterializedViewError):
        backfilling.run(barrier)
