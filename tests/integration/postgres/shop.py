"""A shop's database on a real PostgreSQL, and a job over one of its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.settings import JobSettings
from tests.integration.engine.lakehouse import Lakehouse
from tests.postgres_server import PostgresServer

TABLE = "public.orders"


class Shop(Lakehouse):
    """
    A database, and a job over its orders.

    :param database: an open session of its owner.
    """

    def __init__(self, spark: SparkSession, folder: Path, database: psycopg.Connection[tuple[Any, ...]]) -> None:
        super().__init__(spark, folder)
        self.database = database

    def run_sql(self, *statements: str) -> None:
        """Run statements in one transaction."""
        with self.database.transaction():
            for statement in statements:
                self.database.execute(statement)

    def another_session(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Connect another time, with a transaction that stays open."""
        info = self.database.info
        return psycopg.connect(
            host=info.host, port=info.port, dbname=info.dbname, user=info.user, password=info.password
        )

    def reconnect(self, server: PostgresServer) -> None:
        """Connect again, after the server ended all connections."""
        name = self.database.info.dbname
        self.database.close()
        self.database = server.connect(name)

    def create(self, **fields: Any) -> JobSettings:
        return super().create(**self._of_database(fields))

    def rebuild_with(self, **fields: Any) -> JobSettings:
        """Start the job over with another definition."""
        return self.rebuild(**self._of_database(fields))

    @staticmethod
    def _of_database(fields: dict[str, Any]) -> dict[str, Any]:
        key, table = fields.pop("key", ["id"]), fields.pop("table", TABLE)
        upstream = {"connection": "shop_db", "table": table, "key": key, **fields.pop("postgres", {})}
        return {"upstream": {"postgres": upstream}, **fields}

    def table(self, query: str) -> list[tuple[Any, ...]]:
        """Return the result of a query."""
        return sorted(self.database.execute(query).fetchall())

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """Return columns of the view's rows."""
        return sorted(tuple(row) for row in self.view().select(*columns).collect())
