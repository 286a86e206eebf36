"""Tables in buckets of several owners: each bucket has an endpoint and credentials of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.errors import StorageUnavailableError
from demo.s3_server import S3Server
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.s3.server import started
from tests.integration.s3.test_epochs import change
from tests.ports import free_port
from tests.variants import exhaustive

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """The server of another owner, who has the upstream."""
    folder = tmp_path_factory.mktemp("other")
    with started(S3Server(folder, free_port(), "upstream-owner", "another-secret-key")) as server:
        yield server


def of_bucket(server: S3Server) -> dict[str, str]:
    """Return a server's options, for its bucket alone."""
    return {f"bucket.{server.bucket}.{name}": value for name, value in server.storage_options.items()}


@pytest.fixture
def lakehouse(spark: SparkSession, s3: S3Server, other: S3Server, tmp_path: Path) -> Lakehouse:
    """An upstream of nine rows, and the view and the control tables in the bucket of another owner."""
    options = {**s3.storage_options, **of_bucket(other)}
    lakehouse = Lakehouse(spark, f"{s3.root}/{tmp_path.name}", options)
    lakehouse.upstream_path = f"{other.root}/{tmp_path.name}/orders"
    lakehouse.make_upstream("id BIGINT, name STRING, price DOUBLE")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('n', id), id FROM range(9)")
    return lakehouse


@pytest.mark.exhaustive
@pytest.mark.parametrize("strategy", [exhaustive("no_shuffle"), exhaustive("arrangement"), "snapshot"])
def test_a_backfill_from_the_bucket_of_another_owner(lakehouse: Lakehouse, strategy: str) -> None:
    lakehouse.create(query="SELECT id, name FROM upstream", rate_limit=5, strategy=strategy)
    lakehouse.epoch()
    change(lakehouse)
    lakehouse.finish()
    change(lakehouse, 2)
    lakehouse.finish()
    lakehouse.assert_truth()
    assert lakehouse.backfill.status().finished


def test_with_the_general_options_that_bucket_cannot_be_read(lakehouse: Lakehouse, s3: S3Server) -> None:
    lakehouse.storage_options = s3.storage_options
    with pytest.raises(StorageUnavailableError):
        lakehouse.create(query="SELECT id, name FROM upstream")
