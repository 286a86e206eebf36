"""A shop's database on a real PostgreSQL, and a job over one of its tables."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.epoch.settings import JobSettings
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

    @contextmanager
    def server_setting(self, name: str, value: str) -> Iterator[None]:
        """Change a setting of the server, and set it back at the end."""
        self.database.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        self.database.execute("SELECT pg_reload_conf()")
        try:
            yield
        finally:
            self.database.execute(f"ALTER SYSTEM RESET {name}")
            self.database.execute("SELECT pg_reload_conf()")

    @contextmanager
    def logged_and_not_visible(self, statement: str) -> Iterator[None]:
        """
        Keep another session's commit waiting for a standby: it is in the log, and nobody sees it until the end.

        This session's own commits do not wait.
        """
        self.database.execute("SET synchronous_commit = local")
        with self.another_session() as other, ThreadPoolExecutor(1) as threads:
            with self.server_setting("synchronous_standby_names", "nobody"):
                # A server that lets a session in has passed the signal on; a checkpoint ends after its process obeyed.
                self.another_session().close()
                self.database.execute("CHECKPOINT")
                other.execute(statement.encode())
                committing = threads.submit(other.commit)
                while not self.table("SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'"):
                    assert not committing.done()
                yield
            committing.result()

    def stop_log_writer(self) -> None:
        """Keep the server from writing asynchronous commits to its disk, until it is killed."""
        ((pid,),) = self.table("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'")
        os.kill(pid, signal.SIGSTOP)

    def write_log(self, megabytes: int) -> None:
        """Let the server write log of nothing, and end the file that it writes to."""
        for _ in range(megabytes // 8):
            self.database.execute("SELECT pg_logical_emit_message(false, 'x', repeat('x', 8388608))")
        self.database.execute("CHECKPOINT")

    def reconnect(self, server: PostgresServer) -> None:
        """Connect again, after the server ended all connections."""
        name = self.database.info.dbname
        self.database.close()
        self.database = server.connect(name)

    def create(self, **fields: Any) -> JobSettings:
        return super().create(**self.of_database(fields))

    def rebuild_with(self, **fields: Any) -> JobSettings:
        """Start the job over with another definition."""
        return self.rebuild(**self.of_database(fields))

    @staticmethod
    def of_database(fields: dict[str, Any]) -> dict[str, Any]:
        key, table = fields.pop("key", ["id"]), fields.pop("table", TABLE)
        upstream = {"connection": "shop_db", "table": table, "key": key, **fields.pop("postgres", {})}
        return {"upstream": {"postgres": upstream}, **fields}

    def table(self, query: str) -> list[tuple[Any, ...]]:
        """Return the result of a query."""
        return sorted(self.database.execute(query).fetchall())

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """Return columns of the view's rows."""
        return sorted(tuple(row) for row in self.view().select(*columns).collect())
