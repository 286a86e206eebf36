"""
The rows that a repair or another filter writes, and the keys whose rows in the view it replaces.

A repair makes no assumption about what is wrong. It replaces all rows that the view has of the chosen vnodes and keys,
foreign and repeated ones included, with the upstream's rows of these vnodes and keys.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.epoch.barrier import Barrier, decoded
from airflow_backfill_provider.core.job.definition_change import FilterChange
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.sources.shared.by_key import column, decoded_keys, with_keys, without_keys
from airflow_backfill_provider.spark.job_rows import JobRows
from airflow_backfill_provider.spark.named_relations import sql_over
from airflow_backfill_provider.spark.spark_errors import query_errors


def rows_to_write(spark: SparkSession, job_rows: JobRows, barrier: Barrier) -> DataFrame:
    """Return the chosen rows as of ``to_offset`` that were read before the epoch, or those of another filter."""
    if barrier.filter_change is not None:
        return _rows_that_differ(spark, job_rows, barrier, barrier.filter_change)
    rows = _read(job_rows, barrier)
    repair = barrier.repair
    is_chosen = F.col(job_rows.own.vnode).isin(list(repair.vnodes))
    of_vnodes, others = rows.filter(is_chosen), rows.filter(~is_chosen)
    if not repair.keys:
        return of_vnodes
    return of_vnodes.unionAll(with_keys(others, decoded_keys(spark, job_rows.key, repair.keys), job_rows.key.names))


def keys_to_replace(
    spark: SparkSession,
    job_rows: JobRows,
    barrier: Barrier,
    written: DataFrame,
    view: DataFrame,
    outputs: Sequence[str],
) -> DataFrame:
    """
    Return the keys whose rows in the view are replaced.

    If the upstream lacks the key of a row in the view, the row's vnode is computed from its key. If the distribution
    key has other columns, the vnode is unknown, and a repair of any vnode removes the row.

    :param written: the rows of :func:`rows_to_write`. If the upstream loses rows, they were read before.
    :param outputs: the view's key columns.
    :returns: the view's key columns.
    """
    repair = barrier.repair
    names = job_rows.key.names
    rewritten = _named(written.select(*map(column, names)), outputs)
    if barrier.filter_change is not None:
        return rewritten
    chosen = []
    if repair.keys:
        chosen.append(_named(decoded_keys(spark, job_rows.key, repair.keys), outputs))
    if repair.vnodes:
        known = _named(_read(job_rows, barrier).select(*map(column, names)), outputs)
        stray = without_keys(view.select(*map(column, outputs)), known, outputs)
        if set(job_rows.distribution_key) <= set(names):
            by_key = dict(zip(names, outputs, strict=True))
            stray = stray.filter(job_rows.vnode_of(by_key).isin(list(repair.vnodes)))
        chosen.append(stray)
    comparable = job_rows.reader.without_removed(
        reduce(DataFrame.unionAll, chosen), outputs, barrier.upstream.to_offset
    )
    keys = rewritten.unionAll(comparable).distinct()
    unsettled = job_rows.reader.unsettled(barrier.upstream.to_offset)
    # The next epoch writes these rows, because they changed after this one's window.
    return keys if unsettled is None else keys.exceptAll(_named(unsettled, outputs))


def _rows_that_differ(spark: SparkSession, job_rows: JobRows, barrier: Barrier, change: FilterChange) -> DataFrame:
    """
    Return the rows as of ``to_offset`` that only one of two conditions lets through.

    A condition that is null lets no row through, as WHERE has it. The others are in the view before and after, or
    neither, with the same values.
    """
    both = replace(job_rows, types={**change.types, **job_rows.types})
    # The query of a view changes only once every row is read.
    rows = both.at(barrier.upstream.to_offset).select(*map(column, both.columns))
    passes = [f"coalesce(({condition}\n), false)" for condition in (change.before, change.after)]
    relation = f"backfill_rows_{uuid.uuid4().hex}"
    name = quote(change.relation)
    text = f"SELECT {name}.* FROM {quote(relation)} AS {name} WHERE {' <> '.join(passes)}"
    with query_errors():
        found = sql_over(spark, text, {quote(relation): rows})
    return found.select(*map(column, job_rows.columns))


def _read(job_rows: JobRows, barrier: Barrier) -> DataFrame:
    # A repair must also find the rows that wrong statistics hide.
    return job_rows.within(barrier.upstream.to_offset, decoded(barrier.read_before, job_rows.scan))


def _named(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    return rows.toDF(*names)
