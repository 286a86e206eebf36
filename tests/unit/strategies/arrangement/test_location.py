"""Where an arrangement lies."""

from __future__ import annotations

from airflow_backfill_provider.strategies.arrangement.location import TABLE, location_of
from tests.builders import job_of, settings_of


def test_each_incarnation_has_its_own_beside_the_jobs_control_tables():
    """A zombie of an earlier one must not write into it."""
    job = job_of()
    one, two = (location_of(settings_of(job, incarnation=incarnation)) for incarnation in ("a1", "b2"))
    assert one != two
    assert all(location.startswith(f"{job.state}/") and TABLE in location for location in (one, two))
    assert location_of(settings_of(job_of(name="others"))) != one
