"""The views with former rows that the campaign draws: every definition is accepted, and all kinds come up."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.keep import Keep, ValidBy
from airflow_backfill_provider.core.kinds import shape_of_job
from faults.histories.case import Past, a_past
from faults.lives.tables import upstreams_of

pytestmark = pytest.mark.slow  # many random queries

PASTS = 80


def job_of(past: Past) -> BackfillJob:
    """Return the definition of a view."""
    fields = {**upstreams_of(past.tables, Path("/lake")), **past.fields}
    if past.begins_earlier:
        fields["as_of"] = 0
    return BackfillJob(name="past", materialized_view="/lake/view", query=past.query, **fields)


def test_all_kinds_of_views_are_drawn_and_every_definition_is_accepted() -> None:
    pasts = [a_past(Random(f"past {number}")) for number in range(PASTS)]
    jobs = [job_of(past) for past in pasts]
    kinds = Counter((shape_of_job(job).name, job.keep) for job in jobs)
    assert set(kinds) >= {(name, keep) for name in ("row", "group", "join") for keep in (Keep.DELETED, Keep.HISTORY)}
    assert {job.valid_by for job in jobs} == {ValidBy.VERSION, ValidBy.EPOCH}
    assert {job.strategy for job in jobs} == {"snapshot", "no_shuffle", "arrangement"}
    assert {past.begins_earlier for past in pasts} == {True, False}
    assert all(
        shape_of_job(job).former_rows_by_version is past.by_version for job, past in zip(jobs, pasts, strict=True)
    )


def test_equal_seeds_draw_equal_pasts() -> None:
    one, other = (a_past(Random("same")) for _ in range(2))
    assert one == other
    assert one.summary() == other.summary()
