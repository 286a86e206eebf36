"""The jobs of a chain, and which of them a job waits for."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.status.chain import ChainedJob, waits_for


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
