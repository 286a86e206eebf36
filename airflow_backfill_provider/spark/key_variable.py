"""
Finds the rows of a view that have changed keys by one scan of the view's key columns.

A ``DELETE`` of a table with deletion vectors reads the columns of its condition once, and writes only vectors. A
``MERGE`` that deletes the same rows reads them three times: to find the files, to find the rows, and to write what
changes. But the condition of a ``DELETE`` cannot have a subquery. So the keys are in a variable of the session, as a
hash table: an array of buckets, each an array of keys. Delta's log records the variable's type, and not its value.

Most rows of the view have none of the keys, and to look into a bucket takes longer than to read the row. So another
variable has a word of bits for each bucket, in so few bytes that a processor keeps them at hand, and a bucket is looked
into only if the bit of the row's hash is set.

Spark hashes the keys, as it hashes the rows that are looked up. Arrow puts them into buckets in this process, which
holds few enough of them: Spark would need longer to group and sort them into one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.sources.shared.by_key import column

MOST_BYTES = 64 * 1024 * 1024
"""The most bytes of keys in a variable. The driver holds it, and sends it to every task once for each stage."""

BYTES_PER_VALUE = 24
"""What a value takes beside the bytes of a text."""

_KEYS_PER_BUCKET, _BITS_PER_BUCKET = 4, 64
"""A bit for every sixteenth of a key, so one in 16 of the rows that have none of the keys has the bit of one."""


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
    struct = ", ".join(f"{field}: {kind}" for field, (_, kind) in fields.items())

    in_table = {field: f"CAST({quote(column_name)} AS {kind})" for field, (column_name, kind) in fields.items()}
    row_hash = f"xxhash64({', '.join(in_table.values())})"
    row_key = ", ".join(f"'{field}', {value}" for field, value in in_table.items())

    buckets = max(count // _KEYS_PER_BUCKET, 1)
    placed = keys.select(F.xxhash64(*values).alias("hash"), F.struct(*values).alias("key")).select(
        F.expr(_bucket("hash", buckets)).alias("bucket"), F.expr(_bit("hash")).alias("bit"), "key"
    )
    kinds = {"keys": f"ARRAY<ARRAY<STRUCT<{struct}>>>", "bits": "ARRAY<BIGINT>"}
    with _variables(_hash_table(placed, kinds, buckets), kinds, name) as (keys_in, bits_of):
        bucket = f"[{_bucket(row_hash, buckets)}]"
        is_set = f"({bits_of}{bucket} & {_bit(row_hash)}) <> 0"
        yield f"{is_set} AND array_contains({keys_in}{bucket}, named_struct({row_key}))"


def _hash_table(placed: DataFrame, kinds: Mapping[str, str], buckets: int) -> DataFrame:
    """
    Return one row with two arrays: ``keys`` has those of each bucket, and ``bits`` a word with their bits.

    :param placed: the keys, the bucket of each, and the bit of each in the bucket's word.
    :param kinds: the arrays' names and types.
    """
    found = placed.toArrow()
    bucket_of = found["bucket"].to_numpy()
    by_bucket = found["key"].combine_chunks().take(pa.array(np.argsort(bucket_of)))
    bounds = np.concatenate([[0], np.cumsum(np.bincount(bucket_of, minlength=buckets))])
    bits = np.zeros(buckets, np.int64)
    np.bitwise_or.at(bits, bucket_of, found["bit"].to_numpy())
    columns = {"keys": _lists(bounds, by_bucket), "bits": pa.array(bits)}
    row = pa.table({name: _lists([0, buckets], values) for name, values in columns.items()})
    return placed.sparkSession.createDataFrame(row, ", ".join(f"{name} {kind}" for name, kind in kinds.items()))


def _lists(bounds: Iterable[int], values: pa.Array) -> pa.Array:
    """Return an array of lists of values; each begins at a bound and ends before the next one."""
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), values)


@contextmanager
def _variables(row: DataFrame, kinds: Mapping[str, str], name: str) -> Iterator[list[str]]:
    """
    Keep the columns of one row in variables of the session; give the variables' names.

    :param kinds: column → its type.
    """
    spark, relation = row.sparkSession, f"{name}_row"
    variables = [f"system.session.{name}_{column_name}" for column_name in kinds]
    try:
        for variable, kind in zip(variables, kinds.values(), strict=True):
            spark.sql(f"DECLARE OR REPLACE VARIABLE {variable} {kind}")
        row.createOrReplaceTempView(relation)
        try:
            spark.sql(f"SET VAR ({', '.join(variables)}) = (SELECT {', '.join(kinds)} FROM {relation})")
        finally:
            spark.catalog.dropTempView(relation)
        yield variables
    finally:
        for variable in variables:
            spark.sql(f"DROP TEMPORARY VARIABLE IF EXISTS {variable}")


def _bucket(hashed: str, buckets: int) -> str:
    """Return the bucket of a hash, in SQL."""
    return f"CAST(pmod({hashed}, {buckets}) AS INT)"


def _bit(hashed: str) -> str:
    """Return a word with the bit of a hash, in SQL; other bits of the hash than those that decide on the bucket."""
    return f"shiftleft(1L, CAST(pmod(shiftright({hashed}, 40), {_BITS_PER_BUCKET}) AS INT))"
