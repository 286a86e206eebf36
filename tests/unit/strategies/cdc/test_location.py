"""Where the strategy's tables lie."""

from __future__ import annotations

from airflow_backfill_provider.strategies.cdc.location import SAMPLE, TABLE, sample_of, table_of
from tests.builders import job_of, settings_of


def test_each_incarnation_has_its_own_tables_beside_the_jobs_control_tables():
    """A zombie of an earlier one must not write into them."""
    job = job_of()
    locations = [
        location_of(settings_of(made, incarnation=incarnation))
        for location_of in (table_of, sample_of)
        for incarnation in ("a1", "b2")
        for made in (job, job_of(name="others"))
    ]
    assert len(set(locations)) == len(locations)
    assert table_of(settings_of(job)) == f"{job.state}/{TABLE}_a1"
    assert sample_of(settings_of(job)) == f"{job.state}/{SAMPLE}_a1"
