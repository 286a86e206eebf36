"""The database of a case."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping
from contextlib import suppress

import psycopg
from psycopg import conninfo, sql

from faults.cdc.history import Connection
from tests.postgres_server import PASSWORD, PostgresServer

SETTINGS = {
    "statement_timeout": ("1ms", "100ms"),
    "lock_timeout": ("1ms",),
    "idle_in_transaction_session_timeout": ("1ms",),
    "idle_session_timeout": ("1ms",),
    "default_transaction_isolation": ("serializable", "repeatable read"),
    "default_transaction_read_only": ("on",),
    "DateStyle": ("German", "SQL, DMY"),
    "IntervalStyle": ("postgres_verbose",),
    "TimeZone": ("Asia/Tokyo", "America/St_Johns"),
    "bytea_output": ("escape",),
    "extra_float_digits": ("-5",),
    "standard_conforming_strings": ("off",),
    "array_nulls": ("off",),
    "client_encoding": ("LATIN1",),
    "search_path": ("elsewhere",),
}
"""Settings of a role that must not matter."""


def drawn_settings(chance: random.Random) -> dict[str, str]:
    """Draw settings of a role."""
    names = chance.sample(sorted(SETTINGS), chance.choice([0, 2, 6, len(SETTINGS)]))
    return {name: chance.choice(SETTINGS[name]) for name in names}


class CaseDatabase:
    """
    A database that one case uses, and a connection to it in Airflow, whose role has settings of its own.

    :param server: the server of all cases.
    :param settings: the settings of the role.
    """

    def __init__(self, server: PostgresServer, name: str, settings: Mapping[str, str]) -> None:
        self.server = server
        self.name = name
        self.settings = settings
        self.connection_id = f"db_{name}"

    def create(self) -> None:
        """Create the database, the role and Airflow's connection."""
        self.server.create_database(self.name)
        role = sql.Identifier(f"role_{self.name}")
        with self.server.connect() as connection:
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN SUPERUSER PASSWORD {}").format(role, PASSWORD))
            for setting, value in self.settings.items():
                connection.execute(sql.SQL("ALTER ROLE {} SET {} = {}").format(role, sql.Identifier(setting), value))
        uri = self.server.uri(self.name, f"role_{self.name}")
        os.environ[f"AIRFLOW_CONN_{self.connection_id.upper()}"] = uri

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
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(f"role_{self.name}")))
