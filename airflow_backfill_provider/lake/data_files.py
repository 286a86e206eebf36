"""
The data files of one version of a Delta table: their rows, and bounds of their keys from the log's statistics.

Statistics are hints: rounded, or missing. Bounds are rounded outwards, so that no key of a file lies beyond them.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler

from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.core.keys import KeyKind, KeyOrder, KeyValue
from airflow_backfill_provider.core.planner import FileStatistics
from airflow_backfill_provider.lake.key_index import ArrowKeyIndex


class DataFiles:
    """
    The data files of an opened version.

    :param table: the opened table.
    :param path: its canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, table: DeltaTable, path: str, storage_options: Mapping[str, str]) -> None:
        self._table = table
        self._path = path
        self._options = dict(storage_options)

    def row_count(self) -> int:
        """Return the number of rows by the statistics; deleted ones may be counted."""
        actions = pa.table(self._table.get_add_actions(flatten=True))
        return sum(count or 0 for count in actions.column("num_records").to_pylist())

    def size(self) -> int:
        """Return their bytes."""
        actions = pa.table(self._table.get_add_actions(flatten=True))
        return sum(actions.column("size_bytes").to_pylist())

    def statistics(self, order: KeyOrder) -> tuple[list[FileStatistics], ArrowKeyIndex]:
        """
        Return the files with bounds of their keys, and the means to read exact keys.

        :param order: the key's columns.
        :raises UpstreamError: if files lie outside of the table's folder.
        """
        return self.files(order), self.keys(order)

    def keys(self, order: KeyOrder) -> ArrowKeyIndex:
        """Return the means to read exact keys."""
        partitioned = [name for name in order.names if name in self._table.metadata().partition_columns]
        values = {
            _file_path(action["path"], self._path): {name: action[f"partition.{name}"] for name in partitioned}
            for action in self._actions()
        }
        return ArrowKeyIndex(self.storage, order, physical_names_of(self._table), values if partitioned else {})

    def files(self, order: KeyOrder) -> list[FileStatistics]:
        """
        Return the files with bounds of their keys.

        :raises UpstreamError: if files lie outside of the table's folder.
        """
        physical_names = physical_names_of(self._table)
        partitioned = [name for name in order.names if name in self._table.metadata().partition_columns]
        files = []
        for action in self._actions():
            path = _file_path(action["path"], self._path)
            rows = action.get("num_records")
            files.append(
                FileStatistics(
                    path=path,
                    row_count=_stored_rows(self.storage, path) if rows is None else rows,
                    size=action["size_bytes"],
                    lower=tuple(_bounds(action, order, physical_names, partitioned, lower=True)),
                    upper=tuple(_bounds(action, order, physical_names, partitioned, lower=False)),
                )
            )
        return files

    @cached_property
    def storage(self) -> arrow_fs.FileSystem:
        """File system rooted at the table."""
        return arrow_fs.PyFileSystem(DeltaStorageHandler(self._path, self._options))

    def read(self, path: str, columns: Sequence[str]) -> pa.Table:
        """Return some columns of one data file, under their own names."""
        physical_names = physical_names_of(self._table)
        with self.storage.open_input_file(path) as source:
            stored = pq.ParquetFile(source, coerce_int96_timestamp_unit="us").read(
                columns=[physical_names[name] for name in columns]
            )
        return stored.select([physical_names[name] for name in columns]).rename_columns(list(columns))

    def _actions(self) -> list[dict[str, Any]]:
        actions: list[dict[str, Any]] = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        return actions


def physical_names_of(table: DeltaTable) -> dict[str, str]:
    """Return, for each column, its name in files and statistics."""
    fields = json.loads(table.schema().to_json())["fields"]
    return {field["name"]: field["metadata"].get("delta.columnMapping.physicalName", field["name"]) for field in fields}


def _file_path(written: str, table: str) -> str:
    path = unquote(written)
    if path.startswith("/") or "://" in path:
        raise UpstreamError(
            f"{table} refers to data files outside of its folder (a shallow clone); materialize views over the "
            "original, or make a deep copy"
        )
    return path


def _stored_rows(storage: arrow_fs.FileSystem, path: str) -> int:
    with storage.open_input_file(path) as source:
        return int(pq.ParquetFile(source).metadata.num_rows)


def _bounds(
    action: Mapping[str, Any],
    order: KeyOrder,
    physical_names: Mapping[str, str],
    partitioned: Iterable[str],
    *,
    lower: bool,
) -> Iterable[KeyValue | None]:
    """
    Yield bounds of the leading key columns, ending before the first one without statistics.

    Column-wise bounds bound the key as a whole, because keys are compared column by column.
    """
    for field in order.fields:
        if field.name in partitioned:
            yield action[f"partition.{field.name}"]
            continue
        name = physical_names[field.name]
        nulls = action.get(f"null_count.{name}")
        if nulls is None:
            return
        if lower and nulls:
            yield None
            continue
        if nulls == action.get("num_records"):
            yield None
            continue
        smallest, largest = action.get(f"min.{name}"), action.get(f"max.{name}")
        if smallest is None or largest is None:
            return
        if field.kind in {KeyKind.TIMESTAMP, KeyKind.TIMESTAMP_NTZ}:
            # Statistics keep milliseconds, so the real maximum may lie up to one behind.
            latest = dt.datetime.max.replace(tzinfo=largest.tzinfo)
            largest += min(dt.timedelta(milliseconds=1), latest - largest)
        yield smallest if lower != field.descending else largest
