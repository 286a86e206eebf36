"""The vnodes that are planned with are those that Spark computes."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.scan.spark_hash import vnode_of_number

pytestmark = pytest.mark.spark


def test_the_vnode_of_a_number_is_sparks_own(spark: SparkSession) -> None:
    """Otherwise a vnode would be complete although a split of it was never read (I1)."""
    chance = random.Random(7)
    numbers = sorted({*range(2000), 65_536, 2**31 - 1, *(chance.randrange(2**31) for _ in range(2000))})
    counts = (1, 2, 3, 7, 16, 100, 256, 32_767)
    hashed = spark.createDataFrame([(number,) for number in numbers], "n INT").select(
        "n", *(F.pmod(F.hash("n"), F.lit(count)).alias(f"of_{count}") for count in counts)
    )
    for row in hashed.collect():
        assert [row[f"of_{count}"] for count in counts] == [vnode_of_number(row["n"], count) for count in counts]
