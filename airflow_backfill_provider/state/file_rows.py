"""
Reads the small data files of a control table in an object store, each once.

A data file never changes, and an epoch asks for the newest rows again and again. deltalake reads a file with three
requests, one after the other, and one file after the other. To read a whole file, two are enough.
"""

from __future__ import annotations

from io import BytesIO

import pyarrow as pa
import pyarrow.compute as pc
from cachetools import LRUCache
from deltalake import DeltaTable

from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.stored_parquet import StoredParquet
from airflow_backfill_provider.state.conditions import AtLeast

_LARGEST = 256 << 10
_MOST_FILES = 64


class FileRows:
    """
    The rows of a table's data files.

    :param log: the table's log, which reads the files.
    """

    def __init__(self, log: DeltaLog) -> None:
        self._log = log
        self._known: LRUCache[str, pa.Table] = LRUCache(_MOST_FILES)

    def read(self, table: DeltaTable, since: AtLeast | None) -> pa.Table | None:
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
        if path not in self._known:
            self._known[path] = StoredParquet(BytesIO(self._log.content(path))).read()
        return self._known[path]
