"""
Every orderable key type through a whole backfill, positions at awkward values, with changes in between.

All jobs run side by side over one upstream that has a column of each type, which saves making thirteen of them.
"""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_backfill_provider.jobs.backfill import Backfill
from tests.integration.engine.lakehouse import Lakehouse

pytestmark = pytest.mark.spark

ROWS = 6
TYPES = {
    "TINYINT": ["-128Y", "-1Y", "0Y", "7Y", "127Y"],
    "SMALLINT": ["-32768S", "-1S", "0S", "9S", "32767S"],
    "INT": ["-2147483648", "-1", "0", "5", "2147483647"],
    "BIGINT": ["-9223372036854775808L", "-1L", "0L", "4L", "9223372036854775807L"],
    "DECIMAL(38,6)": [
        "-99999999999999999999999999999999.999999",
        "-0.000001",
        "0",
        "1.5",
        "12345678901234567890.123456",
    ],
    "STRING": ["''", "'A'", f"'{'a' * 38}b'", f"'{'a' * 38}c'", "'\U0001f600'"],
    "DATE": ["DATE'0001-01-01'", "DATE'1969-12-31'", "DATE'1970-01-01'", "DATE'2026-02-28'", "DATE'9999-12-31'"],
    "TIMESTAMP": [
        f"TIMESTAMP'{instant}Z'"
        for instant in (
            "1900-01-01 00:00:00",
            "1969-12-31 23:59:59.999999",
            "2026-03-29 01:30:00.000001",
            "2026-03-29 01:30:00.000002",
            "9999-12-31 00:00:00",
        )
    ],
    "TIMESTAMP_NTZ": [
        f"TIMESTAMP_NTZ'{local}'"
        for local in (
            "1900-01-01 00:00:00",
            "1969-12-31 23:59:59.999999",
            "2026-03-29 02:30:00.000001",
            "2026-03-29 02:30:00.000002",
            "9999-12-31 23:59:59.999999",
        )
    ],
    "BINARY": ["X''", "X'00'", "X'7F'", "X'80'", "X'FFFF'"],
    "BOOLEAN": ["false", "true", "false", "true", "false"],
}


@pytest.mark.exhaustive
def test_every_key_type_in_both_directions(lakehouse: Lakehouse) -> None:
    """I1 at each epoch: values of each type, null among them, are positions; a second key column breaks ties."""
    columns = [f"k{index}" for index in range(len(TYPES))]
    declared = ", ".join(f"{column} {kind}" for column, kind in zip(columns, TYPES, strict=True))
    lakehouse.make_upstream(f"{declared}, n INT, note STRING")
    rows = [
        f"({', '.join(values[row] if row < len(values) else 'NULL' for values in TYPES.values())}, {row}, 'first')"
        for row in range(ROWS)
    ]
    lakehouse.sql(f"INSERT INTO {{upstream}} VALUES {', '.join(rows)}")
    jobs = []
    for index, column in enumerate(columns):
        lakehouse.view_path = str(lakehouse.folder / f"view_{column}")
        lakehouse.create(
            name=column,
            key=[{"column": column, "descending": index % 2 == 1}, "n"],
            materialized_view=lakehouse.view_path,
            query=f"SELECT {column} AS renamed, n, note FROM upstream",
            rate_limit=3,
        )
        jobs.append(lakehouse.job)

    def one_epoch_each() -> None:
        for job in jobs:
            lakehouse.job, lakehouse.view_path = job, job.materialized_view
            lakehouse.epoch()
            lakehouse.assert_truth()

    one_epoch_each()
    lakehouse.sql("UPDATE {upstream} SET note = 'second'")
    lakehouse.sql("DELETE FROM {upstream} WHERE n = 2")
    one_epoch_each()
    for job in jobs:
        assert Backfill(job, lakehouse.storage_options).status().finished, job.name


@pytest.mark.exhaustive
def test_position_at_the_end_of_time(lakehouse: Lakehouse) -> None:
    """The last timestamp that Python knows is a position like any other."""
    lakehouse.make_upstream("k TIMESTAMP_NTZ, n INT")
    lakehouse.sql("INSERT INTO {upstream} VALUES (TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', 1), (NULL, 2)")
    lakehouse.create(key=[{"column": "k", "descending": True}], rate_limit=1)
    lakehouse.epoch()
    assert lakehouse.backfill.store.state().vnodes[0].position == (None,)
    lakehouse.sql("INSERT INTO {upstream} VALUES (TIMESTAMP_NTZ'2000-01-01', 3)")
    lakehouse.epoch()
    # A bound of a file, whose statistics keep milliseconds, is as good a position as a row's key.
    assert lakehouse.backfill.store.state().vnodes[0].position[0] >= dt.datetime(9999, 12, 31, 23, 59, 59, 999000)
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT * FROM {upstream}")
