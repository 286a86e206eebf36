"""
Reads one control table and checks it.

Rows with wrong stamps (:mod:`~airflow_backfill_provider.state.stamps`) are refused, because something else wrote to the
table (I6). A table of another layout than this package writes is refused, too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError

from airflow_backfill_provider.core.errors import StateLayoutError, StorageUnavailableError
from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.lake.files.rows import read_rows
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.log.written import Written
from airflow_backfill_provider.lake.store.bucket_options import options_of
from airflow_backfill_provider.lake.store.storage import (
    got_no_answer,
    one_line,
    panics_as_errors,
    storage_errors,
    storage_unavailable,
)
from airflow_backfill_provider.state.conditions import AtLeast
from airflow_backfill_provider.state.file_rows import FileRows
from airflow_backfill_provider.state.recovery import what_to_do
from airflow_backfill_provider.state.stamps import (
    VERSION,
    lost,
    require_stamps,
    require_writes,
    stamped_schema,
)

LAYOUT_PROPERTY = "backfill.layoutVersion"
"""The table property that records a table's layout."""

LAYOUT = "2"
"""The layout that this package reads and writes."""

_WRITES = "airflow-backfill/control"
"""The id of the transaction that counts writes; a RESTORE does not reset its version."""

_ANSWERS_KEPT = 16
_FEW_COMMITS = 3


class _Opened(NamedTuple):
    """
    A table that is open for reading.

    :param version: the newest version of its log.
    :param seen: the newest version that a listing showed; an earlier one after a write.
    :param written: what identifies the commit file of the version that was seen.
    """

    table: DeltaTable
    version: int
    seen: int
    written: Written


