"""
Reads the small data files of a control table in an object store, each once.

A data file never changes, and an epoch asks for the newest rows again and again. deltalake reads a file with three
requests, one after the other, and one file after the other. To read a whole file, two are enough.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from functools import cached_property
from io import BytesIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler

from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.state.conditions import Since

_LARGEST = 256 << 10
_MOST_FILES = 64


class FileRows:
    """
    The rows of a table's data files.

    :param location: the table's canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, location: str, storage_options: Mapping[str, str] | None) -> None:
        self._location = location
        self._options = dict(storage_options or {})
        self._known: OrderedDict[str, pa.Table] = OrderedDict()

    @cached_property
    def _storage(self) -> arrow_fs.FileSystem:
        return arrow_fs.PyFileSystem(DeltaStorageHandler(self._location, self._options))

    def read(self, table: DeltaTable, since: Since | None) -> pa.Table | None:
        """
        Return the rows of an open table's version, with the columns of its files.

        :param since: the rows to return; all by default.
        :returns: ``None`` if deltalake should read them: the table is local, or a local copy, and so reading it is
            fast; or its files are large, or have to be read in a special way.
        :raises OSError: if a file cannot be read.
        :raises ValueError: if a file is damaged.
        """
        if is_local(str(table.table_uri).removeprefix("file://")) or table.protocol().reader_features:
            return None
        files = pa.table(table.get_add_actions(flatten=True))
        if not files.num_rows:
            return None
        if since is not None and (bounds := f"max.{since.column}") in files.column_names:
            may_have = pc.fill_null(pc.greater_equal(files.column(bounds), since.value), True)
            files = files.filter(may_have)
        paths = files.column("path").to_pylist()
        if not paths or len(paths) > _MOST_FILES or max(files.column("size_bytes").to_pylist()) > _LARGEST:
            return None
        rows = pa.concat_tables(map(self._rows_of, paths))
        if since is None:
            return rows
        return rows.filter(pc.greater_equal(rows.column(since.column), since.value))

    def _rows_of(self, path: str) -> pa.Table:
        rows = self._known.get(path)
        if rows is None:
            with self._storage.open_input_file(path) as file:
                rows = pq.read_table(BytesIO(file.read()))
            self._known[path] = rows
        self._known.move_to_end(path)
        while len(self._known) > _MOST_FILES:
            self._known.popitem(last=False)
        return rows
