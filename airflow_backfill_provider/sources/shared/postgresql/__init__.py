"""
A PostgreSQL database that is asked: connections, catalog, types, keys, and a table's present rows.

The kind ``postgres`` is made of it, and so is Debezium's with a snapshot from the database.
"""

from __future__ import annotations

from importlib.util import find_spec

from airflow_backfill_provider.core.errors import InvalidJobError

JDBC_PACKAGE = "org.postgresql:postgresql:42.7.14"
"""The driver with which Spark reads a table's present rows."""


def require_driver(kind: str) -> None:
    """
    Refuse a kind of upstream that asks a database, if the driver is not installed.

    :raises InvalidJobError: with what to install.
    """
    if find_spec("psycopg") is None:
        raise InvalidJobError(f"upstream: {kind} needs psycopg; install airflow-backfill-provider[postgres]")
