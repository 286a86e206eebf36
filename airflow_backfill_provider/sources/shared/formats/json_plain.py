"""
Decodes plain JSON objects on Spark in the fast way: flat ones, whose fields have just the types of the columns.

The exact way (:mod:`.json_values`) takes many times as long, because it reads every value as a text. Here Spark reads
the fields once, and most objects prove to be usual ones (:mod:`.json_usual`). Where that is in doubt, for example
because an object has fields without a column, Spark also reads it as a variant, which is strict, and whose types tell
whether the values are those of the columns. Any further doubt is left to the exact way, which also says what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.job.sql import text_literal
from airflow_backfill_provider.core.scan.columns import own_columns
from airflow_backfill_provider.core.scan.decimals import digits_of, is_decimal
from airflow_backfill_provider.sources.shared.formats.column_types import MOST_DIGITS, sql_name, struct_type
from airflow_backfill_provider.sources.shared.formats.json_scalars import from_text
from airflow_backfill_provider.sources.shared.formats.json_text import begins_an_object
from airflow_backfill_provider.sources.shared.formats.json_usual import INTEGERS, TEXTS, is_usual
from airflow_backfill_provider.sources.shared.formats.json_values import field_of, json_value, strictly_read
from airflow_backfill_provider.sources.shared.formats.once import once

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


def with_plain_json(rows: DataFrame, text: str, delta_type: dict[str, Any], name: str) -> DataFrame:
    """
    Add a column with a struct of the value and the error; one of them is null, or both if the text is null or no UTF-8.

    :param text: an expression of a text, valid or not; it is computed several times.
    :param delta_type: the type of a struct for which :func:`is_plain` holds.
    """
    fields = delta_type["fields"]
    corrupt = own_columns(field["name"] for field in fields).named("corrupt")
    read = {field["name"]: field_of(_READ, field["name"]) for field in fields}
    has_all = (
        f"({field_of(_VALUE, field['name'])} IS NOT NULL OR {read[field['name']]} IS NULL)"
        for field in fields
        if field["type"] in _MAY_NOT_FIT
    )
    values = (f"{text_literal(field['name'])}, {_value(read[field['name']], field['type'])}" for field in fields)
    plain = f"named_struct('value', {_VALUE}, 'error', CAST(NULL AS STRING))"
    doubtful = f"CASE WHEN is_valid_utf8({text}) THEN {_strictly(text, plain, delta_type)} END"
    # Each step is a projection of its own, so Spark computes it once. It compiles all but the first and the last.
    steps = {
        _READ: strictly_read(text, _as_read(fields), corrupt),
        _VALUE: f"named_struct({', '.join(values)})",
        _IS_READ: f"coalesce({_all([f'{field_of(_READ, corrupt)} IS NULL', *has_all])}, false)",
        _IS_SURE: f"{_IS_READ} AND {is_usual(text, read, fields)}",
        name: f"CASE WHEN {_IS_SURE} THEN {plain} ELSE {doubtful} END",
    }
    for step, expression in steps.items():
        rows = rows.withColumn(step, F.expr(expression))
    return rows.drop(*(step for step in steps if step != name))


def _strictly(text: str, plain: str, delta_type: dict[str, Any]) -> str:
    """Return the plain result if a variant shows that it is right, and otherwise the exact one."""
    fields = delta_type["fields"]
    has_double = any(field["type"] == "double" for field in fields)
    has_signs = [f"NOT rlike({text}, {text_literal(_NEGATIVE_ZERO)})"] if has_double else []

    def result(variant: str) -> str:
        is_right = _all([_IS_READ, *_is_one_object(text, variant), _has_types(variant, fields), *has_signs])
        return f"CASE WHEN {is_right} THEN {plain} ELSE {json_value(text, delta_type)} END"

    return once(f"try_parse_json(concat('[', {text}, ']'))", "variant", result)


def _value(read: str, kind: str) -> str:
    """Return a field's value; null if it does not fit."""
    if kind in INTEGERS:
        return f"try_cast({read} AS {sql_name(kind)})"
    if kind == "double":
        return f"CASE WHEN abs({read}) < double('Infinity') THEN {read} END"
    return from_text(read, kind) if kind in TEXTS else read


def _is_one_object(text: str, variant: str) -> list[str]:
    """Return the conditions that a text is one object, and nothing follows it."""
    return [
        begins_an_object(text),
        f"NOT rlike({text}, {text_literal(_DOUBTFUL_END)})",
        f"try_variant_get({variant}, '$[1]', 'variant') IS NULL",
    ]


def _has_types(variant: str, fields: list[dict[str, Any]]) -> str:
    """Return the condition that no field has another type than its column."""
    shown = {field["name"]: f"(?:{_shown_as(field['type'])}|VOID)" for field in fields}
    found = f"schema_of_variant({variant})"
    # Most objects have all fields and no others; this pattern is matched in one pass.
    usual = ", ".join(f"{name}: {shown[name]}" for name in sorted(shown))
    others = "|".join(f"{name}: (?!{kinds}[,>])" for name, kinds in shown.items())
    has_usual = f"rlike({found}, {text_literal(f'^ARRAY<OBJECT<{usual}>>$')})"
    return f"({has_usual} OR NOT rlike({found}, {text_literal(f'(?:^ARRAY<OBJECT<|, )(?:{others})')}))"


def _all(conditions: Iterable[str]) -> str:
    return " AND ".join(conditions)


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


def _as_read(fields: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the type that Spark reads."""
    return struct_type([(field["name"], _READ_AS.get(field["type"], field["type"])) for field in fields])
