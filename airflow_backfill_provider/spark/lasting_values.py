"""
Refuses a query with values that may change from day to day, if only Spark's plan reveals it.

Spark reads a text with only a time (``'10:15'``) as a TIMESTAMP of the current day, also in a column, and a constant
text such as ``'today'`` as a date. Neither needs an explicit cast: a comparison with a TIMESTAMP is enough. So this
module searches the plans that ``EXPLAIN`` prints, the only ones that Spark Connect offers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.spark_tokens import TokenKind, spark_tokens, text_value
from airflow_backfill_provider.core.job.sql import is_relative_date, text_literal
from airflow_backfill_provider.spark.named_relations import sql_over
from airflow_backfill_provider.spark.query import NO_OTHERS, WHOLE_PLANS, Query, over_rows, require_checked
from airflow_backfill_provider.spark.session import session_settings
from airflow_backfill_provider.spark.spark_errors import query_errors

_OPTIMIZED = "== Optimized Logical Plan =="
_TO_TIMESTAMP = re.compile(r" as ((?:array<|map<|struct<)?[^()\s]*)\)")
_HAS_TIMESTAMP = re.compile(r"(?:^|[<:,])timestamp\b(?!:)")
_READS_TIMESTAMPS = re.compile(r"\b(from_json|from_csv|from_xml|(?:try_)?variant_get)\(")
_VARIABLE = re.compile(r"\bvariablereference\(([^=]*)=")
_COLUMN = re.compile(r"^.+#(\d+)L?((?:\.[^.\[\]#]+|\[[^\[\]]*\])*)$")
_CALL = re.compile(r"^([a-z_0-9]+)\(")
_BRANCH = re.compile(r" (?:THEN|ELSE) (.*?)(?= WHEN | ELSE | END)")
_MENTIONED_ID = re.compile(r"#\d+L?")
_HOLDS_TEXT = re.compile(r"string|char|variant")

_DATE = re.compile(r"\s*[+-]?\d{4,7}(?:-\d{1,2}(?:-\d{1,2}(?:[ T].*)?)?)?\s*$", re.DOTALL)
"""A text with at least a year, which is the same date or time each day."""

_WHY = (
    "Spark reads a text with only a time, such as '10:15', as a time of the current day, so the value may differ "
    "tomorrow."
)
_WITH_FORMAT = "to_timestamp(text, 'yyyy-MM-dd HH:mm:ss') with the format of your texts"

_NO_TEXT = frozenset(
    """
    abs add_months bigint bround ceil convert_timezone date_add date_diff date_from_unix_date date_sub
    date_trunc dateadd datediff dayofmonth dayofweek dayofyear floor from_utc_timestamp gettimestamp int last_day length
    make_date make_timestamp make_timestamp_ltz make_timestamp_ntz month next_day round time_bucket timestamp_micros
    timestamp_millis timestamp_seconds timestampadd to_date to_timestamp to_timestamp_ltz to_timestamp_ntz
    to_unix_timestamp to_utc_timestamp trunc try_make_timestamp try_to_date try_to_timestamp unix_date unix_micros
    unix_millis unix_seconds unix_timestamp window_time year
    """.split()
)
"""Functions that return a date, a timestamp or a number."""

_LIKE_ARGUMENTS = frozenset({"coalesce", "greatest", "ifnull", "least", "nvl"})
"""Functions that do not return text if one of their arguments is not text."""


def require_lasting_values(
    spark: SparkSession, query: Query, rows: DataFrame, others: Mapping[str, DataFrame] = NO_OTHERS
) -> None:
    """
    Refuse a query whose values depend on the day, or on a variable of the session.

    :param rows: the used columns of the upstream, or of the one that leads.
    :param others: those of the upstreams that are read whole, by their names.
    :raises InvalidJobError: with the expression, and what to write instead.
    """
    # Empty relations, so that planning does not read the upstreams' files.
    empty = spark.createDataFrame([], rows.schema)
    empty_others = {name: spark.createDataFrame([], found.schema) for name, found in others.items()}
    schemas = [rows.schema, *(found.schema for found in others.values())]
    require_checked(spark, query, rows, others)
    with query_errors(), session_settings(spark, WHOLE_PLANS):
        today = spark.sql("SELECT current_date()").collect()[0][0]
        sql, relations = over_rows(query, empty, empty_others)
        explained = str(sql_over(spark, f"EXPLAIN EXTENDED {sql}", relations).collect()[0][0])
    _, found, plans = explained.partition("== Analyzed Logical Plan ==")
    if not found:
        raise InvalidJobError(f"query: Spark cannot explain it: {explained.splitlines()[0]}")
    _refuse_variables(plans)
    # Between the query's steps a column may have any name and type; the optimized plan shows whole expressions.
    _refuse_casts(plans.partition(_OPTIMIZED)[2] if query.has_steps else plans, _types_by_id(plans, schemas))
    _refuse_formats(plans)
    for value in _values_of_dates(spark, query.text):
        plans = plans.replace(value, "")
    _refuse_dates_near(today, plans, [query.text, *(schema.json() for schema in schemas)])


def _values_of_dates(spark: SparkSession, text: str) -> list[str]:
    """
    Return the dates and times that a query's texts stand for, as plans show them, the longest first.

    A text such as '2026-11' or one with an offset from UTC is shown as another date than it contains.
    """
    dates = {literal for literal in _texts(text) if _DATE.match(literal)}
    if not dates:
        return []
    casts = [
        f"CAST(try_cast({text_literal(date)} AS {kind}) AS STRING)"
        for date in sorted(dates)
        for kind in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
    ]
    found = spark.sql(f"SELECT {', '.join(casts)}").collect()[0]
    return sorted({str(value) for value in found if value is not None}, key=lambda value: (-len(value), value))


def _texts(sql: str) -> Iterator[str]:
    """Yield the values of a query's text literals."""
    for token in spark_tokens(sql):
        if token.kind in {TokenKind.TEXT, TokenKind.RAW_TEXT}:
            yield text_value(sql[token.start : token.end])


