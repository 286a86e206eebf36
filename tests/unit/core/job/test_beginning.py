"""The point of the upstream's history that a view begins at."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from tests.builders import job_of


@pytest.mark.parametrize("as_of", [0, "oldest", "2026-11-28T02:00:00+00:00"])
def test_former_rows_may_be_older_than_the_job(as_of):
    job = job_of(keep="history", as_of=as_of)
    assert type(job)(**job.definition()) == job
    assert job.kept_since == job.as_of
    assert job.computed() == job
    assert job_of(keep="history").kept_since is None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"keep": "latest", "as_of": 1},
            "as_of: says what the table of backfill_from shows, or since when a view with",
        ),
        (
            {"as_of": "newest"},
            "as_of: must be a version of the upstream, such as 42, or a time .*; with keep also oldest",
        ),
        ({"as_of": -1}, "as_of: -1 is no version"),
        ({"keep": "latest", "backfill_from": {"path": "/lake/old"}, "as_of": "oldest"}, "as_of: a table of backfill"),
    ],
)
def test_a_point_that_no_view_begins_at_is_refused(fields, said):
    with pytest.raises(InvalidJobError, match=said):
        job_of(**{"keep": "history", **fields})
