"""The keys that differ between two sides of a comparison, and how; on Spark."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.errors import StateLayoutError
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.scan.keys import EncodedPosition, KeyField, KeyKind, KeyOrder
from airflow_backfill_provider.core.status.differences import DifferenceKind
from airflow_backfill_provider.engine.compared_sides import HASHES, ROW, UNIT
from airflow_backfill_provider.engine.inexact import with_far_values
from airflow_backfill_provider.sources.shared.balanced import any_of
from airflow_backfill_provider.spark.row_hash import exact, halves, row_hashes

KIND, COLUMNS = "__kind", "__columns"
"""Columns of how a key differs, and of the names of the columns that do, if both sides have the key once."""

EXPECTED_ROWS, FOUND_ROWS = "__expected_rows", "__found_rows"
"""Columns of the numbers of rows that the sides have with a key."""

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
"""The character that Java writes in place of bytes that are not UTF-8."""

_EXPECTED, _SIGN = "__expected", "__sign"


def differing_keys(
    expected: DataFrame,
    found: DataFrame,
    schema: StructType,
    *,
    key: Sequence[str],
    order: KeyOrder,
    inexact: Sequence[str],
) -> DataFrame:
    """
    Return a row for each key that differs between two sides: its unit, kind, value, and differing columns.

    :param expected: the rows of one side, each with its unit and its hashes.
    :param found: those of the other side, likewise.
    :param schema: the compared columns.
    :param key: the columns that identify a row, or a group of rows.
    :param order: the same with their types.
    :param inexact: the columns whose values may differ in their last digits.
    """
    fields = [field for field in schema.fields if field.name not in inexact]
    hashes = dict(zip(HASHES, row_hashes(fields, f"{ROW}."), strict=True)) if inexact else {}
    of_columns = {
        f"__column_{number}": F.expr(f"xxhash64({exact(f'{ROW}.{quote(field.name)}', field.dataType)})")
        for number, field in enumerate(fields)
    }

    def side(rows: DataFrame, *, is_expected: bool) -> DataFrame:
        return rows.select(
            F.lit(is_expected).alias(_EXPECTED),
            F.lit(1 if is_expected else -1).alias(_SIGN),
            UNIT,
            *(hashes.get(name, F.col(name)).alias(name) for name in HASHES),
            *(F.col(ROW).getField(output).alias(f"__key_{number}") for number, output in enumerate(key)),
            *(value.alias(name) for name, value in of_columns.items()),
            *(F.col(ROW).getField(name).alias(value) for value, name in zip(values, inexact, strict=True)),
        )

    keys = [f"__key_{number}" for number in range(len(key))]
    values = [f"__value_{number}" for number in range(len(inexact))]
    rows = side(expected, is_expected=True).unionAll(side(found, is_expected=False))
    if inexact:
        types = {value: schema[name].dataType for value, name in zip(values, inexact, strict=True)}
        rows = with_far_values(rows, keys, _EXPECTED, HASHES, types)
    halves_of_all = [half for name in HASHES for half in halves(F.col(name))]
    sums = [f"__sum_{number}" for number in range(len(halves_of_all))]
    grouped = rows.groupBy(*keys).agg(
        F.count_if(_EXPECTED).alias("__wanted"),
        F.count_if(~F.col(_EXPECTED)).alias("__found"),
        # If the sides disagree on the unit, take the query's.
        F.max_by(UNIT, _EXPECTED).alias(UNIT),
        *(F.sum(half * F.col(_SIGN)).alias(name) for name, half in zip(sums, halves_of_all, strict=True)),
        *(F.bit_xor(name).alias(name) for name in of_columns),
        *(F.some(value).alias(value) for value in values),
    )
    wanted, actual = F.col("__wanted"), F.col("__found")
    unlike = any_of([wanted != actual, *(F.col(name) != 0 for name in sums), *map(F.col, values)])
    kind = (
        F.when(actual == 0, F.lit(str(DifferenceKind.MISSING)))
        .when(wanted == 0, F.lit(str(DifferenceKind.UNEXPECTED)))
        .when(actual > wanted, F.lit(str(DifferenceKind.REPEATED)))
        .otherwise(F.lit(str(DifferenceKind.DIFFERENT)))
    )
    columns = F.array_compact(
        F.array(
            *(F.when(F.col(hashed) != 0, F.lit(field.name)) for hashed, field in zip(of_columns, fields, strict=True)),
            *(F.when(F.col(value), F.lit(name)) for value, name in zip(values, inexact, strict=True)),
        )
    )
    key_fields = order.fields
    return grouped.filter(unlike).select(
        UNIT,
        kind.alias(KIND),
        wanted.alias(EXPECTED_ROWS),
        actual.alias(FOUND_ROWS),
        *keys,
        *(
            _text(F.col(name), field).alias(f"__text_{n}")
            for n, (name, field) in enumerate(zip(keys, key_fields, strict=True))
        ),
        F.when((wanted == 1) & (actual == 1), columns).alias(COLUMNS),
    )


def _text(value: Column, field: KeyField) -> Column:
    """Return a key's value as text, independent of this machine's time zone."""
    match field.kind:
        case KeyKind.BINARY:
            return F.lower(F.hex(value))
        case KeyKind.TIMESTAMP | KeyKind.TIMESTAMP_NTZ:
            return F.date_format(value, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")
        case _:
            return value.cast("string")


def encoded(texts: Sequence[str | None], order: KeyOrder) -> EncodedPosition | None:
    """
    Return a key in its recorded form.

    :param texts: the values of its columns as text from Spark.
    :returns: ``None`` if the key cannot be recorded, for example with a year after 9999; a repair then rewrites its
        whole vnode.
    """
    if any(text is not None and _REPLACEMENT in text for text in texts):
        # The replacement character makes it another key.
        return None
    try:
        return order.encode(order.decode(texts))
    except StateLayoutError:
        return None