def _types_by_id(plans: str, schemas: Sequence[StructType]) -> dict[str, DataType]:
    """Return the types of the upstreams' columns by their ids in the plans, if all columns of a name have one type."""
    named: dict[str, DataType | None] = {}
    for field in (field for schema in schemas for field in schema.fields):
        named[field.name] = field.dataType if named.get(field.name, field.dataType) == field.dataType else None
    types = {}
    # A query may read an upstream several times, with other ids each time.
    for columns in re.findall(r"(?:LogicalRDD|LocalRelation <empty>,) (\[.*\])", plans):
        for name, kind in named.items():
            found = re.search(rf"[\[ ]{re.escape(name)}#(\d+)L?[,\]]", columns)
            if found and kind is not None:
                types[found.group(1)] = kind
    return types


def _refuse_variables(plans: str) -> None:
    if variable := _VARIABLE.search(plans):
        raise InvalidJobError(
            f"query: {variable.group(1)} is a variable of the session, not a column of the upstream; write its value"
        )


def _refuse_casts(plans: str, types: dict[str, DataType]) -> None:
    for operand, target in _casts(plans):
        if _HAS_TIMESTAMP.search(target) and _may_move(operand, types):
            shown = _MENTIONED_ID.sub("", operand)
            raise InvalidJobError(
                f"query: {shown} may be text, and is converted to {target.upper()} without a format. {_WHY} Write "
                f"{_WITH_FORMAT}, or cast to DATE first"
            )


def _refuse_formats(plans: str) -> None:
    for match in _READS_TIMESTAMPS.finditer(plans):
        arguments = plans[match.end() : _closing(plans, match.end())]
        if "TimestampType" in arguments and "timestampFormat" not in arguments:
            raise InvalidJobError(
                f"query: {match.group(1)} reads a TIMESTAMP without a format. {_WHY} Read it as a STRING, and write "
                f"{_WITH_FORMAT}"
            )


