"""
One control table: a small Delta table whose every write is a compare-and-swap.

A writer loads the table, decides on what it read, and commits against exactly that version: if anybody else
committed meanwhile, deltalake's put-if-absent of the next log entry fails and the writer decides anew. That makes
"the first in log order wins" hold without any lock, and a zombie cannot write what it decided long ago (I5).

What is read is believed only if its stamps are right (:mod:`~airflow_backfill_provider.state.stamps`): whatever else
wrote to the table is refused (I6).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from airflow_backfill_provider.core.errors import (
    BackfillError,
    ConcurrentUpdateError,
    StateLayoutError,
    StorageUnavailableError,
)
from airflow_backfill_provider.lake.delta_log import DeltaLog, Written
from airflow_backfill_provider.lake.storage import (
    got_no_answer,
    one_line,
    panics_as_errors,
    storage_errors,
    storage_unavailable,
)
from airflow_backfill_provider.state.patience import PATIENT, GaveUpError, OvertakenError, Patience
from airflow_backfill_provider.state.recovery import what_to_do
from airflow_backfill_provider.state.stamps import (
    VERSION,
    lost,
    require_stamps,
    require_writes,
    stamped,
    stamped_schema,
)
from airflow_backfill_provider.state.table_reading import Opened, Since, Write

LAYOUT_VERSION = 2

logger = logging.getLogger(__name__)

_LAYOUT_PROPERTY = "backfill.layoutVersion"
_WRITES = "airflow-backfill/control"
"""The transaction whose version is the number of the newest write; it outlasts a RESTORE."""

_COMPACT_FILES_AT = 100
_CLEAN_EVERY = 100
"""Versions between two removals of replaced files."""

RETENTION = "interval 1 days"
"""
How long replaced files and old log entries are kept.

