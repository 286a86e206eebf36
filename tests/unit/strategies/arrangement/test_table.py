"""What is decided about an arrangement before Spark is needed."""

from __future__ import annotations

from typing import cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.core.errors import EpochFailedError
from airflow_backfill_provider.core.scan.columns import OwnColumns
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyField, KeyOrder
from airflow_backfill_provider.core.scan.scan import by_vnode
from airflow_backfill_provider.lake.tables.view_identity import (
    ViewIdentity,
)
from airflow_backfill_provider.sources.delta.reader import DeltaReader
from airflow_backfill_provider.spark.job_rows import JobRows
from airflow_backfill_provider.strategies.arrangement.table import ArrangementTable
from airflow_backfill_provider.strategies.vnode_scan import VnodeScan
from tests.builders import barrier_of

NO_SPARK = cast("SparkSession", None)

IDENTITY = ViewIdentity("paid_orders", "a1")


def test_nothing_is_added_to_an_arrangement_that_is_gone(lake):
    """An append would make a new table, of changes alone."""
    key = KeyOrder((KeyField(name="id", type="long"),))
    source = JobRows(
        location="/lake/orders",
        reader=DeltaReader(NO_SPARK, "/lake/orders"),
        types={"id": "long"},
        key=key,
        scan=by_vnode(key, OwnColumns()),
        distribution_key=["id"],
        vnode_count=4,
        vnodes=frozenset(range(4)),
        keys=EVERYTHING,
    )
    scan = VnodeScan(key, 4, source.vnodes)
    path = str(lake / "arrangement")
    gone = ArrangementTable(NO_SPARK, path, source, scan, base_epoch=0, identity=IDENTITY)
    with pytest.raises(EpochFailedError, match="is gone, so epoch 2 cannot append to it"):
        gone.append(cast("DataFrame", None), barrier_of(2), 3)
    assert list(lake.iterdir()) == []
