"""Who finds the locations of named tables, and when no catalog is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError, JobNotCreatedError, LocationNotAllowedError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.jobs import table_locator as placement
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.lake.store.allowed_roots import ROOTS_VARIABLE
from tests.builders import job_of, settings_of


@dataclass
class Catalog:
    """Puts a job's tables into a folder, and remembers the jobs that it was asked about."""

    folder: Path
    asked: list[BackfillJob] = field(default_factory=list)

    def place(self, job: BackfillJob) -> BackfillJob:
        self.asked.append(job)
        return job.placed(upstream=f"{self.folder}/orders", view=job.view_location or f"{self.folder}/paid")


def named(folder: Path, **changes) -> Backfill:
    upstream = {"table": "prod.sales.orders", "key": ["id"]}
    fields = {"upstream": upstream, "materialized_view": "prod.sales.paid", "state": f"{folder}/state", **changes}
    return Backfill(job_of(folder, **fields))


def create(backfill: Backfill, catalog: Catalog) -> Backfill:
    placed = placement.to_create(backfill, lambda: catalog)
    placed.store.create(settings_of(placed.job))
    return placed


def test_a_job_of_locations_asks_no_catalog(tmp_path):
    backfill = Backfill(job_of(tmp_path))
    for find in (placement.to_create, placement.to_rebuild):
        assert find(backfill, lambda: pytest.fail("an engine was started")) is backfill


def test_catalogs_are_asked_once_until_a_rebuild(tmp_path):
    first, second = Catalog(tmp_path / "first"), Catalog(tmp_path / "second")
    created = create(named(tmp_path), first)
    assert created.job.upstream.location == f"{tmp_path}/first/orders"
    assert placement.to_create(named(tmp_path), lambda: second).job == created.job
    assert second.asked == []
    rebuilt = placement.to_rebuild(named(tmp_path), lambda: second).job
    assert (rebuilt.upstream.location, rebuilt.view_location) == (
        f"{tmp_path}/second/orders",
        f"{tmp_path}/first/paid",
    ), "the upstream is looked up again, and the view stays"


def test_a_job_that_names_another_table_than_it_was_created_with_asks_again(tmp_path):
    create(named(tmp_path), Catalog(tmp_path / "first"))
    catalog = Catalog(tmp_path / "second")
    other = named(tmp_path, upstream={"table": "prod.sales.others", "key": ["id"]})
    assert placement.to_create(other, lambda: catalog).job.upstream.location == f"{tmp_path}/second/orders"


def test_a_location_from_a_catalog_must_be_allowed(tmp_path, monkeypatch):
    monkeypatch.setenv(ROOTS_VARIABLE, f'["{tmp_path}/state"]')
    with pytest.raises(LocationNotAllowedError, match="upstream.path: .*first/orders lies outside"):
        placement.to_create(named(tmp_path), lambda: Catalog(tmp_path / "first"))


def test_a_created_job_finds_its_tables_without_an_engine(tmp_path):
    with pytest.raises(JobNotCreatedError, match=r"names prod\.sales\.orders .*found when the job is created"):
        named(tmp_path).upstream  # noqa: B018
    created = create(named(tmp_path), Catalog(tmp_path / "first"))
    assert named(tmp_path).upstream.location == f"{tmp_path}/first/orders"
    edited = named(tmp_path, upstream={"table": "prod.sales.others", "key": ["id"]})
    assert edited.upstream.location == f"{tmp_path}/first/orders", "only the settings in force count"
    assert Backfill.at(f"{tmp_path}/state").job == created.job


def test_a_view_that_is_only_a_name_needs_a_folder_for_control_tables(tmp_path):
    with pytest.raises(InvalidJobError, match=r"state: is required, because prod\.sales\.paid is a name in a catalog"):
        named(tmp_path, state="")
    assert named(tmp_path, state="", view_path=f"{tmp_path}/paid").job.state == f"{tmp_path}/_backfill/paid_orders"
