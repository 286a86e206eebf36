"""Fixtures of the tests on real Spark and Delta."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill_provider.applications.spark_settings import storage_options_to_environment
from demo.s3_server import S3Server
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.local_tests import reason_to_be_local
from tests.integration.engine.upstream_templates import UpstreamTemplates
from tests.integration.s3.bucket import BucketLakehouse
from tests.integration.s3.server import running_s3


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests that look into local folders if the tables are made elsewhere."""
    if config.option.store == "local":
        return
    for item in items:
        if reason := reason_to_be_local(item.nodeid):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A running server with the API of S3."""
    with running_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def upstream_templates(tmp_path_factory: pytest.TempPathFactory) -> UpstreamTemplates:
    """The upstreams that tests of this process have made."""
    return UpstreamTemplates(tmp_path_factory.mktemp("upstreams"))


@pytest.fixture
def lakehouse(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    lake: Path,
    monkeypatch: pytest.MonkeyPatch,
    upstream_templates: UpstreamTemplates,
) -> Lakehouse:
    """An empty lakehouse, in a local folder, or in a bucket with ``--store s3``."""
    if request.config.option.store == "local":
        local = Lakehouse(spark, lake)
        local.copy_from(upstream_templates)
        return local
    server: S3Server = request.getfixturevalue("bucket")
    for name, value in storage_options_to_environment(server.storage_options).items():
        # Attempts in processes of their own find them there.
        monkeypatch.setenv(name, value)
    # A location with this sign is refused in an object store.
    return BucketLakehouse(spark, server, f"{lake.parent.name}/{lake.name.replace('#', '')}")


@pytest.fixture
def numbers(lakehouse: Lakehouse) -> Lakehouse:
    """An upstream of nine rows in one version."""
    lakehouse.make_upstream("id BIGINT, name STRING, price DOUBLE")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('n', id), id FROM range(9)")
    return lakehouse
