"""
Rows of a stamped table with the places where they lie, and how they are replaced without a MERGE.

See :mod:`~airflow_backfill_provider.lake.log.replaced_rows`. As with appends, that is done on one machine, in a plain
local table; on a cluster and in an object store, a MERGE replaces the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.scan.columns import own_columns
from airflow_backfill_provider.lake.log.plain_tables import PlainTable
from airflow_backfill_provider.lake.log.replaced_rows import Replacement, replace_rows
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.spark.appending import plain_here
from airflow_backfill_provider.spark.stamped_table import StampedTable
from airflow_backfill_provider.spark.stamps import epoch_transaction


@dataclass(frozen=True, slots=True)
class Places:
    """
    The columns that say where a row lies.

    :param file: the name of the one with the name of the data file.
    :param row: the name of the one with the row's number in the file.
    :param table: the table as it was when the rows were read.
    """

    file: str
    row: str
    table: PlainTable

    @property
    def names(self) -> tuple[str, str]:
        """Both names."""
        return self.file, self.row


@dataclass(frozen=True, slots=True)
class KnownRows:
    """
    Rows of a table as of a version.

    :param rows: the table's columns, and those of the places.
    :param columns: the table's columns.
    :param places: the columns of the places; ``None`` if rows cannot be replaced by them.
    """

    rows: DataFrame
    version: int
    columns: tuple[str, ...]
    places: Places | None

    @classmethod
    def of(cls, table: StampedTable, version: int) -> KnownRows:
        """Read the rows of a table, with their places if that is of use."""
        rows = table.read_at(version)
        columns = tuple(rows.columns)
        plain = plain_here(table.spark, table.path)
        if plain is None or not (plain.hides_rows and plain.is_flat):
            return cls(rows, version, columns, None)
        own = own_columns(columns)
        places = Places(own.named("file"), own.named("row"), plain)
        found = rows.select(
            *map(column, columns),
            F.col("_metadata.file_name").alias(places.file),
            F.col("_metadata.row_index").alias(places.row),
        )
        return cls(found, version, columns, places)

    @property
    def schema(self) -> StructType:
        """The table's columns."""
        return StructType([self.rows.schema[name] for name in self.columns])

    def among(self, rows: DataFrame) -> KnownRows:
        """Return some of these rows."""
        return replace(self, rows=rows)

    def without_places(self) -> KnownRows:
        """Return the same rows without their places."""
        return replace(self, rows=self.rows.select(*map(column, self.columns)), places=None)


def replace_placed(
    table: StampedTable,
    rows: DataFrame,
    known: KnownRows,
    part: str,
    identity: ViewIdentity,
    barrier: Barrier,
) -> bool:
    """
    Replace few rows of a table, once per epoch and part.

    :param rows: the table's columns and the places. A row with a place goes; one without a place comes.
    :param known: the rows among which those that go were found.
    :returns: whether the part is written. If it is not, the table has moved on, and nothing is written.
    """
    places = known.places
    if places is None:
        return False
    transaction = epoch_transaction(identity, part, barrier)

    def write() -> None:
        replacement = _replacement(
            rows.select(*map(column, known.columns), *places.names).toArrow(), known.columns, places
        )
        replace_rows(table.path, replacement, places.table, known.version, transaction)

    return table.once(part, identity, barrier, write, may_be_empty=True)


def _replacement(found: pa.Table, columns: Sequence[str], places: Places) -> Replacement:
    goes = pc.is_valid(found.column(places.row))
    gone = found.filter(goes)
    by_file: dict[str, set[int]] = {}
    for file, row in zip(*(gone.column(name).to_pylist() for name in places.names), strict=True):
        by_file.setdefault(file, set()).add(row)
    return Replacement(by_file, gone.select(columns), found.filter(pc.invert(goes)).select(columns))
