"""
What gives away that the upstream's log is another one than a job has read: the table was made anew, or put back.

A table that was put back from an older copy keeps its id, and its next versions have numbers that were read already; a
table that was made anew may have as many versions as the old one.
"""

from __future__ import annotations

from airflow_backfill_provider.core.table_version import TableVersion
from airflow_backfill_provider.lake.delta_log import DeltaLog


def other_table(path: str, found: str, created_on: str) -> str:
    """Return how a table's id gives it away; empty if it is the one that the job was created on."""
    return "" if found == created_on else f"{path} holds table {found}, but the job was created on table {created_on}"


def ends_before(path: str, newest: int, version: int) -> str:
    """Return how the newest version gives a log away that ends before a version that was there; empty if it doesn't."""
    if newest >= version:
        return ""
    return (
        f"the log of {path} ends with version {newest}, but the job has come to version {version}; the table was made "
        "anew, or put back from an older copy"
    )


def written_at_another_time(log: DeltaLog, known: TableVersion) -> str:
    """Return how a version that the job has come to gives a log away; empty if it doesn't, or says nothing of it."""
    written = log.written_at(known.version)
    if None in (written, known.written_at) or written == known.written_at:
        return ""
    return (
        f"version {known.version} of {log.location} was written at {written}, but the one that the job has come to at "
        f"{known.written_at}; the table was made anew, or put back from an older copy and written on"
    )
