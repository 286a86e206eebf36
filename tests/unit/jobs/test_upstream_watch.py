"""Polling an upstream whose location is known only once its job is created."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from airflow_backfill_provider.core.epoch.settings import SettingsChange
from airflow_backfill_provider.core.scan.offset import BEGINNING
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.upstream_watch import JobUpstreamWatch, watch_upstream
from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.builders import NOW, job_of, settings_of


def append(folder: Path, times: int) -> str:
    for _ in range(times):
        write_deltalake(folder, pa.table({"id": [1]}), mode="append")
    return str(folder)


def test_a_job_of_locations_polls_its_upstream_directly(tmp_path):
    append(tmp_path / "orders", 2)
    watch = watch_upstream(Backfill(job_of(tmp_path)))
    assert not isinstance(watch, JobUpstreamWatch)
    assert watch.look()[0] == offset_of(1)


def test_a_named_upstream_is_polled_where_the_newest_settings_say(tmp_path):
    upstream = {"table": "prod.sales.orders", "key": ["id"]}
    backfill = Backfill(job_of(tmp_path, upstream=upstream))
    watch = watch_upstream(backfill)
    assert watch.look() == (BEGINNING, None), "nothing is known before the job is created"
    assert watch.seen_at(BEGINNING).tzinfo is not None
    placed = backfill.job.placed(upstream=append(tmp_path / "first", 3))
    backfill.store.create(settings_of(placed))
    assert watch.look()[0] == offset_of(2)
    append(tmp_path / "first", 1)
    offset, _ = watch.look()
    assert offset == offset_of(3)
    assert watch.seen_at(offset).tzinfo is not None
    moved = backfill.job.placed(upstream=append(tmp_path / "second", 1)).model_dump(mode="json")
    backfill.store.change_settings(
        lambda settings: settings.changed(SettingsChange.REBUILD, requested_by="me", requested_at=NOW, job=moved)
    )
    assert watch.look()[0] == offset_of(0), "a rebuild found the name elsewhere"
