"""The folders of successors that nobody needs any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.jobs import revert
from airflow_backfill_provider.jobs.successor_tables import delete_unused
from tests.unit.jobs.test_succession import grow

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def test_what_a_dead_process_left_goes_and_what_grows_stays(backfilling):
    backfilling.finish()
    protocol.finish_job(store=backfilling.store, requested_by="x")
    grow(backfilling)
    left = Path(backfilling.store.settings().successor.folder)
    revert.give_up_successor(backfilling.store, requested_by="x")
    left.mkdir(parents=True)
    (left / "of a slow process").touch()
    grow(backfilling)
    delete_unused(backfilling.store)
    assert not left.exists()
    assert backfilling.backfill.successor.store.created()
