"""Versions of the tables that a job reads and writes, as they are pinned and recorded."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from airflow_backfill_provider.core.frozen import Frozen


class TableVersion(Frozen):
    """
    One version of a table's log.

    :param written_at: when its commit says that it was written. An older copy that was put back and written on has a
        version of the same number, but of another time. ``None`` if the commit says nothing of it.
    """

    version: int
    written_at: dt.datetime | None = None


class TableVersions(Frozen):
    """
    What an epoch left: the newest versions of the tables that the job writes, and how many rows were read by then.

    :param strategy: those of the strategy's own tables, by their names; without those that were dropped.
    :param rows_present: rows that were read and that the upstream still has; ``None`` if nobody counted them.
    """

    view: TableVersion
    strategy: Mapping[str, TableVersion] = Field(default_factory=dict)
    rows_present: int | None = None


def left_behind(tables: TableVersions | None) -> dict[str, Any]:
    """Return the fields of an epoch's commit that say which versions it left."""
    if tables is None:
        return {"view_version": None}
    return {
        "view_version": tables.view.version,
        "view_written_at": tables.view.written_at,
        "strategy_tables": tables.strategy,
        "rows_present": tables.rows_present,
    }
