"""Compare a view with its query over a table in PostgreSQL as it is now: ``python -m demo.postgres.check``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.core.job.connections import connection_fields
from demo.check import run_check

_FETCHED = "10000"


def main() -> None:
    """Read the arguments and compare."""
    parser = argparse.ArgumentParser(description="Compare a view with its query over a table in PostgreSQL.")
    parser.add_argument("connection", help="the connection, as the environment variable AIRFLOW_CONN_<ID> has it")
    parser.add_argument("table")
    parser.add_argument("view")
    parser.add_argument("query", type=Path, help="file with the query over the relation upstream")
    arguments = parser.parse_args()
    fields = connection_fields(arguments.connection)
    if fields is None:
        raise SystemExit(f"there is no connection {arguments.connection} in the environment")
    options = {"user": fields.login, "password": fields.password, "fetchsize": _FETCHED}
    url = f"jdbc:postgresql://{fields.host}:{fields.port}/{fields.schema}"

    def read(spark: SparkSession) -> Mapping[str, DataFrame]:
        options["driver"] = "org.postgresql.Driver"
        return {"upstream": spark.read.jdbc(url, arguments.table, properties=options)}

    run_check(read, arguments.view, arguments.query)


if __name__ == "__main__":
    main()
