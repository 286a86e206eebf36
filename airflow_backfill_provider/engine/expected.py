"""
The upstream's rows that the view must hold the query's result of, computed independently for a verification (I1).

This module shares no code with what decides and runs epochs. It looks up the committed position of each row's vnode in
the state table, and compares keys with its own expression. So a mistake in a chunk, in a condition or in the protocol
appears as a difference, instead of affecting both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import BooleanType, IntegerType, StringType, StructField, StructType

from airflow_backfill_provider.core.epoch.barrier import PinnedRange, PinnedRead
from airflow_backfill_provider.core.epoch.settings import JobSettings, ResolvedUpstream
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.scan.keys import EncodedPosition, KeyField, KeyKind
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.status.verification import PinnedVerification
from airflow_backfill_provider.shapes.several import leading
from airflow_backfill_provider.sources.reader import SourceReader
from airflow_backfill_provider.spark.created_types import as_created
from airflow_backfill_provider.spark.job_rows import JobRows
from airflow_backfill_provider.spark.row_units import RowUnits, with_units

_ROW_VNODE, _STATE_VNODE, _WHOLE = "row_vnode", "state_vnode", "whole"


def expected_rows(
    spark: SparkSession,
    reader: SourceReader,
    settings: JobSettings,
    pinned: PinnedVerification,
    older: Sequence[PinnedRead],
    placed: Callable[[], DataFrame] | None = None,
    units: RowUnits | None = None,
) -> DataFrame:
    """
    Return the used columns of all rows that were read as of the verified epoch.

    :param reader: reads the upstream.
    :param older: the ranges that the view has as of older offsets than the epoch's, because their changes wait.
    :param placed: reads the rows of the verified offset with the columns of positions, if the upstream has none.
    :param units: how the unit of each row is found, if positions are units of groups of rows.
    """
    read = _Read(spark, reader, settings, pinned, placed, units)
    before = [read.as_of(shown.offset).filter(_unskipped(_in_any(settings, shown.ranges))) for shown in older]
    covered = _in_any(settings, [ranges for shown in older for ranges in shown.ranges])
    rows = reduce(DataFrame.unionAll, before, read.as_of(pinned.upstream_version).filter(_unskipped(~covered)))
    # The query's condition must not skip files either, and Spark does not push it past a non-deterministic one.
    return rows.filter(F.spark_partition_id() >= 0).select(*(F.col(quote(name)) for name in _used(settings)))


def expected_leads(reader: SourceReader, settings: JobSettings, pinned: PinnedVerification) -> DataFrame:
    """
    Return the used columns of all of the job's rows of the upstream that leads, as of the verified epoch.

    If history is read by the units of joined rows, a row may have been read in part: see :func:`of_read_units`.
    """
    rows = _used_rows(reader, pinned.upstream_version, settings.upstream)
    return rows.filter(_unskipped(_within_bounds(settings)))


def of_read_units(
    spark: SparkSession, settings: JobSettings, pinned: PinnedVerification, rows: DataFrame, units: Sequence[str]
) -> DataFrame:
    """
    Return the view's rows of the units that were read as of the verified epoch.

    :param rows: what the query gives over all rows.
    :param units: the names of the columns with the units.
    """
    fields, positions = settings.position_order.fields, Positions(spark, settings, pinned)
    values = [F.col(quote(name)).cast(field.type) for name, field in zip(units, fields, strict=True)]
    vnode = vnode_of_unit(settings, values, [field.type for field in fields])
    return positions.reached(rows, values, vnode).select(*(F.col(quote(name)) for name in rows.columns))


def expected_others(
    readers: Mapping[str, SourceReader], settings: JobSettings, pinned: PinnedVerification
) -> Mapping[str, DataFrame]:
    """
    Return the used columns of all rows of the upstreams that are read whole, as of the verified epoch.

    :param readers: read these upstreams, by their names.
    """
    found = {}
    for name, reader in readers.items():
        # The one that leads is among them if the query reads it elsewhere, too.
        offset, created_on = (
            pinned.others.get(name, pinned.upstream_version),
            settings.others.get(name, settings.upstream),
        )
        found[name] = _used_rows(reader, offset, created_on)
    return found


def expected_further(
    leads: Mapping[str, JobRows], settings: JobSettings, pinned: PinnedVerification
) -> Mapping[str, DataFrame]:
    """
    Return the used columns of all rows that were read of upstreams that lead further branches.

    All vnodes share one position, which is one of the rows of all of these.

    :param leads: say where their rows are read, and by which columns they lie before a position.
    :returns: the rows by what the query calls them.
    """
    found = {}
    ends = {run.up_to for run in pinned.read}
    for name, lead in leads.items():
        if ends == {None} or lead.placed is None:
            rows = lead.reader.rows_to_verify(pinned.others[name])
        else:
            rows, fields = lead.placed(), lead.scan.fields
            places = [F.col(quote(field.name)) for field in fields]
            before = [_at_or_before(fields, places, _literals(fields, end)) for end in ends if end is not None]
            rows = rows.filter(_unskipped(reduce(lambda a, b: a | b, before, F.lit(False))))
        rows = rows.select(*as_created(rows, settings.others[name].types))
        found[leading(name)] = rows.filter(F.spark_partition_id() >= 0)
    return found


def _used_rows(reader: SourceReader, offset: Offset, created_on: ResolvedUpstream) -> DataFrame:
    """Return the used columns of all rows of an upstream, in their types when the job was created."""
    rows = reader.rows_to_verify(offset)
    # Neither may statistics of files hide rows from the query's conditions.
    return rows.filter(F.spark_partition_id() >= 0).select(*as_created(rows, created_on.types))


def vnode_of(settings: JobSettings, columns: Sequence[Column], names: Sequence[str]) -> Column:
    """
    Return a row's vnode, computed from some columns.

    :param columns: the columns with the values.
    :param names: the upstream's names of these columns, to find their types as of the job's creation.
    """
    types = {used.name: used.type for used in settings.upstream.columns}
    # A hash depends on the type, so cast to the types as of the job's creation; nested columns have kept theirs.
    values = [
        value if types[name].startswith("{") else value.cast(types[name])
        for value, name in zip(columns, names, strict=True)
    ]
    return _vnode_of_values(settings, values)


def vnode_of_unit(settings: JobSettings, columns: Sequence[Column], types: Sequence[str]) -> Column:
    """
    Return the vnode of a unit that is hashed by its own columns; without columns, it is the only unit.

    :param columns: the columns with the values.
    :param types: their types as of the job's creation.
    """
    values = [value.cast(kind) for value, kind in zip(columns, types, strict=True)]
    return _vnode_of_values(settings, values) if values else F.lit(0)


def _vnode_of_values(settings: JobSettings, values: Sequence[Column]) -> Column:
    return F.pmod(F.hash(*values), F.lit(settings.definition.vnode_count))


class _Read:
    """The rows that were read by the committed positions."""

    def __init__(
        self,
        spark: SparkSession,
        reader: SourceReader,
        settings: JobSettings,
        pinned: PinnedVerification,
        placed: Callable[[], DataFrame] | None,
        units: RowUnits | None,
    ) -> None:
        self._reader = reader
        self._settings = settings
        self._fields = settings.position_order.fields
        # Once all rows are read, no row's place matters.
        self._placed = placed if any(run.up_to is not None for run in pinned.read) else None
        self._units = units
        self._own = settings.own_columns
        self._positions = Positions(spark, settings, pinned)

    def as_of(self, offset: Offset) -> DataFrame:
        """Return these rows as of an offset of the upstream, with their vnodes."""
        job = self._settings.definition
        upstream = self._reader.rows_to_verify(offset) if self._placed is None else self._placed()
        types = {used.name: used.type for used in self._settings.upstream.columns}
        places = [field for field in self._fields if field.name not in types] if self._units is None else []
        has_places = self._placed is not None
        rows = upstream.select(
            *as_created(upstream, types),
            *(F.col(field.name) if has_places else F.lit(None).cast(field.type).alias(field.name) for field in places),
        )
        if self._units is not None:
            rows = with_units(self._units, rows)
            of_unit, kinds = self._units.order.names, [field.type for field in self._units.order.fields]
            vnode = vnode_of_unit(self._settings, [F.col(quote(name)) for name in of_unit], kinds)
        else:
            distribution = job.upstream.distribution_key
            vnode = vnode_of(self._settings, [F.col(quote(name)) for name in distribution], distribution)
        keys = [F.col(quote(field.name)) for field in self._fields]
        return self._positions.reached(rows, keys, vnode).filter(_unskipped(_within_bounds(self._settings)))


class Positions:
    """The committed positions, by which rows were read or not."""

    def __init__(self, spark: SparkSession, settings: JobSettings, pinned: PinnedVerification) -> None:
        self._spark = spark
        self._fields = settings.position_order.fields
        self._own = settings.own_columns
        self._points = self._own.numbered("position", len(self._fields))
        self._rows = self._as_rows(pinned)

    def reached(self, rows: DataFrame, places: Sequence[Column], vnode: Column) -> DataFrame:
        """
        Return the rows at or before the position of their vnode, with the vnode and more columns.

        :param places: where a row lies in its vnode.
        :param vnode: its vnode.
        """
        own, points = self._own, list(map(F.col, self._points))
        reached = F.col(own.named(_WHOLE)) | _at_or_before(self._fields, places, points)
        same_vnode = F.col(own.named(_ROW_VNODE)) == F.col(own.named(_STATE_VNODE))
        found = rows.withColumn(own.named(_ROW_VNODE), vnode).join(F.broadcast(self._rows), same_vnode)
        return found.filter(_unskipped(reached))

    def _as_rows(self, pinned: PinnedVerification) -> DataFrame:
        """Return a row for each vnode that was read: whether it is complete, or else its position."""
        state_vnode, whole = self._own.named(_STATE_VNODE), self._own.named(_WHOLE)
        schema = StructType(
            [
                StructField(state_vnode, IntegerType()),
                StructField(whole, BooleanType()),
                *(StructField(point, StringType()) for point in self._points),
            ]
        )
        none = (None,) * len(self._fields)
        rows = [
            (vnode, run.up_to is None, *(run.up_to or none))
            for run in pinned.read
            for vnode in range(run.first, run.last + 1)
        ]
        typed = [
            _typed(F.col(point), field).alias(point) for point, field in zip(self._points, self._fields, strict=True)
        ]
        return self._spark.createDataFrame(rows, schema).select(state_vnode, whole, *typed)


def _unskipped(condition: Column) -> Column:
    """Return a condition that is hidden from data skipping."""
    return F.greatest(condition, condition)


def _used(settings: JobSettings) -> list[str]:
    return [used.name for used in settings.upstream.columns]


def _within_bounds(settings: JobSettings) -> Column:
    """Return the condition that the row's key is in the job's range of keys."""
    bounds, fields = settings.definition.restrict_to.keys, settings.key_order.fields
    columns = [F.col(quote(field.name)) for field in fields]
    return _between(fields, columns, bounds.after, bounds.up_to)


def _in_any(settings: JobSettings, ranges: Iterable[PinnedRange]) -> Column:
    """Return the condition that the row lies in one of some ranges, in the order of the job's scan."""
    fields = settings.scan.order.fields
    own = settings.own_columns
    vnode = F.col(own.named(_ROW_VNODE))
    columns = [vnode if field.name == own.vnode else F.col(quote(field.name)) for field in fields]
    return reduce(
        lambda a, b: a | b,
        (_between(fields, columns, covered.after, covered.up_to) for covered in ranges),
        F.lit(False),
    )


