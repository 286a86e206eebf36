"""The names of what Delta writes before the first commit."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.lake.log.uncommitted import EMPTY_PART, is_no_commit

PART = "part-00000-0b9c1e0c-3a56-4a5e-9c5c-4b5f3f1e2d3c-c000.snappy.parquet"


@pytest.mark.parametrize(
    ("name", "is_one"), [(PART, True), (f".{PART}.crc", True), ("part-1.parquet", False), (f"{PART}.bak", False)]
)
def test_a_data_file_has_delta_s_name(name, is_one):
    assert (EMPTY_PART.match(name) is not None) is is_one


@pytest.mark.parametrize(
    ("name", "is_none"),
    [(".00000000000000000000.json.5d3c.tmp", True), ("_staged", True), ("00000000000000000000.json", False)],
)
def test_a_commit_has_a_number(name, is_none):
    assert is_no_commit(name) is is_none
