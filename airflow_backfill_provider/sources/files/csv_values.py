"""
Converts the texts of CSV to the types of columns, exactly; null if a text does not fit.

Programs write numbers and booleans in more ways than JSON allows. A text is first brought into JSON's way.

The functions take and return expressions of Spark SQL as text.
"""

from __future__ import annotations

from airflow_backfill_provider.core.job.sql import text_literal
from airflow_backfill_provider.core.scan.decimals import is_decimal
from airflow_backfill_provider.sources.shared.formats.column_types import sql_name
from airflow_backfill_provider.sources.shared.formats.json_scalars import from_number, from_text

_NUMBERS = frozenset({"byte", "short", "integer", "long", "float", "double"})

_TRUE, _FALSE = "('true', 't', 'yes', 'y', '1')", "('false', 'f', 'no', 'n', '0')"
"""What Spark's CAST takes for them, in any case."""

_NO_NUMBER = {"nan": "NaN", "inf": "Infinity", "infinity": "Infinity", "+inf": "Infinity", "+infinity": "Infinity"}
_NO_NUMBERS = {**_NO_NUMBER, "-inf": "-Infinity", "-infinity": "-Infinity"}
"""How programs write what is no number → how Spark does."""


def csv_value(text: str, kind: str) -> str:
    """
    Return a value from its text.

    :param text: the name of the text.
    """
    if kind == "boolean":
        return f"CASE WHEN lower({text}) IN {_TRUE} THEN true WHEN lower({text}) IN {_FALSE} THEN false END"
    if kind in {"float", "double"}:
        named = " ".join(
            f"WHEN {text_literal(name)} THEN {sql_name(kind)}({text_literal(value)})"
            for name, value in _NO_NUMBERS.items()
        )
        return f"CASE lower({text}) {named} ELSE {from_number(_as_json(text), kind)} END"
    if kind in _NUMBERS or is_decimal(kind):
        return from_number(_as_json(text), kind)
    return from_text(text, kind)


def _as_json(text: str) -> str:
    """Return a number without a plus, and with digits before and behind the point; another text stays wrong."""
    unsigned = f"regexp_replace({text}, {text_literal('^[+](?=[.0-9])')}, '')"
    led = f"regexp_replace({unsigned}, {text_literal('^(-?)[.](?=[0-9])')}, {text_literal('$10.')})"
    return f"regexp_replace({led}, {text_literal('^(-?[0-9]+)[.](?=$|[eE])')}, {text_literal('$1.0')})"
