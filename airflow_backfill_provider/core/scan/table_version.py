"""Versions of the tables that a job writes, as they are recorded."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from airflow_backfill_provider.core.frozen import Frozen


class TableVersion(Frozen):
    """
    One version of a table's log.

    :param written_at: the time that its commit records. If an older copy was restored and written to, the same version
        has another time. ``None`` if the commit records none.
    """

    version: int
    written_at: dt.datetime | None = None


class TableVersions(Frozen):
    """
    The tables that a job writes, as of the end of an epoch.

    :param view: the newest version of the view.
    :param strategy: the newest versions of the strategy's own tables, by name; without dropped tables.
    :param rows_present: read rows that the upstream still has; ``None`` if unknown.
    """

    view: TableVersion
    strategy: Mapping[str, TableVersion] = Field(default_factory=dict)
    rows_present: int | None = None


def commit_fields(tables: TableVersions | None) -> dict[str, Any]:
    """Return the fields of an epoch's commit that record the tables' versions."""
    if tables is None:
        return {"view_version": None}
    return {
        "view_version": tables.view.version,
        "view_written_at": tables.view.written_at,
        "strategy_tables": tables.strategy,
        "rows_present": tables.rows_present,
    }
