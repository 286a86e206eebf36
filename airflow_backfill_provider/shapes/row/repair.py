"""
Which rows a repair writes anew, and which keys it removes from the view before.

A repair makes no assumption about what is wrong: everything that the view has of the chosen vnodes and keys is removed,
also what it should not have at all or has twice, and what the upstream has of them is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StringType, StructField, StructType

from airflow_backfill_provider.core.barrier import Barrier, Repair, decoded
from airflow_backfill_provider.core.keys import EncodedPosition, KeyKind
from airflow_backfill_provider.core.sql import quote
from airflow_backfill_provider.engine.job_rows import JobRows, column
from airflow_backfill_provider.engine.predicates import in_any, unskipped


def rows_to_write(spark: SparkSession, job_rows: JobRows, barrier: Barrier) -> DataFrame:
    """Return the chosen rows as the upstream has them at ``to_offset``, of those that were read before the epoch."""
    rows = _read(job_rows, barrier)
    repair = barrier.repair
    is_chosen = F.col(job_rows.own.vnode).isin(list(repair.vnodes))
    of_vnodes, others = rows.filter(is_chosen), rows.filter(~is_chosen)
    return of_vnodes.unionAll(_with_keys(spark, job_rows, others, repair)) if repair.keys else of_vnodes


def keys_to_remove(
    spark: SparkSession, job_rows: JobRows, barrier: Barrier, view: DataFrame, outputs: Sequence[str]
) -> DataFrame:
    """
    Return the keys that the view must not have when the rows are written.

    A row of the view whose key the upstream does not have belongs to the vnode of its key; where the vnode comes from
    other columns, nobody knows to which, so that each repair of a vnode removes it.

    :param outputs: the view's key columns.
    :returns: the view's key columns.
    """
    repair = barrier.repair
    names = job_rows.key.names
    found = [_named(rows_to_write(spark, job_rows, barrier).select(*map(column, names)), outputs)]
    if repair.keys:
        found.append(_named(_keys(spark, job_rows, repair.keys), outputs))
    if repair.vnodes:
        known = _named(_read(job_rows, barrier).select(*map(column, names)), outputs)
        shown = view.select(*map(column, outputs))
        same = [shown[quote(output)].eqNullSafe(known[quote(output)]) for output in outputs]
        stray = shown.join(known, same, "left_anti")
        if set(job_rows.distribution_key) <= set(names):
            by_key = dict(zip(names, outputs, strict=True))
            stray = stray.filter(job_rows.vnode_of(by_key).isin(list(repair.vnodes)))
        found.append(stray)
    return reduce(DataFrame.unionAll, found).distinct()


def _read(job_rows: JobRows, barrier: Barrier) -> DataFrame:
    read_before = decoded(barrier.read_before, job_rows.scan)
    # What statistics hide is what a repair has to find.
    return job_rows.at(barrier.upstream.to_offset).filter(unskipped(in_any(job_rows.scan, read_before)))


def _with_keys(spark: SparkSession, job_rows: JobRows, rows: DataFrame, repair: Repair) -> DataFrame:
    names = job_rows.own.numbered("wanted", len(job_rows.key.names))
    wanted = _named(_keys(spark, job_rows, repair.keys), names)
    same = [column(key).eqNullSafe(F.col(name)) for key, name in zip(job_rows.key.names, names, strict=True)]
    return rows.join(wanted, same, "left_semi")


def _keys(spark: SparkSession, job_rows: JobRows, keys: Sequence[EncodedPosition]) -> DataFrame:
    """Return keys that are written as text as rows of the key's own types."""
    texts = StructType([StructField(f"text_{i}", StringType()) for i in range(len(job_rows.key.fields))])
    rows = spark.createDataFrame([tuple(key) for key in keys], texts)
    values = []
    for i, field in enumerate(job_rows.key.fields):
        text = F.col(f"text_{i}")
        value = F.unhex(text) if field.kind is KeyKind.BINARY else text.cast(field.type)
        values.append(value.alias(field.name))
    return rows.select(*values)


def _named(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    return rows.toDF(*names)
