"""Every orderable key type through a whole backfill, positions at awkward values, with changes in between."""

from __future__ import annotations

import pytest

from tests.integration.engine.lakehouse import Lakehouse

pytestmark = pytest.mark.spark

TYPES = {
    "tinyint": ("TINYINT", ["-128Y", "-1Y", "0Y", "7Y", "127Y"]),
    "smallint": ("SMALLINT", ["-32768S", "-1S", "0S", "9S", "32767S"]),
    "int": ("INT", ["-2147483648", "-1", "0", "5", "2147483647"]),
    "bigint": ("BIGINT", ["-9223372036854775808L", "-1L", "0L", "4L", "9223372036854775807L"]),
    "decimal": (
        "DECIMAL(38,6)",
        ["-99999999999999999999999999999999.999999", "-0.000001", "0", "1.5", "12345678901234567890.123456"],
    ),
    "string": (
        "STRING",
        [
            "''",
            "'A'",
            "'a'",
            "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab'",
            "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac'",
            "'é'",
            "'日本'",
            "'\U0001f600'",
        ],
    ),
    "date": (
        "DATE",
        ["DATE'0001-01-01'", "DATE'1969-12-31'", "DATE'1970-01-01'", "DATE'2026-02-28'", "DATE'9999-12-31'"],
    ),
    "timestamp": (
        "TIMESTAMP",
        [
            "TIMESTAMP'1900-01-01 00:00:00Z'",
            "TIMESTAMP'1969-12-31 23:59:59.999999Z'",
            "TIMESTAMP'2026-03-29 01:30:00.000001Z'",
            "TIMESTAMP'2026-03-29 01:30:00.000002Z'",
            "TIMESTAMP'9999-12-31 00:00:00Z'",
        ],
    ),
    "timestamp_ntz": (
        "TIMESTAMP_NTZ",
        [
            "TIMESTAMP_NTZ'1900-01-01 00:00:00'",
            "TIMESTAMP_NTZ'2026-03-29 02:30:00.000001'",
            "TIMESTAMP_NTZ'2026-03-29 02:30:00.000002'",
            "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
        ],
    ),
    "binary": ("BINARY", ["X''", "X'00'", "X'7F'", "X'80'", "X'FF00'", "X'FFFF'"]),
    "boolean": ("BOOLEAN", ["false", "true"]),
}


# The direction is tried with each type in the unit tests; here every other type descends.
DIRECTIONS = [(kind, index % 2 == 1) for index, kind in enumerate(TYPES)] + [("bigint", False), ("string", False)]


@pytest.mark.parametrize(("kind", "descending"), DIRECTIONS)
def test_backfill_by_key_type(lakehouse: Lakehouse, kind: str, descending: bool) -> None:
    """I1 with one row per epoch: each value of the type is a position once, null among them."""
    sql_type, values = TYPES[kind]
    lakehouse.make_upstream(f"k {sql_type}, n INT")
    rows = ", ".join(f"({value}, {index})" for index, value in enumerate([*values, "NULL"]))
    lakehouse.sql(f"INSERT INTO {{upstream}} VALUES {rows}")
    lakehouse.create(key=[{"column": "k", "descending": descending}], rate_limit=max(len(values) // 2, 1))
    lakehouse.epoch()
    lakehouse.assert_truth()
    lakehouse.sql("UPDATE {upstream} SET n = n + 100")
    lakehouse.sql(f"DELETE FROM {{upstream}} WHERE k = {values[-1]}")
    lakehouse.epoch()
    lakehouse.assert_truth()
    lakehouse.sql(f"INSERT INTO {{upstream}} VALUES ({values[-1]}, 7)")
    commits = lakehouse.finish()
    assert all(commit.snapshot_read_row_count <= max(len(values) // 2, 1) for commit in commits)
    lakehouse.assert_equals_query("SELECT * FROM {upstream}")
