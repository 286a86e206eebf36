"""The database of a case."""

from __future__ import annotations

import os
import time
from contextlib import suppress

import psycopg
from psycopg import conninfo, sql

from faults.cdc.history import Connection
from tests.postgres_server import PASSWORD, PostgresServer


class CaseDatabase:
    """
    A database that one case uses, and a connection to it in Airflow.

    :param server: the server of all cases.
    """

    def __init__(self, server: PostgresServer, name: str) -> None:
        self.server = server
        self.name = name
        self.connection_id = f"db_{name}"

    def create(self) -> None:
        """Create the database and Airflow's connection."""
        self.server.create_database(self.name)
        os.environ[f"AIRFLOW_CONN_{self.connection_id.upper()}"] = self.server.uri(self.name)

    def parameters(self) -> dict[str, str]:
        """Return what it takes to connect."""
        return {
            "host": "127.0.0.1",
            "port": str(self.server.port),
            "dbname": self.name,
            "user": "admin",
            "password": PASSWORD,
        }

    def connect(self) -> Connection:
        """Connect as the owner; each statement is a transaction."""
        return psycopg.connect(conninfo.make_conninfo(**self.parameters()), autocommit=True)

    def wait(self) -> None:
        """Wait until the server answers."""
        until = time.monotonic() + 60
        while not self._is_up():
            if time.monotonic() > until:
                raise AssertionError("the server does not start")
            time.sleep(0.1)

    def _is_up(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def drop(self) -> None:
        """Drop its slots, and itself."""
        with suppress(psycopg.Error), self.server.connect() as connection:
            until = time.monotonic() + 30
            while time.monotonic() < until:
                with suppress(psycopg.errors.ObjectInUse):
                    connection.execute(
                        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots "
                        "WHERE active AND database = %s",
                        [self.name],
                    )
                    connection.execute(
                        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s",
                        [self.name],
                    )
                    break
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(self.name)))
