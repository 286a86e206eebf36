"""
A change log's Delta table: created, landed once, and dropped.

Each landing is one commit, which also records how far the log is landed. It is made against exactly the version that
the landing read. So of two landings at the same time one fails, and starts over from where the other ended. The same
holds for a landing and a clean-up.
"""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from airflow_backfill_provider.core.errors import StateError, UpstreamReplacedError
from airflow_backfill_provider.core.location import parent
from airflow_backfill_provider.lake.log.dropping import drop_empty_folders, drop_table
from airflow_backfill_provider.lake.store.bucket_options import options_of
from airflow_backfill_provider.lake.store.storage import storage_errors
from airflow_backfill_provider.lake.tables.streamed_append import append_streamed
from airflow_backfill_provider.sources.shared.change_log.changes import SCHEMA, LoggedChange, arrow_batches, gap
from airflow_backfill_provider.sources.shared.change_log.commits import landed_through, recorded
from airflow_backfill_provider.sources.shared.change_log.opened import OpenedLog
from airflow_backfill_provider.sources.shared.change_log.queries import ChangeLogQueries
from airflow_backfill_provider.sources.shared.change_log.retention import (
    KEPT_FOR,
    KEPT_FOR_PROPERTY,
    ChangeLogRetention,
)

ORIGIN_PROPERTY = "backfill.changeLogOf"
"""The table property with what the log is of, such as a server and a database."""

MOST_IN_MEMORY = 64 << 20
"""How many bytes of rows a landing hands over to deltalake, which has them in memory four times; more are streamed."""

_INDEXED = 6
"""How many columns have bounds: all but the rows."""

SECRET_PROPERTY = "backfill.marksSignedWith"  # noqa: S105 - its name, not its value
"""The table property with the secret that a source signs its marks with."""


