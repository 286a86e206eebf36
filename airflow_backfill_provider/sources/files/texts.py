"""
Reads lines of JSON and CSV on Spark, each with its number in its file.

Spark reads a file as one text and cuts it at the ends of lines, because only so the numbers of lines are certain: Spark
may split a file that it reads line by line. A line that does not fit the columns is an error. No value becomes null
because of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.job.sql import text_literal
from airflow_backfill_provider.sources.files.counting import BLANKS, BYTE_ORDER_MARK
from airflow_backfill_provider.sources.files.csv_values import csv_value
from airflow_backfill_provider.sources.files.definition import Escape, FileFormat, FilesUpstream
from airflow_backfill_provider.sources.files.read_values import ReadRows, ReadValue, misfit
from airflow_backfill_provider.sources.shared.formats.column_types import parsed_type, struct_type, type_text
from airflow_backfill_provider.sources.shared.formats.json_values import field_of
from airflow_backfill_provider.sources.shared.formats.resolved import ResolvedJson
from airflow_backfill_provider.sources.shared.formats.spark import with_decoded

_PATH, _INDEX = "__backfill_line_path", "__backfill_line_index"

_LINE, _READ, _TEXTS, _VALUES = (f"__backfill_line_{name}" for name in ("text", "read", "texts", "values"))

_BAD = "corrupt"

_EMPTY = "\n"

_CSV_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _BAD,
    "quote": '"',
    "nullValue": "",
    # An empty text in quotes is no null. Nothing else in a line has the end of one.
    "emptyValue": _EMPTY,
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
    "maxCharsPerColumn": "-1",
    "maxColumns": "1000000",
}

_QUOTED = {Escape.QUOTE: '"[^"]*+(?:""[^"]*+)*+"', Escape.BACKSLASH: r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'}
"""Patterns of quoted values. Java matches possessive groups in a loop, so a long value does not exhaust the stack."""

_OTHER_ESCAPE = {
    Escape.QUOTE: "has a quoted value whose quotes are not doubled; set escape if a backslash stands before them",
    Escape.BACKSLASH: "has a quoted value with a quote that has no backslash; leave out escape if quotes are doubled",
}


def read_lines(texts: DataFrame, upstream: FilesUpstream, names: Sequence[str]) -> ReadRows:
    """
    Return the rows of files, and the columns in them.

    :param texts: the whole texts of files, with their metadata.
    :param names: the columns that the files have.
    """
    # The mark of UTF-8 that some programs write first is no part of the text.
    marked = F.col("value").startswith(BYTE_ORDER_MARK)
    text = F.when(marked, F.substr(F.col("value"), F.lit(2))).otherwise(F.col("value"))
    lines = F.filter(F.split(text, "\n", -1), lambda line: line.rlike(f"[^{BLANKS}]"))
    if upstream.format is FileFormat.CSV and upstream.header:
        lines = F.slice(lines, 2, F.greatest(F.size(lines), F.lit(1)))
    rows = texts.select(F.col("_metadata.file_path").alias(_PATH), F.posexplode(lines).alias(_INDEX, _LINE))
    rows = rows.withColumn(_LINE, F.regexp_replace(F.col(_LINE), "\r$", ""))
    types = {name: upstream.column_types[name] for name in names}
    rows, values = _json(rows, types) if upstream.format is FileFormat.JSON else _csv(rows, types, upstream)
    return ReadRows(rows, _PATH, _INDEX, _LINE, values)


def _json(rows: DataFrame, types: Mapping[str, str]) -> tuple[DataFrame, Mapping[str, ReadValue]]:
    kind = struct_type([(name, parsed_type(text)) for name, text in types.items()])
    rows = with_decoded(rows, _LINE, _READ, ResolvedJson(delta_type=type_text(kind)))
    return rows, {name: ReadValue(field_of(f"{_READ}.value", name), f"{_READ}.error") for name in types}


def _csv(
    rows: DataFrame, types: Mapping[str, str], upstream: FilesUpstream
) -> tuple[DataFrame, Mapping[str, ReadValue]]:
    options = {**_CSV_OPTIONS, "sep": upstream.delimiter, "escape": upstream.escape}
    schema = ", ".join([*(f"c{number} STRING" for number in range(len(types))), f"{_BAD} STRING"])
    kinds = [*enumerate(types.values())]
    texts = (
        f"CASE WHEN {_READ}.c{number} = '\\n' THEN '' ELSE {_READ}.c{number} END AS c{number}" for number, _ in kinds
    )
    values = (f"{csv_value(f'{_TEXTS}.c{number}', kind)} AS c{number}" for number, kind in kinds)
    rows = (
        rows.withColumn(_READ, F.from_csv(F.col(_LINE), schema, options))
        .withColumn(_TEXTS, F.expr(f"struct({', '.join(texts)})"))
        .withColumn(_VALUES, F.expr(f"struct({', '.join(values)})"))
    )
    is_quoted = f"rlike({_LINE}, {text_literal(_line_of(upstream))})"
    bad = (
        misfit(f"NOT {is_quoted}", _OTHER_ESCAPE[upstream.escape]),
        misfit(f"{_READ}.{_BAD} IS NOT NULL", "has not as many values as the schema has columns"),
    )
    return rows, {
        name: ReadValue(f"{_VALUES}.c{number}", f"coalesce({', '.join([*bad, _misfit(number, name)])})")
        for number, name in enumerate(types)
    }


def _misfit(number: int, name: str) -> str:
    wrong = f"{_TEXTS}.c{number} IS NOT NULL AND {_VALUES}.c{number} IS NULL"
    return misfit(wrong, f"the value of column {name} does not fit its type")


def _line_of(upstream: FilesUpstream) -> str:
    """Return the pattern of lines in which each value that begins with a quote is a whole quoted one."""
    separator = re.escape(upstream.delimiter)
    value = f'(?:{_QUOTED[upstream.escape]}|(?!")[^{separator}]*+)'
    return f"^{value}(?:{separator}{value})*+$"