def _between(
    fields: Sequence[KeyField], columns: Sequence[Column], after: EncodedPosition | None, up_to: EncodedPosition | None
) -> Column:
    is_after = F.lit(True) if after is None else ~_at_or_before(fields, columns, _literals(fields, after))
    return is_after if up_to is None else is_after & _at_or_before(fields, columns, _literals(fields, up_to))


def _literals(fields: Sequence[KeyField], position: EncodedPosition) -> list[Column]:
    # A definition may have a bound in the user's spelling (1_000, 0a 0b), which Spark would misread.
    texts = [field.encode(field.decode(text)) for field, text in zip(fields, position, strict=False)]
    return [_typed(F.lit(text), field) for field, text in zip(fields, texts, strict=False)]


def _typed(text: Column, field: KeyField) -> Column:
    return F.unhex(text.cast("string")) if field.kind is KeyKind.BINARY else text.cast(field.type)


def _at_or_before(fields: Sequence[KeyField], columns: Sequence[Column], points: Sequence[Column]) -> Column:
    """
    Return the condition that a row's key is at or before a point, which may be null, or shorter than the key.

    It is built from the last column to the first: a column decides only if all columns before it are equal.
    """
    open_yet = F.lit(True)
    for field, value, point in reversed(list(zip(fields, columns, points, strict=False))):
        comes_before = value > point if field.descending else value < point
        open_yet = (
            F.when(value.isNull() & point.isNull(), open_yet)
            .when(value.isNull(), F.lit(True))
            .when(point.isNull(), F.lit(False))
            .when(value == point, open_yet)
            .otherwise(comes_before)
        )
    return open_yet
