"""Writers of upstreams: each makes the table, and commits changes to it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.job.sql import quote
from faults.shapes.case import Case, Column
from faults.shapes.rows import Change, Row, as_arrow
from faults.shapes.values import sql_type, stored_type

FEED = {"delta.enableChangeDataFeed": "true"}


class Writer(Protocol):
    """One writer of one table."""

    def make(self, batches: Sequence[Sequence[Row]]) -> None:
        """Make the table with these rows, with about one file for each batch."""
        ...

    def write(self, kind: str, change: Change) -> None:
        """Commit a change."""
        ...


def newest_version(path: Path) -> int:
    """Return a table's newest version according to the files of its log."""
    return max(int(file.stem) for file in (path / "_delta_log").glob("*.json") if file.stem.isdigit())


def frame(spark: SparkSession, columns: Sequence[Column], rows: Sequence[Row], names: Sequence[str] = ()) -> DataFrame:
    """Return rows as a Spark frame with the columns' types."""
    names = names or [column.name for column in columns]
    # By number, because Spark would look up a name with a dot as a field.
    numbers = [f"c{i}" for i in range(len(columns))]
    # Spark would interpret timestamps without a time zone as ones with a time zone.
    types = ", ".join(f"{number} {stored_type(column.type)}" for number, column in zip(numbers, columns, strict=True))
    schema: Any = StructType.fromDDL(types)
    made: DataFrame = spark.createDataFrame(as_arrow(columns, rows, numbers), schema)
    found = (F.parse_json(F.col(n)) if c.type == "variant" else F.col(n) for n, c in zip(numbers, columns, strict=True))
    return made.select(*(one.alias(name) for one, name in zip(found, names, strict=True)))


class DeltaRsWriter:
    """
    Writes with deltalake, which is delta-rs.

    :param path: the table's folder.
    """

    def __init__(self, case: Case, path: Path) -> None:
        self._case = case
        self._path = str(path)

    def make(self, batches: Sequence[Sequence[Row]]) -> None:
        """Append each batch as a version."""
        for rows in batches:
            self._write(rows, "append")

    def write(self, kind: str, change: Change) -> None:
        """Append new rows, or rewrite all rows."""
        if change.added:
            self._write(change.added, "append")
        else:
            self._write(change.after, "overwrite")
        del kind

    def _write(self, rows: Sequence[Row], mode: Any) -> None:
        write_deltalake(
            self._path,
            as_arrow(self._case.written, rows),
            mode=mode,
            configuration={**FEED, **self._case.properties},
            partition_by=[self._case.partition] if self._case.partition else None,
        )


