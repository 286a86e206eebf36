"""
The rows of a view that keeps former rows: since when each is there, and until when.

The changes of a key are put in the order of their versions, behind the row that the view has of it. Each row that
differs from the one before it ends that one. So the result depends on the versions alone, and not on the windows in
which epochs read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import BooleanType, LongType, StructField, StructType, TimestampType

from airflow_backfill_provider.core.job.keep import DELETED_AT, IS_CURRENT, VALID_FROM, VALID_TO, Keep, ValidBy
from airflow_backfill_provider.core.scan.columns import own_columns
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.lake.log.commit_times import recorded_times
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.sources.delta.versions import version_of
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.spark.row_hash import row_hashes
from airflow_backfill_provider.spark.spark_errors import DUPLICATE_KEY

_VERSION, _IS_PRESENT, _APPEARED = "version", "is_present", "appeared"
_IS_OLD, _IS_WRITTEN, _IS_REPEATED, _HASHES = "is_old", "is_written", "is_repeated", ("hash_1", "hash_2")

_TYPES = {ValidBy.VERSION: LongType(), ValidBy.COMMIT_TIME: TimestampType(), ValidBy.EPOCH: LongType()}


def began(by: ValidBy, value: Column) -> Column:
    """
    Return what the view has of a version, or of an epoch.

    :param value: the version; its time, in microseconds; or the epoch.
    """
    return F.timestamp_micros(value) if by is ValidBy.COMMIT_TIME else value.cast("bigint")


def rows_of_query(view: DataFrame, keep: Keep) -> DataFrame:
    """Return those rows of a view that the query gives, with the query's columns."""
    return view.filter(keep.is_present_in_sql).drop(*keep.columns) if keep.keeps_former_rows else view


def began_at(by: ValidBy, offset: Offset, log: DeltaLog) -> Column:
    """
    Return what the view has of a version of the upstream, unless it has epochs.

    :param log: the upstream's log.
    """
    version = version_of(offset)
    value = recorded_times(log, version - 1, version)[version] if by is ValidBy.COMMIT_TIME else version
    return began(by, F.lit(value))


def replaced_columns(keep: Keep, columns: Sequence[str]) -> tuple[str, ...]:
    """
    Return the columns of a view that tell which of its rows may be replaced.

    Of a history these are the rows that have not ended yet, so rows that have ended are not read again.

    :param columns: those that tell keys, or units, apart.
    """
    return (*columns, IS_CURRENT) if keep is Keep.HISTORY else tuple(columns)


def replaced_units(keep: Keep, touched: DataFrame) -> DataFrame:
    """Return keys, or units, with the columns of :func:`replaced_columns`."""
    return touched.withColumn(IS_CURRENT, F.lit(True)) if keep is Keep.HISTORY else touched


def is_former(keep: Keep, prefix: str = "") -> str:
    """
    Return the condition that a row of the view is one that the query no longer gives, as SQL.

    :param keep: which rows the view keeps; not only the present ones.
    :param prefix: what comes before the names of the view's columns.
    """
    return f"NOT ({prefix}{keep.is_present_in_sql})"


def with_columns_of(schema: StructType, keep: Keep, by: ValidBy) -> StructType:
    """Return a view's columns: the query's, and those that it has for former rows."""
    types = {name: BooleanType() if name == IS_CURRENT else _TYPES[by] for name in keep.columns}
    return StructType([*schema.fields, *(StructField(name, kind) for name, kind in types.items())])


def beginning_at(rows: DataFrame, keep: Keep, begins: Column) -> DataFrame:
    """
    Return rows of the query as the view has them if they were read as of a version.

    Since when they were there before that version is not known.

    :param begins: what the view has of that version; see :func:`began`.
    """
    none = F.when(F.lit(False), begins)
    values = {DELETED_AT: none, VALID_FROM: begins, VALID_TO: none, IS_CURRENT: F.lit(True)}
    return rows.withColumns({name: values[name] for name in keep.columns})


