"""
Finds the rows of a view that have changed keys by one scan of the view's key columns.

A ``DELETE`` of a table with deletion vectors reads the columns of its condition once, and writes only vectors. A
``MERGE`` that deletes the same rows reads them three times: to find the files, to find the rows, and to write what
changes. But the condition of a ``DELETE`` cannot have a subquery. So the keys are in a variable of the session, as a
hash table: an array of buckets, each an array of keys. Delta's log records the variable's type, and not its value.

Most rows of the view have none of the keys, and to look into a bucket takes longer than to read the row. So another
variable has a bit for each place that the hash of a key can have, in so few bytes that a processor keeps them at hand,
and a bucket is looked into only if the bit of the row is set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.sql import quote
from airflow_backfill_provider.sources.by_key import column

MOST_BYTES = 64 * 1024 * 1024
"""The most bytes of keys in a variable. The driver holds it, and sends it to every task once for each stage."""

BYTES_PER_VALUE = 24
"""What a value takes beside the bytes of a text."""

_KEYS_PER_BUCKET = 4

_BITS_PER_KEY, _BITS_PER_WORD = 16, 64
"""One in 16 of the rows that have none of the keys has the bit of one."""


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
    Keep keys in variables of the session; give the SQL condition of rows that have one of them.

    Nulls in keys are equal.

    :param keys: the key columns.
    :param count: about how many keys there are.
    :param types: the key columns and their types in the table that the condition is for.
    :param name: a name that no other variables of the session begin with; letters, digits and ``_``.
    """
    fields = {f"key_{number}": (column_name, kind) for number, (column_name, kind) in enumerate(types.items())}
    values = [column(column_name).cast(kind).alias(field) for field, (column_name, kind) in fields.items()]
    hashed = keys.select(F.xxhash64(*values).alias("hash"), F.struct(*values).alias("key"))
    struct = ", ".join(f"{field}: {kind}" for field, (_, kind) in fields.items())

    in_table = {field: f"CAST({quote(column_name)} AS {kind})" for field, (column_name, kind) in fields.items()}
    row_hash = f"xxhash64({', '.join(in_table.values())})"
    row_key = ", ".join(f"'{field}', {value}" for field, value in in_table.items())

    buckets = max(count // _KEYS_PER_BUCKET, 1)
    words = max(count * _BITS_PER_KEY // _BITS_PER_WORD, 1)
    with (
        _in_array(hashed, F.collect_list("key"), buckets, f"ARRAY<STRUCT<{struct}>>", f"{name}_keys") as keys_at,
        _in_array(hashed, F.bit_or(F.expr(_bit("hash"))), words, "BIGINT", f"{name}_bits") as bits_at,
    ):
        is_set = f"({bits_at}[{_place(row_hash, words)}] & {_bit(row_hash)}) <> 0"
        yield f"{is_set} AND array_contains({keys_at}[{_place(row_hash, buckets)}], named_struct({row_key}))"


@contextmanager
def _in_array(hashed: DataFrame, aggregate: Column, places: int, kind: str, name: str) -> Iterator[str]:
    """
    Keep an array in a variable of the session, with what the keys of each place add up to; give the variable's name.

    :param hashed: the keys with their hashes.
    :param aggregate: adds up keys and hashes.
    :param places: the length of the array.
    :param kind: the type of its elements.
    """
    spark, variable, relation = hashed.sparkSession, f"system.session.{name}", f"{name}_of_all"
    # A place without keys must be in the array, too.
    every = spark.range(places).select(
        F.col("id").alias("place"), *(F.lit(None).cast(field.dataType).alias(field.name) for field in hashed.schema)
    )
    placed = hashed.select(F.expr(_place("hash", places)).cast("long").alias("place"), "hash", "key").unionAll(every)
    added_up = placed.groupBy("place").agg(aggregate.alias("value"))
    in_order = F.array_sort(F.collect_list(F.struct("place", "value")))
    spark.sql(f"DECLARE OR REPLACE VARIABLE {variable} ARRAY<{kind}>")
    try:
        of_all = F.transform(in_order, lambda found: found["value"]).alias("found")
        added_up.agg(of_all).createOrReplaceTempView(relation)
        try:
            spark.sql(f"SET VAR {variable} = (SELECT found FROM {relation})")
        finally:
            spark.catalog.dropTempView(relation)
        yield variable
    finally:
        spark.sql(f"DROP TEMPORARY VARIABLE IF EXISTS {variable}")


def _place(hashed: str, places: int) -> str:
    """Return the place of a hash in an array, in SQL."""
    return f"CAST(pmod({hashed}, {places}) AS INT)"


def _bit(hashed: str) -> str:
    """Return a word with the bit of a hash, in SQL; other bits of the hash than those that decide on the place."""
    return f"shiftleft(1L, CAST(pmod(shiftright({hashed}, 40), {_BITS_PER_WORD}) AS INT))"
