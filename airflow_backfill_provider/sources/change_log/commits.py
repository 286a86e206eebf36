"""
What commits of a change log record: how far it is landed, and when it was cleaned up.

Each commit is made against exactly the version that its writer read. So of two writers at the same time one fails.
"""

from __future__ import annotations

import datetime as dt

from deltalake import CommitProperties, DeltaTable, Transaction

_LANDED = "airflow-backfill/landed"
"""The id of the transaction whose version is the offset up to which the log is landed."""

_CLEANED = "airflow-backfill/cleaned"
"""The id of the transaction whose version is when the log was last cleaned up, in seconds since 1970."""


def recorded(*, landed: int | None = None, cleaned: dt.datetime | None = None) -> CommitProperties:
    """
    Return the properties of a commit that follows exactly the version that was read.

    :param landed: the offset through which the log is landed then; ``None`` if that stays as it is.
    :param cleaned: when the log was cleaned up; ``None`` if that stays as it is.
    """
    versions = {_LANDED: landed, _CLEANED: None if cleaned is None else int(cleaned.timestamp())}
    return CommitProperties(
        max_commit_retries=0,
        app_transactions=[Transaction(name, version) for name, version in versions.items() if version is not None],
    )


def landed_through(table: DeltaTable) -> int | None:
    """Return the offset through which a log is landed; ``None`` if its beginning is not recorded."""
    return table.transaction_version(_LANDED)


def cleaned_at(table: DeltaTable) -> dt.datetime | None:
    """Return when a log was last cleaned up, to the second; ``None`` if it never was."""
    seconds = table.transaction_version(_CLEANED)
    return None if seconds is None else dt.datetime.fromtimestamp(seconds, dt.UTC)
