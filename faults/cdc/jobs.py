"""The jobs of a case, each with tables of its own; they share a replication slot if there are several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_backfill_provider.engine.spark_engine import SparkEngine
from faults.cdc.case_database import CaseDatabase
from faults.cdc.drawing import DrawnJob, DrawnTable
from tests.integration.engine.lakehouse import Lakehouse


class DrawnLakehouse(Lakehouse):
    """One of the jobs."""

    def __init__(self, spark: SparkSession, folder: Path, job: DrawnJob, fields: dict[str, Any]) -> None:
        super().__init__(spark, folder)
        self.drawn = job
        self.fields = fields
        self.engine = SparkEngine(spark.newSession())


def lakehouses(table: DrawnTable, database: CaseDatabase, spark: SparkSession, folder: Path) -> list[DrawnLakehouse]:
    """Return the jobs over a table, which are not created yet."""
    found = []
    for job in table.jobs:
        postgres: dict[str, Any] = {"connection": database.connection_id, "table": "public.orders"}
        postgres["key"] = [{"column": name, "descending": table.descending} for name in table.key_names]
        if len(table.jobs) > 1:
            postgres |= {"slot": slot_name(table, database), "change_log": str(folder / "change_log")}
        fields = {
            "name": f"{database.name}_{job.name}",
            "upstream": {"postgres": postgres},
            "query": table.query(job),
            "rate_limit": job.rate_limit,
        }
        found.append(DrawnLakehouse(spark, folder / job.name, job, fields))
    return found


def slot_name(table: DrawnTable, database: CaseDatabase) -> str:
    """Return the name of the slot that the jobs share, or of the only job's own."""
    if len(table.jobs) > 1:
        return f"shared_{database.name}"
    return f"airflow_backfill_{database.name}_first"
