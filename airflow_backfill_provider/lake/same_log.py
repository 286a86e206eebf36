"""
What gives away that the upstream's log is another one than a job has read: the table was made anew, or put back.

A table that was put back from an older copy keeps its id, and its next versions have numbers that were read already; a
table that was made anew may have as many versions as the old one.
"""

from __future__ import annotations

from airflow_backfill_provider.lake.delta_log import DeltaLog


def ends_before(path: str, newest: int, version: int) -> str:
    """Return how the newest version gives a log away that ends before a version that was there; empty if it doesn't."""
    if newest >= version:
        return ""
    return (
        f"the log of {path} ends with version {newest}, but the job has come to version {version}; the table was made "
        "anew, or put back from an older copy"
    )


def written_at_another_time(log: DeltaLog, version: int, known: str | None) -> str:
    """
    Say how a version that the job has come to shows that the log is another one; empty if it does not.

    :param known: when its commit said that it was written, as the job came to it; ``None`` if it did not say.
    """
    found = log.written_at(version)
    written = None if found is None else found.isoformat()
    if None in (written, known) or written == known:
        return ""
    return (
        f"version {version} of {log.location} was written at {written}, but the one that the job has come to at "
        f"{known}; the table was made anew, or put back from an older copy and written on"
    )
