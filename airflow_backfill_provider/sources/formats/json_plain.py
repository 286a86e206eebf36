"""
Decodes plain JSON objects on Spark in the fast way: flat ones, whose fields have just the types of the columns.

The exact way (:mod:`.json_values`) takes many times as long, because it reads every value as a text. Here Spark reads
the fields once, and most objects prove to be usual ones (:mod:`.json_usual`). Where that is in doubt, for example
because an object has fields without a column, Spark also reads it as a variant, which is strict, and whose types tell
whether the values are those of the columns. Any further doubt is left to the exact way, which also says what is wrong.
"""

from __future__ import annotations

import re
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.columns import own_columns
from airflow_backfill_provider.core.decimals import digits_of, is_decimal
from airflow_backfill_provider.core.sql import quote
from airflow_backfill_provider.sources.formats.column_types import MOST_DIGITS, sql_name
from airflow_backfill_provider.sources.formats.json_scalars import from_text
from airflow_backfill_provider.sources.formats.json_usual import INTEGERS, TEXTS, is_usual
from airflow_backfill_provider.sources.formats.json_values import READ_STRICTLY, json_value
from airflow_backfill_provider.sources.formats.once import once

_READ_AS = {**dict.fromkeys(INTEGERS, "long"), **dict.fromkeys(TEXTS, "string")}
"""Type → the type that Spark reads instead, which no value overflows in silence."""

_MAY_NOT_FIT = (INTEGERS - {"long"}) | (TEXTS - {"string"}) | {"double"}
"""Types of which a value need not fit that Spark has read."""

_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
"""A name that a variant's type shows as it is."""

_OWN = own_columns(())
_READ, _VALUE, _IS_READ, _IS_SURE = (_OWN.named(name) for name in ("read", "value", "is_read", "is_sure"))

_DOUBTFUL_END = r"[}]\s*\]"
"""After it, the text may go on behind the bracket that was put around it."""

_NEGATIVE_ZERO = "-0[.0]*[^.0-9]"
"""A number that loses its sign if it is whole, or a piece of a text that looks like one."""

_LONG_DIGITS = 19
"""The digits of the greatest number of 64 bits."""


def is_plain(delta_type: dict[str, Any]) -> bool:
    """Return whether objects of a struct's type may be read in the fast way."""
    return all(
        isinstance(field["type"], str) and _shown_as(field["type"]) and _PLAIN_NAME.fullmatch(field["name"])
        for field in delta_type["fields"]
    )


def with_plain_json(rows: DataFrame, text: Column, delta_type: dict[str, Any], name: str) -> DataFrame:
    """
    Add a column with a struct of the value and the error; one of them is null, or both if the text is null or no UTF-8.

    :param text: a text, valid or not; it is computed several times.
    :param delta_type: the type of a struct for which :func:`is_plain` holds.
    """
    fields = delta_type["fields"]
    corrupt = own_columns(field["name"] for field in fields).named("corrupt")
    options = {**READ_STRICTLY, "columnNameOfCorruptRecord": corrupt}
    read = {field["name"]: F.col(_READ).getField(field["name"]) for field in fields}
    has_all = [
        F.col(_VALUE).getField(field["name"]).isNotNull() | read[field["name"]].isNull()
        for field in fields
        if field["type"] in _MAY_NOT_FIT
    ]
    is_read = reduce(and_, [F.col(_READ).getField(corrupt).isNull(), *has_all])
    no_error = F.lit(None).cast("string").alias("error")
    plain = F.struct(F.col(_VALUE).alias("value"), no_error)
    doubtful = F.when(F.is_valid_utf8(text), _strictly(text, F.col(_IS_READ), plain, delta_type))
    # Each step is a projection of its own, so Spark computes it once. It compiles all but the first and the last.
    steps = {
        _READ: F.from_json(text, _spark_struct(fields, corrupt), options),
        _VALUE: F.struct(*(_value(read[field["name"]], field["type"]).alias(field["name"]) for field in fields)),
        _IS_READ: F.coalesce(is_read, F.lit(False)),
        _IS_SURE: F.col(_IS_READ) & is_usual(text, read, fields),
        name: F.when(F.col(_IS_SURE), plain).otherwise(doubtful),
    }
    for step, column in steps.items():
        rows = rows.withColumn(step, column)
    return rows.drop(*(step for step in steps if step != name))


def _strictly(text: Column, is_read: Column, plain: Column, delta_type: dict[str, Any]) -> Column:
    """Return the plain result if a variant shows that it is right, and otherwise the exact one."""
    fields = delta_type["fields"]
    has_signs = [~text.rlike(_NEGATIVE_ZERO)] if any(field["type"] == "double" for field in fields) else []

    def result(variant: Column) -> Column:
        is_right = reduce(and_, [is_read, _is_one_object(text, variant), _has_types(variant, fields), *has_signs])
        return F.when(is_right, plain).otherwise(json_value(text, delta_type))

    return once(F.try_parse_json(F.concat(F.lit("["), text, F.lit("]"))), result)


def _value(read: Column, kind: str) -> Column:
    """Return a field's value; null if it does not fit."""
    if kind in INTEGERS:
        return read.try_cast(sql_name(kind))
    if kind == "double":
        return F.when(F.abs(read) < F.lit(float("inf")), read)
    return from_text(read, kind) if kind in TEXTS else read


def _is_one_object(text: Column, variant: Column) -> Column:
    """Return the condition that a text is one object, and nothing follows it."""
    is_object = F.ltrim(text, F.lit(" \t\r\n")).startswith("{")
    is_single = F.try_variant_get(variant, "$[1]", "variant").isNull()
    return is_object & ~text.rlike(_DOUBTFUL_END) & is_single


def _has_types(variant: Column, fields: list[dict[str, Any]]) -> Column:
    """Return the condition that no field has another type than its column."""
    shown = {field["name"]: f"(?:{_shown_as(field['type'])}|VOID)" for field in fields}
    found = F.schema_of_variant(variant)
    # Most objects have all fields and no others; this pattern is matched in one pass.
    usual = ", ".join(f"{name}: {shown[name]}" for name in sorted(shown))
    others = "|".join(f"{name}: (?!{kinds}[,>])" for name, kinds in shown.items())
    return found.rlike(f"^ARRAY<OBJECT<{usual}>>$") | ~found.rlike(f"(?:^ARRAY<OBJECT<|, )(?:{others})")


def _shown_as(kind: str) -> str:
    """Return a pattern of the types of variants whose values Spark reads as they are; empty if there is none."""
    if kind in INTEGERS:
        return "BIGINT"
    if is_decimal(kind):
        _, scale = digits_of(kind)
        fitting = "|".join(map(str, range(1, MOST_DIGITS - scale + 1)))
        whole = "BIGINT|" if scale <= MOST_DIGITS - _LONG_DIGITS else ""
        return rf"{whole}DECIMAL\((?:{fitting}),(?:{'|'.join(map(str, range(scale + 1)))})\)"
    if kind == "double":
        return r"BIGINT|DOUBLE|DECIMAL\(\d+,\d+\)"
    if kind == "boolean":
        return "BOOLEAN"
    return "STRING" if kind in TEXTS else ""


def _spark_struct(fields: list[dict[str, Any]], corrupt: str) -> str:
    """Return the type that Spark reads, as SQL writes it."""
    columns = (f"{quote(field['name'])}: {sql_name(_READ_AS.get(field['type'], field['type']))}" for field in fields)
    return f"STRUCT<{', '.join(columns)}, {quote(corrupt)}: STRING>"