def _refuse_dates_near(today: date, plans: str, known: Sequence[str]) -> None:
    """
    Refuse a plan with a date close to today that the query does not contain.

    :param plans: the plans, without the values of the query's own dates.
    :param known: the query, and the upstream's columns.
    """
    for days in (-1, 0, 1):
        day = today + timedelta(days=days)
        if str(day) in plans and not any(written in text for text in known for written in _spellings(day)):
            raise InvalidJobError(
                "query: a text in it is converted to a DATE or TIMESTAMP that changes each day, as 'today', 'now' and "
                "a time without a date do; write the date itself"
            )


def _spellings(day: date) -> tuple[str, str]:
    return str(day), f"{day.year}-{day.month}-{day.day}"


def _casts(plans: str) -> Iterator[tuple[str, str]]:
    """Yield each operand that is cast, and the target type."""
    for match in _TO_TIMESTAMP.finditer(plans):
        opening = _opening(plans, match.start())
        if opening is not None and plans[:opening].endswith("cast"):
            yield plans[opening + 1 : match.start()], match.group(1)


def _may_move(operand: str, types: dict[str, DataType]) -> bool:
    """Return whether a value that is cast to a TIMESTAMP may be a text with only a time."""
    if "#" not in operand and "(" not in operand:
        return is_relative_date(operand)
    return not _is_no_text(operand, types)


def _is_no_text(operand: str, types: dict[str, DataType]) -> bool:
    """Return whether a value certainly is not and does not contain text."""
    column = _COLUMN.match(operand)
    if column and column.group(1) in types:
        found: DataType | None = types[column.group(1)]
        for step in re.findall(r"\.[^.\[\]#]+|\[[^\[\]]*\]", column.group(2)):
            found = _inside(found, step)
        return found is not None and _HOLDS_TEXT.search(found.simpleString()) is None
    if branches := _branches(operand):
        return any(_is_no_text(branch, types) for branch in branches)
    if "#" in operand and any(f" {operator} " in _outermost(operand) for operator in "+-*/%"):
        return True
    call = _CALL.match(operand)
    return call is not None and _gives_no_text(call.group(1), operand[call.end() : -1], types)


def _gives_no_text(function: str, arguments: str, types: dict[str, DataType]) -> bool:
    if function in {"cast", "try_cast"}:
        return _HOLDS_TEXT.search(arguments.rpartition(" as ")[2]) is None
    if function in _LIKE_ARGUMENTS:
        return any(_is_no_text(argument, types) for argument in _arguments(arguments))
    return function in _NO_TEXT


def _branches(operand: str) -> list[str]:
    """Return the possible results of a conditional expression; all have one type."""
    if operand.startswith("CASE WHEN "):
        return _BRANCH.findall(operand)
    if operand.startswith("if ("):
        chosen = operand[_closing(operand, 4) + 2 :]
        return chosen.split(" else ")
    return []


def _inside(found: DataType | None, step: str) -> DataType | None:
    if isinstance(found, StructType) and step.startswith("."):
        return next((field.dataType for field in found.fields if field.name == step[1:]), None)
    if isinstance(found, ArrayType) and step.startswith("["):
        return found.elementType
    if isinstance(found, MapType) and step.startswith("["):
        return found.valueType
    return None


def _opening(text: str, end: int) -> int | None:
    """Return the index of the innermost parenthesis that is still open before ``end``."""
    depth = 0
    for index in range(end - 1, -1, -1):
        if text[index] == ")":
            depth += 1
        elif text[index] == "(":
            if depth == 0:
                return index
            depth -= 1
    return None


def _closing(text: str, start: int) -> int:
    """Return the index where the parenthesis that opened just before ``start`` closes; the text's end if it doesn't."""
    depth = 1
    for index in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if depth == 0:
            return index
    return len(text)


def _outermost(text: str) -> str:
    """Return a text without its parentheses and their contents, except parentheses around the whole text."""
    if text.startswith("(") and _closing(text, 1) == len(text) - 1:
        text = text[1:-1]
    depth, kept = 0, []
    for character in text:
        depth -= character == ")"
        if depth == 0:
            kept.append(character)
        depth += character == "("
    return "".join(kept)


def _arguments(text: str) -> list[str]:
    """Split a call's arguments at the commas between them."""
    found, depth = [""], 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            found.append("")
        else:
            found[-1] += character
    return [argument.strip() for argument in found]
