"""
What commits of a change log record: how far it is landed, what was published then, and when it was cleaned up.

Each commit is made against exactly the version that its writer read. So of two writers at the same time one fails.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from deltalake import CommitProperties, DeltaTable, Transaction

from airflow_backfill_provider.lake.store.storage import storage_errors

_LANDED = "airflow-backfill/landed"
"""The id of the transaction whose version is the offset up to which the log is landed."""

_CLEANED = "airflow-backfill/cleaned"
"""The id of the transaction whose version is when the log was last cleaned up, in seconds since 1970."""

_PUBLISHED = "airflow-backfill/published"
"""Begins the ids of transactions whose versions identify what the database publishes."""


def recorded(
    *,
    landed: int | None = None,
    cleaned: dt.datetime | None = None,
    published: Mapping[str, int] | None = None,
) -> CommitProperties:
    """
    Return the properties of a commit that follows exactly the version that was read.

    :param landed: the offset through which the log is landed then; ``None`` if that stays as it is.
    :param cleaned: when the log was cleaned up; ``None`` if that stays as it is.
    :param published: what identifies the things that the database publishes, by name; the others stay as they are.
    """
    versions = {
        _LANDED: landed,
        _CLEANED: None if cleaned is None else int(cleaned.timestamp()),
        **{f"{_PUBLISHED}/{name}": identity for name, identity in (published or {}).items()},
    }
    return CommitProperties(
        max_commit_retries=0,
        app_transactions=[Transaction(name, version) for name, version in versions.items() if version is not None],
    )


def landed_through(table: DeltaTable) -> int | None:
    """Return the offset through which a log is landed; ``None`` if its beginning is not recorded."""
    return _version_of(table, _LANDED)


def cleaned_at(table: DeltaTable) -> dt.datetime | None:
    """Return when a log was last cleaned up, to the second; ``None`` if it never was."""
    seconds = _version_of(table, _CLEANED)
    return None if seconds is None else dt.datetime.fromtimestamp(seconds, dt.UTC)


def published_as(table: DeltaTable, name: str) -> int | None:
    """Return what identified something that the database publishes at the last landing; ``None`` if unknown."""
    return _version_of(table, f"{_PUBLISHED}/{name}")


def _version_of(table: DeltaTable, transaction: str) -> int | None:
    # deltalake reads it from the log only now.
    with storage_errors(table.table_uri):
        return table.transaction_version(transaction)
