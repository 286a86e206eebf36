"""
One control table: a small Delta table in which each write is a compare-and-swap.

A writer reads the table, decides, and commits against exactly the version that it read. If another writer committed
meanwhile, deltalake's put-if-absent of the next log entry fails, and the writer reads and decides again. So the first
in log order wins without a lock, and a zombie cannot write an outdated decision (I5).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from airflow_backfill_provider.core.errors import BackfillError, ConcurrentUpdateError, StorageUnavailableError
from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.lake.store.bucket_options import options_of
from airflow_backfill_provider.lake.store.storage import one_line, panics_as_errors, storage_errors, storage_unavailable
from airflow_backfill_provider.state.conditions import AtLeast
from airflow_backfill_provider.state.control_table_reader import LAYOUT, LAYOUT_PROPERTY, ControlTableReader, numbered
from airflow_backfill_provider.state.retries import PATIENT, CommitConflictError, RetriesExhaustedError, RetryPolicy
from airflow_backfill_provider.state.stamps import stamped

logger = logging.getLogger(__name__)

_COMPACT_FILES_AT = 100
_CHECKPOINT_EVERY = 20
_CLEAN_EVERY = 100
"""The number of versions between two removals of replaced files."""

RETENTION = "interval 1 days"
"""
How long replaced files and old log entries are kept.

No process reads a control table as of an earlier version: a read opens the newest version and takes less than a second.
A process that sleeps for longer than this during a write fails. Its decision would be outdated in any case.
"""


class Write(NamedTuple):
    """The rows that a decision writes."""

    rows: pa.Table
    mode: Literal["append", "overwrite"] = "append"


class ControlTable(ControlTableReader):
    """
    Reads and writes a control table.

    :param patience: how long a write is retried while others commit first.

    The other parameters are those of :class:`ControlTableReader`.
    """

    def __init__(
        self,
        location: str,
        schema: pa.Schema,
        storage_options: Mapping[str, str] | None = None,
        *,
        patience: RetryPolicy = PATIENT,
    ) -> None:
        super().__init__(location, schema, storage_options)
        self._patience = patience

    def create(self) -> None:
        """
        Create the empty table, unless it exists. Of two concurrent creators, one succeeds and the other finds it.

        :raises StorageUnavailableError: if the table cannot be created.
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
                        LAYOUT_PROPERTY: LAYOUT,
                        "delta.checkpointInterval": str(_CHECKPOINT_EVERY),
                        "delta.deletedFileRetentionDuration": RETENTION,
                        "delta.logRetentionDuration": RETENTION,
                    },
                    storage_options=options_of(self.location, self._options),
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
        reading: AtLeast | None = None,
    ) -> None:
        """
        Read, decide and write, as one atomic step.

        :param decide: gets the rows that match ``reading`` and returns what to write, or ``None`` for nothing. If
            another writer commits first, it is called again with the new rows.
        :param reading: the rows that the decision needs; all rows by default.
        :raises ConcurrentUpdateError: if others commit first for too long.
        """
        try:
            self._patience.until_not_overtaken(lambda: self._attempt(decide, reading))
        except RetriesExhaustedError as error:
            raise ConcurrentUpdateError(
                f"other writers changed control table {self.location} during each of {error.attempts} attempts within "
                f"{error.seconds:.0f} seconds; try again"
            ) from error

    def _attempt(self, decide: Callable[[pa.Table], Write | None], reading: AtLeast | None) -> None:
        """
        Read, decide and write once.

        :raises CommitConflictError: if another writer committed meanwhile.
        """
        with self._lock:
            table = self._open_for_writing()
            # Read now, because the log of this version may be cleaned up later.
            before, number = table.version(), self._writes(table) + 1
            write = decide(self._remembered(table, reading))
            if write is not None:
                with self._writing():
                    self._write(table, write, number)
                    self._compact(table)
                    self._clean(table, before)
            self._keep_open(table)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """List the log again afterwards: it has another commit, be it of this writer or of one that was faster."""
        try:
            yield
        finally:
            self._log.written_to()

    def _open_for_writing(self) -> DeltaTable:
        """
        Return the table at its newest version.

        A write changes the instance, so nothing else uses it meanwhile. If the write fails, the next attempt opens the
        table again.
        """
        self._open()
        opened, self._opened = self._opened, None
        if opened is not None:
            return opened.table
        return self._open_newest()

    def _write(self, table: DeltaTable, write: Write, number: int) -> None:
        """
        Commit against the version that a table is open at.

        :raises CommitConflictError: if another writer committed meanwhile.
        """
        # To look for old entries of the log is a request for each write in an object store.
        cleans = is_local(self.location) or (table.version() + 1) % _CHECKPOINT_EVERY == 0
        with self._racing(table.version()):
            write_deltalake(
                table,
                stamped(write.rows.cast(self.schema), number),
                mode=write.mode,
                commit_properties=numbered(number),
                post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=None if cleans else False),
            )
        self._count(table, number)

    @contextmanager
    def _racing(self, before: int) -> Iterator[None]:
        """
        Commit against a version.

        :raises CommitConflictError: if another writer committed meanwhile.
        """
        try:
            with storage_errors(self.location):
                yield
        except (DeltaError, StorageUnavailableError) as error:
            # If this process slept for longer than the log is kept, the error is a missing version.
            if isinstance(error, CommitFailedError) or self._open_newest().version() > before:
                raise CommitConflictError from error
            raise

    def _compact(self, table: DeltaTable) -> None:
        """
        Rewrite many small files as one.

        A failure or another writer's commit only postpones it, because the write itself is committed. It does not use
        deltalake's own compaction: if two ran at once, both would succeed and duplicate every row.
        """
        try:
            with storage_errors(self.location):
                if len(table.file_uris()) < _COMPACT_FILES_AT:
                    return
                write_deltalake(
                    table,
                    self._stored_rows(table, None),
                    mode="overwrite",
                    commit_properties=CommitProperties(max_commit_retries=0),
                )
        except (DeltaError, BackfillError) as error:
            logger.info(
                "control table %s was not compacted, the next write tries again: %s", self.location, one_line(error)
            )

    def _clean(self, table: DeltaTable, before: int) -> None:
        """
        Remove replaced files that are older than :data:`RETENTION`; deltalake itself removes old log entries.

        A failure only postpones it, because the write itself is committed.

        :param before: the version that the write read.
        """
        if table.version() // _CLEAN_EVERY == before // _CLEAN_EVERY:
            return
        try:
            # A full vacuum, because the log forgets replaced files as soon as they may be removed.
            with panics_as_errors():
                table.vacuum(dry_run=False, full=True)
        except (DeltaError, OSError) as error:
            logger.info("replaced files of control table %s were not removed: %s", self.location, one_line(error))
