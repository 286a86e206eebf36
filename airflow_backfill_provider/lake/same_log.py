"""
What gives away that the upstream's log is another one than a job has read: the table was made anew, or put back.

A table that was put back from an older copy keeps its id, and its next versions have numbers that were read already; a
table that was made anew may have as many versions as the old one.
"""

from __future__ import annotations

from airflow_backfill_provider.core.barrier import UpstreamWindow
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


def written_at_another_time(log: DeltaLog, window: UpstreamWindow) -> str:
    """Return how the last version of a window gives a log away; empty if it doesn't, or its commit file is silent."""
    written = log.written_at(window.to_version)
    if written is None or written == window.watermark:
        return ""
    return (
        f"version {window.to_version} of {log.location} was written at {written.isoformat()}, but the one that the job "
        f"has come to at {window.watermark.isoformat()}; the table was made anew, or put back from an older copy and "
        "written on"
    )
