"""
Names of tables in a catalog, always in full: ``catalog.schema.table``.

A name without its catalog or schema would mean another table in a session with other defaults.
"""

from __future__ import annotations

import re

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.sql import quote

_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+){2}")


def is_like_name(text: str) -> bool:
    """Return whether a text is meant as a table's name, not as a location: it has dots, and no slash or colon."""
    return "." in text and not {"/", ":", "\\"} & set(text)


def canonical_table_name(text: str) -> str:
    """
    Return a table's name in a catalog.

    :raises InvalidJobError: if it does not have three parts of letters, digits, ``_`` and ``-``.
    """
    if not _NAME.fullmatch(text):
        raise InvalidJobError(
            f"{text!r} is not a table's full name in a catalog; write catalog.schema.table, each of letters, digits, "
            "'_' and '-', such as spark_catalog.sales.orders"
        )
    return text


def sql_name(name: str) -> str:
    """Return a table's name as Spark SQL writes it."""
    return ".".join(map(quote, name.split(".")))


def sql_schema(name: str) -> str:
    """Return the schema of a table, with its catalog, as Spark SQL writes it."""
    return sql_name(name.rpartition(".")[0])
