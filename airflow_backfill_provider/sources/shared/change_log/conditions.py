"""Conditions and orders in SQL by which rows of a change log are found."""

from __future__ import annotations

import datetime as dt

from airflow_backfill_provider.lake.files.rows import text_literal
from airflow_backfill_provider.sources.shared.change_log.changes import OF_ROWS, LoggedKind

OLDEST_FIRST = 'ORDER BY "offset", number'
NEWEST_FIRST = 'ORDER BY "offset" DESC, number DESC'


def of_kinds(*kinds: LoggedKind) -> str:
    """Match rows of some kinds."""
    return f"kind IN ({', '.join(text_literal(kind.value) for kind in kinds)})"


OF_SINGLE_ROWS = of_kinds(LoggedKind.INSERT, LoggedKind.UPDATE, LoggedKind.DELETE)
"""The changes of one row each."""

OF_ANY_ROWS = of_kinds(*OF_ROWS)
"""All changes of a table's rows."""

COMMITTED = f"NOT {of_kinds(LoggedKind.GAP, LoggedKind.LANDED, LoggedKind.PART_REMOVED, LoggedKind.REWRITTEN)}"
"""The rows whose time is that of a commit in the database, or of the landing at whose end they are."""


def within(table: str, after: int, up_to: int) -> str:
    """Match rows of a table in ``(after, up_to]``."""
    return f"{between(after, up_to)} AND {of_table(table)}"


def between(after: int, up_to: int) -> str:
    """Match rows in ``(after, up_to]``."""
    return f'"offset" > {after} AND "offset" <= {up_to}'


def of_table(table: str) -> str:
    """Match rows of a table."""
    return f'"table" = {text_literal(table)}'


def until(instant: dt.datetime) -> str:
    """Match rows whose time is at or before an instant."""
    text = instant.astimezone(dt.UTC).isoformat(timespec="microseconds")
    return f"""committed_at <= arrow_cast('{text}', 'Timestamp(Microsecond, Some("UTC"))')"""
