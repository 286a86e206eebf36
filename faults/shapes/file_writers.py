"""Writers without Spark: a log made by hand, and Parquet files that were converted to a table."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote as url_quote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.job.sql import quote
from faults.shapes.case import Case, Column
from faults.shapes.rows import Change, Row, as_arrow
from faults.shapes.statistics import statistics
from faults.shapes.values import sql_type
from faults.shapes.writers import FEED, newest_version

Action = dict[str, Any]

_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_STRUCT = {
    "type": "struct",
    "fields": [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("a", "integer"), ("b", "string"))
    ],
}
_NESTED: dict[str, Any] = {
    "array<integer>": {"type": "array", "elementType": "integer", "containsNull": True},
    "map<string,integer>": {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": True},
    "struct<a:integer,b:string>": _STRUCT,
    "array<struct<a:integer,b:string>>": {"type": "array", "elementType": _STRUCT, "containsNull": True},
}


class LogWriter:
    """
    Writes Parquet files, and each commit of the log by hand.

    :param path: the table's folder.
    """

    def __init__(self, case: Case, path: Path) -> None:
        self._case = case
        self._path = path
        self._files: dict[str, list[Row]] = {}

    def make(self, batches: Sequence[Sequence[Row]]) -> None:
        """Commit the table with a file of each batch."""
        (self._path / "_delta_log").mkdir(parents=True)
        adds = [self._add(rows) for batch in batches for rows in self._by_partition(batch)]
        self._commit(0, [{"protocol": self._protocol()}, {"metaData": self._metadata()}, *adds])

    def write(self, kind: str, change: Change) -> None:
        """Commit new files, and replace those files that hold removed rows."""
        gone = [old for old, _ in change.pairs if old is not None]
        actions: list[Action] = []
        kept: list[Row] = [new for _, new in change.pairs if new is not None]
        for name, rows in list(self._files.items()):
            left = [row for row in rows if not any(row is old for old in gone)]
            if len(left) < len(rows) or kind == "rewrite":
                actions.append(self._remove(name, changes_rows=kind != "rewrite"))
                del self._files[name]
                kept += left
        actions += [self._add(rows, changes_rows=kind != "rewrite") for rows in self._by_partition(kept)]
        self._commit(newest_version(self._path) + 1, actions)

    def _by_partition(self, rows: Sequence[Row]) -> list[list[Row]]:
        if not self._case.partition:
            return [list(rows)] if rows else []
        index = [column.name for column in self._case.written].index(self._case.partition)
        found: dict[Any, list[Row]] = {}
        for row in rows:
            found.setdefault(row[index], []).append(row)
        return list(found.values())

    def _add(self, rows: Sequence[Row], *, changes_rows: bool = True) -> Action:
        name = f"part-{uuid.uuid4().hex}.parquet"
        self._put(name, rows)
        self._files[name] = list(rows)
        stored = [(i, column) for i, column in enumerate(self._case.written) if column.name != self._case.partition]
        found = statistics(
            self._case.statistics,
            [column for _, column in stored],
            [tuple(row[i] for i, _ in stored) for row in rows],
            [column.stored or column.name for _, column in stored],
        )
        action = {
            "path": name,
            "partitionValues": self._partition_values(rows),
            "size": (self._path / name).stat().st_size,
            "modificationTime": int(time.time() * 1000),
            "dataChange": changes_rows,
        }
        return {"add": action if found is None else {**action, "stats": found}}

    def _remove(self, name: str, *, changes_rows: bool) -> Action:
        return {
            "remove": {
                "path": name,
                "deletionTimestamp": int(time.time() * 1000),
                "dataChange": changes_rows,
                "extendedFileMetadata": True,
                "partitionValues": self._partition_values(self._files[name]),
                "size": (self._path / name).stat().st_size,
            }
        }

    def _partition_values(self, rows: Sequence[Row]) -> dict[str, str | None]:
        for i, column in enumerate(self._case.written):
            if column.name == self._case.partition:
                value = rows[0][i]
                return {column.stored or column.name: None if value is None else str(value)}
        return {}

    def _put(self, name: str, rows: Sequence[Row]) -> None:
        """Write a data file with the column order and names of the case."""
        columns = self._case.written
        # Only half of the files are odd, as after a change of writer.
        odd = self._case.odd_files if len(self._files) % 2 == 0 else ""
        names = [column.stored or column.name for column in columns]
        if odd == "upper":
            names = [one.swapcase() if one.isascii() else one for one in names]
        table = as_arrow(columns, rows, names)
        fields = [
            pa.field(one, field.type, metadata={"PARQUET:field_id": str(i)} if self._case.mapping else None)
            for i, (one, field) in enumerate(zip(names, table.schema, strict=True), 1)
        ]
        table = pa.Table.from_arrays(table.columns, schema=pa.schema(fields))
        kept = [i for i, column in enumerate(columns) if column.name != self._case.partition]
        if odd == "reordered":
            kept.reverse()
        file = self._path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.select(kept), file)

    def _protocol(self) -> Action:
        ntz = any(column.type == "timestamp_ntz" for column in self._case.columns)
        reader, writer = ["timestampNtz"] * ntz, ["changeDataFeed", *["timestampNtz"] * ntz]
        if self._case.mapping:
            reader, writer = [*reader, "columnMapping"], [*writer, "columnMapping"]
        found: Action = {"minReaderVersion": 3 if reader else 1, "minWriterVersion": 7, "writerFeatures": writer}
        return {**found, "readerFeatures": reader} if reader else found

    def _metadata(self) -> Action:
        mapped = {"delta.columnMapping.mode": self._case.mapping, "delta.columnMapping.maxColumnId": "99"}
        return {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(
                {"type": "struct", "fields": [self._field(i, one) for i, one in enumerate(self._case.written, 1)]}
            ),
            "partitionColumns": [self._case.partition] if self._case.partition else [],
            "configuration": {**FEED, **self._case.properties, **(mapped if self._case.mapping else {})},
            "createdTime": int(time.time() * 1000),
        }

    def _field(self, number: int, column: Column) -> Action:
        mapped = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": column.stored or column.name}
        kind = _NESTED.get(column.type, column.type)
        return {"name": column.name, "type": kind, "nullable": True, "metadata": mapped if self._case.mapping else {}}

    def _commit(self, version: int, actions: Sequence[Action]) -> None:
        info = {"timestamp": int(time.time() * 1000), "operation": "WRITE", "operationParameters": {}}
        lines = [json.dumps(action) for action in ({"commitInfo": info}, *actions)]
        file = self._path / "_delta_log" / f"{version:020d}.json"
        file.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


class ConvertWriter(LogWriter):
    """
    Makes a table from Parquet files by CONVERT TO DELTA; later commits are made by hand.

    :param spark: a session that no epoch runs in.
    """

    def __init__(self, case: Case, spark: SparkSession, path: Path) -> None:
        super().__init__(case, path)
        self._spark = spark

    def make(self, batches: Sequence[Sequence[Row]]) -> None:
        """Convert the files of a catalog table, so that column names come from the schema and not from the files."""
        columns = [column for column in self._case.written if column.name != self._case.partition]
        definitions = [f"{quote(column.name)} {sql_type(column.type)}" for column in columns]
        partition = next((one for one in self._case.written if one.name == self._case.partition), None)
        by = f" PARTITIONED BY ({quote(partition.name)})" if partition else ""
        if partition:
            definitions.append(f"{quote(partition.name)} {sql_type(partition.type)}")
        for batch in batches:
            for rows in self._by_partition(batch):
                name = f"{_folder(self._partition_values(rows))}part-{uuid.uuid4().hex}.parquet"
                self._put(name, rows)
                self._files[name] = list(rows)
        table = f"converted_{uuid.uuid4().hex}"
        self._spark.sql(
            f"CREATE TABLE {table} ({', '.join(definitions)}) USING parquet{by} LOCATION {_literal(str(self._path))}"
        )
        if partition:
            self._spark.sql(f"MSCK REPAIR TABLE {table}")
        without = " NO STATISTICS" if self._case.statistics == "none" else ""
        self._spark.sql(f"CONVERT TO DELTA {table}{without}")
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in {**FEED, **self._case.properties}.items())
        self._spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({properties})")
        self._spark.sql(f"DROP TABLE {table}")

    def _remove(self, name: str, *, changes_rows: bool) -> Action:
        found = super()._remove(name, changes_rows=changes_rows)
        # A path in the log is a URL.
        found["remove"]["path"] = url_quote(name)
        return found


def _folder(values: Mapping[str, str | None]) -> str:
    """Return the folder in which Hive keeps a partition."""
    return "".join(
        f"{url_quote(name, safe=' ')}={_NULL_PARTITION if value is None else url_quote(value, safe=' ')}/"
        for name, value in values.items()
    )


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
