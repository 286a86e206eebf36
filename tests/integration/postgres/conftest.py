"""Fixtures of the tests on a real PostgreSQL, with Spark and Delta."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration.postgres.shop import Shop
from tests.postgres_server import PostgresServer, postgres_server

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server for all tests of this process."""
    # Not below pytest's own folder, which the server's user may not enter.
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    folder.chmod(0o755)
    try:
        with postgres_server(folder / "data") as server:
            yield server
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def shop(postgres: PostgresServer, spark: SparkSession, lake: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A database of the test's own, and a job over one of its tables."""
    name = f"shop_{next(_numbers)}"
    postgres.create_database(name)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", postgres.uri(name))
    shop = Shop(spark, lake, postgres.connect(name))
    try:
        yield shop
    finally:
        shop.database.close()
        with postgres.connect(name) as connection:
            connection.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
                "WHERE database = current_database() AND NOT active"
            )
