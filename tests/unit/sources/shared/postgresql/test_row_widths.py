"""Rows are fetched in classes of their width, so that those in memory have few bytes."""

from __future__ import annotations

from airflow_backfill_provider.sources.shared.postgresql.catalog import DescribedColumn
from airflow_backfill_provider.sources.shared.postgresql.row_widths import width_classes
from airflow_backfill_provider.sources.shared.postgresql.types import PostgresType


def column(name, type_, *, varies=True):
    return DescribedColumn(
        name=name, type=PostgresType(name=type_), nullable=True, generated=False, may_be_toasted=varies
    )


COLUMNS = [column("id", "int8", varies=False), column('a"b', "text"), column("doc", "jsonb")]


def classes_of(columns, *, has_long_values):
    found = width_classes(columns, has_long_values=has_long_values)
    return [(one.condition.as_string(), one.rows) for one in found]


def test_a_table_without_long_values_is_read_at_once():
    assert classes_of(COLUMNS, has_long_values=False) == [("true", 1_000)]
    assert classes_of(COLUMNS[:1], has_long_values=True) == [("true", 1_000)]


def test_wider_rows_come_fewer_at_a_time_and_each_row_is_in_one_class():
    (usual, most), (wide, some), (widest, one) = classes_of(COLUMNS, has_long_values=True)
    assert (most, some, one) == (1_000, 16, 1)
    width = usual.removesuffix(" <= 16384")
    assert (wide, widest) == (f"{width} > 16384 AND {width} <= 1048576", f"{width} > 1048576")


def test_the_server_need_not_read_a_long_value_to_know_its_width():
    """The length of a text is stored beside it; of other types only whether they are compressed."""
    ((usual, _), *_) = classes_of(COLUMNS[1:2], has_long_values=True)
    assert usual == """coalesce(octet_length("a""b"), 0)::bigint <= 16384"""
    ((usual, _), *_) = classes_of(COLUMNS[2:], has_long_values=True)
    assert usual == (
        """coalesce(pg_column_size("doc"), 0)::bigint * """
        """CASE WHEN pg_column_compression("doc") IS NULL THEN 1 ELSE 100 END <= 16384"""
    )