class SparkWriter:
    """
    Writes with Spark's SQL, and has all features of Delta's tables.

    :param spark: a session that no epoch runs in.
    :param path: the table's folder.
    """

    def __init__(self, case: Case, spark: SparkSession, path: Path) -> None:
        self._case = case
        self._spark = spark
        self._path = str(path)
        self._table = f"delta.{quote(self._path)}"

    def make(self, batches: Sequence[Sequence[Row]]) -> None:
        """Create the table, fill it, and alter its columns to their final definition."""
        case = self._case
        columns = ", ".join([*map(self._definition, case.columns), *case.extra])
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in {**FEED, **case.properties}.items())
        self._spark.sql(
            f"CREATE TABLE {self._table} ({columns}) USING delta {case.layout} TBLPROPERTIES ({properties})"
        )
        for column in case.columns:
            if column.stored:
                self._spark.sql(
                    f"ALTER TABLE {self._table} RENAME COLUMN {quote(column.stored)} TO {quote(column.name)}"
                )
        for i, constraint in enumerate(case.constraints):
            self._spark.sql(f"ALTER TABLE {self._table} ADD CONSTRAINT check_{i} CHECK ({constraint})")
        narrow, wide = self._widened([row for batch in batches for row in batch])
        if any(column.widened_from for column in case.columns):
            batches = [narrow, wide]
        for i, rows in enumerate(batches):
            if rows:
                self._append(rows)
            if i == 0:
                for column in case.columns:
                    if column.widened_from:
                        wider = f"ALTER COLUMN {quote(column.name)} TYPE {sql_type(column.type)}"
                        self._spark.sql(f"ALTER TABLE {self._table} {wider}")

    def write(self, kind: str, change: Change) -> None:
        """Append, merge, rewrite all rows, or rewrite only files."""
        if kind == "rewrite":
            self._spark.sql(f"OPTIMIZE {self._table}")
        elif change.added:
            self._append(change.added)
        elif kind == "swap":
            self._insert("OVERWRITE", change.after)
        else:
            self._merge(change)

    def alter(self, statement: str) -> None:
        """Change the table's definition."""
        self._spark.sql(f"ALTER TABLE {self._table} {statement}")

    def _definition(self, column: Column) -> str:
        name, kind = column.stored or column.name, sql_type(column.widened_from or column.type)
        computed = f" GENERATED ALWAYS AS ({column.computed})" if column.computed else ""
        return f"{quote(name)} {kind} {column.clause}{computed}"

    def _widened(self, rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
        """Divide rows by whether their values fit the narrower types."""
        bits = {"byte": 7, "short": 15, "integer": 31}
        narrow: list[Row] = []
        wide: list[Row] = []
        for row in rows:
            fits = all(
                value is None
                or not column.widened_from
                or -(2 ** bits[column.widened_from]) <= value < 2 ** bits[column.widened_from]
                for column, value in zip(self._case.written, row, strict=True)
            )
            (narrow if fits else wide).append(row)
        return narrow, wide

    def _append(self, rows: Sequence[Row]) -> None:
        self._insert("INTO", rows)

    def _insert(self, how: str, rows: Sequence[Row]) -> None:
        listed = ", ".join(quote(column.name) for column in self._case.written)
        with self._as_view(frame(self._spark, self._case.written, rows).coalesce(1)) as view:
            self._spark.sql(f"INSERT {how} {self._table} ({listed}) SELECT * FROM {view}")

    @contextmanager
    def _as_view(self, rows: DataFrame) -> Iterator[str]:
        view = f"rows_{uuid.uuid4().hex}"
        rows.createOrReplaceTempView(view)
        try:
            yield view
        finally:
            self._spark.catalog.dropTempView(view)

    def _merge(self, change: Change) -> None:
        columns, key = self._case.written, self._case.key_indices
        nothing = (None,) * len(columns)
        old = [tuple((before or nothing)[i] for i in key) for before, _ in change.pairs]
        kinds = [
            "insert" if before is None else "delete" if after is None else "update" for before, after in change.pairs
        ]
        rows = [
            (what, *was, *(after or nothing)) for what, was, (_, after) in zip(kinds, old, change.pairs, strict=True)
        ]
        keys = [columns[i] for i in key]
        described = (Column(name="kind", type="string"), *keys, *columns)
        names = ["kind", *(f"old_{i}" for i in key), *(f"new_{i}" for i in range(len(columns)))]
        on = " AND ".join(f"t.{quote(columns[i].name)} <=> s.old_{i}" for i in key)
        sets = ", ".join(f"t.{quote(column.name)} = s.new_{i}" for i, column in enumerate(columns))
        listed = ", ".join(quote(column.name) for column in columns)
        values = ", ".join(f"s.new_{i}" for i in range(len(columns)))
        with self._as_view(frame(self._spark, described, rows, names)) as view:
            self._spark.sql(
                f"MERGE INTO {self._table} t USING {view} s ON s.kind <> 'insert' AND {on} "
                f"WHEN MATCHED AND s.kind = 'delete' THEN DELETE WHEN MATCHED THEN UPDATE SET {sets} "
                f"WHEN NOT MATCHED THEN INSERT ({listed}) VALUES ({values})"
            )