class ControlTableReader:
    """
    Reads a control table.

    :param location: the table's canonical location.
    :param schema: the table's columns without stamps.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(
        self,
        location: str,
        schema: pa.Schema,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.location = location
        self.schema = schema
        self._stored = stamped_schema(schema)
        self._options = dict(storage_options or {}) or None
        self._log = DeltaLog(location, storage_options)
        self._files = FileRows(self._log)
        self._opened: _Opened | None = None
        self._counted: tuple[tuple[str, int], int] = (("", -1), 0)
        self._known: tuple[tuple[str, int], dict[str | AtLeast | None, pa.Table]] = (("", -1), {})
        # An open table changes when it is written to, or brought up to date, and threads share this reader.
        self._lock = threading.RLock()

    def exists(self) -> bool:
        """Return whether the table exists."""
        with storage_errors(self.location):
            return DeltaTable.is_deltatable(self.location, storage_options=options_of(self.location, self._options))

    def read(self, where: str | None = None) -> pa.Table:
        """
        Return all rows, or those that match; skips files by their statistics.

        Results are cached for the table's version, because an injection, for example, reads the settings many times.

        :param where: a condition in SQL; for text values see
            :func:`~airflow_backfill_provider.lake.files.rows.text_literal`.
        :raises StateLayoutError: if the table is missing or damaged, or has an unknown layout version.
        :raises StateError: if a row was edited or added; without a condition, also if rows were removed.
        :raises StorageUnavailableError: if the table's storage does not answer.
        """
        with self._lock:
            return self._remembered(self._open(), where)

    def read_if_there(self) -> pa.Table | None:
        """Return all rows, as :meth:`read`; ``None`` if the table does not exist."""
        with self._lock:
            # A read of an open table notices if it is gone, and in an object store each look is a request.
            is_known = self._opened is not None and not is_local(self.location)
            return self.read() if is_known or self.exists() else None

    def read_since(self, column: str, value: int) -> pa.Table:
        """
        Return the rows with at least some value in an integer column; the column's values grow with each write.

        :raises StateError: as :meth:`read`; also if one of these rows was removed.
        """
        with self._lock:
            return self._remembered(self._open(), AtLeast(column, value))

    def greatest(self, column: str) -> int:
        """Return the greatest value of an integer column, from the log's statistics; 0 if there are no rows."""
        with self._lock:
            return self._greatest(self._open(), column)

    def read_last(self, column: str, count: int) -> tuple[int, pa.Table]:
        """
        Return the greatest value of an integer column, 0 if there are no rows, and the rows with the last values.

        :param count: the number of values, counted down from the greatest.
        """
        with self._lock:
            table = self._open()
            greatest = self._greatest(table, column)
            return greatest, self._remembered(table, AtLeast(column, greatest - count + 1))

    def _open(self) -> DeltaTable:
        """
        Return the table at its newest version, for reading only.

        Returns the cached instance as long as the log ends with the same commit. Opening reads the log, and an epoch
        reads its control tables about twenty times.
        """
        if self._opened is not None:
            self._opened = self._continued(self._opened)
        if self._opened is None:
            table = self._open_newest()
            version = table.version()
            end = self._end(version)
            if end is None:
                return table
            self._opened = _Opened(table, version, version, end)
        return self._opened.table

    def _continued(self, opened: _Opened) -> _Opened | None:
        """
        Return an open table at its newest version; ``None`` if it must be opened again.

        A crash of the machine that damaged the log ended this process, too, and the next one reads the whole log.
        """
        seen, newest, after = self._log.written(opened.seen, opened.version, opened.version + 1)
        if seen != opened.written or newest is None:
            return None
        if after is None:
            return opened._replace(seen=opened.version, written=newest)
        try:
            with storage_errors(self.location), panics_as_errors():
                opened.table.update_incremental()
        except DeltaError:
            # Opening it has the better error.
            return None
        self._keep_open(self._supported(opened.table))
        return self._opened

    def _keep_open(self, table: DeltaTable) -> None:
        """
        Use an open table for the next reads.

        It may be newer than the last listing of its log: the next read lists the log, and finds there the commit that
        came before.
        """
        version = table.version()
        seen = self._log.newest_listed(version)
        self._opened = None if seen is None else _Opened(table, version, *seen)

    def _end(self, version: int) -> Written | None:
        """Return what identifies a version's commit file; ``None`` if the log does not end with it."""
        newest, next_one = self._log.written(version, version + 1)
        return newest if next_one is None else None

    def _open_newest(self) -> DeltaTable:
        """Open the table at its newest version, and check its layout."""
        try:
            with storage_errors(self.location):
                table = DeltaTable(self.location, storage_options=options_of(self.location, self._options))
            return self._supported(table)
        except TableNotFoundError as error:
            raise StateLayoutError(f"control table {self.location} is missing; {what_to_do(self.location)}") from error
        except (StorageUnavailableError, StateLayoutError):
            raise
        except Exception as error:
            raise self._damaged(error) from error

    def _supported(self, table: DeltaTable) -> DeltaTable:
        """Return a table; refuse another layout than this package has."""
        layout = table.metadata().configuration.get(LAYOUT_PROPERTY)
        if layout != LAYOUT:
            raise StateLayoutError(
                f"control table {self.location} has layout version {layout}, but this package supports {LAYOUT}; "
                f"upgrade airflow-backfill-provider, or {what_to_do(self.location)}"
            )
        return table

    def _remembered(self, table: DeltaTable, wanted: str | AtLeast | None) -> pa.Table:
        version = _version_of(table)
        known, answers = self._known
        if known != version or len(answers) > _ANSWERS_KEPT:
            answers = {}
            self._known = (version, answers)
        if wanted not in answers:
            answers[wanted] = self._read(table, wanted)
        return answers[wanted]

    def _read(self, table: DeltaTable, wanted: str | AtLeast | None) -> pa.Table:
        """Read rows, check their stamps, and return them without stamps."""
        rows = self._rows_of_files(table, wanted)
        if rows is None:
            rows = self._stored_rows(table, str(wanted) if wanted else None)
        require_stamps(rows, self.location)
        if not isinstance(wanted, str):
            self._require_all(table, rows, wanted)
        return rows.select(self.schema.names)

    def _require_all(self, table: DeltaTable, rows: pa.Table, wanted: AtLeast | None) -> None:
        """
        Refuse the rows of the newest writes if some are missing.

        Between these writes there may be one of rows outside of ``wanted``, such as a late report. It must exist, too.

        :param wanted: the condition by which the rows were read; ``None`` for all rows.
        """
        newest, there = self._writes(table), set(rows.column(VERSION).to_pylist())
        greatest = newest_write(rows) if wanted is None else self._greatest(table, VERSION)
        if greatest != newest:
            raise lost(newest, newest, self.location)
        if there and len(there) < newest + 1 - min(there):
            between = self._stored_rows(table, f"{VERSION} >= {min(there)}")
            require_stamps(between, self.location)
            require_writes(between, newest, self.location)

    def _rows_of_files(self, table: DeltaTable, wanted: str | AtLeast | None) -> pa.Table | None:
        """Return rows from files that are read as a whole; ``None`` if deltalake should read them."""
        if isinstance(wanted, str):
            return None
        with self._readable():
            rows = self._files.read(table, wanted)
            return None if rows is None else rows.select(self._stored.names).cast(self._stored).sort_by(VERSION)

    def _stored_rows(self, table: DeltaTable, where: str | None) -> pa.Table:
        with self._readable():
            return read_rows(table, where=where or "").cast(self._stored)

    def _greatest(self, table: DeltaTable, column: str) -> int:
        with self._readable():
            actions = pa.table(table.get_add_actions(flatten=True))
            values = actions.column(f"max.{column}").to_pylist() if actions.num_rows else []
        return max((value for value in values if value is not None), default=0)

    def _writes(self, table: DeltaTable) -> int:
        """Return the number of the newest write, 0 before the first."""
        version = _version_of(table)
        if self._counted[0] != version:
            with self._readable():
                self._counted = version, self._newest_number(table)
        return self._counted[1]

    def _newest_number(self, table: DeltaTable) -> int:
        """
        Return the number of the newest write, from the newest commit that has one.

        That is nearly always the last one. deltalake would read the whole log, and in an object store each commit is
        a request.
        """
        (table_id, newest), (known, number) = _version_of(table), self._counted
        for version in range(newest, max(newest - _FEW_COMMITS, -1), -1):
            if known == (table_id, version):
                return number
            commit = self._log.commit(version)
            if commit is None:
                break
            if _WRITES in commit.transactions:
                return commit.transactions[_WRITES]
        return table.transaction_version(_WRITES) or 0

    def _count(self, table: DeltaTable, number: int) -> None:
        """Note the number of the newest write."""
        self._counted = _version_of(table), number

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


def numbered(number: int) -> CommitProperties:
    """Return a write's commit properties: its number, unless it has no rows, and no retries of conflicts."""
    transactions = [Transaction(_WRITES, number)] if number else []
    return CommitProperties(max_commit_retries=0, app_transactions=transactions)


def newest_write(rows: pa.Table) -> int:
    """Return the greatest number in the stamps of rows, 0 if there are none."""
    return max(rows.column(VERSION).to_pylist(), default=0)


def _version_of(table: DeltaTable) -> tuple[str, int]:
    """Return what identifies a table and its version."""
    return str(table.metadata().id), table.version()
