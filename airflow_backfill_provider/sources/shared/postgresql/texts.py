"""
Converts values from texts, as PostgreSQL writes them, to the types of Spark.

A text that the type has no value for fails the epoch. It never becomes a null.
"""

from __future__ import annotations

import json

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.sources.shared.change_log.dialect import Dialect
from airflow_backfill_provider.sources.shared.postgresql.spark_errors import UNCHANGED_VALUE
from airflow_backfill_provider.sources.shared.refusals import unsupported_value, unusable_key

_TRUE = ("t", "true")

_OF_TIME = frozenset({"date", "timestamp", "timestamp_ntz"})


def typed(text: Column, delta_type: str, name: str, matters: Column | None = None) -> Column:
    """
    Return a value from its text.

    :param delta_type: the type, as Delta writes it.
    :param name: the column's name, for the error.
    :param matters: the condition that a text without a counterpart fails the epoch, otherwise the value is null;
        ``None`` for always.
    """
    if delta_type == "string":
        # A whole number that is to be read as text may come as a number.
        return text.cast("string")
    if delta_type.startswith("{"):
        return _array(text, json.loads(delta_type)["elementType"], name, matters)
    if delta_type == "boolean":
        return F.when(text.isNotNull(), text.isin(*_TRUE))
    if delta_type == "binary":
        return _required(F.unhex(F.substr(text, F.lit(3))), text, name, matters)
    return _required(_scalar(text, delta_type), text, name, matters)


def is_no_number(text: Column, delta_type: str) -> Column:
    """
    Return whether a text is that of an infinite value or of NaN, which the type of a key has no value for.

    :param delta_type: the type, as Delta writes it.
    """
    if delta_type in _OF_TIME or delta_type.startswith("decimal"):
        return F.coalesce(~text.rlike(r"^-?[\d.]"), F.lit(False))
    return F.lit(False)


def typed_key(text: Column, delta_type: str, name: str, matters: Column | None = None) -> Column:
    """
    Return a key from its text, see :func:`typed`.

    :param matters: the condition that a key which is not ordered alike everywhere fails the epoch; ``None`` for always.
    """
    strange = is_no_number(text, delta_type)
    if delta_type in _OF_TIME:
        strange |= F.coalesce(~text.rlike(r"^\d{4}-") | text.endswith(" BC"), F.lit(False))
    fails = strange if matters is None else strange & matters
    return typed(F.when(fails, unusable_key(name).cast("string")).otherwise(text), delta_type, name, matters)


DIALECT = Dialect(
    typed=typed,
    typed_key=typed_key,
    has_no_key=is_no_number,
    unchanged=UNCHANGED_VALUE,
    without_key="a change was logged without key column {name}, which the table's replica identity did not have",
)
"""How a change log of PostgreSQL is read."""


def _scalar(text: Column, delta_type: str) -> Column:
    if delta_type in _OF_TIME:
        text = F.when(text.endswith(" BC"), _before_christ(text)).otherwise(text)
    return text.try_cast(_spark_type(delta_type))


def _before_christ(text: Column) -> Column:
    """Return a date or an instant with the number of its year, of which the first before the year 1 is 0."""
    year = F.regexp_extract(text, r"^(\d+)-", 1).cast("int") - 1
    rest = F.regexp_extract(text, r"^\d+(-.*) BC$", 1)
    return F.concat(F.lit("-"), F.lpad(year.cast("string"), 4, "0"), rest)


def _array(text: Column, element: object, name: str, matters: Column | None) -> Column:
    texts = _required(F.from_json(text, "array<string>"), text, name, matters)
    kind = element if isinstance(element, str) else json.dumps(element)
    return F.transform(texts, lambda item: typed(item, kind, name, matters))


def _required(value: Column, text: Column, name: str, matters: Column | None) -> Column:
    # Not a condition on the value: Spark would convert the text twice.
    fails = text.isNotNull() if matters is None else text.isNotNull() & matters
    return F.coalesce(value, F.when(fails, unsupported_value(name)))


def _spark_type(delta_type: str) -> str:
    return {"short": "smallint", "byte": "tinyint", "long": "bigint", "integer": "int"}.get(delta_type, delta_type)
