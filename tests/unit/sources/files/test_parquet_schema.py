"""Which columns of Parquet files have all of their values in the declared type."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.sources.files.parquet_schema import empty_columns, require_readable
from airflow_backfill_provider.sources.shared.formats.column_types import type_text
from airflow_backfill_provider.sources.shared.formats.columns_text import parse_columns


def file_of(**fields: pa.DataType) -> pq.ParquetFile:
    written = io.BytesIO()
    pq.write_table(pa.schema(list(fields.items())).empty_table(), written)
    return pq.ParquetFile(written)


def require(kind: pa.DataType, declared: str) -> None:
    require_readable(file_of(c=kind), types_of(f"c {declared}"), "file x")


def types_of(schema: str) -> dict[str, str]:
    return {field["name"]: type_text(field["type"]) for field in parse_columns(schema, "schema")["fields"]}


INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


@pytest.mark.parametrize("declared", INTEGERS)
@pytest.mark.parametrize("bits", INTEGERS.values())
@pytest.mark.parametrize("is_signed", [True, False])
def test_an_integer_is_never_cut(declared: str, bits: int, is_signed: bool):
    """I6: Spark would cut it without a word."""
    kind = getattr(pa, f"{'' if is_signed else 'u'}int{bits}")()
    if bits * (1 if is_signed else 2) <= INTEGERS[declared]:
        require(kind, declared)
        return
    with pytest.raises(UpstreamError, match=f"file x: column c is {kind} there, whose values {declared} may not hold"):
        require(kind, declared)


@pytest.mark.parametrize(
    ("kind", "declared"),
    [
        (pa.float32(), "DOUBLE"),
        (pa.int32(), "DOUBLE"),
        (pa.int32(), "DECIMAL(10,0)"),
        (pa.decimal128(5, 2), "DECIMAL(7,4)"),
        (pa.timestamp("ms"), "TIMESTAMP"),
        (pa.timestamp("us", "UTC"), "TIMESTAMP"),
        (pa.timestamp("us"), "TIMESTAMP_NTZ"),
        (pa.date32(), "DATE"),
        (pa.large_string(), "STRING"),
        (pa.dictionary(pa.int32(), pa.string()), "STRING"),
        (pa.binary(4), "BINARY"),
        (pa.null(), "STRING"),
        (pa.list_(pa.int16()), "ARRAY<INT>"),
        (pa.struct({"A": pa.int8(), "b": pa.int64()}), "STRUCT<a: SMALLINT, c: DATE>"),
        (pa.map_(pa.string(), pa.int32()), "MAP<STRING, BIGINT>"),
    ],
)
def test_a_column_that_loses_nothing_is_read(kind: pa.DataType, declared: str):
    require(kind, declared)


@pytest.mark.parametrize(
    ("kind", "declared", "problem"),
    [
        (pa.float64(), "FLOAT", "column c is double there.*declare it as DOUBLE"),
        (pa.int64(), "DOUBLE", "declare it as BIGINT"),
        (pa.int32(), "DATE", "declare it as INT"),
        (pa.int64(), "TIMESTAMP", "declare it as BIGINT"),
        (pa.uint64(), "BIGINT", "column c is uint64 there.*write it in a type that can be declared"),
        (pa.decimal128(12, 3), "DECIMAL(12,2)", "column c is decimal"),
        (pa.decimal128(12, 2), "DECIMAL(10,2)", "column c is decimal"),
        (pa.timestamp("ns"), "TIMESTAMP", "a timestamp in nanoseconds, without a zone.*write it in microseconds"),
        (pa.timestamp("us", "UTC"), "TIMESTAMP_NTZ", "with a zone there.*declare it as TIMESTAMP and convert"),
        (pa.string(), "INT", "column c is string there"),
        (pa.time64("us"), "STRING", "column c is time64"),
        (pa.list_(pa.int32()), "ARRAY<SMALLINT>", "column c is int32 there, whose values SMALLINT"),
        (pa.list_(pa.list_(pa.int32())), "ARRAY<INT>", "column c is list"),
        (pa.struct({"a": pa.int32()}), "STRUCT<a: TINYINT>", r"column c\.a is int32 there"),
        (pa.map_(pa.string(), pa.int64()), "MAP<STRING, INT>", "column c is int64 there, whose values INT"),
        (pa.map_(pa.int32(), pa.int64()), "MAP<STRING, BIGINT>", "column c is int32 there, whose values STRING"),
    ],
)
def test_a_column_that_may_lose_something_is_refused_by_name(kind: Any, declared: str, problem: str):
    """I6."""
    with pytest.raises(UpstreamError, match=problem):
        require(kind, declared)


def test_two_columns_that_differ_by_their_case_are_refused():
    with pytest.raises(UpstreamError, match="has the columns id and ID"):
        require_readable(file_of(id=pa.int32(), ID=pa.int32()), types_of("id INT"), "file x")


def test_two_columns_that_differ_by_their_case_are_no_matter_if_neither_is_declared():
    """Item by item: at the top, and in a struct."""
    require_readable(file_of(id=pa.int32(), ID=pa.int32(), x=pa.int32()), types_of("X INT"), "file x")
    inner = pa.struct([("id", pa.int32()), ("ID", pa.int32()), ("x", pa.int32())])
    require(inner, "STRUCT<x: INT>")
    with pytest.raises(UpstreamError, match="c has the columns id and ID"):
        require(inner, "STRUCT<x: INT, Id: INT>")


def test_a_column_that_is_missing_or_has_no_type_is_null():
    found = file_of(a=pa.null(), b=pa.int32())
    types = types_of("A DATE, b INT, c BINARY")
    require_readable(found, types, "file x")
    assert empty_columns(found, types) == ("A",)