Nothing reads a control table as of an earlier version: whoever reads opens the newest one, and is done within a
second. A process that slept in between for longer fails, and what it had decided to write was overtaken anyway.
"""
_ANSWERS_KEPT = 16


class ControlTable:
    """
    A Delta table of this package's own, under one layout version.

    :param location: the table's canonical location.
    :param schema: the columns that it has beside the stamps.
    :param storage_options: options of the object store, as deltalake takes them.
    :param patience: how long a write goes on while others are faster.
    """

    def __init__(
        self,
        location: str,
        schema: pa.Schema,
        storage_options: Mapping[str, str] | None = None,
        *,
        patience: Patience = PATIENT,
    ) -> None:
        self.location = location
        self.schema = schema
        self._patience = patience
        self._stored = stamped_schema(schema)
        self._options = dict(storage_options or {}) or None
        self._log = DeltaLog(location, storage_options)
        self._opened: Opened | None = None
        self._counted: tuple[tuple[str, int], int] = (("", -1), 0)
        self._known: tuple[tuple[str, int], dict[str | Since | None, pa.Table]] = (("", -1), {})

    def exists(self) -> bool:
        """Tell whether the table was created."""
        with storage_errors(self.location):
            return DeltaTable.is_deltatable(self.location, storage_options=self._options)

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
                        _LAYOUT_PROPERTY: str(LAYOUT_VERSION),
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

    def read(self, where: str | None = None) -> pa.Table:
        """
        Return the rows, all or those that match; files whose statistics exclude a match are not opened.

        What was read of the same version before is not read again: a barrier, say, needs the settings many times.

        :param where: a condition in SQL; see :func:`text_literal` for values that are not numbers.
        :raises StateLayoutError: if the table is missing, damaged, or of another layout version.
        :raises StateError: if a row is not as it was written, or of all rows some are gone.
        :raises StorageUnavailableError: if its storage does not answer.
        """
        return self._remembered(self._open(), where)

    def read_since(self, column: str, value: int) -> pa.Table:
        """
        Return the rows from a value of an integer column on, which grows with the table.

        :raises StateError: as :meth:`read`; also if one of those rows was taken away.
        """
        return self._remembered(self._open(), Since(column, value))

    def greatest(self, column: str) -> int:
        """Return the greatest value of an integer column by the log's statistics; 0 if there are no rows."""
        return self._greatest(self._open(), column)

    def read_last(self, column: str, count: int) -> tuple[int, pa.Table]:
        """
        Return the greatest value of an integer column, 0 if there are no rows, and the rows of the last values.

        :param count: how many values, down from the greatest.
        """
        table = self._open()
        greatest = self._greatest(table, column)
        return greatest, self._remembered(table, Since(column, greatest - count + 1))

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
        # Asked for now: later the log may be cleaned up behind this version.
        before, number = table.version(), self._writes(table) + 1
        write = decide(self._remembered(table, reading))
        if write is None:
            return
        try:
            with storage_errors(self.location):
                write_deltalake(
                    table,
                    stamped(write.rows.cast(self.schema), number),
                    mode=write.mode,
                    commit_properties=CommitProperties(
                        max_commit_retries=0, app_transactions=[Transaction(_WRITES, number)]
                    ),
                )
        except (DeltaError, StorageUnavailableError) as error:
            # Whoever slept for longer than the log is kept is told of a version that is gone.
            if isinstance(error, CommitFailedError) or self._open().version() > before:
                raise OvertakenError from error
            raise
        self._compact(table)
        self._clean(table, before)

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

    def _open(self) -> DeltaTable:
        """
        Return the table as of its newest version, to be read and not to be written.

        As long as the log ends with the very commit that it ended with, that is the table which is open. Opening reads
        the log, and an epoch asks its control tables some twenty times.
        """
        opened = self._opened
        if opened is None or self._end(opened.table.version()) != opened.end:
            table = self._open_anew()
            end = self._end(table.version())
            self._opened = None if end is None else Opened(table, end)
            return table
        return opened.table

    def _end(self, version: int) -> Written | None:
        """Return what a version's commit file looks like, ``None`` if the log does not end with it."""
        newest, next_one = self._log.written(version, version + 1)
        return newest if next_one is None else None

    def _open_anew(self) -> DeltaTable:
        try:
            with storage_errors(self.location):
                table = DeltaTable(self.location, storage_options=self._options)
            layout = table.metadata().configuration.get(_LAYOUT_PROPERTY)
            columns = pa.schema(table.schema().to_arrow())
        except TableNotFoundError as error:
            raise StateLayoutError(f"control table {self.location} is missing; {what_to_do(self.location)}") from error
        except StorageUnavailableError:
            raise
        except Exception as error:
            raise self._damaged(error) from error
        if layout is not None and layout.isdecimal() and int(layout) < LAYOUT_VERSION:
            raise StateLayoutError(
                f"control table {self.location} has layout version {layout} of an unreleased package, which this one "
                f"does not read (it has {LAYOUT_VERSION}); delete the job's control tables and its view, and create it"
            )
        if layout is None or not layout.isdecimal() or int(layout) > LAYOUT_VERSION:
            raise StateLayoutError(
                f"control table {self.location} has layout version {layout}, but this package knows up to "
                f"{LAYOUT_VERSION}; upgrade airflow-backfill-provider"
            )
        if columns.names != self._stored.names:
            raise StateLayoutError(
                f"control table {self.location} has columns {', '.join(columns.names)} instead of "
                f"{', '.join(self._stored.names)}; something else wrote to it: {what_to_do(self.location)}"
            )
        return table

    def _remembered(self, table: DeltaTable, wanted: str | Since | None) -> pa.Table:
        version = _version_of(table)
        known, answers = self._known
        if known != version or len(answers) > _ANSWERS_KEPT:
            answers = {}
            self._known = (version, answers)
        if wanted not in answers:
            answers[wanted] = self._read(table, wanted)
        return answers[wanted]

    def _read(self, table: DeltaTable, wanted: str | Since | None) -> pa.Table:
        """Return rows without their stamps, which are right."""
        rows = self._stored_rows(table, str(wanted) if wanted else None)
        require_stamps(rows, self.location)
        if not isinstance(wanted, str):
            self._require_all(table, rows, wanted)
        return rows.select(self.schema.names)

    def _require_all(self, table: DeltaTable, rows: pa.Table, wanted: Since | None) -> None:
        """
        Refuse rows of the newest writes of which some are gone.

        A write of earlier rows may lie between them, such as a late report; it has to be there, too.

        :param wanted: which rows they are, ``None`` for all that there are.
        """
        newest, there = self._writes(table), set(rows.column(VERSION).to_pylist())
        greatest = max(there, default=0) if wanted is None else self._greatest(table, VERSION)
        if greatest != newest:
            raise lost(newest, newest, self.location)
        misplaced = there - set(range(1, newest + 1))
        if misplaced:
            raise lost(min(misplaced), newest, self.location)
        if there and len(there) < newest + 1 - min(there):
            between = self._stored_rows(table, f"{VERSION} >= {min(there)}")
            require_stamps(between, self.location)
            require_writes(between, newest, self.location)

    def _stored_rows(self, table: DeltaTable, where: str | None) -> pa.Table:
        # An Arrow dataset over deltalake's file system leaves threads behind that can abort the process at its exit.
        condition = f" WHERE {where}" if where else ""
        with self._readable():
            rows = QueryBuilder().register("control", table).execute(f"SELECT * FROM control{condition}")
            return pa.table(rows.read_all()).cast(self._stored)

    def _greatest(self, table: DeltaTable, column: str) -> int:
        with self._readable():
            actions = pa.table(table.get_add_actions(flatten=True))
            values = actions.column(f"max.{column}").to_pylist() if actions.num_rows else []
        return max((value for value in values if value is not None), default=0)

    def _writes(self, table: DeltaTable) -> int:
        """Return the number of the newest write, 0 before the first; deltalake reads the log for it each time."""
        version = _version_of(table)
        if self._counted[0] != version:
            with self._readable():
                self._counted = version, table.transaction_version(_WRITES) or 0
        return self._counted[1]

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            with panics_as_errors():
                yield
        except Exception as error:
            if got_no_answer(error):
                raise storage_unavailable(self.location, error) from error
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> StateLayoutError:
        return StateLayoutError(
            f"control table {self.location} cannot be read: {one_line(error)}; {what_to_do(self.location)}"
        )


def _version_of(table: DeltaTable) -> tuple[str, int]:
    """Return what tells an opened table from any other."""
    return str(table.metadata().id), table.version()
