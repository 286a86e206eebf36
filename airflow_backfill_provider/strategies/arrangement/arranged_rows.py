"""
The chunks of an arrangement: rows of its base, and what changed since.

A chunk consists of the base's rows in its ranges that have not changed since, and the newest versions of those that
have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.spark.job_rows import JobRows
from airflow_backfill_provider.spark.predicates import in_any
from airflow_backfill_provider.spark.spark_errors import DUPLICATE_KEY
from airflow_backfill_provider.strategies.vnode_scan import VnodeScan

_NEWEST, _IS_LIVE, _FIRST_APPEARED, _IS_DOUBLE = "newest", "is_live", "first_appeared", "is_double"


def changed_since_base(log: DataFrame, scan: VnodeScan, job_rows: JobRows) -> DataFrame:
    """
    Return each row, by its :attr:`JobRows.identity`, that changed since the base was created.

    :param log: the changes, by epoch.
    :returns: columns with the package's names: the identity as ``changed_0, …``, ``vnode``, ``first_appeared``
        (the base does not have the key), ``is_double`` (the key was inserted although it existed), ``is_live``
        (the row exists now) and ``newest``, the newest row.
    """
    own = scan.own
    epoch = F.col(own.epoch)
    keys = [column(name) for name in job_rows.identity.names]
    entries = F.array_sort(F.collect_list(F.struct(own.epoch, own.is_upsert, own.appeared)))
    history = F.col(own.named("history"))
    changed = log.groupBy(*keys).agg(
        F.max_by(F.struct(own.vnode, *map(column, job_rows.columns)), epoch).alias(own.named(_NEWEST)),
        F.max_by(own.is_upsert, epoch).alias(own.named(_IS_LIVE)),
        F.min_by(own.appeared, epoch).alias(own.named(_FIRST_APPEARED)),
        entries.alias(own.named("history")),
    )
    existed = F.transform(F.slice(history, 1, F.size(history) - 1), lambda entry: entry[own.is_upsert])
    inserted = F.transform(F.slice(history, 2, F.size(history)), lambda entry: entry[own.appeared])
    doubles = F.exists(F.zip_with(existed, inserted, lambda before, again: before & again), lambda both: both)
    return changed.select(
        *(key.alias(name) for key, name in zip(keys, _changed_keys(job_rows), strict=True)),
        own.vnode,
        *map(own.named, (_FIRST_APPEARED, _IS_LIVE, _NEWEST)),
        doubles.alias(own.named(_IS_DOUBLE)),
    )


@dataclass(frozen=True, kw_only=True)
class BaseChunk:
    """
    Rows of an arrangement's base in some ranges: the upstream's rows as of the arrangement's creation.

    :param base: the base.
    :param ranges: the ranges to read.
    :param scan: the job's scan.
    :param job_rows: the rows that are replicated.
    """

    base: DataFrame
    ranges: Sequence[KeyRange]
    scan: VnodeScan
    job_rows: JobRows

    @property
    def found(self) -> DataFrame:
        """The rows, with all columns of the arrangement."""
        return self.base.filter(in_any(self.scan.order, self.ranges))

    def rows(self) -> DataFrame:
        """Return the rows, with their used columns and vnode."""
        return self.selected(self.found)

    def selected(self, rows: DataFrame) -> DataFrame:
        """Return the used columns and vnode of some rows."""
        return rows.select(*map(column, (self.scan.own.vnode, *self.job_rows.columns)))

    def count(self) -> dict[int, int]:
        """Count the rows by vnode; see :meth:`counts`."""
        return self.total(self.counts())

    def counts(self) -> list[DataFrame]:
        """
        Return numbers of rows by vnode, reading little more than the vnode column.

        Keys are read only in the vnodes where a range begins or ends.
        """
        return [
            self.base.filter(condition).groupBy(F.col(self.scan.own.vnode)).agg(F.count("*").alias("rows"))
            for condition in self._split()
            if condition is not None
        ]

    def total(self, counts: Sequence[DataFrame]) -> dict[int, int]:
        """Add numbers of rows by vnode, without zeros."""
        vnode = self.scan.own.vnode
        counted = reduce(DataFrame.unionAll, counts).groupBy(F.col(vnode)).agg(F.sum("rows").alias("rows"))
        return {row[vnode]: row["rows"] for row in counted.collect() if row["rows"]}

    def require_sound(self) -> None:
        """Do nothing: the keys were checked before the base was created."""

    def _split(self) -> tuple[Column | None, Column | None]:
        """Return the condition for the vnodes that lie wholly in the ranges, and one for the rest of the ranges."""
        order = self.scan.order
        whole: list[KeyRange] = []
        partial: list[KeyRange] = []
        for covered in self.ranges:
            vnodes = self.scan.vnodes_of(covered)
            begins_within = covered.after is not None and len(covered.after) > 1
            ends_within = covered.up_to is not None and len(covered.up_to) > 1
            first, last = vnodes.start + begins_within, vnodes.stop - 1 - ends_within
            if first <= last:
                whole.append(KeyRange((first - 1,), (last,)))
            if first > last + 1:
                partial.append(covered)  # begins and ends in one vnode
                continue
            if begins_within:
                partial.append(KeyRange(covered.after, (vnodes.start,)))
            if ends_within:
                partial.append(KeyRange((vnodes.stop - 2,), covered.up_to))
        return (
            in_any(order, whole) if whole else None,
            in_any(order, partial) if partial else None,
        )


@dataclass(frozen=True, kw_only=True)
class ArrangedChunk:
    """
    Rows of an arrangement in some ranges, as of one epoch.

    :param of_base: the base's rows in the ranges.
    :param changed: each row in the ranges that changed since; see :func:`changed_since_base`.
    """

    of_base: BaseChunk
    changed: DataFrame

    def rows(self) -> DataFrame:
        """
        Return the rows, with their used columns and vnode.

        Evaluating them fails if the upstream inserted a key that already existed.
        """
        own, job_rows = self.of_base.scan.own, self.of_base.job_rows
        first_appeared = F.col(own.named(_FIRST_APPEARED))
        names, changed_keys = job_rows.identity.names, _changed_keys(job_rows)
        changed = self.changed.select(*changed_keys, first_appeared)
        same = [column(name).eqNullSafe(F.col(key)) for name, key in zip(names, changed_keys, strict=True)]
        # A key of the base that was inserted again without a delete exists twice.
        kept = self.of_base.found.join(changed, same, "left").filter(
            F.when(first_appeared, F.raise_error(F.lit(DUPLICATE_KEY)).cast("boolean")).otherwise(
                first_appeared.isNull()
            )
        )
        newest = self.changed.filter(F.col(own.named(_IS_LIVE))).select(f"{own.named(_NEWEST)}.*")
        return self.of_base.selected(kept).unionAll(self.of_base.selected(newest))

    def count(self) -> dict[int, int]:
        """Count the rows by vnode; the first change of a row shows whether the base has it."""
        own = self.of_base.scan.own
        refused = F.raise_error(F.lit(DUPLICATE_KEY)).cast("long")
        moved = F.col(own.named(_IS_LIVE)).cast("long") - (~F.col(own.named(_FIRST_APPEARED))).cast("long")
        since = self.changed.groupBy(F.col(own.vnode)).agg(
            F.sum(F.when(F.col(own.named(_IS_DOUBLE)), refused).otherwise(moved)).alias("rows")
        )
        return self.of_base.total([*self.of_base.counts(), since])

    def require_sound(self) -> None:
        """Evaluate the rows, which fails for a repeated key; an attempt that finds them written must do this, too."""
        self.rows().agg(F.count("*")).collect()


def _changed_keys(job_rows: JobRows) -> list[str]:
    return job_rows.own.numbered("changed", len(job_rows.identity.fields))
