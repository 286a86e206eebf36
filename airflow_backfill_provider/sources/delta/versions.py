"""Versions of Delta tables as offsets; version -1 lies before the first one."""

from __future__ import annotations

from airflow_backfill_provider.core.scan.offset import BEGINNING, Offset


def offset_of(version: int) -> Offset:
    """Return a version as an offset."""
    return BEGINNING if version < 0 else Offset(version)


def version_of(offset: Offset) -> int:
    """Return an offset as a version."""
    if offset.number is None:
        raise TypeError(f"{offset} is not a version of a Delta table")
    return offset.number
