"""
One control table: a small Delta table whose every write is a compare-and-swap.

A writer loads the table, decides on what it read, and commits against exactly that version: if anybody else
committed meanwhile, deltalake's put-if-absent of the next log entry fails and the writer decides anew. That makes
"the first in log order wins" hold without any lock, and a zombie cannot write what it decided long ago (I5).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from airflow_backfill_provider.core.errors import BackfillError, ConcurrentUpdateError, StorageUnavailableError
from airflow_backfill_provider.lake.storage import one_line, panics_as_errors, storage_errors, storage_unavailable
from airflow_backfill_provider.state.migrations import LAYOUT_PROPERTY, MIGRATIONS, Migrations
from airflow_backfill_provider.state.patience import PATIENT, GaveUpError, OvertakenError, Patience
from airflow_backfill_provider.state.stamps import stamped
from airflow_backfill_provider.state.table_reader import TableReader, newest_write, numbered
from airflow_backfill_provider.state.table_reading import Since, Write

logger = logging.getLogger(__name__)

_COMPACT_FILES_AT = 100
_CLEAN_EVERY = 100
"""Versions between two removals of replaced files."""

RETENTION = "interval 1 days"
"""
How long replaced files and old log entries are kept.

Nothing reads a control table as of an earlier version: whoever reads opens the newest one, and is done within a
second. A process that slept in between for longer fails, and what it had decided to write was overtaken anyway.
"""


class ControlTable(TableReader):
    """
    Reads and writes a control table.

    :param patience: how long a write goes on while others are faster.

    The other parameters are those of :class:`TableReader`.
    """

    def __init__(
        self,
        location: str,
        schema: pa.Schema,
        storage_options: Mapping[str, str] | None = None,
        *,
        patience: Patience = PATIENT,
        migrations: Migrations = MIGRATIONS,
    ) -> None:
        super().__init__(location, schema, storage_options, migrations=migrations)
        self._patience = patience

    def create(self) -> None:
        """
        Create the empty table, unless it exists; of two creators one succeeds and the other finds it.

        :raises StorageUnavailableError: if there can be no table.
        """
        if self.exists():
            self._open()
            return
        try:
            with storage_errors(self.location):
                DeltaTable.create(
                    self.location,
                    schema=self._stored,
                    mode="error",
                    configuration={
                        LAYOUT_PROPERTY: str(self._migrations.newest),
                        "delta.checkpointInterval": "20",
                        "delta.deletedFileRetentionDuration": RETENTION,
                        "delta.logRetentionDuration": RETENTION,
                    },
                    storage_options=self._options,
                    raise_if_key_not_exists=False,
                )
        except DeltaError as error:
            if not self.exists():
                raise storage_unavailable(self.location, error) from error
            self._open()

    def update(
        self,
        decide: Callable[[pa.Table], Write | None],
        *,
        reading: Since | None = None,
    ) -> None:
        """
        Read, decide, and write what was decided, as one atomic step.

        :param decide: gets the rows that match ``reading`` and returns what to write, or ``None`` for nothing. It is
            called again with what is there by then, if another writer was faster.
        :param reading: which rows the decision needs.
        :raises ConcurrentUpdateError: if others were faster for too long.
        """
        try:
            self._patience.until_not_overtaken(lambda: self._attempt(decide, reading))
        except GaveUpError as error:
            raise ConcurrentUpdateError(
                f"{self.location} was changed by others {error.attempts} times in a row, within {error.seconds:.0f} "
                "seconds; try again"
            ) from error

    def _attempt(self, decide: Callable[[pa.Table], Write | None], reading: Since | None) -> None:
        """
        Read, decide and write once.

        :raises OvertakenError: if somebody else committed meanwhile.
        """
        # Of its own: what others read from must not move on under them.
        table = self._open_anew()
        if self._is_old(table):
            self._migrate(table)
        # Asked for now: later the log may be cleaned up behind this version.
        before, number = table.version(), self._writes(table) + 1
        write = decide(self._remembered(table, reading))
        if write is None:
            return
        with self._racing(before):
            write_deltalake(
                table,
                stamped(write.rows.cast(self.schema), number),
                mode=write.mode,
                commit_properties=numbered(number),
            )
        self._compact(table)
        self._clean(table, before)

    @contextmanager
    def _racing(self, before: int) -> Iterator[None]:
        """
        Commit against a version.

        :raises OvertakenError: if somebody else committed meanwhile.
        """
        try:
            with storage_errors(self.location):
                yield
        except (DeltaError, StorageUnavailableError) as error:
            # Whoever slept for longer than the log is kept is told of a version that is gone.
            if isinstance(error, CommitFailedError) or self._open_anew().version() > before:
                raise OvertakenError from error
            raise

    def _migrate(self, table: DeltaTable) -> None:
        """
        Replace the rows of an older layout by migrated ones, in one commit: a crash leaves the one or the other.

        :raises OvertakenError: if somebody else committed meanwhile.
        """
        rows = self._migrated_rows(table)
        with self._racing(table.version()):
            write_deltalake(
                table,
                rows,
                mode="overwrite",
                schema_mode="overwrite",
                commit_properties=numbered(newest_write(rows)),
            )
        table.update_incremental()
        logger.info("%s was migrated to layout version %d", self.location, self._migrations.newest)

    def _compact(self, table: DeltaTable) -> None:
        """
        Write many small files as one, now and then; somebody else's commit in between only puts it off.

        The write is done, and whatever fails here is left to the next time.

        Not with deltalake's own compaction: of two at once both succeed, and every row is there twice.
        """
        try:
            with storage_errors(self.location):
                table.update_incremental()
                if len(table.file_uris()) < _COMPACT_FILES_AT:
                    return
                write_deltalake(
                    table,
                    self._stored_rows(table, None),
                    mode="overwrite",
                    commit_properties=CommitProperties(max_commit_retries=0),
                )
        except (DeltaError, BackfillError) as error:
            logger.info("%s is not compacted for now: %s", self.location, one_line(error))

    def _clean(self, table: DeltaTable, before: int) -> None:
        """
        Remove replaced files that are older than :data:`RETENTION`, now and then; deltalake removes log entries itself.

        The write is done, and whatever fails here is left to the next time.

        :param before: the version that the write found.
        """
        if table.version() // _CLEAN_EVERY == before // _CLEAN_EVERY:
            return
        try:
            # Fully, for the log forgets replaced files as soon as they may go.
            with panics_as_errors():
                table.vacuum(dry_run=False, full=True)
        except (DeltaError, OSError) as error:
            logger.info("%s keeps replaced files for now: %s", self.location, one_line(error))
