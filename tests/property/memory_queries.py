"""The queries that the engine in plain Python knows, and what they make of the rows of orders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import QueryFailedError
from tests.builders import PAID, Key
from tests.plain_arrangement import Row

Output = tuple[Any, ...]

EVERYTHING = "SELECT * FROM upstream"
ONLY_PAID = "SELECT * FROM upstream WHERE status = 'paid'"

BAD = -13
"""An amount that the query fails on, where the order is paid."""


def _cents(row: Row) -> int:
    if row["amount"] == BAD:
        raise QueryFailedError("the query fails on a row of the upstream")
    return int(row["amount"]) * 100


QUERIES: dict[str, Callable[[Row], Output | None]] = {
    PAID: lambda row: (row["id"], _cents(row)) if row["status"] == "paid" else None,
    EVERYTHING: lambda row: (row["id"], row["status"], row["amount"]),
    ONLY_PAID: lambda row: (row["id"], row["status"], row["amount"]) if row["status"] == "paid" else None,
}

_ORDERS = {"id": "long", "status": "string", "amount": "long"}
_OTHERS = {PAID: {"id": "long", "cents": "long"}}
"""The columns of queries that give others than an order's."""

_CONDITIONS = {"TRUE": lambda _: True, "status = 'paid'": lambda row: row["status"] == "paid"}

_TYPES = {"long": pa.int64(), "string": pa.string()}


def columns_of(query: str) -> Mapping[str, str]:
    """Return the columns that a query gives, with their types."""
    return _OTHERS.get(query, _ORDERS)


def schema_of(settings: JobSettings) -> pa.Schema:
    """Return the columns of a job's view."""
    return pa.schema([(name, _TYPES[kind]) for name, kind in columns_of(settings.job["query"]).items()])


def query_rows(settings: JobSettings, rows: Mapping[Key, Row | None]) -> list[tuple[Key, Output]]:
    """Return what the job's query makes of rows."""
    query = QUERIES[settings.job["query"]]
    return [(key, output) for key, row in rows.items() if row is not None and (output := query(row)) is not None]


def passes_one(barrier: Barrier, row: Row) -> bool:
    """Return whether only one of the conditions of a changed filter lets a row through."""
    change = barrier.filter_change
    return change is not None and _CONDITIONS[change.before](row) != _CONDITIONS[change.after](row)