def broken_keys(view: DataFrame, keep: Keep, keys: Sequence[str], up_to: Column) -> DataFrame:
    """
    Return the keys whose rows in a view contradict each other.

    Rows of one key must not overlap, and each ends after it begins. Between two of them may be a gap: the query gave no
    row then.

    :param view: the view's rows.
    :param keys: the view's columns that hold the key.
    :param up_to: what the view has of the newest version that it has seen; null if that is not known.
    """
    of_key = Window.partitionBy(*map(column, keys))
    if keep is Keep.DELETED:
        broken = (F.count("*").over(of_key) > 1) | F.coalesce(F.col(DELETED_AT) > up_to, F.lit(False))
    else:
        begins, ends = F.col(VALID_FROM), F.col(VALID_TO)
        follower = F.lead(begins).over(of_key.orderBy(begins, ends.asc_nulls_last()))
        broken = contradicts_itself(up_to) | (follower.isNotNull() & (ends.isNull() | (ends > follower)))
    return with_broken(view, broken).select(*map(column, keys)).distinct()


def with_broken(view: DataFrame, broken: Column) -> DataFrame:
    """Return the rows of a view that meet a condition, which may look at other rows and be null."""
    flag = own_columns(view.columns).named("is_broken")
    return view.withColumn(flag, F.coalesce(broken, F.lit(False))).filter(F.col(flag))


def contradicts_itself(up_to: Column) -> Column:
    """Return the condition that the columns of one row of a history contradict each other; may be null."""
    begins, ends, is_current = F.col(VALID_FROM), F.col(VALID_TO), F.col(IS_CURRENT)
    return (
        begins.isNull()
        | is_current.isNull()
        | (is_current != ends.isNull())
        | (ends <= begins)
        | (F.greatest(begins, ends) > up_to)
    )


