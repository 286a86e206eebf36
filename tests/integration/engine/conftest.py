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
