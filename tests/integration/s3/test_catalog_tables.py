"""A job that names its tables in a catalog, with all of them in a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.errors import UpstreamReplacedError
from demo.s3_server import S3Server
from tests.integration.engine.named_lakehouse import NamedLakehouse

pytestmark = [pytest.mark.exhaustive, pytest.mark.spark]


@pytest.fixture
def sales(spark: SparkSession, s3: S3Server, tmp_path: Path) -> Iterator[NamedLakehouse]:
    # A catalog makes the folder of a schema with Spark's own credentials, not with those of the session.
    schema = NamedLakehouse(spark, f"{s3.root}/{tmp_path.name}", s3.storage_options, tmp_path / "schema")
    schema.view_path = f"{schema.folder}/paid_orders"
    schema.make_orders(at="first")
    yield schema
    schema.close()


def test_names_work_in_a_bucket(sales: NamedLakehouse):
    """I1 and I6; the control tables and the logs are read without Spark."""
    settings = sales.create(rate_limit=5, view_path=sales.view_path)
    assert settings.definition.upstream.location == f"{sales.folder}/first"
    sales.finish()
    sales.sql("DELETE FROM {upstream} WHERE id = 5")
    sales.epoch()
    sales.assert_truth()
    assert sales.sql(f"SELECT * FROM {sales.view_name}").count() == 8
    sales.sql("INSERT INTO {upstream} VALUES (100, 'x', 1)")
    barrier = sales.inject()
    assert barrier is not None
    sales.sql("DROP TABLE {upstream}")
    sales.make_orders(20, at="second")
    with pytest.raises(UpstreamReplacedError, match=rf"{sales.upstream} is another table .*second.*first.*rebuild"):
        sales.run(barrier)
    sales.rebuild(view_path=sales.view_path)
    sales.finish()
    sales.assert_truth()
    assert sales.sql(f"SELECT * FROM {sales.view_name}").count() == 20