@dataclass(frozen=True, slots=True)
class FormerRows:
    """
    Computes the rows that a view shall have of some keys.

    :param keep: which rows the view keeps.
    :param columns: the query's columns.
    :param keys: the view's columns that hold the key.
    """

    keep: Keep
    columns: StructType
    keys: Sequence[str]

    @property
    def unit(self) -> tuple[str, ...]:
        """The columns of the view that tell which rows changes of a key may replace."""
        return replaced_columns(self.keep, self.keys)

    def units_of(self, keys: DataFrame) -> DataFrame:
        """Return the units that changes of some keys touch."""
        return replaced_units(self.keep, keys.select(*map(column, self.keys)))

    def written(self, rows: DataFrame, version: Column, appeared: Column) -> DataFrame:
        """
        Return the changes that leave a row that the query gives, for :meth:`after`.

        :param rows: the query's columns, and those that the other parameters read.
        :param version: what the view has of the version at which each row begins; see :func:`began`.
        :param appeared: whether its key had no row before the window.
        """
        return rows.select(
            *map(column, self.columns.names),
            version.alias(self._named(_VERSION)),
            F.lit(True).alias(self._named(_IS_PRESENT)),
            appeared.alias(self._named(_APPEARED)),
        )

    def changed(self, keys: DataFrame, version: Column, appeared: Column) -> DataFrame:
        """
        Return changes of keys for :meth:`after`. If nothing is written at the same version, the key has no row then.

        :param keys: the view's key columns, and those that the other parameters read; see :meth:`written`.
        """
        return keys.select(
            *(
                column(field.name) if field.name in self.keys else F.lit(None).cast(field.dataType).alias(field.name)
                for field in self.columns.fields
            ),
            version.alias(self._named(_VERSION)),
            F.lit(False).alias(self._named(_IS_PRESENT)),
            appeared.alias(self._named(_APPEARED)),
        )

    def after(self, old: DataFrame, changes: DataFrame) -> DataFrame:
        """
        Return the rows that the view shall have of changed keys, with all its columns.

        It fails if a key appeared of which the view has a row.

        :param old: the rows that it has of them, of their :attr:`unit`.
        :param changes: rows of :meth:`written` and :meth:`changed`, several of a key and version.
        """
        steps = self._in_order(old, changes)
        version, is_present = F.col(self._named(_VERSION)), F.col(self._named(_IS_PRESENT))
        in_order = self._order()
        ends, is_next, is_second = F.lead(version), F.lead(is_present), F.lead(is_present, 2)
        # Two steps without a row never follow one another.
        is_last = is_next.over(in_order).isNull() | (~is_next.over(in_order) & is_second.over(in_order).isNull())
        if self.keep is Keep.DELETED:
            named = steps.withColumns({DELETED_AT: ends.over(in_order), self._named(_IS_WRITTEN): is_last})
            kept = named.filter(is_present & F.col(self._named(_IS_WRITTEN)))
        else:
            named = steps.withColumns({VALID_FROM: version, VALID_TO: ends.over(in_order)})
            # A row that a repair replaces at its own version was never there.
            lasted = F.col(VALID_TO).isNull() | (F.col(VALID_TO) > F.col(VALID_FROM))
            kept = named.filter(is_present & lasted).withColumn(IS_CURRENT, F.col(VALID_TO).isNull())
        return kept.select(*map(column, (*self.columns.names, *self.keep.columns)))

    def _in_order(self, old: DataFrame, changes: DataFrame) -> DataFrame:
        """Return what the view has, and after it each change that leaves another row, or none."""
        version, is_present, is_old = (F.col(self._named(name)) for name in (_VERSION, _IS_PRESENT, _IS_OLD))
        keys = [*map(column, self.keys)]
        of_key, of_version = Window.partitionBy(*keys), Window.partitionBy(*keys, version, is_old)
        has_row, has_end = (F.some(is_old & found).over(of_key) for found in (is_present, ~is_present))
        repeated = F.some(F.col(self._named(_APPEARED))).over(of_key) & has_row & ~has_end
        steps = (
            self._of_view(old)
            .unionAll(changes.withColumn(self._named(_IS_OLD), F.lit(False)))
            .withColumns(
                {self._named(_IS_WRITTEN): F.some(is_present).over(of_version), self._named(_IS_REPEATED): repeated}
            )
            .filter(is_old | is_present | ~F.col(self._named(_IS_WRITTEN)))
            .withColumn(
                self._named(_VERSION),
                F.when(F.col(self._named(_IS_REPEATED)), F.raise_error(F.lit(DUPLICATE_KEY))).otherwise(version),
            )
            .withColumns(dict(zip(map(self._named, _HASHES), row_hashes(self.columns.fields), strict=True)))
        )
        before, in_order = F.lag(is_present).over(self._order()), self._order()
        first, second = (F.col(self._named(name)) for name in _HASHES)
        is_another = (first != F.lag(first).over(in_order)) | (second != F.lag(second).over(in_order))
        differs = F.when(before.isNull(), is_present).when(is_present, ~before | is_another).otherwise(before)
        flag = self._named(_IS_WRITTEN)
        return steps.withColumn(flag, differs).filter(F.col(flag))

    def _of_view(self, old: DataFrame) -> DataFrame:
        """Return the rows of the view as steps: that they begin, and, if they were removed, that they end."""
        # A row without a column for its beginning was there before all changes, and nobody asks since when.
        begins = F.col(VALID_FROM) if self.keep is Keep.HISTORY else F.lit(None).cast(old.schema[DELETED_AT].dataType)
        beginning = F.struct(begins.alias(_VERSION), F.lit(True).alias(_IS_PRESENT))
        if self.keep is Keep.HISTORY:
            steps = F.array(beginning)
        else:
            end = F.struct(F.col(DELETED_AT).alias(_VERSION), F.lit(False).alias(_IS_PRESENT))
            steps = F.when(F.col(DELETED_AT).isNull(), F.array(beginning)).otherwise(F.array(beginning, end))
        step = self._named("step")
        return old.select(*map(column, self.columns.names), F.explode(steps).alias(step)).select(
            *map(column, self.columns.names),
            F.col(step).getField(_VERSION).alias(self._named(_VERSION)),
            F.col(step).getField(_IS_PRESENT).alias(self._named(_IS_PRESENT)),
            F.lit(False).alias(self._named(_APPEARED)),
            F.lit(True).alias(self._named(_IS_OLD)),
        )

    def _order(self) -> WindowSpec:
        is_old, version = F.col(self._named(_IS_OLD)), F.col(self._named(_VERSION))
        return Window.partitionBy(*map(column, self.keys)).orderBy(is_old.desc(), version.asc_nulls_first())

    def _named(self, name: str) -> str:
        return own_columns([*self.columns.names, *self.keep.columns]).named(name)
