"""
Decodes plain JSON objects on Spark in the fast way: flat ones, whose fields have just the types of the columns.

The exact way (:mod:`.json_values`) takes many times as long, because it reads every value as a text. Here Spark reads
the text once as a variant, strictly. What the variant says of its types tells whether its values are those of the
columns. Any doubt is left to the exact way, which also says what is wrong.
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
from airflow_backfill_provider.sources.formats.column_types import MOST_DIGITS, decimal_type, sql_name
from airflow_backfill_provider.sources.formats.json_scalars import from_text
from airflow_backfill_provider.sources.formats.json_values import json_value

_INTEGERS = frozenset({"byte", "short", "integer", "long"})
_FROM_TEXT = frozenset({"binary", "date", "timestamp", "timestamp_ntz"})

_READ_AS = {**dict.fromkeys(_FROM_TEXT, "string"), **dict.fromkeys(_INTEGERS, "long")}
"""Type → the type that Spark reads instead, which no value of the variant's type overflows."""

_ALWAYS_FIT = frozenset({"long", "string", "boolean"})
"""Types of which every value fits that Spark has read."""

_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
"""A name that a variant's type shows as it is."""

_OWN = own_columns(())
_TEXT, _VARIANT, _READ, _IS_SURE, _PLAIN = (
    _OWN.named(name) for name in ("text", "variant", "read", "is_sure", "plain")
)

_DOUBTFUL_END = r"[}]\s*\]"
"""After it, the text may go on behind the bracket that was put around it."""

_NEGATIVE_ZERO = "-0[.0]*[^.0-9]"
"""A number that loses its sign as a variant, or a piece of a text that looks like one."""

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
    Add a column with a struct of the value and the error; either is null, and both are if the text is.

    :param text: a valid text, or null.
    :param delta_type: the type of a struct for which :func:`is_plain` holds.
    """
    fields = delta_type["fields"]
    in_brackets = F.concat(F.lit("["), F.col(_TEXT), F.lit("]"))
    values = {field["name"]: _value(field) for field in fields}
    has_all = [
        values[field["name"]].isNotNull() | F.col(_READ).getField(field["name"]).isNull()
        for field in fields
        if field["type"] not in _ALWAYS_FIT
    ]
    has_signs = [~F.col(_TEXT).rlike(_NEGATIVE_ZERO)] if any(field["type"] == "double" for field in fields) else []
    is_sure = reduce(and_, [_is_one_object(), _has_types(fields), *has_signs, *has_all])
    plain = F.struct(F.struct(*(values[field].alias(field) for field in values)).alias("value"), _no_error())
    # Each step is a projection of its own: Spark computes it once, and compiles all but the last.
    read = rows.withColumn(_TEXT, text)
    read = read.withColumn(_VARIANT, F.try_parse_json(in_brackets))
    read = read.withColumn(_READ, F.try_variant_get(_VARIANT, "$[0]", _spark_struct(fields)))
    read = read.withColumns({_IS_SURE: F.coalesce(is_sure, F.lit(False)), _PLAIN: plain})
    sure, exact = F.col(_IS_SURE), json_value(F.col(_TEXT), delta_type)
    # Spark merges two steps if each column of the first is used once.
    result = F.when(sure, F.col(_PLAIN)).when(~sure & F.col(_TEXT).isNotNull(), exact)
    return read.withColumn(name, result).drop(_TEXT, _VARIANT, _READ, _IS_SURE, _PLAIN)


def _no_error() -> Column:
    return F.lit(None).cast("string").alias("error")


def _value(field: dict[str, Any]) -> Column:
    """Return a field's value; null if it does not fit."""
    read, kind = F.col(_READ).getField(field["name"]), field["type"]
    if kind in _FROM_TEXT:
        return from_text(read, kind)
    if kind in _INTEGERS or is_decimal(kind):
        return read.try_cast(sql_name(kind))
    return F.when(F.abs(read) < F.lit(float("inf")), read) if kind == "double" else read


def _is_one_object() -> Column:
    """Return the condition that a text is one object, and nothing follows it."""
    is_object = F.ltrim(F.col(_TEXT), F.lit(" \t\r\n")).startswith("{")
    is_single = F.try_variant_get(_VARIANT, "$[1]", "variant").isNull()
    return is_object & ~F.col(_TEXT).rlike(_DOUBTFUL_END) & is_single


def _has_types(fields: list[dict[str, Any]]) -> Column:
    """Return the condition that no field has another type than its column."""
    shown = {field["name"]: f"(?:{_shown_as(field['type'])}|VOID)" for field in fields}
    found = F.schema_of_variant(F.col(_VARIANT))
    # Most objects have all fields and no others; this pattern is matched in one pass.
    usual = ", ".join(f"{name}: {shown[name]}" for name in sorted(shown))
    others = "|".join(f"{name}: (?!{kinds}[,>])" for name, kinds in shown.items())
    return found.rlike(f"^ARRAY<OBJECT<{usual}>>$") | ~found.rlike(f"(?:^ARRAY<OBJECT<|, )(?:{others})")


def _shown_as(kind: str) -> str:
    """Return a pattern of the types of variants whose values Spark reads as they are; empty if there is none."""
    if kind in _INTEGERS:
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
    return "STRING" if kind == "string" or kind in _FROM_TEXT else ""


def _spark_struct(fields: list[dict[str, Any]]) -> str:
    """Return the type that Spark reads, as SQL writes it."""
    columns = (f"{quote(field['name'])}: {sql_name(_read_as(field['type']))}" for field in fields)
    return f"STRUCT<{', '.join(columns)}>"


def _read_as(kind: str) -> str:
    if is_decimal(kind):
        _, scale = digits_of(kind)
        return decimal_type(MOST_DIGITS, scale)
    return _READ_AS.get(kind, kind)
