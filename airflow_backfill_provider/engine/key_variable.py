"""
Finds the rows of a view that have changed keys by one scan of the view's key columns.

A ``DELETE`` of a table with deletion vectors reads the columns of its condition once, and writes only vectors. A
``MERGE`` that deletes the same rows reads them three times: to find the files, to find the rows, and to write what
changes. But the condition of a ``DELETE`` cannot have a subquery. So the keys are in a variable of the session, as a
hash table: an array of buckets, each an array of keys. Delta's log records the variable's type, and not its value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.sql import quote
from airflow_backfill_provider.sources.by_key import column

MOST_BYTES = 64 * 1024 * 1024
"""The most bytes of keys in a variable. The driver holds it, and sends it to every task once for each stage."""

BYTES_PER_VALUE = 24
"""What a value takes beside the bytes of a text."""

_KEYS_PER_BUCKET = 4


def fit_in_variable(keys: int, columns: int, text_bytes: int) -> bool:
    """
    Return whether keys are few enough for a variable.

    :param columns: the number of key columns.
    :param text_bytes: bytes of all texts and binary values in the keys.
    """
    return keys * columns * BYTES_PER_VALUE + text_bytes <= MOST_BYTES


@contextmanager
def condition_for(keys: DataFrame, count: int, types: Mapping[str, str], name: str) -> Iterator[str]:
    """
    Keep keys in a variable of the session; give the SQL condition of rows that have one of them.

    Nulls in keys are equal.

    :param keys: the key columns.
    :param count: about how many keys there are.
    :param types: the key columns and their types in the table that the condition is for.
    :param name: a name that no other variable of the session has; letters, digits and ``_``.
    """
    spark = keys.sparkSession
    fields = {f"key_{number}": (column_name, kind) for number, (column_name, kind) in enumerate(types.items())}
    buckets = max(count // _KEYS_PER_BUCKET, 1)
    variable, relation = f"system.session.{name}", f"{name}_buckets"
    struct = ", ".join(f"{field}: {kind}" for field, (_, kind) in fields.items())
    spark.sql(f"DECLARE OR REPLACE VARIABLE {variable} ARRAY<ARRAY<STRUCT<{struct}>>>")
    try:
        _hash_table(keys, fields, buckets).createOrReplaceTempView(relation)
        try:
            spark.sql(f"SET VAR {variable} = (SELECT buckets FROM {relation})")
        finally:
            spark.catalog.dropTempView(relation)
        values = {field: f"CAST({quote(column_name)} AS {kind})" for field, (column_name, kind) in fields.items()}
        bucket = f"CAST(pmod(xxhash64({', '.join(values.values())}), {buckets}) AS INT)"
        key = ", ".join(f"'{field}', {value}" for field, value in values.items())
        yield f"array_contains({variable}[{bucket}], named_struct({key}))"
    finally:
        spark.sql(f"DROP TEMPORARY VARIABLE IF EXISTS {variable}")


def _hash_table(keys: DataFrame, fields: Mapping[str, tuple[str, str]], buckets: int) -> DataFrame:
    """Return one row with the array of buckets, in their order."""
    values = [column(name).cast(kind).alias(field) for field, (name, kind) in fields.items()]
    placed = keys.select(F.pmod(F.xxhash64(*values), F.lit(buckets)).alias("bucket"), F.struct(*values).alias("key"))
    # A bucket without keys must be in the array, too; collecting leaves out the null.
    empty = keys.sparkSession.range(buckets).select(
        F.col("id").alias("bucket"), F.lit(None).cast(placed.schema["key"].dataType).alias("key")
    )
    filled = placed.unionAll(empty).groupBy("bucket").agg(F.collect_list("key").alias("keys"))
    in_order = F.array_sort(F.collect_list(F.struct("bucket", "keys")))
    return filled.agg(F.transform(in_order, lambda found: found["keys"]).alias("buckets"))
