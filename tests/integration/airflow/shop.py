"""A table of a real PostgreSQL, the job over it, and what its view has to hold, for DAGs that run on real Airflow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import yaml

from tests.integration.airflow.orders_job import OrdersJob
from tests.postgres_server import PostgresServer

PASSWORD = "canary-password-3f7d"
"""The password of the job's login, which may not appear anywhere."""

CONNECTION = "shop_orders_db"


class ShopOrders(OrdersJob):
    """
    A table of orders, and the file of a job over it.

    :param folder: where the view lies, and the job's file.
    :param server: the server.
    :param database: the table's database, which exists.
    """

    def __init__(self, folder: Path, server: PostgresServer, database: str) -> None:
        self.folder = folder
        super().__init__(folder / "shop job.yaml")
        self.name = database
        self.login = f"login_of_{database}"
        self._server = server
        self._database: psycopg.Connection[tuple[Any, ...]] = server.connect(database)
        self.run_sql(
            "CREATE TABLE orders (order_id bigint PRIMARY KEY, amount int)",
            f"CREATE ROLE {self.login} LOGIN REPLICATION PASSWORD '{PASSWORD}'",
            f"GRANT SELECT ON orders TO {self.login}",
            f"CREATE PUBLICATION airflow_backfill_{self.name} FOR TABLE orders",
        )

    @property
    def connection(self) -> dict[str, Any]:
        """The fields of an Airflow connection of the job's login."""
        return {
            "conn_type": "postgres",
            "host": "127.0.0.1",
            "port": self._server.port,
            "login": self.login,
            "password": PASSWORD,
            "schema": self.name,
        }

    def define(self, **changes: Any) -> dict[str, Any]:
        """Write the job's file, with some fields changed; returns the definition."""
        definition = {
            "name": self.name,
            "upstream": {
                "postgres": {"connection": CONNECTION, "table": "public.orders", "key": ["order_id"]},
            },
            "materialized_view": str(self.folder / self.name),
            "query": "SELECT order_id, amount * 100 AS cents FROM upstream WHERE amount > 0",
            "rate_limit": 60,
            **changes,
        }
        self.file.write_text(yaml.safe_dump(definition), encoding="utf-8")
        return definition

    def run_sql(self, *statements: str) -> None:
        """Run statements in one transaction."""
        with self._database.transaction():
            for statement in statements:
                self._database.execute(statement)
        # By itself the server counts the changes of a session up to ten seconds later.
        self._database.execute("SELECT pg_stat_force_next_flush()")

    def append(self, first: int, last: int) -> None:
        """Insert orders; every fifth one has no amount."""
        self.run_sql(f"INSERT INTO orders SELECT i, i % 5 FROM generate_series({first}, {last}) i", "ANALYZE orders")

    def has_slot(self) -> bool:
        """Return whether the server keeps log for the job."""
        slots = self._database.execute("SELECT FROM pg_replication_slots WHERE database = current_database()")
        return bool(slots.fetchall())

    def expected(self) -> dict[int, int]:
        """The query over the table as it is now, computed by the database."""
        found = self._database.execute("SELECT order_id, amount * 100 FROM orders WHERE amount > 0")
        return dict(found.fetchall())

    def close(self) -> None:
        """Drop the slots, and disconnect."""
        self._database.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            "WHERE database = current_database() AND NOT active"
        )
        self._database.close()