class ChangeLog:
    """
    A change log: it is made and landed here; what it is asked, and what it keeps, are parts of it.

    :param location: the table's canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, location: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.location = location
        self._log = OpenedLog(location, storage_options)
        self.queries = ChangeLogQueries(self._log)
        self.retention = ChangeLogRetention(self._log)

    def prepare(self, origin: str) -> bool:
        """
        Create the table without a beginning, unless it exists; so it is known early whether its folder can be written.

        :returns: whether it was created.
        :raises UpstreamReplacedError: if the table is the log of something else.
        """
        is_new = not self.is_made()
        if is_new:
            self._created(origin)
            self._log.forget()
        self.require_origin(origin)
        return is_new

    def is_made(self) -> bool:
        """Return whether there is a table, with or without a beginning."""
        try:
            self._log.newest()
        except TableNotFoundError:
            return False
        return True

    def create(self, origin: str, after: int, *, at: dt.datetime) -> None:
        """
        Create the table, unless it exists.

        :param origin: what the log is of.
        :param after: the offset after which the log begins.
        :param at: the time now.
        :raises UpstreamReplacedError: if the table is the log of something else.
        """
        if self.exists():
            self.require_origin(origin)
            return
        table = self._created(origin)
        if landed_through(table) is None:
            # If the commit fails, another process has recorded the beginning.
            with suppress(CommitFailedError), storage_errors(self.location):
                write_deltalake(
                    table,
                    pa.Table.from_batches(arrow_batches([gap(after, "changes before the log began", at)])),
                    mode="append",
                    commit_properties=recorded(landed=after, cleaned=at),
                )
        self._log.forget()
        self.require_origin(origin)

    def exists(self) -> bool:
        """Return whether the log was created, and its beginning is recorded."""
        try:
            return landed_through(self._log.newest()) is not None
        except TableNotFoundError:
            return False

    def require_origin(self, origin: str) -> None:
        """
        Refuse the log of something else.

        :raises UpstreamReplacedError: with both origins.
        :raises ChangeFeedGapError: if the log is gone.
        """
        found = self._log.existing().metadata().configuration.get(ORIGIN_PROPERTY)
        if found != origin:
            raise UpstreamReplacedError(
                f"the change log at {self.location} is of {found}, not of {origin}; give each its own change "
                "log, or rebuild the job"
            )

    def secret(self) -> str:
        """
        Return the log's secret, which was made with it.

        :raises ChangeFeedGapError: if the log is gone.
        :raises StateError: if somebody took the secret away: whatever is in the log could then be anybody's mark.
        """
        secret = self._log.existing().metadata().configuration.get(SECRET_PROPERTY)
        if not secret:
            raise StateError(
                f"the change log at {self.location} has lost its table property {SECRET_PROPERTY}, so its marks cannot "
                "be told from others; set it to what it was, or rebuild the job"
            )
        return secret

    def land(
        self,
        changes: Iterable[LoggedChange],
        *,
        after: int,
        through: int,
        published: Mapping[str, int] | None = None,
    ) -> None:
        """
        Append changes, in one commit.

        :param changes: all changes in ``(after, through]``.
        :param after: the offset through which the log must be landed before.
        :param through: the offset through which it is landed then.
        :param published: what identifies the things that the database publishes, as far as that changed.
        :raises ConcurrentUpdateError: if another process landed changes meanwhile.
        :raises ChangeFeedGapError: if the log is gone.
        """
        table = self._log.existing()
        if landed_through(table) != after:
            raise self._log.overtaken()
        first, rest = _first(arrow_batches(changes), MOST_IN_MEMORY)
        commit = recorded(landed=through, published=published)
        try:
            if rest is None:
                with storage_errors(self.location):
                    rows = pa.Table.from_batches(first, SCHEMA)
                    write_deltalake(table, rows, mode="append", commit_properties=commit)
            else:
                append_streamed(
                    table,
                    self.location,
                    chain(first, rest),
                    indexed=_INDEXED,
                    commit_properties=commit,
                    storage_options=self._log.storage_options,
                )
        except CommitFailedError as error:
            raise self._log.overtaken() from error
        finally:
            self._log.forget()

    def skip_to(
        self,
        offset: int,
        *,
        if_before: int,
        why: str,
        at: dt.datetime,
        published: Mapping[str, int] | None = None,
    ) -> None:
        """
        Leave out the changes up to an offset, if the log ends before another one; readers that need them are refused.

        :param why: why the changes are lost.
        :param at: the time now.
        :param published: as for :meth:`land`.
        :raises ConcurrentUpdateError: if another process landed changes meanwhile.
        """
        landed = self.queries.landed_through
        if landed < if_before:
            self.land([gap(offset, why, at)], after=landed, through=offset, published=published)

    def drop(self) -> None:
        """Delete the table, if it exists."""
        drop_table(self.location, self._log.storage_options)
        self._log.forget()

    def drop_with_empty_folders(self) -> None:
        """Delete the table, if it exists, and the folder that it lies in, if nothing else is there."""
        self.drop()
        drop_empty_folders(parent(self.location))

    def _created(self, origin: str) -> DeltaTable:
        configuration: dict[str, Any] = {
            ORIGIN_PROPERTY: origin,
            SECRET_PROPERTY: secrets.token_hex(16),
            KEPT_FOR_PROPERTY: KEPT_FOR,
            "delta.dataSkippingNumIndexedCols": str(_INDEXED),
        }
        try:
            with storage_errors(self.location):
                return DeltaTable.create(
                    self.location,
                    schema=SCHEMA,
                    mode="error",
                    configuration=configuration,
                    storage_options=options_of(self.location, self._log.storage_options),
                    raise_if_key_not_exists=False,
                )
        except DeltaError:
            # Another process created it at the same time, or died before it recorded the beginning.
            with storage_errors(self.location):
                return DeltaTable(self.location, storage_options=options_of(self.location, self._log.storage_options))


def _first(
    batches: Iterator[pa.RecordBatch], most_bytes: int
) -> tuple[list[pa.RecordBatch], Iterator[pa.RecordBatch] | None]:
    """Return the first batches, up to a number of bytes, and the others; ``None`` if there are no others."""
    found: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        found.append(batch)
        size += batch.nbytes
        if size > most_bytes:
            return found, batches
    return found, None
