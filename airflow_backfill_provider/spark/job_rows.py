"""
The job's rows of its upstream on Spark: the used columns, each row's vnode, and the changes.

The source reads the rows and changes; see :mod:`airflow_backfill_provider.sources.reader`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Self

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.epoch.barrier import Barrier, PinnedRange, PinnedRead, decoded
from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream
from airflow_backfill_provider.core.errors import DuplicateKeyError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.upstreams import field_of
from airflow_backfill_provider.core.scan.columns import OwnColumns, names_within, own_columns
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyField, KeyOrder, KeyRange
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.scan import with_key
from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.lake.tables.stored_keys import StoredKeys
from airflow_backfill_provider.sources.reader import CHANGE_OFFSET, CHANGE_TYPE, SourceReader
from airflow_backfill_provider.sources.shared.by_key import column, has_several
from airflow_backfill_provider.spark.counted_keys import counted_keys
from airflow_backfill_provider.spark.created_types import as_created
from airflow_backfill_provider.spark.key_numbers import count_if_single
from airflow_backfill_provider.spark.predicates import in_any, value_of, within, without_data_skipping
from airflow_backfill_provider.spark.row_units import RowUnits, with_units

_CHANGE_TYPE, _OFFSET = "change_type", "offset"

PlacedRows = Callable[[], DataFrame]
"""Reads the rows as of the offset that a job starts after, with all columns and those of positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRows:
    """
    The upstream's rows that belong to a job.

    :param location: the upstream's location, for messages.
    :param named: the upstream's field in the job's definition, likewise.
    :param reader: reads the upstream.
    :param types: the used columns and their types, as Delta writes them.
    :param key: the key's order.
    :param scan: the order of positions: that of the key, or of (vnode, key).
    :param distribution_key: the columns that a row's vnode is computed from.
    :param vnode_count: the number of vnodes.
    :param vnodes: the job's vnodes.
    :param keys: the job's range of keys.
    :param placed: reads the rows as of the offset that the job starts after, with the columns of positions, if the
        upstream itself does not have these columns.
    :param units: how the unit of each row is found, if rows are placed by the vnode and the columns of their units.
        Then only rows that belong to a unit are the job's.
    :param others: the rows of the upstreams that the units depend on beside this one, by their names.
    :param others_at: the offsets that these are read as of; see :meth:`beside`.
    """

    location: str
    named: str = "upstream"
    reader: SourceReader = field(compare=False, repr=False)
    types: Mapping[str, str]
    key: KeyOrder
    scan: KeyOrder
    distribution_key: Sequence[str]
    vnode_count: int
    vnodes: frozenset[int]
    keys: KeyRange
    placed: PlacedRows | None = field(default=None, compare=False, repr=False)
    units: RowUnits | None = field(default=None, repr=False)
    others: Mapping[str, JobRows] = field(default_factory=dict, compare=False, repr=False)
    others_at: Mapping[str, Offset] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        job: BackfillJob,
        reader: SourceReader,
        upstream: ResolvedUpstream,
        scan: KeyOrder | None = None,
        placed: PlacedRows | None = None,
        units: RowUnits | None = None,
    ) -> Self:
        """
        Return the rows that belong to a job.

        :param upstream: the upstream's columns as of the job's creation.
        :param scan: the order of positions; by default the key's order.
        :param placed: reads the rows with the columns of positions, if the upstream does not have these columns.
        :param units: how the unit of each row is found, if rows are placed by their units.
        """
        types = {found.name: found.type for found in upstream.columns}
        key = KeyOrder(
            tuple(
                KeyField(name=column.column, type=types[column.column], descending=column.descending)
                for column in job.upstream.key
            )
        )
        bounds = job.restrict_to.keys
        return cls(
            location=job.upstream.location,
            named=_field_of(job, job.lead_name),
            reader=reader,
            types=types,
            key=key,
            scan=scan or key,
            distribution_key=job.upstream.distribution_key,
            vnode_count=job.vnode_count,
            vnodes=job.vnodes,
            keys=KeyRange(key.decode(bounds.after), key.decode(bounds.up_to)),
            placed=placed,
            units=units,
        )

    @classmethod
    def of_other(cls, job: BackfillJob, name: str, reader: SourceReader, upstream: ResolvedUpstream) -> Self:
        """
        Return the rows of an upstream beside the one that leads: all of them, without positions.

        :param name: the upstream's name in the query.
        :param upstream: its columns as of the job's creation.
        """
        definition = job.all_upstreams[name]
        key = KeyOrder(
            tuple(
                KeyField(name=column.column, type=upstream.types[column.column], descending=column.descending)
                for column in definition.key
            )
        )
        return cls(
            location=definition.location,
            named=_field_of(job, name),
            reader=reader,
            types=upstream.types,
            key=key,
            scan=key,
            distribution_key=definition.distribution_key,
            vnode_count=job.vnode_count,
            vnodes=frozenset(range(job.vnode_count)),
            keys=EVERYTHING,
        )

    @property
    def columns(self) -> list[str]:
        """Names of the used columns."""
        return list(self.types)

    @property
    def has_key_positions(self) -> bool:
        """Whether positions are keys."""
        return self.scan == self.key

    @property
    def has_vnode_positions(self) -> bool:
        """Whether each vnode has a position of its own."""
        return self.own.vnode in self.scan.names

    @property
    def identity(self) -> KeyOrder:
        """The columns that identify a row among those that are read: the key, after the vnode if it has a position."""
        return with_key(self.scan, self.key) if self.has_vnode_positions else self.key

    @property
    def places(self) -> tuple[str, ...]:
        """The columns beside the used ones that say where a row lies: vnode and unit, if these have positions."""
        return tuple(name for name in self.identity.names if name not in self.types)

    @property
    def names(self) -> frozenset[str]:
        """Names of the used columns, and of all fields inside them."""
        return names_within(self.types)

    @property
    def own(self) -> OwnColumns:
        """The names of the package's own columns."""
        return own_columns(self.types)

    @property
    def is_restricted(self) -> bool:
        """Whether the job has only some of the vnodes."""
        return len(self.vnodes) < self.vnode_count

    @property
    def key_spans_vnodes(self) -> bool:
        """Whether rows with one key may lie in several vnodes, each with its own position."""
        # A row that moves to another unit is another row there, so its key need identify it only within a unit.
        by_row = self.has_vnode_positions and self.units is None
        return by_row and not set(self.distribution_key) <= set(self.key.names)

    def beside(self, offsets: Mapping[str, Offset]) -> Self:
        """
        Return the same rows, with the units that they have beside the other upstreams as of some offsets.

        :param offsets: those of all upstreams, by their names.
        """
        return replace(self, others_at={name: offsets[name] for name in self.others})

    def at_ends(self, barrier: Barrier) -> Self:
        """Return the same rows, with the units that they have beside the others as of the ends of their windows."""
        return self.beside({name: barrier.window(name).to_offset for name in self.others})

    def at(self, offset: Offset) -> DataFrame:
        """Return the used columns, the vnode, and the unit if it has a position, as of an offset."""
        return self._select(self.reader.rows(offset))

    def at_start(self) -> DataFrame:
        """
        Return the used columns, the vnode and the columns of positions, as of the offset that the job starts after.

        :raises TypeError: if the upstream itself has the columns of positions.
        """
        if self.placed is None:
            raise TypeError(f"positions of {self.location} are columns of the upstream")
        return self._select(self.placed(), *self.scan.names)

    def within(self, offset: Offset, ranges: Sequence[KeyRange]) -> DataFrame:
        """Return the rows in some ranges of the scan's order as of an offset, without skipping by statistics."""
        if EVERYTHING in ranges:
            return self.at(offset)
        rows = self.at(offset) if self.placed is None else self.at_start()
        return rows.filter(without_data_skipping(in_any(self.scan, ranges)))

    def as_read(self, reads: Sequence[PinnedRead]) -> DataFrame:
        """Return the rows of some reads, each as of the offset of its read; see :meth:`within`."""
        rows = [self.within(read.offset, decoded(read.ranges, self.scan)) for read in reads]
        return reduce(DataFrame.unionAll, rows) if rows else self.empty()

    def present_rows(self, ranges: Sequence[KeyRange]) -> DataFrame:
        """Return the used columns and the vnode of the rows in some ranges of keys, as they are now."""
        return self._select(self.reader.present_rows(ranges))

    def rows_of(self, ranges: Sequence[SplitRange]) -> DataFrame:
        """Return the used columns and the vnode of the rows at some places of splits."""
        return self._select(self.reader.rows_of(ranges))

    def empty(self) -> DataFrame:
        """Return the used columns and the vnode, without rows."""
        return self._select(self.reader.empty())

    def changes(self, after: Offset, up_to: Offset) -> DataFrame:
        """
        Return the changes in ``(after, up_to]``.

        :returns: the used columns, the vnode, and the columns of :attr:`change_type` and :attr:`change_offset`.
        """
        of_source = {self.change_type: F.col(CHANGE_TYPE), self.change_offset: F.col(CHANGE_OFFSET)}
        return self._select(self.reader.changes(after, up_to).withColumns(of_source), *of_source)

    def no_changes(self, up_to: Offset) -> DataFrame:
        """Return what :meth:`changes` would, without a change."""
        of_source = {self.change_type: F.lit("delete"), self.change_offset: literal(up_to)}
        return self._select(self.reader.empty().withColumns(of_source), *of_source)

    @property
    def change_type(self) -> str:
        """Name of the column with the type of a change."""
        return self.own.named(_CHANGE_TYPE)

    @property
    def change_offset(self) -> str:
        """Name of the column with a change's offset."""
        return self.own.named(_OFFSET)

    def after(self, reads: Sequence[PinnedRead]) -> Column:
        """Return the condition for changes of rows in the reads' ranges, each after the offset of its read."""
        values = {covered: literal(read.offset) for read in reads for covered in decoded(read.ranges, self.scan)}
        if not values:
            return F.lit(False)
        return F.coalesce(F.col(self.change_offset) > value_of(self.scan, values), F.lit(False))

    def is_after(self, offset: Offset) -> Column:
        """Return the condition that a change was committed after an offset."""
        return F.col(self.change_offset) > literal(offset)

    def is_read(self, ranges: Iterable[PinnedRange]) -> Column:
        """Return the condition that a row lies in some ranges; never null."""
        return value_of(self.scan, dict.fromkeys(decoded(ranges, self.scan), 1)).isNotNull()

    def _select(self, rows: DataFrame, *extra: str) -> DataFrame:
        """Select the job's rows and columns."""
        vnode = self.own.vnode
        rows = rows.select(*as_created(rows, self.types), *extra)
        if self.keys != EVERYTHING:
            rows = rows.filter(without_data_skipping(within(self.key, self.keys)))
        if self.units is not None:
            return self.in_units(rows, {name: found.at(self.others_at[name]) for name, found in self.others.items()})
        rows = rows.withColumn(vnode, self.vnode_of({}))
        return rows.filter(F.col(vnode).isin(sorted(self.vnodes))) if self.is_restricted else rows

    def in_units(self, rows: DataFrame, others: Mapping[str, DataFrame]) -> DataFrame:
        """
        Return rows with the columns of their units, and the vnodes of these: each row once in each of its units.

        :param rows: rows with at least the used columns.
        :param others: those of the other upstreams that the units depend on, by their names.
        :raises TypeError: if rows are not placed by their units.
        """
        if self.units is None:
            raise TypeError(f"rows of {self.location} are not placed by units")
        used = {name: found.select(*map(column, self.others[name].columns)) for name, found in others.items()}
        placed = self.with_vnodes(with_units(self.units, rows, used))
        return placed.dropDuplicates(list(self.identity.names)) if self.units.repeats else placed

    def with_vnodes(self, rows: DataFrame) -> DataFrame:
        """Add the vnodes to rows that have the columns of :attr:`scan` beside it, if these are their units."""
        return rows.withColumn(self.own.vnode, self._hashed(map(column, self.scan.names[1:])))

    def vnode_of(self, renamed: Mapping[str, str]) -> Column:
        """
        Return a row's vnode.

        :param renamed: the names of distribution key columns that differ from the upstream's.
        """
        # A hash depends on the type, so cast to the types as of the job's creation.
        hashed = [
            column(renamed.get(name, name)).cast(self.types[name])
            if not self.types[name].startswith("{")
            else column(renamed.get(name, name))
            for name in self.distribution_key
        ]
        return self._hashed(hashed)

    def _hashed(self, values: Iterable[Column]) -> Column:
        return F.pmod(F.hash(*values), F.lit(self.vnode_count))

    def stored_keys(self, offset: Offset) -> StoredKeys | None:
        """Return the keys of all rows as of an offset, to be read without Spark; ``None`` if Spark has to read them."""
        is_whole = not self.is_restricted and self.keys == EVERYTHING and self.units is None
        return self.reader.stored_keys(offset, self.key) if is_whole else None

    def count_of_single_keys(self, offset: Offset) -> int | None:
        """Count all rows as of an offset without Spark; ``None`` if that is impossible, or a key may be there twice."""
        stored = self.stored_keys(offset)
        return None if stored is None else count_if_single(stored)

    def measure(self, offset: Offset, *, expected: int) -> int:
        """
        Count all rows as of an offset, and refuse a key that several have; see :meth:`measure_chunk`.

        :param expected: the estimated number of rows.
        """
        rows = self.count_of_single_keys(offset)
        return self.measure_chunk(self.at(offset), expected=expected) if rows is None else rows

    def measure_chunk(self, chunk: DataFrame, *, expected: int) -> int:
        """
        Count the chunk's rows, and refuse a key that several rows have.

        Reads only the key columns. Unlike the metrics of the write, the count is the same for every attempt of the
        epoch, even if the chunk is already written.

        :param expected: the estimated number of rows.
        :raises DuplicateKeyError: if the key does not identify the rows.
        """
        counted = counted_keys(chunk, self.key.names, expected=expected)
        if counted.repeats:
            raise self.duplicates()
        return counted.rows

    def has_several(self, rows: DataFrame) -> bool:
        """Return whether several rows have the same key."""
        return has_several(rows, self.key.names)

    def duplicates(self) -> DuplicateKeyError:
        """Return the error for a key that does not identify the rows."""
        return DuplicateKeyError(
            f"{self.location} has several rows with the same key ({', '.join(self.key.names)}); give "
            f"{self.named}.key the columns that identify a row, or remove the duplicates"
        )


def _field_of(job: BackfillJob, name: str) -> str:
    """Return the field of an upstream in a job's definition."""
    return field_of(name, "upstream") if job.upstreams else "upstream"


def literal(offset: Offset) -> Column:
    """Return an offset in the form of :data:`CHANGE_OFFSET`; Spark compares structs field by field."""
    value = -1 if offset.root is None else offset.root
    if not isinstance(value, tuple):
        return F.lit(value)
    # Fields of structs must have one type to be compared, and Spark takes small numbers for integers.
    return F.struct(*(F.lit(part).cast("long") if isinstance(part, int) else F.lit(part) for part in value))
