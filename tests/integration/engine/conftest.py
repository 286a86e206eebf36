"""Fixtures of the tests on real Spark and Delta."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration.engine.lakehouse import Lakehouse


@pytest.fixture
def lakehouse(spark: SparkSession, lake: Path) -> Lakehouse:
    """An empty lakehouse."""
    return Lakehouse(spark, lake)


@pytest.fixture
def numbers(lakehouse: Lakehouse) -> Lakehouse:
    """An upstream of nine rows in one version."""
    lakehouse.make_upstream("id BIGINT, name STRING, price DOUBLE")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('n', id), id FROM range(9)")
    return lakehouse
