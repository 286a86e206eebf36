"""
Reads lines of JSON and CSV on Spark, each with its number in its file.

Spark reads a file as one text and cuts it at the ends of lines, because only so the numbers of lines are certain: Spark
may split a file that it reads line by line. A line that does not fit the columns is an error. No value becomes null
because of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.decimals import is_decimal
from airflow_backfill_provider.core.sql import quote
from airflow_backfill_provider.sources.files import FileFormat, FilesUpstream
from airflow_backfill_provider.sources.files.counting import BLANKS
from airflow_backfill_provider.sources.formats.column_types import parsed_type, struct_type, type_text
from airflow_backfill_provider.sources.formats.json_scalars import scalar
from airflow_backfill_provider.sources.formats.json_text import NUMBER, TEXT
from airflow_backfill_provider.sources.formats.resolved import ResolvedJson
from airflow_backfill_provider.sources.formats.spark import with_decoded
from airflow_backfill_provider.sources.refusals import unreadable_line

PATH, INDEX = "__backfill_line_path", "__backfill_line_index"
"""The columns with a line's file, and its number in it, from 0."""

_LINE, _READ, _BAD = "__backfill_line", "__backfill_read", "corrupt"

_NUMBERS = frozenset({"byte", "short", "integer", "long", "float", "double"})

_EMPTY = "\n"

_CSV_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _BAD,
    "quote": '"',
    "escape": '"',
    "nullValue": "",
    # An empty text in quotes is no null. Nothing else in a line has the end of one.
    "emptyValue": _EMPTY,
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
    "maxCharsPerColumn": "-1",
}


def read_lines(texts: DataFrame, upstream: FilesUpstream) -> tuple[DataFrame, dict[str, Column]]:
    """
    Return the rows of files, and the columns in them.

    :param texts: the whole texts of files, with their metadata.
    """
    lines = F.filter(F.split(F.col("value"), "\n", -1), lambda line: line.rlike(f"[^{BLANKS}]"))
    if upstream.format is FileFormat.CSV and upstream.header:
        lines = F.slice(lines, 2, F.greatest(F.size(lines), F.lit(1)))
    rows = texts.select(F.col("_metadata.file_path").alias(PATH), F.posexplode(lines).alias(INDEX, _LINE))
    line = F.regexp_replace(F.col(_LINE), "\r$", "")
    where = F.concat(F.lit("record "), (F.col(INDEX) + 1).cast("string"), F.lit(" of file "), F.col(PATH), F.lit(": "))
    types = upstream.column_types
    if upstream.format is FileFormat.JSON:
        kind = struct_type([(name, parsed_type(text)) for name, text in types.items()])
        rows = with_decoded(rows, line, _READ, ResolvedJson(delta_type=type_text(kind)))
        error = F.col(_READ).getField("error")
        value = F.col(_READ).getField("value")
        return rows, {name: _or_error(value.getField(name), error, where) for name in types}
    rows = rows.withColumn(_READ, F.from_csv(line, _csv_schema(types), _CSV_OPTIONS | {"sep": upstream.delimiter}))
    bad = F.when(F.col(_READ).getField(_BAD).isNotNull(), F.lit("has not as many values as the schema has columns"))
    texts_of = {name: _text(F.col(_READ).getField(f"column_{number}")) for number, name in enumerate(types)}
    return rows, {
        name: _or_error(_typed(texts_of[name], kind), F.coalesce(bad, _misfit(texts_of[name], kind, name)), where)
        for name, kind in types.items()
    }


def _csv_schema(types: Mapping[str, str]) -> str:
    names = [*(f"column_{number}" for number in range(len(types))), _BAD]
    return ", ".join(f"{quote(name)} STRING" for name in names)


def _text(value: Column) -> Column:
    return F.when(value == _EMPTY, F.lit("")).otherwise(value)


def _typed(text: Column, kind: str) -> Column:
    """Return a value from its text; null if it does not fit."""
    if kind == "boolean":
        return scalar(F.lower(text), kind)
    mark = NUMBER if kind in _NUMBERS or is_decimal(kind) else TEXT
    return scalar(F.concat(F.lit(mark), text), kind)


def _misfit(text: Column, kind: str, name: str) -> Column:
    return F.when(
        text.isNotNull() & _typed(text, kind).isNull(), F.lit(f"the value of column {name} does not fit its type")
    )


def _or_error(value: Column, error: Column, where: Column) -> Column:
    return F.when(error.isNotNull(), unreadable_line(where, error)).otherwise(value)
