"""A real server with the API of S3, in which all tables of a job lie."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from demo.s3_server import S3Server
from tests.integration.s3.bucket import BucketLakehouse
from tests.integration.s3.proxy import FailingProxy
from tests.integration.s3.server import running_s3


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A running server."""
    with running_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def lakehouse(spark: SparkSession, s3: S3Server, tmp_path: Path) -> BucketLakehouse:
    """An upstream of nine rows, and nothing else, in a folder of the bucket."""
    lakehouse = BucketLakehouse(spark, s3, tmp_path.name)
    lakehouse.make_upstream("id BIGINT, name STRING, price DOUBLE")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('n', id), id FROM range(9)")
    return lakehouse


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[FailingProxy]:
    """A proxy in front of the server."""
    with FailingProxy(s3).running() as running:
        yield running
