"""Formats are tested as a client of a Spark Connect server, and in the driver: what they ask of Spark is the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from airflow_backfill_provider.applications.connect import connected
from airflow_backfill_provider.core.remote import Remote
from tests.variants import exhaustive


@pytest.fixture(params=["client", exhaustive("driver")])
def spark(request: pytest.FixtureRequest, shared_spark: tuple[SparkSession, int]) -> Iterator[SparkSession]:
    """A session on the tests' Spark: as a client, which sends what it asks as a message of limited depth, or not."""
    session, port = shared_spark
    if request.param == "driver":
        yield session
        return
    with connected(Remote.parse(f"sc://127.0.0.1:{port}"), what="formats") as connection:
        yield connection.spark
