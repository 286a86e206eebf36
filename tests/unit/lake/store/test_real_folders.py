"""Folders are compared as they are on the disk, whatever links lead to them."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.lake.store.real_folders import real_folder
from tests.builders import job_of


def open_job(upstream, view, state):
    Backfill(job_of(upstream={"path": str(upstream), "key": ["id"]}, materialized_view=str(view), state=str(state)))


@pytest.mark.parametrize(
    ("link", "to", "places", "fields"),
    [
        ("link", "orders", ("orders", "link/view", "state"), "materialized_view .* lies in upstream.path"),
        ("orders", "view/in", ("orders", "view", "state"), "upstream.path .* lies in materialized_view"),
        ("link", "orders", ("orders", "view", "link/state"), "state .* lies in upstream.path"),
        ("view", "orders", ("orders", "view", "state"), "lies in"),
        ("link", "view", ("orders", "view", "link/state"), "state .* lies in materialized_view"),
    ],
)
def test_folders_that_lie_in_one_another_through_a_link_are_refused(tmp_path, link, to, places, fields):
    """I6: VACUUM of the outer table would delete the files of the inner one."""
    (tmp_path / to).mkdir(parents=True)
    (tmp_path / link).symlink_to(tmp_path / to)
    with pytest.raises(InvalidJobError, match=f"{fields}.* through a symbolic link"):
        open_job(*(tmp_path / place for place in places))


def test_links_that_lead_apart_are_no_matter(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / f"to_{folder}").symlink_to(tmp_path / folder)
    open_job(tmp_path / "to_a/orders", tmp_path / "to_b/view", tmp_path / "state")


def test_a_location_in_a_bucket_has_no_links():
    assert real_folder("s3a://bucket/lake") == "s3a://bucket/lake"
