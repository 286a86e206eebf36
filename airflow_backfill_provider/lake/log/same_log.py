"""
Checks that the upstream's log is still the one that a job has read: tables are recreated, or restored from a copy.

A table that was restored from an older copy keeps its id, and its next versions get numbers that the job has already
read. A recreated table may have as many versions as the old one.
"""

from __future__ import annotations

from airflow_backfill_provider.lake.log.delta_log import DeltaLog


def ends_before(path: str, newest: int, version: int) -> str:
    """Return a message if a log ends before a version that the job has read; empty if it doesn't."""
    if newest >= version:
        return ""
    return (
        f"the log of {path} ends with version {newest}, but the job has read up to version {version}; the table was "
        "recreated, or restored from an older copy"
    )


def written_at_another_time(log: DeltaLog, version: int, known: str | None) -> str:
    """
    Return a message if a version that the job has read was written at another time since; empty if it wasn't.

    :param known: the time in the version's commit when the job read it; ``None`` if the commit had none.
    """
    found = log.written_at(version)
    written = None if found is None else found.isoformat()
    if None in (written, known) or written == known:
        return ""
    return (
        f"version {version} of {log.location} was written at {written}, but the job read a version {version} that was "
        f"written at {known}; the table was recreated, or restored from an older copy and written since"
    )
