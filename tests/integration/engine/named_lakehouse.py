"""A lakehouse whose tables are named in a catalog."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_backfill_provider.core.job.sql import text_literal
from airflow_backfill_provider.jobs.backfill import Backfill
from tests.integration.engine.lakehouse import Lakehouse

COLUMNS = "id BIGINT COMMENT 'the order', name STRING, price DOUBLE COMMENT 'in euros'"


class NamedLakehouse(Lakehouse):
    """
    An upstream and one job, whose tables are in a schema of Spark's own catalog.

    :param schema_folder: the folder of the schema; by default one in the lakehouse.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: Path | str,
        storage_options: Mapping[str, str] | None = None,
        schema_folder: Path | None = None,
    ) -> None:
        super().__init__(spark, folder, storage_options)
        self.schema = f"spark_catalog.sales_{uuid.uuid4().hex[:8]}"
        self.sql(f"CREATE SCHEMA {self.schema} LOCATION {text_literal(str(schema_folder or f'{folder}/sales'))}")
        self.view_path = f"{folder}/sales/paid_orders"

    @property
    def upstream(self) -> str:
        """The upstream's name."""
        return f"{self.schema}.orders"

    @property
    def view_name(self) -> str:
        """The view's name."""
        return f"{self.schema}.paid_orders"

    def make_orders(self, rows: int = 9, *, at: str = "") -> None:
        """Make the upstream, in the schema's folder or in another one beside it."""
        location = f"LOCATION {text_literal(f'{self.folder}/{at}')}" if at else ""
        self.sql(
            f"CREATE TABLE {{upstream}} ({COLUMNS}) USING delta {location} "
            "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
        )
        self.sql(f"INSERT INTO {{upstream}} SELECT id, concat('n', id), id FROM range({rows})")

    def define(self, **fields: Any) -> Backfill:
        """Define the job by names, without creating it."""
        return super().define(
            **{
                "upstream": {"table": self.upstream, "key": ["id"]},
                "materialized_view": self.view_name,
                "query": "SELECT id, name, price * 2 AS twice, price AS euros FROM upstream",
                "state": f"{self.folder}/state",
                **fields,
            }
        )

    def close(self) -> None:
        """Remove the schema."""
        self.sql(f"DROP SCHEMA {self.schema} CASCADE")
