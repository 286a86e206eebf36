"""Refuses units by values that equal rows may have in different forms."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import DataType, DoubleType, FloatType, StringType, StructType

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.refresh import WAY_OUT
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder

_BINARY = "UTF8_BINARY"


def require_unit_types(schema: StructType, outputs: Sequence[str]) -> None:
    """
    Refuse units by floating-point numbers, by texts that are not compared by their bytes, and by nested values.

    :param schema: the view's columns.
    :param outputs: the view's columns that identify a unit.
    :raises InvalidJobError: with the column, and what to write instead.
    """
    types = {field.name.lower(): field for field in schema.fields}
    for name in outputs:
        field = types[name.lower()]
        if problem := _problem(field.dataType):
            raise InvalidJobError(f"query: it groups by {quote(field.name)}, {problem}; {WAY_OUT}")


def require_exact_texts(schema: StructType) -> None:
    """
    Refuse aggregated texts that are not compared by their bytes: of several equal ones, min and max return any.

    :param schema: the columns of a view that aggregates.
    :raises InvalidJobError: with the column, and what to write instead.
    """
    for field in schema.fields:
        if isinstance(field.dataType, StringType) and field.dataType.collation != _BINARY:
            raise InvalidJobError(
                f"query: {quote(field.name)} is one of several texts that the collation {field.dataType.collation} "
                f"takes for equal; aggregate the text with COLLATE {_BINARY}"
            )


def unit_order(schema: StructType, outputs: Sequence[str]) -> KeyOrder:
    """Return the columns that identify a unit, with their types as Delta names them."""
    return KeyOrder(tuple(KeyField(name=name, type=_delta_name(schema[name].dataType)) for name in outputs))


def _problem(kind: DataType) -> str:
    """Return why values of a type cannot tell units apart, and what to write instead; empty if they can."""
    if isinstance(kind, FloatType | DoubleType):
        return (
            f"which is a {kind.typeName().upper()}, and such numbers are equal in several forms (0.0 and -0.0); group "
            "by CAST(… AS DECIMAL(…)) or by floor(…)"
        )
    if isinstance(kind, StringType) and kind.collation != _BINARY:
        return (
            f"whose collation {kind.collation} takes different texts for equal; group by lower(… COLLATE {_BINARY}), "
            f"or by the text with COLLATE {_BINARY}"
        )
    try:
        KeyField(name="", type=_delta_name(kind)).kind  # noqa: B018 - refuses types that are no keys
    except InvalidJobError:
        return f"which is {kind.simpleString()} and cannot tell groups apart; group by its fields, or by to_json(…)"
    return ""


def _delta_name(kind: DataType) -> str:
    name = kind.jsonValue()
    return name if isinstance(name, str) else kind.simpleString()
