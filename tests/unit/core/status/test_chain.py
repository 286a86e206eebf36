"""The jobs of a chain, which of them a job waits for, and how far a view is behind its roots."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_backfill_provider.core.status.chain import BehindRoot, ChainedJob, furthest, waits_for
from tests.builders import NOW


def job(name, progress):
    return ChainedJob(name=name, materialized_view=f"/lake/{name}", finished=progress == 1, progress=progress)


@pytest.mark.parametrize(
    ("chain", "waits"),
    [
        ([], ""),
        ([job("orders", 1.0)], ""),
        ([job("orders", 0.43)], "waits for orders, 43 %"),
        ([job("orders", 0.29)], "waits for orders, 29 %"),
        ([job("orders", 0.9999)], "waits for orders, 99 %"),
        ([job("orders", None)], "waits for orders"),
        ([job("orders", 0.43), job("paid", 0.0)], "waits for paid, 0 %, which waits for orders, 43 %"),
        # A view that is finished is there, even if what it reads is being rebuilt.
        ([job("orders", 0.43), job("paid", 1.0)], ""),
        ([job("orders", 0.43), job("paid", 1.0), job("large", 0.1)], "waits for large, 10 %"),
    ],
)
def test_a_job_waits_for_the_unfinished_jobs_directly_before_it(chain, waits):
    assert waits_for(chain) == waits


def test_of_several_roots_the_one_with_the_oldest_unread_change_counts():
    new, old = BehindRoot(NOW), BehindRoot(NOW - dt.timedelta(hours=1))
    assert furthest([BehindRoot(None), new, old]) == old
    assert furthest([BehindRoot(None)]) == BehindRoot(None)


def test_if_it_is_unknown_of_one_root_it_is_unknown():
    assert furthest([BehindRoot(NOW), None]) is None
