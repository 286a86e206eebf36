"""Epochs whose requests fail on the way to a real server: of Spark and of deltalake, of reads, writes and commits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.errors import BackfillError
from tests.integration.s3.bucket import BucketLakehouse
from tests.integration.s3.proxy import FailingProxy, Fault, Kind

pytestmark = pytest.mark.spark

UPSTREAM, VIEW_FILES, VIEW_LOG = "/orders/part", "/view/part", "/view/_delta_log/"
STATE_FILES, STATE_LOG, BARRIERS = "/vnode_state/part", "/vnode_state/_delta_log/", "/barrier_log/_delta_log/"

SOME = (
    Fault(Kind.LOST, "PUT", VIEW_LOG),
    Fault(Kind.HALF_ANSWERED, "GET", UPSTREAM),
    Fault(Kind.REFUSED, "PUT", BARRIERS),
)

FAULTS = (
    *SOME,
    Fault(Kind.REFUSED, "GET", UPSTREAM),
    Fault(Kind.REFUSED, "PUT", VIEW_FILES),
    Fault(Kind.REFUSED, "PUT", VIEW_LOG),
    Fault(Kind.REFUSED, "PUT", VIEW_LOG, status=500),
    Fault(Kind.LOST, "PUT", VIEW_FILES),
    Fault(Kind.LOST, "PUT", STATE_LOG),
    Fault(Kind.LOST, "PUT", BARRIERS),
    Fault(Kind.HALF_SENT, "PUT", VIEW_FILES),
    Fault(Kind.HALF_SENT, "PUT", VIEW_LOG),
    Fault(Kind.HALF_SENT, "PUT", STATE_FILES),
    Fault(Kind.HALF_SENT, "PUT", BARRIERS),
    Fault(Kind.HALF_ANSWERED, "GET", STATE_FILES),
    Fault(Kind.HANGS, "PUT", VIEW_LOG),
)


def epoch(lakehouse: BucketLakehouse) -> EpochCommit:
    """Run an epoch, and once more as Airflow does if that may help."""
    for _ in range(3):
        try:
            commit = lakehouse.epoch()
        except BackfillError as error:
            if not error.retryable:
                raise
        else:
            assert commit is not None
            return commit
    raise AssertionError("three attempts failed")


@pytest.mark.exhaustive
@pytest.mark.parametrize("faults", [SOME, FAULTS], ids=["some", "all"])
def test_requests_that_fail_lose_and_repeat_nothing(
    spark: SparkSession, proxy: FailingProxy, tmp_path: Path, faults: Sequence[Fault]
) -> None:
    """I1 and I2: each fault meets the next request of its kind, while an epoch reads history and applies changes."""
    lakehouse = BucketLakehouse(spark, proxy, tmp_path.name)
    lakehouse.make_upstream("id BIGINT, name STRING")
    rows = len(faults)
    lakehouse.sql(f"INSERT INTO {{upstream}} SELECT id, concat('n', id) FROM range(1, {rows + 2}, 1, 1)")
    lakehouse.create(rate_limit=1, strategy="no_shuffle")
    for number, fault in enumerate(faults, 1):
        if number % 5 == 0:
            lakehouse.sql(f"UPDATE {{upstream}} SET name = 'changed' WHERE id = {number - 1}")
        with proxy.failing(fault, times=1):
            commit = epoch(lakehouse)
        assert (commit.epoch, commit.rows_read) == (number, number), fault
    lakehouse.finish()
    lakehouse.assert_truth()
    lakehouse.assert_equals_query("SELECT id, name FROM {upstream}")
    epochs = [commit.epoch for commit in lakehouse.backfill.store.commits()]
    assert epochs == [*range(1, len(epochs) + 1)]
