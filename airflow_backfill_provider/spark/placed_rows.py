"""
Rows of a stamped table with the places where they lie, and how they are replaced without a MERGE.

:mod:`~airflow_backfill_provider.lake.tables.rows_by_value` finds them, and
:mod:`~airflow_backfill_provider.lake.log.replaced_rows` replaces them. As with appends, that is done on one machine, in
a plain local table; on a cluster and in an object store, a MERGE replaces the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.scan.columns import own_columns
from airflow_backfill_provider.lake.log.plain_tables import PlainTable
from airflow_backfill_provider.lake.log.replaced_rows import Replacement, replace_rows
from airflow_backfill_provider.lake.tables.rows_by_value import rows_by_value
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.sources.shared.hidden_rows import ROW_INDEX
from airflow_backfill_provider.spark.appending import plain_here
from airflow_backfill_provider.spark.small_changes import are_few
from airflow_backfill_provider.spark.stamped_table import StampedTable
from airflow_backfill_provider.spark.stamps import epoch_transaction
from airflow_backfill_provider.spark.touched_units import TouchedUnits


@dataclass(frozen=True, slots=True)
class Places:
    """
    The columns that say where a row lies.

    :param file: the name of the one with the address of the data file, or with its path in the log.
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

    @property
    def schema(self) -> StructType:
        """The table's columns, and those of the places."""
        columns = StructType.fromJson({"type": "struct", "fields": [*self.table.fields]})
        return columns.add(self.file, "string").add(self.row, "long")


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


@dataclass(frozen=True, slots=True)
class KnownTable:
    """
    A table as of a version, of which nothing is read yet.

    :param places: the columns that :meth:`of_units` adds for the places; ``None`` if rows cannot be replaced by them.
    """

    table: StampedTable
    version: int
    places: Places | None

    @classmethod
    def of(cls, table: StampedTable, version: int) -> KnownTable:
        """Look at a table."""
        plain = plain_here(table.spark, table.path)
        if plain is None or not (plain.hides_rows and plain.is_flat):
            return cls(table, version, None)
        own = own_columns(field["name"] for field in plain.fields)
        return cls(table, version, Places(own.named("file"), own.named("row"), plain))

    def of_units(self, units: TouchedUnits | None, within: Iterable[str] = ()) -> KnownRows:
        """
        Return the rows of some units, with their places if that is of use.

        :param units: the units; ``None`` for all rows.
        :param within: further conditions that these rows meet, as SQL.
        """
        if units is not None and self.places is not None:
            found = self._found(units, self.places)
            if found is not None:
                return self.among(found)
        rows = self.table.read_at(self.version)
        # These come first: no condition is pushed down to the files past the name of a row's file.
        for condition in (*within, *(units.within() if units else ())):
            rows = rows.filter(condition)
        if self.places is not None:
            rows = self._placed(rows, self.places)
        return self.among(rows if units is None else units.rows_in(rows))

    def among(self, rows: DataFrame) -> KnownRows:
        """Return some of the table's rows."""
        places = self.places.names if self.places else ()
        return KnownRows(rows, self.version, tuple(name for name in rows.columns if name not in places), self.places)

    def _found(self, units: TouchedUnits, places: Places) -> DataFrame | None:
        """Find the rows without Spark; ``None`` if it has to find them."""
        if not are_few(units.number, len(units.columns), units.value_bytes):
            return None
        wanted = units.rows.select(*map(column, units.columns)).toArrow()
        found = rows_by_value(self.table.path, self.version, places.table, wanted, places.names)
        if found is None:
            return None
        # Spark takes a batch without rows for the end.
        return self.table.spark.createDataFrame(found.combine_chunks(), places.schema)

    def _placed(self, rows: DataFrame, places: Places) -> DataFrame:
        number = rows.metadataColumn("_metadata").getField(ROW_INDEX)
        # Of the metadata only the number: a name there would be copied for each row of the table.
        named = F.input_file_name().alias(places.file)
        return rows.select(*map(column, rows.columns), named, number.alias(places.row))


def replace_placed(
    table: StampedTable,
    rows: DataFrame,
    known: KnownRows,
    part: str,
    identity: ViewIdentity,
    barrier: Barrier,
    *,
    is_updated: str,
) -> bool:
    """
    Replace few rows of a table, once per epoch and part.

    :param rows: the table's columns, the places and the flag. A row with a place goes; one without a place comes.
    :param known: the rows among which those that go were found.
    :param is_updated: the name of the flag that a row goes because another comes in its place, or comes in one.
    :returns: whether the part is written. If it is not, the table has moved on, and nothing is written.
    """
    places = known.places
    if places is None:
        return False
    transaction = epoch_transaction(identity, part, barrier)

    def write() -> None:
        found = rows.select(*map(column, known.columns), *places.names, is_updated).toArrow()
        replacement = _replacement(found, known.columns, places, is_updated)
        replace_rows(table.path, replacement, places.table, known.version, transaction)

    return table.once(part, identity, barrier, write, may_be_empty=True)


def _replacement(found: pa.Table, columns: Sequence[str], places: Places, is_updated: str) -> Replacement:
    goes = pc.is_valid(found.column(places.row))
    gone, come = found.filter(goes), found.filter(pc.invert(goes))
    by_file: dict[str, set[int]] = {}
    for file, row in zip(*(gone.column(name).to_pylist() for name in places.names), strict=True):
        by_file.setdefault(file, set()).add(row)
    by_file = {unquote(file.rpartition("/")[2]): numbers for file, numbers in by_file.items()}
    flags = (gone.column(is_updated), come.column(is_updated))
    return Replacement(by_file, gone.select(columns), come.select(columns), flags)
