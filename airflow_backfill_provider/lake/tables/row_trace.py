"""
Which commit of a Delta table wrote a row, found without Spark from the log and from the few files that may have it.

A file belongs to the commit that added it first. That commit wrote the row, unless it copied it: a compaction does, and
so does a merge without deletion vectors, for the rows beside those that it changes. A copied row is in one of the files
that the commit removed, with the same values, and is followed from there. With row tracking, the table itself has the
version that last wrote each row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from airflow_backfill_provider.core.errors import DataFileError, InvalidJobError, RowNotTraceableError
from airflow_backfill_provider.core.job.layout import ROW_TRACKING
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder, Position
from airflow_backfill_provider.core.status.row_answer import WrittenRow
from airflow_backfill_provider.lake.files.key_index import arrow_type
from airflow_backfill_provider.lake.files.stored_columns import read_stored
from airflow_backfill_provider.lake.log.delta_log import DeltaLog, changes_rows
from airflow_backfill_provider.lake.log.row_commits import commit_facts, copies_rows, files_of
from airflow_backfill_provider.lake.store.bucket_options import options_of
from airflow_backfill_provider.lake.store.storage import log_errors
from airflow_backfill_provider.lake.tables.data_files import DataFiles

MOST_ROWS = 20_000_000
"""The most keys that are read for one question: a few seconds."""

MOST_VERSIONS = 1_000
"""The most versions in which a removed row is looked for."""

_VERSION_COLUMN = "delta.rowTracking.materializedRowCommitVersionColumnName"


@dataclass(frozen=True, slots=True)
class FoundRow:
    """
    Where a version of a table has a row.

    :param path: the data file.
    :param index: the row's place in it.
    """

    path: str
    index: int


class RowTrace:
    """
    The rows of a table, by some columns that identify them.

    :param location: the table's canonical location.
    :param order: the columns, under the names that the table has.
    :param version: the version in which rows are looked for; by default the newest.
    :param storage_options: options of the object store, as deltalake takes them.
    :raises InvalidJobError: if the table lacks one of these columns.
    """

    def __init__(
        self,
        location: str,
        order: KeyOrder,
        version: int | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        options = dict(storage_options or {})
        with log_errors(location):
            self._table = DeltaTable(location, version=version, storage_options=options_of(location, options))
        found = {field.name for field in self._table.schema().fields}
        if missing := [name for name in order.names if name not in found]:
            raise InvalidJobError(f"why: the table at {location} has no column {', '.join(missing)}")
        self._location = location
        self._order = order
        self._files = DataFiles(self._table, location, options)
        self._log = DeltaLog(location, options)

    @property
    def location(self) -> str:
        """The table's location."""
        return self._location

    @property
    def version(self) -> int:
        """The version in which rows are looked for."""
        return self._table.version()

    def candidates(self, key: Position) -> list[FileStatistics]:
        """Return the data files that may have a key, by the statistics of the log."""
        compare = self._order.compare
        return [
            file for file in self._files.files(self._order) if compare(file.lower, key) <= 0 <= compare(file.upper, key)
        ]

    def find(self, key: Position) -> list[FoundRow]:
        """
        Return the rows with a key.

        :raises RowNotTraceableError: if that takes Spark, with what it costs.
        """
        files = self.candidates(key)
        rows = sum(file.stored_rows for file in files)
        if rows > MOST_ROWS:
            size = sum(file.size for file in files)
            raise RowNotTraceableError(
                f"the statistics of {self._location} leave {len(files):,} files with {rows:,} rows "
                f"({size / 2**20:,.0f} MiB), and the key may be in each"
            )
        masks = self._files.hidden_rows()
        if masks is None:
            raise RowNotTraceableError(f"the deletion vectors of {self._location} can be read only by Spark")
        return [found for file in files for found in self._find_in(file.path, key, masks.get(file.path))]

    def find_in(self, paths: Sequence[str], key: Position) -> list[FoundRow]:
        """Return the rows with a key in some files that are known to have such rows."""
        masks = self._files.hidden_rows() or {}
        return [found for path in paths for found in self._find_in(path, key, masks.get(path))]

    def written(self, row: FoundRow, key: Position) -> WrittenRow:
        """Return the commit that wrote a row; if files of it are gone, the oldest one that is known to have it."""
        tracked = self._tracked(row)
        if tracked is not None:
            return commit_facts(self._log, tracked, is_certain=True)
        while True:
            version, actions = self._added(row.path)
            if actions is None:
                return commit_facts(self._log, version, is_certain=False)
            if not copies_rows(actions):
                return commit_facts(self._log, version, is_certain=True)
            removed = [path for path in files_of(actions, "remove") if path != row.path]
            earlier = self._same_row(row, removed, key)
            if earlier is None:
                return commit_facts(self._log, version, is_certain=True)
            if isinstance(earlier, DataFileError):
                return commit_facts(self._log, version, is_certain=False)
            row = earlier

    def removed(self, key: Position, after: int = -1) -> WrittenRow | None:
        """
        Return the newest commit that removed a row with a key, up to the version of this trace.

        :param after: only later commits are looked at.
        :returns: ``None`` if none of the newest commits did, as far as their files are still there.
        """
        for version in self._newest(after):
            if self._removes(version, key):
                return commit_facts(self._log, version, is_certain=True)
        return None

    def touched(self, key: Position, after: int) -> WrittenRow | None:
        """
        Return the newest commit after a version that added, removed or changed a row with a key.

        :returns: ``None`` if none of the newest commits did, as far as their files are still there.
        """
        for version in self._newest(after):
            actions = self._log.actions(version) or []
            changed = [path for kind in ("add", "remove") for path in files_of(actions, kind, changes_rows)]
            if any(self._has(path, key) for path in files_of(actions, "cdc") or changed):
                return commit_facts(self._log, version, is_certain=True)
        return None

    def rows(self, row: FoundRow, names: Sequence[str], fields: Mapping[str, KeyField]) -> pa.Table:
        """Return some values of a row as a table of one row, in the Arrow types of key columns."""
        values = self.values(row, names)
        return pa.table({name: pa.array([values[name.lower()]], arrow_type(fields[name])) for name in names})

    def values(self, row: FoundRow, names: Sequence[str]) -> dict[str, Any]:
        """Return some values of a row by the names of their columns in lower case; those of partitions included."""
        stored = self._files.read_partial(row.path, names)
        found = {name: stored.column(name)[row.index].as_py() for name in stored.column_names}
        partition = self._files.partition_values(row.path)
        return {name.lower(): partition.get(name, found.get(name)) for name in names}

    def _newest(self, after: int) -> Iterator[int]:
        """Return the newest versions after one, up to that of this trace, the newest first."""
        versions = [version for version in self._log.versions() if after < version <= self.version]
        return reversed(versions[-MOST_VERSIONS:])

    def _find_in(self, path: str, key: Position, mask: pa.Array | None) -> list[FoundRow]:
        keys = self._files.keys(self._order).read(FileStatistics(path=path, row_count=0))
        places = _places(keys, self._order, key)
        shown = [place for place in places if mask is None or place >= len(mask) or mask[place].as_py()]
        return [FoundRow(path, place) for place in shown]

    def _removes(self, version: int, key: Position) -> bool:
        actions = self._log.actions(version) or []
        if feed := files_of(actions, "cdc"):
            return any(self._has(path, key) for path in feed)
        added = set(files_of(actions, "add"))
        gone = [path for path in files_of(actions, "remove", changes_rows) if path not in added]
        return any(self._has(path, key) for path in gone)

    def _has(self, path: str, key: Position) -> bool:
        with suppress(DataFileError):
            return bool(_places(self._keys_in(path), self._order, key))
        return False

    def _keys_in(self, path: str) -> pa.Table:
        if not {*self._order.names}.isdisjoint(self._table.metadata().partition_columns):
            raise DataFileError(f"the partition of {path}, which is no longer a file of {self._location}, is not known")
        return self._files.keys(self._order).read(FileStatistics(path=path, row_count=0))

    def _added(self, path: str) -> tuple[int, list[dict[str, dict[str, Any]]] | None]:
        """Return the commit that added a file first, and its entries; ``None`` if it was cleaned up from the log."""
        name = path.rpartition("/")[2].encode()
        versions = [version for version in self._log.versions() if version <= self.version]
        first: tuple[int, list[dict[str, dict[str, Any]]] | None] = (versions[0], None)
        for version in reversed(versions):
            if any(name in line for line in self._log.lines(version)):
                actions = self._log.actions(version) or []
                if path in files_of(actions, "add"):
                    first = version, actions
                    if path not in files_of(actions, "remove"):
                        break
        return first

    def _same_row(self, row: FoundRow, paths: Sequence[str], key: Position) -> FoundRow | DataFileError | None:
        """Return the equal row in one of some files; the error if one of them is gone and no other has it."""
        gone: DataFileError | None = None
        wanted = self._whole(row)
        for path in paths:
            try:
                for place in _places(self._keys_in(path), self._order, key):
                    if self._whole(FoundRow(path, place)) == wanted:
                        return FoundRow(path, place)
            except DataFileError as error:
                gone = error
        return gone

    def _whole(self, row: FoundRow) -> str:
        """Return all values of a row, in a form in which equal rows are equal whatever wrote the file."""
        names = [field.name for field in self._table.schema().fields]
        rows = self._files.read_partial(row.path, names)
        return repr(sorted((name, rows.column(name)[row.index].as_py()) for name in rows.column_names))

    def _tracked(self, row: FoundRow) -> int | None:
        configuration = self._table.metadata().configuration
        if str(configuration.get(ROW_TRACKING, "")).lower() != "true":
            return None
        name = configuration.get(_VERSION_COLUMN, "")
        with suppress(pa.ArrowException, OSError):
            stored = read_stored(self._files.storage, row.path, [name])
            value = stored.column(name)[row.index].as_py() if name in stored.column_names else None
            if value is not None:
                return int(value)
        _, actions = self._added(row.path)
        for action in actions or ():
            added = action.get("add", {})
            if unquote(str(added.get("path", ""))) == row.path and "defaultRowCommitVersion" in added:
                return int(added["defaultRowCommitVersion"])
        return None


def _places(keys: pa.Table, order: KeyOrder, key: Position) -> list[int]:
    """Return where some rows have a key; a null is equal to a null."""
    matches: Iterator[Any] = (
        pc.is_null(keys.column(field.name))
        if value is None
        else pc.fill_null(pc.equal(keys.column(field.name), pa.scalar(value, arrow_type(field))), False)
        for field, value in zip(order.fields, key, strict=True)
    )
    mask = next(matches, None)
    if mask is None:
        return [*range(keys.num_rows)]
    for match in matches:
        mask = pc.and_(mask, match)
    return [int(place) for place in pc.indices_nonzero(mask.combine_chunks()).to_pylist()]
